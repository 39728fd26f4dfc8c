//! Zones that are known by their names only: SERVFAIL and "Not Ready" (RFC 8914 section 4.15), and what that means
//! for their parents, their children and the aliases that lead to them.

use nameward_answer::{AnswerKind, AnswerPolicy, Engine, Follow, Medium, Reply, Scratch};
use nameward_wire::message::Query;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_wire::{NameBuf, Rcode, Type};
use nameward_zone::{NameKey, Zone, ZoneBuilder, ZoneTable};
use std::sync::Arc;

const PARENT: &str = "$TTL 300
@ SOA ns host 1 2 3 4 60
@ NS ns
ns A 192.0.2.1
alias CNAME www.waiting.example.
moved DNAME waiting.example.
two CNAME alias
waiting NS ns.waiting
ns.waiting A 192.0.2.2
waiting DS 1 8 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
";

fn zone(apex: &str, text: &str) -> Zone {
    let origin: NameBuf = apex.parse().unwrap();
    let mut builder = ZoneBuilder::new(origin.as_name());
    let report = parse_bytes(apex, text.as_bytes(), &Options::new(origin), &mut builder);
    assert!(!report.has_errors(), "{:?}", report.diagnostics);
    builder.finish().0.unwrap()
}

fn table() -> ZoneTable {
    let mut table = ZoneTable::default();
    table.insert(Arc::new(zone("example.", PARENT)));
    let waiting: NameBuf = "waiting.example.".parse().unwrap();
    table.insert(Arc::new(Zone::not_ready(waiting.as_name())));
    table
}

fn ask(engine: &Engine, name: &str, qtype: Type, medium: Medium) -> (Reply, Vec<u8>) {
    let table = table();
    let name: NameBuf = name.parse().unwrap();
    let mut packet = b"\x12\x34\x01\x00\x00\x01\0\0\0\0\x00\x01".to_vec();
    packet.extend_from_slice(name.as_name().as_wire());
    packet.extend_from_slice(&qtype.0.to_be_bytes());
    packet.extend_from_slice(b"\0\x01\0\x00\x29\x04\xd0\0\0\0\0\0\0");
    let query = Query::parse(&packet).unwrap();
    let key = NameKey::new(query.qname);
    let zone = table.zone_for(&key, query.qtype).map(|zone| &**zone);
    let mut out = vec![0xee; 65_535];
    let mut scratch = Scratch::default();
    let asked = (&key, zone);
    let reply = engine.respond(&table, &query, asked, medium, &mut scratch, &mut out);
    out.truncate(reply.len());
    (reply, out)
}

#[test]
fn a_zone_that_is_not_ready_is_answered_servfail_with_the_reason() {
    for medium in [Medium::Datagram, Medium::Stream] {
        for name in ["waiting.example.", "a.b.waiting.example."] {
            let (reply, message) = ask(&Engine::default(), name, Type::A, medium);
            assert_eq!(
                (reply.rcode, reply.outcome, reply.zone_found),
                (Rcode::ServFail, AnswerKind::BackendFailure, Some(true))
            );
            // Not authoritative, no records but the OPT, whose one option is the extended error 14.
            assert_eq!(message[2] & 0x04, 0);
            assert_eq!(message[6..12], [0, 0, 0, 0, 0, 1]);
            assert_eq!(message[message.len() - 6..], [0, 15, 0, 2, 0, 14]);
        }
    }
}

#[test]
fn an_alias_into_it_is_answered_up_to_the_zone() {
    // The DNAME comes with the CNAME that is made of it.
    for (name, answers) in [
        ("alias.example.", 1),
        ("two.example.", 2),
        ("x.moved.example.", 2),
    ] {
        let (reply, message) = ask(&Engine::default(), name, Type::A, Medium::Datagram);
        assert_eq!(
            (reply.rcode, reply.outcome),
            (Rcode::NoError, AnswerKind::Answer)
        );
        assert_eq!(u16::from_be_bytes([message[6], message[7]]), answers);
        assert_eq!(message[2] & 0x04, 0x04, "authoritative for the alias");
    }
    let policy = AnswerPolicy {
        follow: Follow::SameZone,
        ..AnswerPolicy::default()
    };
    let engine = Engine {
        policy,
        ..Engine::default()
    };
    let (reply, _) = ask(&engine, "alias.example.", Type::A, Medium::Datagram);
    assert_eq!(reply.outcome, AnswerKind::Answer);
}

#[test]
fn its_parent_still_answers_for_ds() {
    let (reply, message) = ask(
        &Engine::default(),
        "waiting.example.",
        Type::DS,
        Medium::Datagram,
    );
    assert_eq!(reply.outcome, AnswerKind::Answer);
    assert_eq!(u16::from_be_bytes([message[6], message[7]]), 1);
}
