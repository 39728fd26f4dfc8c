//! The EDNS client subnet option (RFC 7871), with dig as the resolver: accepted from trusted senders only, through
//! the packet cache, and forwarded for ALIAS targets.

use super::alias::{recursor, with_shop};
use super::operation::counter;
use crate::recursion::scripted::{ScriptedResolver, reply};
use nameward_testkit::wire::{Client, Transport, question};
use nameward_testkit::{Setup, TestServer};
use std::{collections::BTreeSet, fs, process::Command};

const SHOP: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.10\n\
                    @ ALIAS target.elsewhere.test.\n";
const BELIEVED: &str = "[client_subnet]\nallow_from = [\"127.0.0.1\"]\n";
const FORMERR: u16 = 1;

fn server(mode: &str, more: &str) -> TestServer {
    let (setup, backend) = with_shop(Setup::new(), SHOP, mode, None);
    setup.config(&format!("{BELIEVED}{more}{backend}")).start()
}

/// Queries with dig; returns what it prints.
fn dig(server: &TestServer, arguments: &[&str]) -> String {
    let port = server.address().port().to_string();
    let output = Command::new("dig")
        .args(["@127.0.0.1", "-p", &port, "+tries=1", "+norecurse"])
        .args(arguments)
        .output()
        .expect("dig is installed: run scripts/install-deps");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the client subnet of the reply that dig printed.
fn echoed(printed: &str) -> Option<&str> {
    let line = printed
        .lines()
        .find(|line| line.contains("CLIENT-SUBNET"))?;
    line.split_once("CLIENT-SUBNET: ").map(|(_, subnet)| subnet)
}

#[test]
fn the_subnet_of_a_believed_resolver_is_returned_and_that_of_others_is_ignored() {
    for mode in ["live", "resident"] {
        let server = server(mode, "");
        for (subnet, expected) in [
            ("192.0.2.0/24", "192.0.2.0/24/0"),
            ("198.51.100.7", "198.51.100.7/32/0"),
            ("10.0.0.0/9", "10.0.0.0/9/0"),
            ("2001:db8:1::/48", "2001:db8:1::/48/0"),
            ("0.0.0.0/0", "0.0.0.0/0/0"),
            ("::/0", "::/0/0"),
            ("0", "0.0.0.0/0/0"),
        ] {
            // The second reply may be from the packet cache, the third has further options, the fourth is an error.
            let option = format!("+subnet={subnet}");
            for more in [
                &["www.shop.test"][..],
                &["www.shop.test"],
                &["www.shop.test", "+tcp", "+keepalive", "+cookie"],
                &["elsewhere.test"],
            ] {
                let printed = dig(&server, &[&[&option[..]], more].concat());
                assert_eq!(echoed(&printed), Some(expected), "{printed}");
            }
            let other = dig(&server, &["-b", "127.0.0.2", &option, "www.shop.test"]);
            assert_eq!(echoed(&other), None, "{other}");
            assert!(other.contains("192.0.2.10"), "{other}");
        }
        assert_eq!(echoed(&dig(&server, &["www.shop.test"])), None);
        assert_eq!(counter(&server, "client-subnet-queries"), 28);
        let settings = server.dir().join("nameward.toml");
        let text = fs::read_to_string(&settings).unwrap();
        fs::write(&settings, text.replace(BELIEVED, "")).unwrap();
        assert!(server.command(&["reload"]).status.success());
        let printed = dig(&server, &["+subnet=192.0.2.0/24", "www.shop.test"]);
        assert_eq!(echoed(&printed), None, "{printed}");
    }
}

#[test]
fn interleaved_subnets_of_one_name_get_their_own_option_from_the_packet_cache() {
    let server = server("live", "");
    for round in 0..3 {
        for subnet in [
            "192.0.2.0/24",
            "203.0.113.0/24",
            "2001:d00::/24",
            "0.0.0.0/0",
        ] {
            for transport in [&["+notcp"][..], &["+tcp", "+cookie=0102030405060708"]] {
                let option = format!("+subnet={subnet}");
                let printed = dig(&server, &[&[&option, "www.shop.test"], transport].concat());
                let expected = format!("{subnet}/0");
                assert_eq!(echoed(&printed), Some(&expected[..]), "{round}: {printed}");
                assert!(printed.contains("192.0.2.10"), "{printed}");
            }
        }
        let plain = dig(&server, &["www.shop.test"]);
        assert_eq!(echoed(&plain), None, "{plain}");
    }
    // Subnets of one length share an entry.
    assert!(counter(&server, "packetcache-hit") >= 12);
}

/// Returns a query with this client subnet option.
fn query(option: &[u8]) -> Vec<u8> {
    let mut packet = question(7, "www.shop.test", "A");
    packet.truncate(12 + 15 + 4);
    packet[11] = 1;
    packet.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 4 + option.len() as u8]);
    packet.extend_from_slice(&[0, 8, 0, option.len() as u8]);
    packet.extend_from_slice(option);
    packet
}

