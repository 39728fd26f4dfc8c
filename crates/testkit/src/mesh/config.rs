//! Configurations that make each brand a primary or a secondary of one zone, with a TSIG key.

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{KEY_ALGORITHM, KEY_NAME, KEY_SECRET, MeshRole, MeshSetup};
use crate::peers::PeerKind;

/// The settings of PowerDNS as a secondary.
const POWERDNS_SECONDARY: &str = "secondary=yes\nallow-notify-from=127.0.0.0/8";

/// Writes the configuration of a peer, and creates the PowerDNS database.
pub(super) fn write(setup: &MeshSetup<'_>, directory: &Path, file: &Path) -> io::Result<()> {
    let text = match setup.kind {
        PeerKind::Nsd => nsd(setup, directory, file),
        PeerKind::Knot => knot(setup, directory, file),
        PeerKind::Bind => bind(setup, directory, file),
        PeerKind::PowerDns => powerdns(setup.address, &powerdns_role(setup), directory),
    };
    let name = match setup.kind {
        PeerKind::PowerDns => "pdns.conf",
        _ => "conf",
    };
    let mut out = fs::File::create(directory.join(name))?;
    out.write_all(text.as_bytes())?;
    match setup.kind {
        PeerKind::PowerDns => fill_database(setup, directory, file),
        _ => Ok(()),
    }
}

/// Returns the arguments that run it in the foreground.
pub(super) fn arguments(kind: PeerKind, directory: &Path) -> Vec<String> {
    let conf = directory.join("conf").display().to_string();
    let log = directory.join("log").display().to_string();
    let arguments: Vec<&str> = match kind {
        PeerKind::Nsd => vec!["-d", "-c", &conf],
        PeerKind::Knot => vec!["-c", &conf],
        PeerKind::Bind => vec!["-f", "-4", "-n", "1", "-L", &log, "-c", &conf],
        PeerKind::PowerDns => return vec![format!("--config-dir={}", directory.display())],
    };
    arguments.into_iter().map(str::to_string).collect()
}

fn nsd(setup: &MeshSetup<'_>, directory: &Path, file: &Path) -> String {
    let (directory, file) = (directory.display(), file.display());
    let (ip, port) = (setup.address.ip(), setup.address.port());
    let other = format!("{}@{}", setup.other.ip(), setup.other.port());
    let zone = setup.zone;
    let role = match setup.role {
        MeshRole::Primary => format!(
            "    notify: {other} {KEY_NAME}\n    notify-retry: 5\n    store-ixfr: yes\n    create-ixfr: yes\n    ixfr-number: 50\n"
        ),
        MeshRole::Secondary => {
            format!("    request-xfr: {other} {KEY_NAME}\n    allow-notify: 127.0.0.1 {KEY_NAME}\n")
        }
    };
    format!(
        "server:
    server-count: 1
    ip-address: {ip}@{port}
    username: \"\"
    chroot: \"\"
    database: \"\"
    zonesdir: \"{directory}\"
    pidfile: \"{directory}/pid\"
    zonelistfile: \"{directory}/zone.list\"
    xfrdfile: \"{directory}/xfrd.state\"
    xfrdir: \"{directory}\"
    verbosity: 2
    tcp-count: 100
    rrl-ratelimit: 0
remote-control:
    control-enable: no
key:
    name: \"{KEY_NAME}\"
    algorithm: {KEY_ALGORITHM}
    secret: \"{KEY_SECRET}\"
zone:
    name: \"{zone}\"
    zonefile: \"{file}\"
    provide-xfr: 127.0.0.1 {KEY_NAME}
{role}"
    )
}

fn knot(setup: &MeshSetup<'_>, directory: &Path, file: &Path) -> String {
    let (directory, file) = (directory.display(), file.display());
    let (ip, port) = (setup.address.ip(), setup.address.port());
    let other = format!("{}@{}", setup.other.ip(), setup.other.port());
    let zone = setup.zone;
    let role = match setup.role {
        MeshRole::Primary => {
            "    notify: other\n    zonefile-load: difference\n    journal-content: changes\n"
        }
        MeshRole::Secondary => {
            "    master: other\n    zonefile-load: whole\n    journal-content: changes\n"
        }
    };
    format!(
        "server:
    rundir: \"{directory}\"
    listen: {ip}@{port}
    udp-workers: 1
    tcp-workers: 2
    background-workers: 1
    automatic-acl: off
log:
  - target: stderr
    any: info
database:
    storage: \"{directory}\"
    journal-db-max-size: 32M
    kasp-db-max-size: 8M
    timer-db-max-size: 8M
key:
  - id: {KEY_NAME}
    algorithm: {KEY_ALGORITHM}
    secret: {KEY_SECRET}
remote:
  - id: other
    address: {other}
    key: {KEY_NAME}
acl:
  - id: other
    address: 127.0.0.1
    key: {KEY_NAME}
    action: [transfer, notify]
template:
  - id: default
    storage: \"{directory}\"
    zonefile-sync: -1
    semantic-checks: off
zone:
  - domain: \"{zone}\"
    file: \"{file}\"
    acl: other
{role}"
    )
}

