//! Debian's unbound as the recursor. It resolves one zone from a second server of ours, and queries no other.

use std::{path::Path, process::Command};

use nameward_testkit::peers::{Peer, PeerOptions};
use nameward_testkit::wire::Transport;
use nameward_testkit::{TestServer, require};

use super::hand_off::{ask, server, settled};
use super::scripted::last_octet;

/// A name that unbound has by itself: it answers when it is ready.
const READY: &str = "ready.recursor";

fn unbound(authority: &TestServer) -> Option<Peer> {
    let program = ["/usr/sbin/unbound", "/usr/local/sbin/unbound"]
        .into_iter()
        .find(|path| Path::new(path).is_file());
    let program = require(program, "unbound")?;
    let authority = authority.address();
    let peer = Peer::launch(&[READY], &PeerOptions::default(), |directory, address| {
        let (ip, port) = (address.ip(), address.port());
        let config = format!(
            "server:\n interface: {ip}@{port}\n port: {port}\n do-daemonize: no\n username: \"\"\n chroot: \"\"\n \
             pidfile: \"\"\n directory: \".\"\n use-syslog: no\n num-threads: 1\n do-ip6: no\n \
             access-control: 127.0.0.0/8 allow\n do-not-query-localhost: no\n module-config: \"iterator\"\n \
             local-zone: \".\" static\n local-zone: \"elsewhere.test.\" transparent\n \
             local-zone: \"{READY}.\" static\n local-data: \"{READY}. 60 IN SOA a. b. 1 60 60 60 60\"\n\
             remote-control:\n control-enable: no\n\
             stub-zone:\n name: \"elsewhere.test.\"\n stub-addr: {}@{}\n",
            authority.ip(),
            authority.port()
        );
        std::fs::write(directory.join("unbound.conf"), config)?;
        let mut command = Command::new(program);
        command.args(["-d", "-c", "unbound.conf"]);
        Ok(command)
    });
    Some(peer.expect("unbound starts"))
}

fn authority() -> TestServer {
    let many: String = (0..100).map(|n| format!("large A 192.0.2.{n}\n")).collect();
    let zone = format!(
        "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.77\n*.wild A 192.0.2.78\n{many}"
    );
    TestServer::start("", &[("elsewhere.test", &zone)])
}

#[test]
fn unbound_resolves_for_our_clients_and_is_missed_only_while_it_is_stopped() {
    let authority = authority();
    let Some(recursor) = unbound(&authority) else {
        return;
    };
    let server = server(&[recursor.addr()], "timeout_ms = 5000");
    for transport in [Transport::Udp, Transport::Tcp] {
        let answer = ask(&server, transport, "www.elsewhere.test");
        assert_eq!(last_octet(&answer), Some(77), "{answer:?}");
        let missing = ask(&server, transport, "no.elsewhere.test");
        assert_eq!((missing.rcode(), missing.authority.len()), (3, 1));
        assert_eq!(ask(&server, transport, "other.test").rcode(), 3);
    }
    let large = ask(&server, Transport::Tcp, "large.elsewhere.test");
    assert_eq!(large.answer.len(), 100, "cut over UDP, fetched over TCP");
    assert!(ask(&server, Transport::Udp, "large.elsewhere.test").truncated());
    let before = settled(&server, 8);
    assert_eq!(before.value("recursing-answers"), 8);

    recursor.signal("STOP").expect("it runs");
    assert_eq!(
        ask(&server, Transport::Udp, "a.wild.elsewhere.test").rcode(),
        2
    );
    assert_eq!(
        last_octet(&ask(&server, Transport::Udp, "www.example")),
        Some(2)
    );
    recursor.signal("CONT").expect("it is there");
    let answer = ask(&server, Transport::Udp, "b.wild.elsewhere.test");
    assert_eq!(last_octet(&answer), Some(78), "{answer:?}");
    let after = settled(&server, 10);
    assert_eq!(after.value("recursion-unanswered"), 1);
    assert_eq!(after.value("recursing-answers"), 9);
}
