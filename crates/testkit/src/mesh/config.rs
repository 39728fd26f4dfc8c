//! Configurations that make each brand a primary or a secondary of one zone, with a TSIG key.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{KEY_ALGORITHM, KEY_NAME, KEY_SECRET, MeshRole, MeshSetup};
use crate::peers::{PeerConfig, PeerKind};

/// The settings of PowerDNS as a secondary.
const POWERDNS_SECONDARY: &str = "secondary=yes\nallow-notify-from=127.0.0.0/8";

/// Writes the configuration of a peer, creates the PowerDNS database, and returns the command.
pub(super) fn prepare(
    setup: &MeshSetup<'_>,
    program: &Path,
    directory: &Path,
    file: &Path,
) -> io::Result<Command> {
    let (main, rest) = match setup.kind {
        PeerKind::Nsd => nsd(setup, file),
        PeerKind::Knot => knot(setup, directory, file),
        PeerKind::Bind => bind(setup, file),
        PeerKind::PowerDns => (powerdns(&powerdns_role(setup), directory), String::new()),
    };
    let config = PeerConfig {
        main: &main,
        rest: &rest,
        ..PeerConfig::default()
    };
    let command = (setup.kind).prepare(program, directory, setup.address, &config)?;
    if setup.kind == PeerKind::PowerDns {
        fill_database(setup, directory, file)?;
    }
    Ok(command)
}

fn nsd(setup: &MeshSetup<'_>, file: &Path) -> (String, String) {
    let (file, zone) = (file.display(), setup.zone);
    let other = format!("{}@{}", setup.other.ip(), setup.other.port());
    let role = match setup.role {
        MeshRole::Primary => format!(
            "    notify: {other} {KEY_NAME}\n    notify-retry: 5\n    store-ixfr: yes\n    create-ixfr: yes\n    ixfr-number: 50\n"
        ),
        MeshRole::Secondary => {
            format!("    request-xfr: {other} {KEY_NAME}\n    allow-notify: 127.0.0.1 {KEY_NAME}\n")
        }
    };
    let main = "    tcp-count: 100\n    rrl-ratelimit: 0\n".into();
    let rest = format!(
        "key:
    name: \"{KEY_NAME}\"
    algorithm: {KEY_ALGORITHM}
    secret: \"{KEY_SECRET}\"
zone:
    name: \"{zone}\"
    zonefile: \"{file}\"
    provide-xfr: 127.0.0.1 {KEY_NAME}
{role}"
    );
    (main, rest)
}

fn knot(setup: &MeshSetup<'_>, directory: &Path, file: &Path) -> (String, String) {
    let (file, zone) = (file.display(), setup.zone);
    let role = match setup.role {
        MeshRole::Primary => {
            "    notify: other\n    zonefile-load: difference\n    journal-content: changes\n"
        }
        MeshRole::Secondary => {
            "    master: other\n    zonefile-load: whole\n    journal-content: changes\n"
        }
    };
    let storage = knot_storage(directory);
    let rest = format!(
        "{}template:
  - id: default
{storage}zone:
  - domain: \"{zone}\"
    file: \"{file}\"
    acl: other
{role}",
        knot_keys(setup.other, "")
    );
    (String::new(), rest)
}

/// Returns the lists of a Knot configuration that refer to the other server, with `acl` entries.
pub(super) fn knot_keys(other: SocketAddr, acl: &str) -> String {
    let (ip, port) = (other.ip(), other.port());
    format!(
        "key:
  - id: {KEY_NAME}
    algorithm: {KEY_ALGORITHM}
    secret: {KEY_SECRET}
remote:
  - id: other
    address: {ip}@{port}
    key: {KEY_NAME}
acl:
  - id: other
    address: 127.0.0.1
    key: {KEY_NAME}
    action: [transfer, notify]
{acl}"
    )
}

/// Returns the settings of a Knot template that keep zones in the peer's directory.
pub(super) fn knot_storage(directory: &Path) -> String {
    let directory = directory.display();
    format!("    storage: \"{directory}\"\n    zonefile-sync: -1\n    semantic-checks: off\n")
}

fn bind(setup: &MeshSetup<'_>, file: &Path) -> (String, String) {
    let (file, zone) = (file.display(), setup.zone);
    let (other_ip, other_port) = (setup.other.ip(), setup.other.port());
    let other = format!("{{ {other_ip} port {other_port} key {KEY_NAME}; }}");
    let role = match setup.role {
        MeshRole::Primary => format!(
            "type primary; notify explicit; also-notify {other}; notify-delay 0; ixfr-from-differences yes; check-integrity no; check-names ignore; check-mx ignore;"
        ),
        MeshRole::Secondary => format!(
            "type secondary; notify no; primaries {other}; masterfile-format text; check-names ignore; min-retry-time 1; min-refresh-time 1;"
        ),
    };
    let rest = bind_key() + &format!("zone \"{zone}\" {{ {role} file \"{file}\"; }};\n");
    (bind_options(), rest)
}

/// Returns the options of BIND as a server that transfers zones with the key.
pub(super) fn bind_options() -> String {
    format!(
        "    recursion no;
    dnssec-validation no;
    notify-rate 1000;
    startup-notify-rate 1000;
    serial-query-rate 1000;
    allow-transfer {{ key {KEY_NAME}; }};
"
    )
}

/// Returns the statement of BIND with the key.
pub(super) fn bind_key() -> String {
    format!("key {KEY_NAME} {{ algorithm {KEY_ALGORITHM}; secret \"{KEY_SECRET}\"; }};\n")
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

fn powerdns(role: &str, directory: &Path) -> String {
    format!(
        "launch=gsqlite3
gsqlite3-database={}/pdns.db
gsqlite3-dnssec=yes
xfr-cycle-interval=1
query-cache-ttl=0
negquery-cache-ttl=0
cache-ttl=0
zone-cache-refresh-interval=0
zone-metadata-cache-ttl=0
consistent-backends=no
webserver=no
api=no
disable-axfr=no
allow-axfr-ips=
{role}
",
        directory.display()
    )
}

/// Writes the configuration of PowerDNS as a catalog consumer, creates its database, and returns the command.
pub(super) fn prepare_consumer(
    program: &Path,
    directory: &Path,
    (address, other): (SocketAddr, SocketAddr),
    catalog: &str,
) -> io::Result<Command> {
    let config = PeerConfig {
        main: &powerdns(POWERDNS_SECONDARY, directory),
        ..PeerConfig::default()
    };
    let command = PeerKind::PowerDns.prepare(program, directory, address, &config)?;
    make_database(directory)?;
    let other = other.to_string();
    pdnsutil(directory, &["create-secondary-zone", catalog, &other])?;
    pdnsutil(directory, &["set-kind", catalog, "consumer"])?;
    pdnsutil(
        directory,
        &["activate-tsig-key", catalog, KEY_NAME, "secondary"],
    )?;
    Ok(command)
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
