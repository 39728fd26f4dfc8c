//! ALIAS records: the addresses of their targets, from zones here and from a resolver, signed like any other record.

use super::rows::Sqlite;
use super::signed::{add_key, anchors, question, whole};
use crate::recursion::scripted::{Replies, ScriptedResolver, reply};
use nameward_testkit::conformance::ZoneText;
use nameward_testkit::wait_until;
use nameward_testkit::wire::{Client, Message, Record, Transport};
use nameward_testkit::{Setup, TestServer, require};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const A: u16 = 1;
const RRSIG: u16 = 46;
const P256: &str = "Private-key-format: v1.2\nAlgorithm: 13 (ECDSAP256SHA256)\n\
                    PrivateKey: GU6SnQ/Ou+xC5RumuIUIuJZteXT2z0O/ok1s38Et6mQ=\n";
const SHOP: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.10\n\
    @ ALIAS target.elsewhere.test.\nhere ALIAS www\nabove ALIAS here\nthrough ALIAS cname\ncname CNAME www\n\
    other ALIAS www.own.test.\n*.wild ALIAS target.elsewhere.test.\ncircle ALIAS circle\n\
    both ALIAS target.elsewhere.test.\nboth A 192.0.2.20\nlost ALIAS no.own.test.\n";
const OWN: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.30\n";

/// A resolver whose targets have one address, 192.0.2.`last`, and no AAAA.
pub fn resolver() -> (ScriptedResolver, Arc<AtomicU8>) {
    let last = Arc::new(AtomicU8::new(100));
    let shown = Arc::clone(&last);
    let resolver = ScriptedResolver::start(move |query, _| {
        let is_a = query[query.len() - 15..query.len() - 11] == [0, 1, 0, 1];
        let records = [(A, vec![192, 0, 2, shown.load(Ordering::Relaxed)])];
        vec![reply(query, 0, if is_a { &records } else { &[] })]
    });
    (resolver, last)
}

/// A server whose zone `shop.test` comes from a database, signed or not, in one mode.
fn server(resolver: Option<&ScriptedResolver>, mode: &str, nsec3: Option<&str>) -> TestServer {
    let setup = Setup::new().zone("own.test", OWN);
    let (setup, backend) = with_shop(setup, SHOP, mode, nsec3);
    let recursor = resolver.map_or(String::new(), recursor);
    setup.config(&format!("{recursor}{backend}")).start()
}

/// The settings for one resolver.
pub fn recursor(resolver: &ScriptedResolver) -> String {
    let address = resolver.address;
    format!("[recursor]\naddress = \"{address}\"\ntimeout_ms = 20000\n")
}

/// Stores the zone `shop.test` in a database; returns its settings.
pub fn with_shop(setup: Setup, text: &str, mode: &str, nsec3: Option<&str>) -> (Setup, String) {
    let database = Sqlite::new(setup.dir());
    database.add(&ZoneText {
        name: "shop.test".into(),
        text: text.into(),
    });
    if let Some(params) = nsec3 {
        add_key(&database, "shop.test", 257, P256);
        if !params.is_empty() {
            database.run(&format!(
                "INSERT INTO domainmetadata (domain_id, kind, content)
                 SELECT id, 'NSEC3PARAM', '{params}' FROM domains"
            ));
        }
    }
    let backend = database.backend(mode);
    (setup, backend)
}

/// The last octets of the addresses in an answer, and its code.
fn addresses(message: &Message) -> (u16, Vec<u8>) {
    let of_type = message.answer.iter().filter(|record| record.rtype == A);
    let last = of_type.filter_map(|record| record.data.last().copied());
    (message.rcode(), last.collect())
}

