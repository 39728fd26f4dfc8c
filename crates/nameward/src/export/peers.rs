//! Primaries and notified servers in another server's terms. One whose TLS settings the other server cannot express is
//! left out with a warning: in plain text it would still work, and nobody would notice.

use nameward_maintain::policy::{PeerAuthentication, PeerTls, RemoteServer};

use super::ExportedZone;

/// The TLS settings that a server can express.
pub(super) trait TlsDialect {
    /// The name of the server.
    const NAME: &'static str;

    /// Returns why settings cannot be expressed; `None` if they can.
    fn lacks(tls: &PeerTls) -> Option<&'static str>;
}

/// Returns the servers of a list that `D` can express, and warns about the others.
pub(super) fn expressible<'z, D: TlsDialect>(
    zone: &ExportedZone,
    list: &'z [RemoteServer],
    warnings: &mut Vec<String>,
) -> Vec<&'z RemoteServer> {
    let mut kept = Vec::new();
    for server in list {
        match server.tls.as_deref().and_then(D::lacks) {
            None => kept.push(server),
            Some(reason) => warnings.push(format!(
                "zone {}: {server} left out: {} {reason}",
                zone.name,
                D::NAME
            )),
        }
    }
    kept
}

/// PowerDNS, and NOTIFY of NSD.
pub(super) struct WithoutTls;

impl TlsDialect for WithoutTls {
    const NAME: &'static str = "the target";

    fn lacks(_: &PeerTls) -> Option<&'static str> {
        Some("cannot encrypt messages to it")
    }
}

/// BIND verifies by name and authority.
pub(super) struct BindTls;

impl TlsDialect for BindTls {
    const NAME: &'static str = "BIND";

    fn lacks(tls: &PeerTls) -> Option<&'static str> {
        if tls.is_quic() {
            return Some("cannot use QUIC");
        }
        (!tls.pins.is_empty()).then_some("has no pins (tls_pin)")
    }
}

/// Knot 3.4 verifies by pin, with one client certificate for all servers.
pub(super) struct KnotTls;

impl TlsDialect for KnotTls {
    const NAME: &'static str = "Knot";

    fn lacks(tls: &PeerTls) -> Option<&'static str> {
        let is_strict = tls.authentication == PeerAuthentication::Strict;
        (is_strict && (tls.pins.is_empty() || tls.verifies_chain()))
            .then_some("verifies servers by pin only; set tls_pin without tls_name and tls_ca")
    }
}

/// NSD verifies by name, with one file of authorities for all servers.
pub(super) struct NsdTls;

impl TlsDialect for NsdTls {
    const NAME: &'static str = "NSD";

    fn lacks(tls: &PeerTls) -> Option<&'static str> {
        if tls.is_quic() {
            return Some("cannot use QUIC");
        }
        (tls.name.is_none() || !tls.pins.is_empty())
            .then_some("verifies servers by name only (tls_name)")
    }
}
