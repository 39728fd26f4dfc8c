//! Compact denial (RFC 9824): one NSEC for each negative answer, of the name that was asked for.

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Record, RecordType};
use hickory_proto::serialize::binary::BinEncodable;
use nameward_answer::{Engine, Medium, Scratch};
use nameward_dnssec::{
    DenialStyle, KeyUse, Keys, SignatureCache, Signing, SigningKey, SigningPolicy,
};
use nameward_wire::NameBuf;
use nameward_wire::message::Query;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_zone::{NameKey, ZoneBuilder, ZoneTable};
use std::sync::Arc;

const ZONE: &str = "$TTL 300\n@ SOA ns host 1 2 3 4 60\n@ NS ns\nns A 192.0.2.1\na.ent TXT x\n*.wild A 192.0.2.2\n\
    sub NS ns.other.\nalias CNAME no\n*.aliases CNAME ns\n";
const KEY: &str = "Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\n\
    PrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n";
const A: u16 = 1;
const MX: u16 = 15;
const NXNAME: u16 = 128;

/// The flags of the OPT record: DO, and CO beside it.
const DO: u8 = 0x80;
const CO: u8 = 0xc0;

fn table() -> ZoneTable {
    let apex: NameBuf = "example.".parse().unwrap();
    let mut builder = ZoneBuilder::new(apex.as_name());
    parse_bytes("zone", ZONE.as_bytes(), &Options::new(apex), &mut builder);
    let mut zone = builder.finish().0.unwrap();
    let usage = KeyUse::EVERYTHING;
    let keys = Keys::new(vec![SigningKey::read(KEY.as_bytes(), 257, usage).unwrap()]);
    let policy = SigningPolicy {
        style: DenialStyle::Compact,
        ..SigningPolicy::default()
    };
    let cache = Arc::new(SignatureCache::new(1000));
    let signing = Signing::new(apex.as_name(), keys.into(), policy.into(), cache);
    zone.set_resident_signing(Some(Arc::new(signing)));
    let mut table = ZoneTable::default();
    table.insert(Arc::new(zone));
    table
}

fn ask(name: &str, qtype: u16, flags: u8) -> Message {
    Message::from_vec(&reply_octets(name, qtype, flags)).unwrap()
}

fn reply_octets(name: &str, qtype: u16, flags: u8) -> Vec<u8> {
    let table = table();
    let name: NameBuf = name.parse().unwrap();
    let mut packet = b"\x12\x34\x01\x00\x00\x01\0\0\0\0\x00\x01".to_vec();
    packet.extend_from_slice(name.as_name().as_wire());
    packet.extend_from_slice(&qtype.to_be_bytes());
    packet.extend_from_slice(&[0, 1, 0, 0, 0x29, 0x10, 0, 0, 0, flags, 0, 0, 0]);
    let query = Query::parse(&packet).unwrap();
    let key = NameKey::new(query.qname);
    let zone = table.zone_for(&key, query.qtype).map(|zone| &**zone);
    let (mut scratch, mut out) = (Scratch::default(), vec![0; 65_535]);
    let asked = (&key, zone);
    let engine = Engine::default();
    let reply = engine.respond(
        &table,
        &query,
        asked,
        Medium::Stream,
        &mut scratch,
        &mut out,
    );
    out.truncate(reply.len());
    out
}

/// The NSEC records of a reply: owner, and whether NXNAME is among the types.
fn nsecs(reply: &Message) -> Vec<(String, bool)> {
    let records = reply.authorities.iter();
    let nsecs = records.filter(|record| record.record_type() == RecordType::NSEC);
    let listed = nsecs.map(|record| {
        let data = record.data.to_bytes().unwrap();
        // Window 0 with the 17 octets that the type 128 needs.
        let has_nxname = data.windows(2).any(|octets| octets == [0, 17]);
        (record.name.to_string(), has_nxname)
    });
    listed.collect()
}

fn labels_of_signatures(records: &[Record]) -> Vec<u8> {
    let signatures = records.iter();
    let signatures = signatures.filter(|record| record.record_type() == RecordType::RRSIG);
    signatures
        .map(|record| record.data.to_bytes().unwrap()[3])
        .collect()
}

#[test]
fn a_name_that_does_not_exist_has_one_nsec_with_nxname() {
    for name in ["no.example.", "x.y.no.example.", "no.ent.example."] {
        let reply = ask(name, A, DO);
        assert_eq!(reply.response_code, ResponseCode::NoError, "{name}");
        assert_eq!(nsecs(&reply), [(name.to_string(), true)]);
        // RFC 9824 section 5.1: who says that it understands gets the true code, and the same records.
        let known = ask(name, A, CO);
        assert_eq!(known.response_code, ResponseCode::NXDomain, "{name}");
        assert_eq!(nsecs(&known), nsecs(&reply));
        let unsigned = ask(name, A, 0);
        assert_eq!(unsigned.response_code, ResponseCode::NXDomain, "{name}");
        assert_eq!(nsecs(&unsigned), []);
    }
    let reply = ask("no.example.", 47, DO);
    let answers = reply.answers.iter().map(Record::record_type);
    assert_eq!(
        answers.collect::<Vec<_>>(),
        [RecordType::NSEC, RecordType::RRSIG]
    );
    assert_eq!(reply.authorities.len(), 0);
    let reply = ask("alias.example.", A, DO);
    assert_eq!(reply.response_code, ResponseCode::NoError);
    assert_eq!(nsecs(&reply), [("no.example.".to_string(), true)]);
}

#[test]
fn a_name_that_exists_without_the_type_has_one_nsec_without_nxname() {
    for name in [
        "ns.example.",
        "ent.example.",
        "x.wild.example.",
        "sub.example.",
    ] {
        let qtype = if name == "sub.example." { 43 } else { MX };
        for flags in [DO, CO] {
            let reply = ask(name, qtype, flags);
            assert_eq!(reply.response_code, ResponseCode::NoError, "{name}");
            assert_eq!(nsecs(&reply), [(name.to_string(), false)]);
        }
    }
}

#[test]
fn a_name_matched_by_a_wildcard_is_signed_like_an_existing_one() {
    let reply = ask("x.y.wild.example.", A, DO);
    assert_eq!(labels_of_signatures(&reply.answers), [4]);
    assert_eq!(nsecs(&reply), []);
    let reply = ask("x.aliases.example.", A, DO);
    assert_eq!(labels_of_signatures(&reply.answers), [3, 2]);
    assert_eq!(nsecs(&reply), []);
}

#[test]
fn a_question_for_nxname_is_a_format_error() {
    for name in ["no.example.", "ns.example.", "ent.example."] {
        for flags in [0, DO, CO] {
            let reply = reply_octets(name, NXNAME, flags);
            // RFC 9824 section 3.5 and RFC 8914: Invalid Query Type.
            let error = [0, 15, 0, 2, 0, 30];
            assert_eq!(reply[3] & 15, 1, "{name} is FORMERR");
            assert!(reply.ends_with(&error), "{name} {flags:#x}: {reply:?}");
        }
    }
}

/// RFC 9824 section 5.1: a server that knows the flag sets it in responses to queries that have it, and in no others.
#[test]
fn the_compact_answers_flag_is_echoed() {
    for name in ["no.example.", "ns.example.", "x.wild.example."] {
        for flags in [0, DO, CO] {
            let reply = reply_octets(name, A, flags);
            // The OPT record has no options, so its flags stand before its length.
            let at = reply.len() - 4;
            assert_eq!(reply[at], flags, "{name}: {reply:?}");
        }
    }
}