#[test]
fn a_name_with_an_alias_has_the_addresses_of_its_target() {
    for mode in ["live", "resident"] {
        let (resolver, _) = resolver();
        let server = server(Some(&resolver), mode, None);
        for transport in [Transport::Udp, Transport::Tcp] {
            let client = Client::new("127.0.0.1", server.address());
            for (name, expected) in [
                ("shop.test", (0, vec![100])),
                ("a.wild.shop.test", (0, vec![100])),
                ("here.shop.test", (0, vec![10])),
                ("above.shop.test", (0, vec![10])),
                ("through.shop.test", (0, vec![10])),
                ("other.shop.test", (0, vec![30])),
                ("both.shop.test", (0, vec![20])),
                ("lost.shop.test", (0, vec![])),
                ("circle.shop.test", (2, vec![])),
            ] {
                let answer = client.ask(transport, name, "A");
                assert_eq!(addresses(&answer), expected, "{mode}: {name}");
                assert!(answer.rcode() != 0 || answer.authoritative());
                let owner = format!("{name}.");
                assert!(
                    answer
                        .answer
                        .iter()
                        .all(|record| record.owner.to_string() == owner)
                );
            }
            let none = client.ask(transport, "shop.test", "AAAA");
            assert_eq!(
                (none.rcode(), none.answer.len(), none.authority.len()),
                (0, 0, 1)
            );
            let alias = client.ask(transport, "shop.test", "TYPE65401");
            assert_eq!(
                (alias.rcode(), alias.answer.len()),
                (0, 0),
                "the record itself is not for clients"
            );
        }
        assert_eq!(resolver.questions(), 2, "{mode}: A and AAAA, each once");
    }
}

#[test]
fn without_a_resolver_an_external_target_fails_and_the_log_names_the_setting() {
    let server = server(None, "resident", None);
    let client = Client::new("127.0.0.1", server.address());
    let answer = client.ask(Transport::Udp, "shop.test", "A");
    assert_eq!(answer.rcode(), 2);
    let error = answer.opt.as_ref().and_then(|opt| opt.option(15));
    assert_eq!(error, Some(&[0, 23][..]));
    assert!(
        server.wait_for_log("ALIAS target target.elsewhere.test.: not in a zone of this server")
    );
    assert!(server.log().contains("set recursor.address"));
    assert_eq!(
        addresses(&client.ask(Transport::Udp, "here.shop.test", "A")),
        (0, vec![10])
    );
}

#[test]
fn addresses_are_refreshed_in_time_and_served_while_the_resolver_fails() {
    let (resolver, last) = resolver();
    let server = server(Some(&resolver), "resident", None);
    let client = Client::new("127.0.0.1", server.address());
    let ask = || addresses(&client.ask(Transport::Udp, "shop.test", "A"));
    assert_eq!(ask(), (0, vec![100]));
    last.store(101, Ordering::Relaxed);
    wait_until("the new address is served", || ask() == (0, vec![101]));
    resolver.change(|query, _| vec![reply(query, 2, &[])]);
    wait_until("the resolver fails", || {
        ask();
        let failure =
            "ALIAS target target.elsewhere.test.: no A records: the resolver answered SERVFAIL";
        server.log().contains(failure)
    });
    assert_eq!(
        ask(),
        (0, vec![101]),
        "out of date, but better than nothing"
    );
    let shown = client.ask(Transport::Udp, "shop.test", "A").answer[0].ttl;
    assert!(shown <= 30, "a TTL of {shown}");
    resolver.change(|query, _| vec![reply(query, 0, &[(A, vec![192, 0, 2, 102])])]);
    wait_until("it is back", || ask() == (0, vec![102]));
}

#[test]
fn a_target_that_was_never_resolved_fails_and_is_tried_again() {
    let resolver = ScriptedResolver::start(|_, _| Replies::new());
    resolver.change(|query, _| vec![reply(query, 5, &[])]);
    let server = server(Some(&resolver), "resident", None);
    let client = Client::new("127.0.0.1", server.address());
    assert_eq!(client.ask(Transport::Udp, "shop.test", "A").rcode(), 2);
    let asked = resolver.questions();
    assert_eq!(client.ask(Transport::Tcp, "shop.test", "A").rcode(), 2);
    assert_eq!(resolver.questions(), asked, "not with every question");
    resolver.change(|query, _| vec![reply(query, 0, &[(A, vec![192, 0, 2, 9])])]);
    wait_until("it is resolved", || {
        addresses(&client.ask(Transport::Udp, "shop.test", "A")) == (0, vec![9])
    });
}

