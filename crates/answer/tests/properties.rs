//! Properties of every answer, whatever the zone and the question: readable by another implementation,
//! within its size, whole or marked as cut, the same over UDP and TCP.

use hickory_proto::op::Message;
use hickory_proto::rr::Record;
use hickory_proto::rr::RecordType;
use hickory_proto::serialize::binary::BinEncodable;
use nameward_answer::{AnswerKind, AnswerPolicy, AnyPolicy, Engine, Medium, Reply, Scratch};
use nameward_dnssec::{
    KeyUse, Keys, SignatureCache, Signing, SigningKey, SigningPolicy as Metadata,
};
use nameward_testkit::property_cases;
use nameward_wire::message::Query;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_wire::{Name, NameBuf, Rcode};
use nameward_zone::{NameKey, ZoneBuilder, ZoneTable};
use proptest::prelude::*;
use std::sync::Arc;

const APEX: &str = "$TTL 300\n@ SOA ns.a host 1 2 3 4 60\n@ NS ns.a\n";

fn label() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(
        &[
            "a",
            "B",
            "*",
            "long-label-to-fill-the-message",
            r"\000\.x",
            "c",
        ][..],
    )
}

fn name() -> impl Strategy<Value = String> {
    proptest::collection::vec(label(), 0..5).prop_map(|labels| {
        if labels.is_empty() {
            "@".to_string()
        } else {
            labels.join(".")
        }
    })
}

/// One line of a zone file, relative to the apex.
fn line() -> impl Strategy<Value = String> {
    let data = prop_oneof![
        5 => (0..=255u8).prop_map(|n| format!("A 192.0.2.{n}")),
        2 => (0..=255u8).prop_map(|n| format!("AAAA 2001:db8::{n}")),
        2 => name().prop_map(|target| format!("NS {target}")),
        2 => name().prop_map(|target| format!("CNAME {target}")),
        1 => name().prop_map(|target| format!("DNAME {target}")),
        2 => (0..50u8, name()).prop_map(|(n, target)| format!("MX {n} {target}")),
        1 => (0..50u8, name()).prop_map(|(n, target)| format!("SRV {n} 1 1 {target}")),
        1 => (1..50u8, name()).prop_map(|(n, target)| format!("HTTPS {n} {target}")),
        1 => (1..50u8).prop_map(|n| format!("HTTPS {n} .")),
        2 => (1..250usize).prop_map(|n| format!("TXT {}", "x".repeat(n))),
        1 => (1..30usize).prop_map(|n| format!(r"TYPE65280 \# {n} {}", "ab".repeat(n))),
    ];
    (name(), data).prop_map(|(owner, data)| format!("{owner} {data}\n"))
}

/// Adds the lines one by one, leaving out those that would make the zone invalid.
fn table(lines: &[String], signed: Option<SignedBy>) -> ZoneTable {
    let mut table = ZoneTable::default();
    for apex in ["example.", "a.example.", "test."] {
        let mut text = APEX.to_string();
        let mut zone = build(apex, &text).expect("the bare zone is valid");
        for line in lines {
            let longer = format!("{text}{line}");
            if let Some(larger) = build(apex, &longer) {
                (text, zone) = (longer, larger);
            }
        }
        if let Some(denial) = signed {
            let signing = signing(zone.apex_name(), denial);
            zone.set_signing(Some(signing));
        }
        table.insert(Arc::new(zone));
    }
    table
}

/// How a signed zone denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SignedBy {
    Nsec,
    Nsec3,
}

fn build(apex: &str, text: &str) -> Option<nameward_zone::Zone> {
    let origin: NameBuf = apex.parse().ok()?;
    let mut builder = ZoneBuilder::new(origin.as_name());
    let report = parse_bytes(apex, text.as_bytes(), &Options::new(origin), &mut builder);
    if report.has_errors() {
        None
    } else {
        builder.finish().0
    }
}