fn bind(setup: &MeshSetup<'_>, directory: &Path, file: &Path) -> String {
    let (directory, file) = (directory.display(), file.display());
    let (ip, port) = (setup.address.ip(), setup.address.port());
    let (other_ip, other_port) = (setup.other.ip(), setup.other.port());
    let other = format!("{{ {other_ip} port {other_port} key {KEY_NAME}; }}");
    let zone = setup.zone;
    let role = match setup.role {
        MeshRole::Primary => format!(
            "type primary; notify explicit; also-notify {other}; notify-delay 0; ixfr-from-differences yes; check-integrity no; check-names ignore; check-mx ignore;"
        ),
        MeshRole::Secondary => format!(
            "type secondary; notify no; primaries {other}; masterfile-format text; check-names ignore; min-retry-time 1; min-refresh-time 1;"
        ),
    };
    format!(
        "key {KEY_NAME} {{ algorithm {KEY_ALGORITHM}; secret \"{KEY_SECRET}\"; }};
options {{
    directory \"{directory}\";
    managed-keys-directory \"{directory}\";
    listen-on port {port} {{ {ip}; }};
    listen-on-v6 {{ none; }};
    pid-file none;
    session-keyfile none;
    recursion no;
    empty-zones-enable no;
    dnssec-validation no;
    notify-rate 1000;
    startup-notify-rate 1000;
    serial-query-rate 1000;
    allow-transfer {{ key {KEY_NAME}; }};
}};
controls {{ }};
logging {{
    channel all {{ stderr; severity info; }};
    category default {{ all; }};
}};
zone \"{zone}\" {{ {role} file \"{file}\"; }};
"
    )
}

fn powerdns_role(setup: &MeshSetup<'_>) -> String {
    match setup.role {
        MeshRole::Primary => format!(
            "primary=yes\nalso-notify={}\nonly-notify=127.0.0.0/8",
            setup.other
        ),
        MeshRole::Secondary => POWERDNS_SECONDARY.into(),
    }
}

fn powerdns(address: SocketAddr, role: &str, directory: &Path) -> String {
    let directory = directory.display();
    let (ip, port) = (address.ip(), address.port());
    format!(
        "launch=gsqlite3
gsqlite3-database={directory}/pdns.db
gsqlite3-dnssec=yes
local-address={ip}
local-port={port}
socket-dir={directory}
xfr-cycle-interval=1
query-cache-ttl=0
negquery-cache-ttl=0
cache-ttl=0
zone-cache-refresh-interval=0
zone-metadata-cache-ttl=0
consistent-backends=no
security-poll-suffix=
daemon=no
guardian=no
write-pid=no
disable-syslog=yes
loglevel=6
webserver=no
api=no
disable-axfr=no
allow-axfr-ips=
{role}
"
    )
}

/// Writes the configuration of PowerDNS as a catalog consumer, and creates its database.
pub(super) fn fill_consumer(
    directory: &Path,
    (address, other): (SocketAddr, SocketAddr),
    catalog: &str,
) -> io::Result<()> {
    let text = powerdns(address, POWERDNS_SECONDARY, directory);
    fs::write(directory.join("pdns.conf"), text)?;
    make_database(directory)?;
    let other = other.to_string();
    pdnsutil(directory, &["create-secondary-zone", catalog, &other])?;
    pdnsutil(directory, &["set-kind", catalog, "consumer"])?;
    pdnsutil(
        directory,
        &["activate-tsig-key", catalog, KEY_NAME, "secondary"],
    )
}

/// Creates the PowerDNS database with the key.
fn make_database(directory: &Path) -> io::Result<()> {
    let schema = fs::read_to_string("/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql")?;
    let made = Command::new("sqlite3")
        .arg(directory.join("pdns.db"))
        .arg(format!("PRAGMA journal_mode=WAL; {schema}"))
        .stdin(Stdio::null())
        .output()?;
    checked(&made, "sqlite3")?;
    pdnsutil(
        directory,
        &["import-tsig-key", KEY_NAME, KEY_ALGORITHM, KEY_SECRET],
    )
}

fn fill_database(setup: &MeshSetup<'_>, directory: &Path, file: &Path) -> io::Result<()> {
    make_database(directory)?;
    match setup.role {
        MeshRole::Primary => {
            pdnsutil(
                directory,
                &["load-zone", setup.zone, &file.to_string_lossy()],
            )?;
            pdnsutil(directory, &["set-kind", setup.zone, "primary"])?;
        }
        MeshRole::Secondary => {
            let other = setup.other.to_string();
            pdnsutil(directory, &["create-secondary-zone", setup.zone, &other])?;
            pdnsutil(
                directory,
                &["activate-tsig-key", setup.zone, KEY_NAME, "secondary"],
            )?;
            pdnsutil(directory, &["set-meta", setup.zone, "IXFR", "1"])?;
        }
    }
    // A secondary must allow transfers of its copy too, for comparison.
    pdnsutil(
        directory,
        &["activate-tsig-key", setup.zone, KEY_NAME, "primary"],
    )
}

/// Runs `pdnsutil` on a peer's database.
pub(super) fn pdnsutil(directory: &Path, arguments: &[&str]) -> io::Result<()> {
    run("pdnsutil", directory, arguments)
}

/// Sends a command to a running PowerDNS.
pub(super) fn pdns_control(directory: &Path, arguments: &[&str]) -> io::Result<()> {
    run("pdns_control", directory, arguments)
}

fn run(program: &str, directory: &Path, arguments: &[&str]) -> io::Result<()> {
    let output = Command::new(program)
        .arg(format!("--config-dir={}", directory.display()))
        .args(arguments)
        .stdin(Stdio::null())
        .output()?;
    checked(&output, program)
}

fn checked(output: &std::process::Output, program: &str) -> io::Result<()> {
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "{program}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )))
    }
}
