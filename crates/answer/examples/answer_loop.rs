//! Answers one prepared question many times without sockets: `answer_loop SCENARIO COUNT`, for counting
//! instructions (`bench/instructions`) and for profiling.

use nameward_answer::{AnswerKind, Engine, Medium, Scratch};
use nameward_wire::message::Query;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{NameKey, ZoneBuilder, ZoneTable};
use std::hint::black_box;
use std::sync::Arc;

const APEX: &str =
    "@ 3600 SOA ns1 host 1 7200 3600 1209600 300\n@ 3600 NS ns1\nns1 3600 A 192.0.2.1\n";

fn add_zone(table: &mut ZoneTable, apex: &str, text: &str) {
    let origin: NameBuf = apex.parse().expect("a name");
    let mut builder = ZoneBuilder::new(origin.as_name());
    let report = parse_bytes(apex, text.as_bytes(), &Options::new(origin), &mut builder);
    assert!(!report.has_errors(), "{:?}", report.diagnostics);
    table.insert(Arc::new(builder.finish().0.expect("a zone")));
}

/// The zones of a scenario in small, one of its questions and what the answer should be.
fn scenario(name: &str) -> (ZoneTable, &'static str, AnswerKind) {
    let mut table = ZoneTable::default();
    let lines = |line: &dyn Fn(usize) -> String| {
        (0..1000)
            .map(line)
            .fold(APEX.to_string(), |all, one| all + &one)
    };
    match name {
        "small" | "flat" => {
            add_zone(
                &mut table,
                "small.test.",
                &lines(&|i| format!("name{i} 3600 A 10.0.0.1\n")),
            );
            (table, "name77.small.test.", AnswerKind::Answer)
        }
        "tld" => {
            let delegation = |i| {
                format!(
                    "d{i} 3600 NS ns1.d{i}\nd{i} 3600 NS ns.h{i}.example.\nns1.d{i} 3600 A 10.0.0.1\n"
                )
            };
            add_zone(&mut table, "tld.", &lines(&delegation));
            (table, "www.d77.tld.", AnswerKind::Referral)
        }
        "hosting" => {
            for i in 0..1000 {
                add_zone(
                    &mut table,
                    &format!("zone{i}.example."),
                    &format!("{APEX}www 3600 A 10.0.0.1\n"),
                );
            }
            (table, "www.zone77.example.", AnswerKind::Answer)
        }
        other => panic!("expected small, flat, tld or hosting, found {other}"),
    }
}

fn question(name: Name<'_>) -> Vec<u8> {
    let mut packet = b"\x12\x34\x00\x00\x00\x01\0\0\0\0\x00\x01".to_vec();
    packet.extend_from_slice(name.as_wire());
    packet.extend_from_slice(b"\x00\x01\x00\x01\0\x00\x29\x04\xd0\0\0\0\0\0\0");
    packet
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, name, count] = &arguments[..] else {
        panic!("expected SCENARIO COUNT")
    };
    let count: usize = count.parse().expect("a number");
    let (table, qname, expected) = scenario(name);
    let qname: NameBuf = qname.parse().expect("a name");
    let packet = question(qname.as_name());
    let engine = Engine::default();
    let (mut scratch, mut key, mut out) = (Scratch::default(), NameKey::default(), [0; 4096]);
    for _ in 0..count {
        let query = Query::parse(black_box(&packet)).expect("a question");
        key.set(query.qname);
        let zone = table.zone_for(&key, query.qtype).map(|zone| &**zone);
        let reply = engine.respond(
            &table,
            &query,
            (&key, zone),
            Medium::Datagram,
            &mut scratch,
            &mut out,
        );
        assert_eq!(black_box(reply).outcome, expected);
    }
}
