//! Each brand as the secondary of one zone, without a key.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use nameward_testkit::peers::{Peer, PeerConfig, PeerError, PeerKind, PeerOptions};

use crate::binaries::Binaries;
use crate::server::Server;

/// Starts a server that transfers a zone from a primary.
pub fn start(
    server: Server,
    binaries: &Binaries,
    (zone, primary): (&str, SocketAddr),
    options: &PeerOptions,
) -> Result<Peer, PeerError> {
    let Some(kind) = server.peer() else {
        let program = server.our_program(binaries)?;
        return Peer::launch(&[], options, |directory, addr| {
            let more = format!(
                "[[zone]]\nname = \"{zone}\"\nkind = \"secondary\"\nprimaries = [{{ address = \"{primary}\" }}]\n"
            );
            let conf = directory.join("conf");
            fs::write(&conf, ours(directory, addr, &more)?)?;
            let mut command = Command::new(program);
            command.args(["serve", "--config"]).arg(conf);
            Ok(command)
        });
    };
    let settings = match kind {
        PeerKind::Nsd => nsd,
        PeerKind::Knot => knot,
        PeerKind::Bind => bind,
        PeerKind::PowerDns => {
            return Err(PeerError::NotInstalled("a secondary of this brand"));
        }
    };
    let program = binaries.peer(kind)?;
    Peer::launch(&[], options, |directory, addr| {
        let (main, rest) = settings(directory, (zone, primary));
        let config = PeerConfig {
            main: &main,
            rest: &rest,
            ..PeerConfig::default()
        };
        kind.prepare(&program, directory, addr, &config)
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

fn nsd(directory: &Path, (zone, primary): (&str, SocketAddr)) -> (String, String) {
    let (at, ip, port) = (directory.display(), primary.ip(), primary.port());
    let main = "    xfrd-reload-timeout: 0\n    rrl-ratelimit: 0\n".into();
    let rest = format!(
        "zone:
    name: \"{zone}\"
    zonefile: \"{at}/zone\"
    request-xfr: {ip}@{port} NOKEY
    allow-notify: 127.0.0.1 NOKEY
"
    );
    (main, rest)
}

fn knot(directory: &Path, (zone, primary): (&str, SocketAddr)) -> (String, String) {
    let (at, ip, port) = (directory.display(), primary.ip(), primary.port());
    let rest = format!(
        "remote:
  - id: primary
    address: {ip}@{port}
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
    );
    (String::new(), rest)
}

fn bind(directory: &Path, (zone, primary): (&str, SocketAddr)) -> (String, String) {
    let (at, ip, port) = (directory.display(), primary.ip(), primary.port());
    let main = "    recursion no;\n    dnssec-validation no;\n".into();
    let rest = format!(
        "zone \"{zone}\" {{ type secondary; file \"{at}/zone\"; primaries {{ {ip} port {port}; }}; notify no; }};\n"
    );
    (main, rest)
}