fn question(name: &str, qtype: u16, payload: Option<u16>) -> Vec<u8> {
    let name: NameBuf = name.parse().expect("a name");
    let mut packet = b"\x12\x34\x01\x00\x00\x01\0\0\0\0\x00\x00".to_vec();
    packet.extend_from_slice(name.as_name().as_wire());
    packet.extend_from_slice(&qtype.to_be_bytes());
    packet.extend_from_slice(&[0, 1]);
    if let Some(payload) = payload {
        packet[11] = 1;
        packet.extend_from_slice(b"\0\x00\x29");
        packet.extend_from_slice(&payload.to_be_bytes());
        packet.extend_from_slice(&[0; 6]);
    }
    packet
}

fn respond(
    engine: &Engine,
    table: &ZoneTable,
    packet: &[u8],
    medium: Medium,
) -> (Reply, Vec<u8>, Message) {
    let query = Query::parse(packet).expect("a proper question");
    let key = NameKey::new(query.qname);
    let zone = table.zone_for(&key, query.qtype).map(|zone| &**zone);
    let mut out = vec![0xee; 65_535];
    let reply = engine.respond(
        table,
        &query,
        (&key, zone),
        medium,
        &mut Scratch::default(),
        &mut out,
    );
    out.truncate(reply.len());
    let message = Message::from_vec(&out).unwrap_or_else(|error| panic!("{error}: {out:02x?}"));
    (reply, out, message)
}

fn sorted(records: &[Record]) -> Vec<String> {
    let mut texts: Vec<String> = records
        .iter()
        .map(|record| record.to_string().to_lowercase())
        .collect();
    texts.sort();
    texts
}

proptest! {
    #![proptest_config(property_cases(150))]

    #[test]
    fn every_answer_is_readable_fits_and_is_whole_or_cut(
        lines in proptest::collection::vec(line(), 0..40),
        questions in proptest::collection::vec((name(), proptest::sample::select(&[1u16, 2, 5, 6, 15, 16, 28, 33, 39, 43, 65, 255, 65280][..]), proptest::option::of(0..4000u16)), 20),
        any in proptest::sample::select(&[AnyPolicy::OneRrset, AnyPolicy::All, AnyPolicy::TruncateOnUdp][..]),
    ) {
        let table = table(&lines, None);
        let engine = Engine { policy: AnswerPolicy { any, ..AnswerPolicy::default() }, ..Engine::default() };
        for (name, qtype, payload) in questions {
            let name = if name == "@" { "example.".to_string() } else { format!("{name}.example.") };
            let packet = question(&name, qtype, payload);
            let (tcp, _, whole) = respond(&engine, &table, &packet, Medium::Stream);
            let (udp, bytes, cut) = respond(&engine, &table, &packet, Medium::Datagram);
            let limit = payload.map_or(512, |payload| payload.clamp(512, 1232)) as usize;
            prop_assert!(bytes.len() <= limit, "{} > {limit}", bytes.len());
            prop_assert!(!tcp.truncated);
            prop_assert_eq!(udp.rcode, tcp.rcode);
            prop_assert_eq!(udp.outcome, tcp.outcome);
            prop_assert_eq!(cut.metadata.truncation, udp.truncated);
            prop_assert!(tcp.rcode != Rcode::ServFail && tcp.rcode != Rcode::Refused);
            if !udp.truncated {
                prop_assert_eq!(sorted(&cut.answers), sorted(&whole.answers));
                prop_assert_eq!(sorted(&cut.authorities), sorted(&whole.authorities));
            }
            // Truncation is by whole RRsets: what is there is a part of what TCP gives, RRset by RRset.
            for record in &cut.answers {
                let of_set = |other: &&Record| other.name == record.name && other.record_type() == record.record_type();
                prop_assert_eq!(cut.answers.iter().filter(of_set).count(), whole.answers.iter().filter(of_set).count());
            }
        }
    }
}