#[test]
fn a_malformed_subnet_is_a_format_error_of_believed_resolvers_only() {
    let server = server("resident", "");
    let malformed: [&[u8]; 7] = [
        &[],
        &[0, 1, 24, 0, 192, 0],
        &[0, 1, 24, 0, 192, 0, 2, 0],
        &[0, 1, 33, 0, 192, 0, 2, 1, 0],
        &[0, 1, 23, 0, 192, 0, 3],
        &[0, 1, 24, 1, 192, 0, 2],
        &[0, 3, 0, 0],
    ];
    for option in malformed {
        for transport in [Transport::Udp, Transport::Tcp] {
            for (client, expected) in [("127.0.0.1", FORMERR), ("127.0.0.2", 0)] {
                let client = Client::new(client, server.address());
                let reply = client.exchange(transport, &query(option)).unwrap();
                let reply = reply.expect("a reply");
                assert_eq!(reply.rcode(), expected, "{option:?}");
                let opt = reply.opt.as_ref().expect("an OPT record");
                assert_eq!(opt.option(8), None);
            }
        }
    }
    assert_eq!(counter(&server, "client-subnet-errors"), 14);
}

/// A resolver that returns different addresses for each /24 of 192.0.0.0/8, with their scope; without a subnet it
/// returns 192.0.2.1.
fn tailoring_resolver() -> ScriptedResolver {
    ScriptedResolver::start(|query, _| {
        let option = query.windows(4).position(|octets| octets == [0, 8, 0, 7]);
        let third = option.map(|at| query[at + 10]);
        let is_common = option.is_some_and(|at| query[at + 8] == 198);
        let last = if is_common { 9 } else { third.unwrap_or(1) };
        let mut reply = reply(query, 0, &[(1, vec![192, 0, 2, last])]);
        if let Some(at) = option {
            let mut subnet = query[at..at + 11].to_vec();
            subnet[7] = if is_common { 0 } else { 24 };
            reply[11] = 1;
            reply.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 11]);
            reply.extend_from_slice(&subnet);
        }
        vec![reply]
    })
}

#[test]
fn an_alias_target_is_resolved_for_the_subnet_and_its_scope_is_returned() {
    for mode in ["live", "resident"] {
        let resolver = tailoring_resolver();
        let server = server(mode, &recursor(&resolver));
        let ask = |subnet: &str| {
            let printed = dig(&server, &[&format!("+subnet={subnet}"), "shop.test"]);
            let echoed = echoed(&printed).unwrap_or_default().to_owned();
            let line = printed.lines().find(|line| line.contains("\tIN\tA\t"));
            let last = line
                .and_then(|line| line.rsplit_once('.'))
                .map(|(_, last)| last);
            (last.unwrap_or_default().to_owned(), echoed)
        };
        for _ in 0..3 {
            assert_eq!(
                ask("192.0.77.0/24"),
                ("77".into(), "192.0.77.0/24/24".into())
            );
            assert_eq!(ask("192.0.78.5"), ("78".into(), "192.0.78.5/32/24".into()));
            let plain = dig(&server, &["shop.test"]);
            assert!(plain.contains("192.0.2.1\n"), "{plain}");
        }
        // One query for each network, and another one when its answer has expired.
        let received = resolver.received();
        let networks: BTreeSet<_> = { received.iter() }
            .map(|query| {
                let option = query.windows(4).position(|octets| octets == [0, 8, 0, 7]);
                option.map(|at| query[at + 10])
            })
            .collect();
        assert_eq!(networks, BTreeSet::from([None, Some(77), Some(78)]));
    }
}

#[test]
fn addresses_that_a_resolver_has_for_all_clients_are_resolved_once() {
    let resolver = tailoring_resolver();
    let server = server("resident", &recursor(&resolver));
    for third in 0..20 {
        let option = format!("+subnet=198.51.{third}.0/24");
        let printed = dig(&server, &[&option, "shop.test"]);
        assert!(printed.contains("192.0.2.9"), "{printed}");
        let expected = format!("198.51.{third}.0/24/0");
        assert_eq!(echoed(&printed), Some(&expected[..]), "{printed}");
    }
    // Not one for each network; answers expire after some seconds.
    assert!(resolver.questions() < 20, "{}", resolver.questions());
}
