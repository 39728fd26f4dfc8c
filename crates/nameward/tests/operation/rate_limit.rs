//! Response rate limiting as an operator sees it: settings, reload, status, log, page, and a resolver behind a limited
//! network.

use std::{fs, net::UdpSocket, path::Path, process::Command};

use nameward_testkit::peers::{Peer, PeerOptions};
use nameward_testkit::wire::{Client, Transport, question};
use nameward_testkit::{Setup, TestServer, require};

use super::ask::zone;

const LIMITED: &str =
    "[rate_limit]\nresponses_per_second = 1\nwindow = 3600\nslip = 1\nexempt = [\"127.0.0.2\"]\n";
/// Minutes of debt at one answer a second.
const FLOOD: u16 = 300;

/// Sends queries for one name and reads what is sent back.
fn flood(server: &TestServer, name: &str) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address()).unwrap();
    let mut reply = [0; 2048];
    for id in 0..FLOOD {
        socket.send(&question(id, name, "A")).unwrap();
        // With slip = 1 every query has a reply.
        socket.recv(&mut reply).unwrap();
    }
}

fn is_truncated(server: &TestServer, source: &str, name: &str) -> bool {
    let client = Client::new(source, server.address());
    client.ask(Transport::Udp, name, "A").truncated()
}

fn printed(server: &TestServer, arguments: &[&str]) -> String {
    let output = server.command(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn limited_server() -> TestServer {
    let setup = Setup::new().config(LIMITED);
    setup.zone("example.org", &zone("www")).start()
}

#[test]
fn a_limited_network_is_in_the_log_the_status_and_the_counters() {
    let server = limited_server();
    assert!(printed(&server, &["status"]).contains("no network is over its limit"));
    flood(&server, "www.example.org");
    assert!(is_truncated(&server, "127.0.0.1", "www.example.org"));
    assert!(server.wait_for_log("rate limit: limiting responses to 127.0.0.0/24"));
    let status = printed(&server, &["status"]);
    assert!(
        status.contains("over the limit: 127.0.0.0/24 ("),
        "{status}"
    );
    let stats = printed(&server, &["stats"]);
    assert!(stats.contains("rate-limit-slips"), "{stats}");
}

#[test]
fn exempt_clients_get_every_answer() {
    let server = limited_server();
    flood(&server, "www.example.org");
    assert!(is_truncated(&server, "127.0.0.1", "www.example.org"));
    assert!(!is_truncated(&server, "127.0.0.2", "www.example.org"));
}

#[test]
fn a_reload_changes_the_limit() {
    let server = limited_server();
    flood(&server, "www.example.org");
    let file = server.dir().join("nameward.toml");
    let text = fs::read_to_string(&file).unwrap();
    for (change, is_limited) in [
        ("log_only = true\n", false),
        ("", true),
        (
            "[[zone]]\nname = \"example.org\"\nresponses_per_second = 0\n",
            false,
        ),
    ] {
        let new = match change.strip_prefix("[[zone]]") {
            Some(_) => format!("{text}\n{change}"),
            None => text.replace("[rate_limit]\n", &format!("[rate_limit]\n{change}")),
        };
        fs::write(&file, new).unwrap();
        printed(&server, &["reload"]);
        flood(&server, "www.example.org");
        let truncated = is_truncated(&server, "127.0.0.1", "www.example.org");
        assert_eq!(truncated, is_limited, "{change}");
    }
}

/// Starts a resolver that queries the server for `example.org`.
fn start_unbound(server: &TestServer) -> Option<Peer> {
    const READY: &str = "ready.test";
    let program = ["/usr/sbin/unbound", "/usr/local/sbin/unbound"]
        .into_iter()
        .find(|path| Path::new(path).is_file());
    let program = require(program, "unbound")?;
    let authority = server.address();
    let peer = Peer::launch(&[READY], &PeerOptions::default(), |directory, address| {
        let (ip, port) = (address.ip(), address.port());
        let config = format!(
            "server:\n interface: {ip}@{port}\n port: {port}\n do-daemonize: no\n username: \"\"\n chroot: \"\"\n \
             pidfile: \"\"\n directory: \".\"\n use-syslog: no\n num-threads: 1\n do-ip6: no\n \
             access-control: 127.0.0.0/8 allow\n do-not-query-localhost: no\n module-config: \"iterator\"\n \
             local-zone: \".\" static\n local-zone: \"example.org.\" transparent\n \
             local-zone: \"{READY}.\" static\n local-data: \"{READY}. 60 IN SOA a. b. 1 60 60 60 60\"\n\
             stub-zone:\n name: example.org\n stub-addr: {}@{}\n",
            authority.ip(),
            authority.port()
        );
        fs::write(directory.join("unbound.conf"), config)?;
        let mut command = Command::new(program);
        command
            .args(["-d", "-c", "unbound.conf"])
            .current_dir(directory);
        Ok(command)
    });
    Some(peer.expect("unbound starts"))
}

#[test]
fn a_resolver_behind_a_limited_network_still_resolves() {
    let server = limited_server();
    let Some(resolver) = start_unbound(&server) else {
        return;
    };
    flood(&server, "www.example.org");
    assert!(is_truncated(&server, "127.0.0.1", "www.example.org"));
    let client = Client::new("127.0.0.1", resolver.addr());
    let mut query = question(1, "www.example.org", "A");
    query[2] |= 1; // RD
    let answer = client.exchange(Transport::Udp, &query).unwrap();
    let answer = answer.expect("an answer");
    assert_eq!(answer.rcode(), 0, "{answer:?}\n{}", resolver.log_tail());
    assert_eq!(answer.answer.len(), 1, "{answer:?}");
}