const KEY: &str = "Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\n\
                   PrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n";

fn signing(apex: Name<'_>, denial: SignedBy) -> Arc<Signing> {
    let usage = KeyUse::EVERYTHING;
    let key = SigningKey::read(KEY.as_bytes(), 257, usage).expect("a key");
    let mut metadata = Metadata::default();
    if denial == SignedBy::Nsec3 {
        metadata.take("NSEC3PARAM", "1 0 0 -").expect("metadata");
    }
    let keys = Arc::new(Keys::new(vec![key]));
    let cache = Arc::new(SignatureCache::new(1000));
    Arc::new(Signing::new(apex, keys, metadata.into(), cache))
}

/// How many signatures cover the RRset of a record.
fn signatures(records: &[Record], of: &Record) -> usize {
    let covering = records.iter().filter(|record| {
        let data = record.data.to_bytes().unwrap_or_default();
        record.record_type() == RecordType::RRSIG
            && record.name == of.name
            && data.starts_with(&u16::from(of.record_type()).to_be_bytes())
    });
    covering.count()
}

proptest! {
    #![proptest_config(property_cases(40))]

    #[test]
    fn signed_rrsets_come_with_their_signatures_or_not_at_all(
        lines in proptest::collection::vec(line(), 0..40),
        questions in proptest::collection::vec((name(), proptest::sample::select(&[1u16, 2, 5, 6, 15, 16, 33, 39, 43, 47, 65, 255][..]), 512..4000u16), 20),
        denial in proptest::sample::select(&[SignedBy::Nsec, SignedBy::Nsec3][..]),
    ) {
        let table = table(&lines, Some(denial));
        let plain = self::table(&lines, None);
        let engine = Engine::default();
        for (name, qtype, payload) in questions {
            let name = if name == "@" { "example.".to_string() } else { format!("{name}.example.") };
            let mut packet = question(&name, qtype, Some(payload));
            let (unsigned, octets, _) = respond(&engine, &table, &packet, Medium::Stream);
            let (as_ever, before, _) = respond(&engine, &plain, &packet, Medium::Stream);
            if qtype != 47 {
                // Without DO nothing changes.
                prop_assert_eq!(unsigned, as_ever);
                prop_assert_eq!(octets, before);
            }
            let flags = packet.len() - 4;
            packet[flags] = 0x80;
            let (tcp, _, whole) = respond(&engine, &table, &packet, Medium::Stream);
            let (udp, bytes, cut) = respond(&engine, &table, &packet, Medium::Datagram);
            prop_assert!(bytes.len() <= usize::from(payload.min(1232)));
            prop_assert_eq!((udp.rcode, udp.outcome), (tcp.rcode, tcp.outcome));
            // An alias has an NSEC record of its own.
            prop_assert!(tcp.rcode == as_ever.rcode || qtype == 47);
            let has_alias = whole.answers.iter().any(|record| record.record_type() == RecordType::CNAME);
            let has_dname = whole.answers.iter().any(|record| record.record_type() == RecordType::DNAME);
            for (whole, cut) in [(&whole.answers, &cut.answers), (&whole.authorities, &cut.authorities)] {
                for record in whole {
                    let rtype = record.record_type();
                    let is_free = rtype == RecordType::RRSIG
                        // Those of a delegation, also one that an alias leads to, and those that follow from a DNAME.
                        || rtype == RecordType::NS && (qtype != 2 || has_alias || tcp.outcome == AnswerKind::Referral)
                        || rtype == RecordType::CNAME && has_dname;
                    prop_assert!(is_free || signatures(whole, record) == 1, "{name} {qtype}: {record}");
                }
                for record in cut {
                    prop_assert_eq!(signatures(cut, record), signatures(whole, record));
                }
                if !udp.truncated {
                    prop_assert_eq!(sorted(cut), sorted(whole));
                }
            }
        }
    }
}
