//! Minimal configurations with which each brand answers plain data and does nothing else.
//!
//! Every brand gets: 127.0.0.1 only, no control channel if it can be disabled, no outgoing traffic,
//! no rate limiting unless requested, no database or journal of its own, a log on standard error.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;

use super::{EncryptedListeners, PeerKind, PeerOptions, ZoneSource};

/// Connections that a server with encrypted listeners must have room for. NSD closes idle ones early when half are open.
const ENCRYPTED_CONNECTIONS: usize = 21_000;

/// Writes `conf` (and the files it includes) into the peer's directory.
pub(super) fn write(
    kind: PeerKind,
    directory: &Path,
    addr: SocketAddr,
    zones: &[ZoneSource<'_>],
    options: &PeerOptions,
) -> io::Result<()> {
    let name = match kind {
        PeerKind::PowerDns => "pdns.conf",
        _ => "conf",
    };
    let mut out = BufWriter::new(File::create(directory.join(name))?);
    match kind {
        PeerKind::Nsd => nsd(&mut out, directory, addr, zones, options)?,
        PeerKind::Knot => knot(&mut out, directory, addr, zones, options)?,
        PeerKind::Bind => bind(&mut out, directory, addr, zones, options)?,
        PeerKind::PowerDns => powerdns(&mut out, directory, addr, zones, options)?,
    }
    out.flush()
}

/// Returns the arguments that run it in the foreground with that configuration.
pub(super) fn arguments(kind: PeerKind, directory: &Path, options: &PeerOptions) -> Vec<String> {
    let conf = directory.join("conf").display().to_string();
    let threads = options.threads.to_string();
    // BIND reports a wrong configuration before it has read where to log.
    let log = directory.join("log").display().to_string();
    let arguments: Vec<&str> = match kind {
        PeerKind::Nsd => vec!["-d", "-c", &conf],
        PeerKind::Knot => vec!["-c", &conf],
        PeerKind::Bind => vec!["-f", "-4", "-n", &threads, "-L", &log, "-c", &conf],
        PeerKind::PowerDns => {
            return vec![format!("--config-dir={}", directory.display())];
        }
    };
    arguments.into_iter().map(str::to_string).collect()
}

fn nsd(
    out: &mut impl Write,
    directory: &Path,
    addr: SocketAddr,
    zones: &[ZoneSource<'_>],
    options: &PeerOptions,
) -> io::Result<()> {
    let (directory, ip, port) = (directory.display(), addr.ip(), addr.port());
    let (threads, rate) = (options.threads, options.responses_per_second.unwrap_or(0));
    let tcp_count = if options.encrypted.is_some() {
        ENCRYPTED_CONNECTIONS
    } else {
        100
    };
    let encrypted = options.encrypted.as_ref().map(|listeners| {
        let (certificate, key) = (listeners.certificate.display(), listeners.key.display());
        let (tls_ip, tls_port) = (listeners.tls.ip(), listeners.tls.port());
        format!(
            "    ip-address: {tls_ip}@{tls_port}\n    tls-port: {tls_port}\n    tls-service-pem: \"{certificate}\"\n    \
             tls-service-key: \"{key}\"\n"
        )
    });
    let encrypted = encrypted.unwrap_or_default();
    // An empty database name keeps zones in memory only; refuse-any and minimal-responses would
    // omit data that others return. ANY gets one RRset (RFC 8482), and no setting changes that.
    write!(
        out,
        "server:
    server-count: {threads}
    ip-address: {ip}@{port}
{encrypted}    port: {port}
    username: \"\"
    chroot: \"\"
    database: \"\"
    zonesdir: \"{directory}\"
    pidfile: \"{directory}/pid\"
    zonelistfile: \"{directory}/zone.list\"
    xfrdfile: \"{directory}/xfrd.state\"
    xfrdir: \"{directory}\"
    verbosity: 0
    tcp-count: {tcp_count}
    refuse-any: no
    minimal-responses: no
    rrl-ratelimit: {rate}
    rrl-whitelist-ratelimit: 0
remote-control:
    control-enable: no
"
    )?;
    for (name, file) in zones {
        let file = file.display();
        write!(
            out,
            "zone:\n    name: \"{name}\"\n    zonefile: \"{file}\"\n"
        )?;
        if options.allow_transfer {
            writeln!(out, "    provide-xfr: 127.0.0.1 NOKEY")?;
        }
    }
    Ok(())
}

fn knot(
    out: &mut impl Write,
    directory: &Path,
    addr: SocketAddr,
    zones: &[ZoneSource<'_>],
    options: &PeerOptions,
) -> io::Result<()> {
    let (directory, ip, port) = (directory.display(), addr.ip(), addr.port());
    let threads = options.threads;
    // The control socket cannot be disabled; it stays in the peer's own directory. Its databases
    // are created even if they stay empty. ANY gets one RRset over UDP (RFC 8482), and no setting
    // changes that.
    let acl = if options.allow_transfer {
        "acl:\n  - id: loopback\n    address: 127.0.0.1\n    action: transfer\n"
    } else {
        ""
    };
    let acl_use = if options.allow_transfer {
        "    acl: loopback\n"
    } else {
        ""
    };
    let limit = options
        .responses_per_second
        .map(|rate| format!("mod-rrl:\n  - id: default\n    rate-limit: {rate}\n    slip: 2\n"));
    let limit = limit.unwrap_or_default();
    let limit_use = if limit.is_empty() {
        ""
    } else {
        "    global-module: mod-rrl/default\n"
    };
    write!(
        out,
        "server:
    rundir: \"{directory}\"
    listen: {ip}@{port}
    udp-workers: {threads}
    tcp-workers: {threads}
    background-workers: 1
    automatic-acl: off
log:
  - target: stderr
    any: warning
database:
    storage: \"{directory}\"
    journal-db-max-size: 16M
    kasp-db-max-size: 8M
    timer-db-max-size: 64M
{limit}{acl}template:
  - id: default
    storage: \"{directory}\"
    zonefile-load: whole
    zonefile-sync: -1
    journal-content: none
    semantic-checks: off
{acl_use}{limit_use}zone:
"
    )?;
    for (name, file) in zones {
        writeln!(
            out,
            "  - domain: \"{name}\"\n    file: \"{}\"",
            file.display()
        )?;
    }
    Ok(())
}

fn bind(
    out: &mut impl Write,
    directory: &Path,
    addr: SocketAddr,
    zones: &[ZoneSource<'_>],
    options: &PeerOptions,
) -> io::Result<()> {
    let (directory, ip, port) = (directory.display(), addr.ip(), addr.port());
    let transfer = if options.allow_transfer {
        "127.0.0.1"
    } else {
        "none"
    };
    let limit = options
        .responses_per_second
        .map(|rate| format!("    rate-limit {{ responses-per-second {rate}; slip 2; }};\n"));
    let limit = limit.unwrap_or_default();
    let (context, listeners) = options
        .encrypted
        .as_ref()
        .map(bind_encrypted)
        .unwrap_or_default();
    // The check-* options allow zones to load that the other brands serve too; minimal-* is off so
    // that additional data and complete ANY answers are returned.
    write!(
        out,
        "{context}options {{
    directory \"{directory}\";
    managed-keys-directory \"{directory}\";
    listen-on port {port} {{ {ip}; }};
    listen-on-v6 {{ none; }};
    pid-file none;
    session-keyfile none;
    recursion no;
    notify no;
    querylog no;
    empty-zones-enable no;
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
{limit}{listeners}}};
controls {{ }};
logging {{
    channel problems {{ stderr; severity warning; }};
    category default {{ problems; }};
}};
"
    )?;
    for (name, file) in zones {
        let file = file.display();
        writeln!(out, "zone \"{name}\" {{ type primary; file \"{file}\"; }};")?;
    }
    Ok(())
}

/// Returns what BIND's encrypted listeners need before its options, and in them.
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
    (context, options)
}

fn powerdns(
    out: &mut impl Write,
    directory: &Path,
    addr: SocketAddr,
    zones: &[ZoneSource<'_>],
    options: &PeerOptions,
) -> io::Result<()> {
    let zone_list = directory.join("zones.conf");
    let mut list = BufWriter::new(File::create(&zone_list)?);
    for (name, file) in zones {
        let file = file.display();
        writeln!(list, "zone \"{name}\" {{ type master; file \"{file}\"; }};")?;
    }
    list.flush()?;
    let (directory, ip, port) = (directory.display(), addr.ip(), addr.port());
    let (zone_list, threads) = (zone_list.display(), options.threads);
    let transfer = if options.allow_transfer {
        "disable-axfr=no\nallow-axfr-ips=127.0.0.1"
    } else {
        "disable-axfr=yes"
    };
    // any-to-tcp is on by default and would answer ANY over UDP with TC only. Caches keep their
    // defaults: they are part of what this server is.
    write!(
        out,
        "launch=bind
bind-config={zone_list}
bind-check-interval=0
bind-ignore-broken-records=yes
local-address={ip}
local-port={port}
socket-dir={directory}
receiver-threads={threads}
distributor-threads={threads}
reuseport={reuseport}
security-poll-suffix=
any-to-tcp=no
daemon=no
guardian=no
write-pid=no
disable-syslog=yes
loglevel=4
log-dns-queries=no
webserver=no
api=no
{transfer}
",
        reuseport = if threads > 1 { "yes" } else { "no" },
    )
}
