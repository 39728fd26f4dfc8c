//! Each brand as the secondary of one zone, without a key.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use nameward_testkit::peers::{Peer, PeerError, PeerOptions};

use crate::binaries::Binaries;
use crate::server::Server;

/// Starts a server that transfers a zone from a primary.
pub fn start(
    server: Server,
    binaries: &Binaries,
    (zone, primary): (&str, SocketAddr),
    options: &PeerOptions,
) -> Result<Peer, PeerError> {
    let program = match server {
        Server::Nameward => Some(binaries.nameward.as_path()),
        Server::Before => binaries.before.as_deref(),
        Server::Nsd => Some(binaries.nsd.as_deref().unwrap_or(Path::new("nsd"))),
        Server::Knot => Some(binaries.knot.as_deref().unwrap_or(Path::new("knotd"))),
        Server::Bind => Some(binaries.bind.as_deref().unwrap_or(Path::new("named"))),
        Server::Pdns => None,
    };
    let program = program.ok_or(PeerError::NotInstalled("a secondary of this brand"))?;
    Peer::launch(&[], options, |directory, addr| {
        let conf = directory.join("conf");
        let (text, arguments) = match server {
            Server::Nsd => (nsd(directory, addr, (zone, primary)), vec!["-d", "-c"]),
            Server::Knot => (knot(directory, addr, (zone, primary)), vec!["-c"]),
            Server::Bind => {
                let arguments = vec!["-g", "-4", "-n", "1", "-c"];
                (bind(directory, addr, (zone, primary)), arguments)
            }
            _ => {
                let more = format!(
                    "[[zone]]\nname = \"{zone}\"\nkind = \"secondary\"\nprimaries = [{{ address = \"{primary}\" }}]\n"
                );
                (ours(directory, addr, &more)?, vec!["serve", "--config"])
            }
        };
        fs::write(&conf, text)?;
        let mut command = Command::new(program);
        command.args(arguments).arg(conf);
        Ok(command)
    })
}

/// The configuration of our server with a state directory and `more` settings.
pub fn ours(directory: &Path, addr: SocketAddr, more: &str) -> io::Result<String> {
    let at = directory.display();
    fs::create_dir_all(directory.join("state"))?;
    Ok(format!(
        "[server]\nlisten = [\"{addr}\"]\nworkers = 1\ncontrol_socket = \"{at}/control.sock\"\n\
         state_directory = \"{at}/state\"\nlog_level = \"info\"\n\n[web]\nlisten = \"127.0.0.1:0\"\n\n{more}"
    ))
}

fn nsd(directory: &Path, addr: SocketAddr, (zone, primary): (&str, SocketAddr)) -> String {
    let (at, ip, port) = (directory.display(), addr.ip(), addr.port());
    let primary = format!("{}@{}", primary.ip(), primary.port());
    format!(
        "server:
    server-count: 1
    ip-address: {ip}@{port}
    username: \"\"
    chroot: \"\"
    database: \"\"
    zonesdir: \"{at}\"
    pidfile: \"{at}/pid\"
    zonelistfile: \"{at}/zone.list\"
    xfrdfile: \"{at}/xfrd.state\"
    xfrdir: \"{at}\"
    xfrd-reload-timeout: 0
    rrl-ratelimit: 0
remote-control:
    control-enable: no
zone:
    name: \"{zone}\"
    zonefile: \"{at}/zone\"
    request-xfr: {primary} NOKEY
    allow-notify: 127.0.0.1 NOKEY
"
    )
}

fn knot(directory: &Path, addr: SocketAddr, (zone, primary): (&str, SocketAddr)) -> String {
    let (at, ip, port) = (directory.display(), addr.ip(), addr.port());
    let primary = format!("{}@{}", primary.ip(), primary.port());
    format!(
        "server:
    rundir: \"{at}\"
    listen: {ip}@{port}
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
log:
  - target: stderr
    any: warning
database:
    storage: \"{at}\"
    journal-db-max-size: 1G
remote:
  - id: primary
    address: {primary}
acl:
  - id: primary
    address: 127.0.0.1
    action: notify
zone:
  - domain: \"{zone}\"
    storage: \"{at}\"
    file: \"{at}/zone\"
    master: primary
    acl: primary
"
    )
}

fn bind(directory: &Path, addr: SocketAddr, (zone, primary): (&str, SocketAddr)) -> String {
    let (at, ip, port) = (directory.display(), addr.ip(), addr.port());
    let primary = format!("{{ {} port {}; }}", primary.ip(), primary.port());
    format!(
        "options {{
    directory \"{at}\";
    managed-keys-directory \"{at}\";
    listen-on port {port} {{ {ip}; }};
    listen-on-v6 {{ none; }};
    pid-file none;
    session-keyfile none;
    recursion no;
    empty-zones-enable no;
    dnssec-validation no;
}};
controls {{ }};
zone \"{zone}\" {{ type secondary; file \"{at}/zone\"; primaries {primary}; notify no; }};
"
    )
}