/// Runs `delv` with the key of the zone as its anchor; returns its output.
fn delv(server: &TestServer, name: &str, rtype: &str) -> Option<String> {
    let anchor = anchors(server.address(), &["shop.test"]).remove(0);
    let key = data_encoding::BASE64.encode(&anchor.dnskey[4..]);
    let path = server.dir().join("anchors");
    let text = format!("trust-anchors {{ \"shop.test.\" static-key 257 3 13 \"{key}\"; }};\n");
    std::fs::write(&path, text).unwrap();
    let port = server.address().port().to_string();
    let output = Command::new("delv")
        .args(["@127.0.0.1", "-p", &port, "+root=shop.test.", "-a"])
        .arg(&path)
        .args([name, rtype])
        .output();
    let output = require(output.ok(), "delv (bind9-dnsutils)")?;
    Some(
        String::from_utf8_lossy(&output.stdout).to_string()
            + &String::from_utf8_lossy(&output.stderr),
    )
}

/// The types that an NSEC or NSEC3 record names (RFC 4034 section 4.1.2, RFC 5155 section 3.2).
fn types_of(record: &Record) -> Vec<u16> {
    let data = &record.data;
    let mut at = 0;
    if record.rtype == 47 {
        while data[at] != 0 {
            at += 1 + usize::from(data[at]);
        }
        at += 1;
    } else {
        at = 5 + usize::from(data[4]);
        at += 1 + usize::from(data[at]);
    }
    let mut types = Vec::new();
    while at < data.len() {
        let (window, len) = (u16::from(data[at]), usize::from(data[at + 1]));
        let bits = data[at + 2..at + 2 + len].iter().zip(0u16..);
        for (octet, place) in bits {
            let set = (0..8u16).filter(|bit| octet & (0x80 >> bit) != 0);
            types.extend(set.map(|bit| window * 256 + place * 8 + bit));
        }
        at += 2 + len;
    }
    types
}

#[test]
fn a_signed_alias_at_the_apex_is_secure_also_right_after_its_target_changes() {
    for (mode, nsec3) in [("live", ""), ("resident", "1 0 0 -")] {
        let (resolver, last) = resolver();
        let server = server(Some(&resolver), mode, Some(nsec3));
        let check = |name: &str, rtype: &str, expected: &str| {
            let Some(said) = delv(&server, name, rtype) else {
                return;
            };
            assert!(
                said.contains("fully validated"),
                "{mode}: {name} {rtype}: {said}"
            );
            assert!(said.contains(expected), "{mode}: {name} {rtype}: {said}");
        };
        check("shop.test.", "A", "192.0.2.100");
        check("shop.test.", "AAAA", "negative response");
        check("shop.test.", "MX", "negative response");
        check("here.shop.test.", "A", "192.0.2.10");
        check("here.shop.test.", "AAAA", "negative response");
        check("a.wild.shop.test.", "A", "192.0.2.100");
        check("a.wild.shop.test.", "AAAA", "negative response");
        last.store(101, Ordering::Relaxed);
        wait_until("the new address is served", || {
            let answer = whole(server.address(), &question("shop.test.", "A"));
            assert!(
                answer.answer.iter().any(|record| record.rtype == RRSIG),
                "{mode}: not signed"
            );
            addresses(&answer) == (0, vec![101])
        });
        check("shop.test.", "A", "192.0.2.101");
        // A proof about another type denies no address: resolvers answer from it (RFC 8198).
        let proof = whole(server.address(), &question("shop.test.", "MX"));
        let bitmaps = proof
            .authority
            .iter()
            .filter(|record| matches!(record.rtype, 47 | 50));
        assert!(bitmaps.clone().count() > 0);
        for record in bitmaps {
            let types = types_of(record);
            assert!(
                types.contains(&A) && types.contains(&28),
                "{mode}: {types:?}"
            );
        }
    }
}
