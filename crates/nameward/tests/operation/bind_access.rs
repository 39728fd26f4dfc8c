//! The same named.conf for BIND and for us: every client gets the same from both, from several addresses.

use std::{
    fs, io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::Path,
    process::Command,
};

use nameward_testkit::{
    Setup, TestServer,
    peers::{Peer, PeerKind, PeerOptions},
    wire::{Client, Transport, question},
};

use super::ask::zone;

const SOURCES: [&str; 4] = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "::1"];

/// Zones by name, with their access lists.
const ZONES: [(&str, &str); 17] = [
    ("open.example", "allow-query { any; };"),
    ("inherited.example", ""),
    ("nobody.example", "allow-query { none; };"),
    ("empty.example", "allow-query { !any; any; };"),
    ("one.example", "allow-query { 127.0.0.2; };"),
    ("six.example", "allow-query { ::/1; };"),
    ("short.example", "allow-query { 127/8; };"),
    ("negated.example", "allow-query { !127.0.0.2; any; };"),
    ("localhost.example", "allow-query { localhost; };"),
    ("localnets.example", "allow-query { localnets; };"),
    ("notlocal.example", "allow-query { !localhost; any; };"),
    ("named.example", "allow-query { friends; };"),
    ("notnamed.example", "allow-query { !Friends; any; };"),
    // A list that excludes a client, within a list that permits all clients.
    (
        "double.example",
        "allow-query { { !127.0.0.2; 127/8; }; any; };",
    ),
    (
        "doublenot.example",
        "allow-query { !{ !127.0.0.2; 127/8; }; any; };",
    ),
    (
        "nested.example",
        "allow-query { family; !127.0.0.1; localnets; };",
    ),
    ("key.example", "allow-query { key k; 127.0.0.3; };"),
];

const LISTS: &str = "
acl family { friends; ! { 127.0.0.3; }; };
acl \"friends\" { 127.0.0.2; ::1; };
key k { algorithm hmac-sha256; secret \"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0\"; };
";

/// The options that BIND needs to be a quiet peer, and the access list of zones without their own.
fn options(directory: &Path, port: u16, rest: &str) -> String {
    let directory = directory.display();
    format!(
        "options {{ directory \"{directory}\"; managed-keys-directory \"{directory}\";
        listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 port {port} {{ ::1; }};
        pid-file none; session-keyfile none; recursion no; notify no; empty-zones-enable no;
        dnssec-validation no; answer-cookie no; {rest} }};\ncontrols {{ }};\n"
    )
}

fn zones(names: &[(&str, &str)]) -> String {
    let zone = |(name, own): &(&str, &str)| {
        format!("zone \"{name}\" {{ type primary; file \"zone\"; {own} }};\n")
    };
    names.iter().map(zone).collect()
}

/// Starts BIND with a configuration, and us with the same file.
fn both(text: impl Fn(&Path, u16) -> String) -> Option<(Peer, TestServer)> {
    let program = PeerKind::Bind.require()?;
    let prepare = |directory: &Path, address: SocketAddr| -> io::Result<Command> {
        fs::write(directory.join("zone"), zone("www"))?;
        fs::write(
            directory.join("named.conf"),
            text(directory, address.port()),
        )?;
        let mut command = Command::new(&program);
        command
            .args(["-g", "-n", "1", "-c"])
            .arg(directory.join("named.conf"));
        Ok(command)
    };
    let bind = Peer::launch(&["open.example"], &PeerOptions::default(), prepare).unwrap();
    let path = bind.directory().join("named.conf");
    let backend = format!(
        "[[backend]]\nnamed_conf = \"{}\"\nwatch = false\n",
        path.display()
    );
    let server = Setup::new().config(&backend).start();
    Some((bind, server))
}

/// The response code and the number of answers, for each source and transport.
fn seen(v4: SocketAddr, v6: SocketAddr, name: &str) -> Vec<String> {
    let mut all = Vec::new();
    for source in SOURCES {
        let server = if source.contains(':') { v6 } else { v4 };
        for transport in [Transport::Udp, Transport::Tcp] {
            let reply = Client::new(source, server).ask(transport, name, "A");
            let (rcode, answers) = (reply.rcode(), reply.answer.len());
            all.push(format!(
                "{source} {transport}: rcode {rcode}, {answers} records"
            ));
        }
    }
    all
}

fn compare(bind: &Peer, server: &TestServer, names: impl Iterator<Item = String>) -> usize {
    let bind_v6 = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), bind.addr().port());
    let mut refused = 0;
    for name in names {
        let theirs = seen(bind.addr(), bind_v6, &name);
        let ours = seen(server.address(), server.address_v6(), &name);
        assert_eq!(ours, theirs, "{name}");
        refused += ours.iter().filter(|line| line.contains("rcode 5")).count();
    }
    refused
}

#[test]
fn every_client_is_answered_or_refused_as_by_bind() {
    for default in ["", "allow-query { !127.0.0.3; localnets; };"] {
        let text =
            |directory: &Path, port| options(directory, port, default) + LISTS + &zones(&ZONES);
        let Some((bind, server)) = both(text) else {
            return;
        };
        let names = ZONES
            .iter()
            .flat_map(|(name, _)| [format!("www.{name}"), format!("no.{name}")]);
        let refused = compare(&bind, &server, names);
        assert!(refused > 60, "{refused}");
    }
}

#[test]
fn a_view_is_for_the_clients_that_it_is_for_with_bind() {
    for clients in [
        "",
        "match-clients { !127.0.0.2; any; };",
        "match-clients { friends; };",
    ] {
        // BIND is ready when 127.0.0.1 gets an answer.
        let clients = clients.replace("friends;", "friends; 127.0.0.1;");
        let Some((bind, server)) = both(|directory, port| {
            let view = format!("view v {{ {clients} {} }};\n", zones(&ZONES));
            options(directory, port, "") + LISTS + &view
        }) else {
            return;
        };
        let names = ZONES.iter().map(|(name, _)| format!("www.{name}"));
        assert!(compare(&bind, &server, names) > 20);
    }
}

#[test]
fn clients_in_the_blackhole_get_nothing_from_either() {
    let Some((bind, server)) = both(|directory, port| {
        options(directory, port, "blackhole { friends; };") + LISTS + &zones(&ZONES)
    }) else {
        return;
    };
    for address in [bind.addr(), server.address()] {
        let message = question(9, "www.open.example", "A");
        let dropped = Client::new("127.0.0.2", address);
        let socket = dropped.send(&message).unwrap();
        let over_tcp = dropped.exchange(Transport::Tcp, &message);
        assert!(!matches!(over_tcp, Ok(Some(_))), "{over_tcp:?}");
        // When later ones are answered, the first one would have been.
        let other = Client::new("127.0.0.1", address);
        for _ in 0..5 {
            assert_eq!(
                other.ask(Transport::Udp, "www.open.example", "A").rcode(),
                0
            );
        }
        socket.set_nonblocking(true).unwrap();
        let answer = socket.recv(&mut [0; 512]);
        assert!(answer.is_err(), "{answer:?}");
    }
}
