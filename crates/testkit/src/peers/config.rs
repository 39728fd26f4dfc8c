//! Configurations with which each brand answers plain data and does nothing else: no outgoing traffic, no rate limiting
//! unless requested, no database or journal of its own, and the same data in answers as the others.

use std::fmt::Write;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::{EncryptedListeners, PeerConfig, PeerKind, PeerOptions, ZoneSource};

/// Connections that a server with encrypted listeners must have room for. NSD closes idle ones early when half are open.
const ENCRYPTED_CONNECTIONS: usize = 21_000;

/// Writes the configuration (and the files it includes) into the peer's directory, and returns the command.
pub(super) fn prepare(
    (kind, program): (PeerKind, &Path),
    directory: &Path,
    addr: SocketAddr,
    zones: &[ZoneSource<'_>],
    options: &PeerOptions,
) -> io::Result<Command> {
    let (main, rest) = match kind {
        PeerKind::Nsd => nsd(addr, zones, options),
        PeerKind::Knot => knot(directory, zones, options),
        PeerKind::Bind => bind(zones, options),
        PeerKind::PowerDns => powerdns(directory, zones, options)?,
    };
    let config = PeerConfig {
        threads: options.threads,
        logs_events: false,
        main: &main,
        rest: &rest,
    };
    kind.prepare(program, directory, addr, &config)
}

/// Returns the text of all zones.
fn list(zones: &[ZoneSource<'_>], write: impl Fn(&str, &Path) -> String) -> String {
    zones.iter().map(|(name, file)| write(name, file)).collect()
}

fn nsd(addr: SocketAddr, zones: &[ZoneSource<'_>], options: &PeerOptions) -> (String, String) {
    let rate = options.responses_per_second.unwrap_or(0);
    let tcp_count = if options.encrypted.is_some() {
        ENCRYPTED_CONNECTIONS
    } else {
        100
    };
    // refuse-any and minimal-responses would omit data that others return. ANY gets one RRset (RFC 8482), and no setting
    // changes that.
    let mut main = format!(
        "    port: {port}
    tcp-count: {tcp_count}
    refuse-any: no
    minimal-responses: no
    rrl-ratelimit: {rate}
    rrl-whitelist-ratelimit: 0
",
        port = addr.port()
    );
    if let Some(listeners) = &options.encrypted {
        let (certificate, key) = (listeners.certificate.display(), listeners.key.display());
        let (ip, port) = (listeners.tls.ip(), listeners.tls.port());
        let _ = write!(
            main,
            "    ip-address: {ip}@{port}
    tls-port: {port}
    tls-service-pem: \"{certificate}\"
    tls-service-key: \"{key}\"
"
        );
    }
    let transfer = if options.allow_transfer {
        "    provide-xfr: 127.0.0.1 NOKEY\n"
    } else {
        ""
    };
    let rest = list(zones, |name, file| {
        let file = file.display();
        format!("zone:\n    name: \"{name}\"\n    zonefile: \"{file}\"\n{transfer}")
    });
    (main, rest)
}

fn knot(directory: &Path, zones: &[ZoneSource<'_>], options: &PeerOptions) -> (String, String) {
    // ANY gets one RRset over UDP (RFC 8482), and no setting changes that.
    let (acl, acl_use) = if options.allow_transfer {
        (
            "acl:\n  - id: loopback\n    address: 127.0.0.1\n    action: transfer\n",
            "    acl: loopback\n",
        )
    } else {
        ("", "")
    };
    let (limit, limit_use) = match options.responses_per_second {
        Some(rate) => (
            format!("mod-rrl:\n  - id: default\n    rate-limit: {rate}\n    slip: 2\n"),
            "    global-module: mod-rrl/default\n",
        ),
        None => (String::new(), ""),
    };
    let directory = directory.display();
    let mut rest = format!(
        "{limit}{acl}template:
  - id: default
    storage: \"{directory}\"
    zonefile-load: whole
    zonefile-sync: -1
    journal-content: none
    semantic-checks: off
{acl_use}{limit_use}zone:
"
    );
    rest += &list(zones, |name, file| {
        format!("  - domain: \"{name}\"\n    file: \"{}\"\n", file.display())
    });
    (String::new(), rest)
}

fn bind(zones: &[ZoneSource<'_>], options: &PeerOptions) -> (String, String) {
    let transfer = if options.allow_transfer {
        "127.0.0.1"
    } else {
        "none"
    };
    let limit = options
        .responses_per_second
        .map(|rate| format!("    rate-limit {{ responses-per-second {rate}; slip 2; }};\n"));
    let limit = limit.unwrap_or_default();
    let (listeners, context) = options
        .encrypted
        .as_ref()
        .map(bind_encrypted)
        .unwrap_or_default();
    // The check-* options allow zones to load that the other brands serve too; minimal-* is off so
    // that additional data and complete ANY answers are returned.
    let main = format!(
        "    recursion no;
    notify no;
    querylog no;
    dnssec-validation no;
    zone-statistics none;
    minimal-responses no;
    minimal-any no;
    rrset-order {{ order none; }};
    answer-cookie no;
    max-udp-size 1232;
    edns-udp-size 1232;
    allow-transfer {{ {transfer}; }};
    check-names primary ignore;
    check-integrity no;
    check-mx ignore;
    check-mx-cname ignore;
    check-srv-cname ignore;
    check-wildcard no;
{limit}{listeners}"
    );
    let zones = list(zones, |name, file| {
        let file = file.display();
        format!("zone \"{name}\" {{ type primary; file \"{file}\"; }};\n")
    });
    (main, context + &zones)
}

/// Returns what BIND's encrypted listeners need in its options, and besides.
fn bind_encrypted(listeners: &EncryptedListeners) -> (String, String) {
    let (certificate, key) = (listeners.certificate.display(), listeners.key.display());
    let context = format!(
        "tls encrypted {{ cert-file \"{certificate}\"; key-file \"{key}\"; }};\n\
         http encrypted {{ endpoints {{ \"/dns-query\"; }}; }};\n"
    );
    let (tls, https) = (listeners.tls, listeners.https);
    let (tls_ip, tls_port) = (tls.ip(), tls.port());
    let (https_ip, https_port) = (https.ip(), https.port());
    let count = ENCRYPTED_CONNECTIONS;
    // Timeouts in tenths of a second.
    let options = format!(
        "    listen-on port {tls_port} tls encrypted {{ {tls_ip}; }};
    listen-on port {https_port} tls encrypted http encrypted {{ {https_ip}; }};
    tcp-clients {count};
    http-listener-clients {count};
    tcp-initial-timeout 1200;
    tcp-idle-timeout 1200;
"
    );
    (options, context)
}

fn powerdns(
    directory: &Path,
    zones: &[ZoneSource<'_>],
    options: &PeerOptions,
) -> io::Result<(String, String)> {
    let zone_list = directory.join("zones.conf");
    let zones = list(zones, |name, file| {
        let file = file.display();
        format!("zone \"{name}\" {{ type master; file \"{file}\"; }};\n")
    });
    fs::write(&zone_list, zones)?;
    let (zone_list, threads) = (zone_list.display(), options.threads);
    let reuse = if threads > 1 { "yes" } else { "no" };
    let transfer = if options.allow_transfer {
        "disable-axfr=no\nallow-axfr-ips=127.0.0.1"
    } else {
        "disable-axfr=yes"
    };
    // any-to-tcp is on by default and would answer ANY over UDP with TC only. Caches keep their
    // defaults: they are part of what this server is.
    let main = format!(
        "launch=bind
bind-config={zone_list}
bind-check-interval=0
bind-ignore-broken-records=yes
distributor-threads={threads}
reuseport={reuse}
any-to-tcp=no
log-dns-queries=no
webserver=no
api=no
{transfer}
"
    );
    Ok((main, String::new()))
}
