//! Primaries and notified servers in another server's terms. One whose TLS settings the other server cannot express is
//! left out with a warning: in plain text it would still work, and the change would go unnoticed.

use nameward_maintain::policy::{PeerAuthentication, PeerTls, RemoteServer};

use super::ExportedZone;

/// The TLS settings that a server can express.
pub(super) struct TlsDialect {
    name: &'static str,
    /// Returns why settings cannot be expressed; `None` if they can.
    pub(super) lacks: fn(&PeerTls) -> Option<&'static str>,
}

impl TlsDialect {
    /// Returns the servers of a list that can be expressed, and warns about the others.
    pub(super) fn expressible<'z>(
        &self,
        zone: &ExportedZone,
        list: &'z [RemoteServer],
        warnings: &mut Vec<String>,
    ) -> Vec<&'z RemoteServer> {
        let mut kept = Vec::new();
        for server in list {
            match server.tls.as_deref().and_then(self.lacks) {
                None => kept.push(server),
                Some(reason) => warnings.push(format!(
                    "zone {}: {server} left out: {} {reason}",
                    zone.name, self.name
                )),
            }
        }
        kept
    }
}

/// PowerDNS, and NOTIFY of NSD.
pub(super) const WITHOUT_TLS: TlsDialect = TlsDialect {
    name: "the target",
    lacks: |_| Some("cannot encrypt messages to it"),
};

/// BIND verifies by name and authority.
pub(super) const BIND: TlsDialect = TlsDialect {
    name: "BIND",
    lacks: |tls| {
        if tls.is_quic() {
            return Some("cannot use QUIC");
        }
        (!tls.pins.is_empty()).then_some("has no pins (tls_pin)")
    },
};

/// Knot 3.4 verifies by pin, with one client certificate for all servers.
pub(super) const KNOT: TlsDialect = TlsDialect {
    name: "Knot",
    lacks: |tls| {
        let is_strict = tls.authentication == PeerAuthentication::Strict;
        (is_strict && (tls.pins.is_empty() || tls.verifies_chain()))
            .then_some("verifies servers by pin only; set tls_pin without tls_name and tls_ca")
    },
};

/// NSD verifies by name, with one file of authorities for all servers.
pub(super) const NSD: TlsDialect = TlsDialect {
    name: "NSD",
    lacks: |tls| {
        if tls.is_quic() {
            return Some("cannot use QUIC");
        }
        (tls.name.is_none() || !tls.pins.is_empty())
            .then_some("verifies servers by name only (tls_name)")
    },
};
