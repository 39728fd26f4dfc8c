//! Answers one prepared question many times without sockets: `answer_loop SCENARIO COUNT`, for counting
//! instructions (`bench/instructions`) and for profiling.

use nameward_answer::{AnswerKind, Engine, Medium, Scratch};
use nameward_dnssec::{KeyUse, Keys, SignatureCache, Signing, SigningKey, SigningPolicy};
use nameward_wire::message::Query;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{NameKey, Zone, ZoneBuilder, ZoneTable};
use std::hint::black_box;
use std::sync::Arc;

const APEX: &str =
    "@ 3600 SOA ns1 host 1 7200 3600 1209600 300\n@ 3600 NS ns1\nns1 3600 A 192.0.2.1\n";

/// The key of RFC 6605 section 6.1.
const P256: &str = "Private-key-format: v1.2\nAlgorithm: 13 (ECDSAP256SHA256)\n\
                    PrivateKey: GU6SnQ/Ou+xC5RumuIUIuJZteXT2z0O/ok1s38Et6mQ=\n";

fn add_zone(table: &mut ZoneTable, apex: &str, text: &str) {
    table.insert(Arc::new(zone(apex, text)));
}

fn zone(apex: &str, text: &str) -> Zone {
    let origin: NameBuf = apex.parse().expect("a name");
    let mut builder = ZoneBuilder::new(origin.as_name());
    let report = parse_bytes(apex, text.as_bytes(), &Options::new(origin), &mut builder);
    assert!(!report.has_errors(), "{:?}", report.diagnostics);
    builder.finish().0.expect("a zone")
}

/// How a zone is signed, with one key and a chain.
fn signing(apex: &str) -> Arc<Signing> {
    let apex: NameBuf = apex.parse().expect("a name");
    let key = SigningKey::read(P256.as_bytes(), 257, KeyUse::EVERYTHING).expect("a key");
    let keys = Arc::new(Keys::new(vec![key]));
    let cache = Arc::new(SignatureCache::new(10_000));
    let policy = Arc::new(SigningPolicy::default());
    Arc::new(Signing::new(apex.as_name(), keys, policy, cache))
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
        // Asked with DO. The signatures are made for the first answer.
        "signed" | "signed-absent" => {
            let text = lines(&|i| format!("name{i} 3600 A 10.0.0.1\n"));
            let mut zone = zone("small.test.", &text);
            zone.set_resident_signing(Some(signing("small.test.")));
            table.insert(Arc::new(zone));
            if name == "signed" {
                (table, "name77.small.test.", AnswerKind::Answer)
            } else {
                (table, "absent77.small.test.", AnswerKind::NxDomain)
            }
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
        other => {
            panic!("expected small, flat, signed, signed-absent, tld or hosting, found {other}")
        }
    }
}

fn question(name: Name<'_>, is_dnssec_ok: bool) -> Vec<u8> {
    let mut packet = b"\x12\x34\x00\x00\x00\x01\0\0\0\0\x00\x01".to_vec();
    packet.extend_from_slice(name.as_wire());
    packet.extend_from_slice(b"\x00\x01\x00\x01\0\x00\x29\x04\xd0\0\0");
    packet.extend_from_slice(&[u8::from(is_dnssec_ok) << 7, 0, 0, 0]);
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
    let packet = question(qname.as_name(), name.starts_with("signed"));
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
