//! The reader of transfers: what a primary may send, and every way in which a hostile one departs from it.

use crate::common::{Random, name, soa};
use nameward_dnssec::tsig::{TsigAlgorithm, TsigKey, TsigKeys, sign_request, verify_request};
use nameward_peers::transfer_in::fuzzing;
use nameward_peers::transfer_in::{
    SentRequest, SoaReply, TransferAnswer, TransferFailure, TransferReader, TransferStep,
    read_soa_reply,
};
use nameward_testkit::property_cases;
use nameward_wire::{Class, NameBuf, Type};
use nameward_zone::Serial;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const ID: u16 = 0x1234;
const NOW: u64 = 1_700_000_000;
const MIB: u64 = 1 << 20;

/// One record as a primary sends it.
#[derive(Clone, Debug)]
struct Sent {
    owner: NameBuf,
    rtype: Type,
    class: Class,
    rdata: Vec<u8>,
}

fn sent(owner: &str, rtype: Type, rdata: &[u8]) -> Sent {
    Sent {
        owner: name(owner),
        rtype,
        class: Class::IN,
        rdata: rdata.to_vec(),
    }
}

fn soa_record(serial: u32) -> Sent {
    sent("example.", Type::SOA, &soa(serial))
}

fn address(owner: &str, octet: u8) -> Sent {
    sent(owner, Type::A, &[192, 0, 2, octet])
}

/// A message with these answers. Owners that end like the question are compressed with it.
fn message(qtype: Option<Type>, records: &[Sent]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&ID.to_be_bytes());
    out.extend_from_slice(&[0x84, 0, 0, u8::from(qtype.is_some())]);
    out.extend_from_slice(&(records.len() as u16).to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    if let Some(qtype) = qtype {
        out.extend_from_slice(b"\x07example\0");
        out.extend_from_slice(&qtype.0.to_be_bytes());
        out.extend_from_slice(&[0, 1]);
    }
    for record in records {
        let wire = record.owner.as_name().as_wire();
        let is_below = record
            .owner
            .as_name()
            .is_at_or_below(name("example.").as_name());
        match wire.strip_suffix(b"\x07example\0") {
            Some(labels) if qtype.is_some() && is_below => {
                out.extend_from_slice(labels);
                out.extend_from_slice(b"\xc0\x0c");
            }
            _ => out.extend_from_slice(wire),
        }
        out.extend_from_slice(&record.rtype.0.to_be_bytes());
        out.extend_from_slice(&record.class.0.to_be_bytes());
        out.extend_from_slice(&300u32.to_be_bytes());
        out.extend_from_slice(&(record.rdata.len() as u16).to_be_bytes());
        out.extend_from_slice(&record.rdata);
    }
    out
}

fn asked(qtype: Type) -> SentRequest {
    SentRequest::query(ID, name("example."), qtype)
}

fn axfr() -> TransferReader {
    TransferReader::new(asked(Type::AXFR), None, None, MIB)
}

fn ixfr(have: u32) -> TransferReader {
    TransferReader::new(asked(Type::IXFR), Some(Serial(have)), None, MIB)
}

/// Hands messages over; the end, or the failure.
fn read(
    mut reader: TransferReader,
    messages: &[Vec<u8>],
) -> Result<Option<TransferAnswer>, TransferFailure> {
    for message in messages {
        if let TransferStep::Done(answer) = reader.take(message, NOW)? {
            return Ok(Some(answer));
        }
    }
    Ok(None)
}

fn failure(reader: TransferReader, messages: &[Vec<u8>]) -> TransferFailure {
    match read(reader, messages) {
        Err(failure) => failure,
        Ok(answer) => panic!("no failure; ended: {}", answer.is_some()),
    }
}

/// One AXFR in one message.
fn axfr_of(records: &[Sent]) -> Vec<Vec<u8>> {
    vec![message(Some(Type::AXFR), records)]
}

fn ixfr_of(records: &[Sent]) -> Vec<Vec<u8>> {
    vec![message(Some(Type::IXFR), records)]
}

#[test]
fn a_whole_zone_comes_in_any_number_of_messages() {
    let records = [
        soa_record(7),
        sent("example.", Type::NS, b"\x02ns\xc0\x0c"),
        address("ns.example.", 1),
        address("www.example.", 2),
        soa_record(7),
    ];
    let together = axfr_of(&records);
    let apart: Vec<_> = records
        .iter()
        .map(|record| message(Some(Type::AXFR), std::slice::from_ref(record)))
        .collect();
    for messages in [together, apart] {
        let Some(TransferAnswer::Whole(whole)) = read(axfr(), &messages).unwrap() else {
            panic!("no whole zone");
        };
        assert_eq!(whole.zone.serial(), Serial(7));
        let ns = whole.zone.apex().rrset(Type::NS).unwrap();
        assert_eq!(
            ns.records().next().unwrap().rdata,
            b"\x02ns\x07example\0",
            "names in data are expanded"
        );
        let owner = name("www.example.");
        assert!(whole.zone.node_of(owner.as_name()).is_some());
        let kept: usize = whole.contents.iter().map(|part| part.len()).sum();
        assert_eq!(kept, 4, "the SOA is kept once");
    }
}

#[test]
fn differences_lead_from_serial_to_serial() {
    let messages = ixfr_of(&[
        soa_record(9),
        soa_record(7),
        address("a.example.", 1),
        soa_record(8),
        address("a.example.", 2),
        address("b.example.", 2),
        soa_record(8),
        soa_record(9),
        address("c.example.", 3),
        soa_record(9),
    ]);
    let Some(TransferAnswer::Differences(list)) = read(ixfr(7), &messages).unwrap() else {
        panic!("no differences");
    };
    let serials: Vec<_> = list.iter().map(|d| d.serials().unwrap()).collect();
    assert_eq!(serials, [(Serial(7), Serial(8)), (Serial(8), Serial(9))]);
    assert_eq!((list[0].removed.len(), list[0].added.len()), (2, 3));
    assert_eq!((list[1].removed.len(), list[1].added.len()), (1, 2));
}

#[test]
fn a_primary_may_answer_an_ixfr_with_the_whole_zone_or_with_its_soa() {
    let whole = [soa_record(9), address("a.example.", 1), soa_record(9)];
    let answer = read(ixfr(7), &ixfr_of(&whole)).unwrap();
    assert!(matches!(answer, Some(TransferAnswer::Whole(_))));
    // A zone of nothing but a SOA.
    let bare = [soa_record(9), soa_record(9)];
    let answer = read(ixfr(7), &ixfr_of(&bare)).unwrap();
    assert!(matches!(answer, Some(TransferAnswer::Whole(_))));
    for (serial, have) in [(7, 7), (6, 7), (u32::MAX, 3)] {
        let answer = read(ixfr(have), &ixfr_of(&[soa_record(serial)])).unwrap();
        let is_it = matches!(answer, Some(TransferAnswer::NotNewer(Serial(s))) if s == serial);
        assert!(is_it, "{serial} {have}");
    }
    // Newer, and nothing else yet: more has to come.
    assert!(read(ixfr(7), &ixfr_of(&[soa_record(8)])).unwrap().is_none());
}

#[test]
fn unexpected_headers_are_refused() {
    let good = axfr_of(&[soa_record(7), soa_record(7)]).remove(0);
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bad = good.clone();
        change(&mut bad);
        failure(axfr(), &[bad])
    };
    assert_eq!(with(&|m| m[1] ^= 1), TransferFailure::WrongId);
    assert_eq!(with(&|m| m[2] &= 0x7f), TransferFailure::NotReply);
    assert_eq!(with(&|m| m[2] |= 4 << 3), TransferFailure::NotReply);
    assert_eq!(with(&|m| m[3] |= 5), TransferFailure::Code(5));
    assert_eq!(with(&|m| m[2] |= 2), TransferFailure::Truncated);
    assert_eq!(with(&|m| m[13] = b'f'), TransferFailure::WrongQuestion);
    assert_eq!(with(&|m| m[22] = 251), TransferFailure::WrongQuestion);
    assert_eq!(with(&|m| m[24] = 3), TransferFailure::WrongQuestion);
    assert_eq!(with(&|m| m[5] = 2), TransferFailure::WrongQuestion);
    // Letter case and a missing AA are no reasons: some primaries leave AA clear.
    let mut lenient = good.clone();
    lenient[13] = b'E';
    lenient[2] &= !4;
    assert!(read(axfr(), &[lenient]).unwrap().is_some());
}

#[test]
fn records_that_do_not_belong_in_the_zone_refuse_the_transfer() {
    let with = |record: Sent| failure(axfr(), &axfr_of(&[soa_record(7), record, soa_record(7)]));
    let out = |owner: &str| TransferFailure::OutOfZone(owner.into());
    assert_eq!(with(address("www.other.", 1)), out("www.other."));
    assert_eq!(with(address(".", 1)), out("."));
    // Ends in the same octets, but not in the same labels.
    assert_eq!(with(address("x\\007example.", 1)), out("x\\007example."));
    let mut chaos = address("www.example.", 1);
    chaos.class = Class::CH;
    assert_eq!(with(chaos), TransferFailure::WrongClass(Class::CH));
    for rtype in [Type::OPT, Type::TSIG, Type(255), Type(252), Type(0)] {
        let failed = with(sent("example.", rtype, &[]));
        assert_eq!(failed, TransferFailure::MetaType(rtype));
    }
    let short = with(sent("www.example.", Type::A, &[192, 0, 2]));
    assert!(matches!(short, TransferFailure::Rdata(Type::A, _)));
    let stray = with(sent("www.example.", Type::SOA, &soa(7)));
    assert_eq!(stray, TransferFailure::StraySoa("www.example.".into()));
}

#[test]
fn soas_in_the_wrong_places_refuse_the_transfer() {
    let first = failure(axfr(), &axfr_of(&[address("a.example.", 1), soa_record(7)]));
    assert_eq!(first, TransferFailure::FirstNotSoa(Type::A));
    let changed = [soa_record(7), address("a.example.", 1), soa_record(8)];
    let changed = failure(axfr(), &axfr_of(&changed));
    let (first, last) = (Serial(7), Serial(8));
    assert_eq!(changed, TransferFailure::LastSoaDiffers { first, last });
    // Serials that differ by the case of a letter.
    let letters = [soa_record(0x41), address("a.example.", 1), soa_record(0x61)];
    assert!(read(axfr(), &axfr_of(&letters)).is_err());
    let behind = [soa_record(7), soa_record(7), address("a.example.", 1)];
    assert_eq!(
        failure(axfr(), &axfr_of(&behind)),
        TransferFailure::BehindEnd
    );
    let short_soa = [sent("example.", Type::SOA, b"\0\0\0\0")];
    assert!(read(axfr(), &axfr_of(&short_soa)).is_err());
}

#[test]
fn differences_that_do_not_follow_each_other_refuse_the_transfer() {
    let with = |serials: &[u32]| {
        let records: Vec<_> = serials.iter().map(|serial| soa_record(*serial)).collect();
        failure(ixfr(7), &ixfr_of(&records))
    };
    let broken = |expected: u32, found: u32| TransferFailure::BrokenChain {
        expected: Serial(expected),
        found: Serial(found),
    };
    assert_eq!(with(&[9, 6, 9, 9]), broken(7, 6));
    assert_eq!(with(&[9, 7, 8, 7, 9, 9]), broken(8, 7));
    let (from, to) = (Serial(7), Serial(6));
    assert_eq!(with(&[9, 7, 6, 6]), TransferFailure::Backward { from, to });
    let (from, to) = (Serial(7), Serial(7));
    assert_eq!(with(&[9, 7, 7, 7]), TransferFailure::Backward { from, to });
    let (first, last) = (Serial(9), Serial(10));
    assert_eq!(
        with(&[9, 7, 9, 10]),
        TransferFailure::LastSoaDiffers { first, last }
    );
}

#[test]
fn a_zone_that_breaks_the_rules_of_zones_is_refused() {
    let records = [
        soa_record(7),
        sent("www.example.", Type::CNAME, b"\x01a\0"),
        address("www.example.", 1),
        soa_record(7),
    ];
    let failed = failure(axfr(), &axfr_of(&records));
    assert!(matches!(failed, TransferFailure::Invalid(_)), "{failed}");
}

#[test]
fn no_transfer_grows_or_lasts_without_end() {
    let big = sent("a.example.", Type(65_280), &[0; 60_000]);
    let reader = TransferReader::new(asked(Type::AXFR), None, None, MIB);
    let mut messages = vec![message(Some(Type::AXFR), &[soa_record(7)])];
    messages.extend((0..20).map(|_| message(Some(Type::AXFR), std::slice::from_ref(&big))));
    assert_eq!(failure(reader, &messages), TransferFailure::TooLarge(MIB));
    // A pointer of two octets expands to a name of 255: it is the expanded size that counts.
    let label = [&[63u8][..], &[b'a'; 63]].concat();
    let long = [&label[..], &label, &label, b"\x07example\0"].concat();
    let mut bomb = message(Some(Type::AXFR), &[soa_record(7)]);
    let count = 4000u16;
    bomb[6..8].copy_from_slice(&(count + 2).to_be_bytes());
    let at = bomb.len() as u16 | 0xc000;
    let fixed = [&[0xff, 0, 0, 1, 0, 0, 0, 0, 0, 0][..]].concat();
    bomb.extend_from_slice(&long);
    bomb.extend_from_slice(&fixed);
    for _ in 0..count {
        bomb.extend_from_slice(&at.to_be_bytes());
        bomb.extend_from_slice(&fixed);
    }
    let reader = TransferReader::new(asked(Type::AXFR), None, None, MIB / 4);
    assert_eq!(failure(reader, &[bomb]), TransferFailure::TooLarge(MIB / 4));
    let empty = vec![message(Some(Type::AXFR), &[]); 100];
    assert_eq!(failure(axfr(), &empty), TransferFailure::EmptyMessages);
}

#[test]
fn a_message_cut_anywhere_is_refused() {
    let whole = axfr_of(&[soa_record(7), address("a.example.", 1), soa_record(7)]).remove(0);
    for len in 0..whole.len() {
        let result = read(axfr(), &[whole[..len].to_vec()]);
        assert!(result.is_err(), "{len}");
    }
    let longer = [&whole[..], b"x"].concat();
    assert!(read(axfr(), &[longer]).is_err());
}

fn signing_keys() -> (Arc<TsigKey>, TsigKeys) {
    let key = || {
        TsigKey::new(
            name("key.example.").as_name(),
            TsigAlgorithm::HmacSha256,
            b"secret of both",
        )
    };
    let mut keys = TsigKeys::default();
    keys.insert(key());
    (Arc::new(key()), keys)
}

/// A signed question, its reader, and the messages of the reply, each signed.
fn signed_transfer(parts: &[&[Sent]]) -> (TransferReader, Vec<Vec<u8>>) {
    let (key, keys) = signing_keys();
    let asked = asked(Type::AXFR);
    let mut request = asked.message(None);
    let verifier = sign_request(&key, &mut request, NOW);
    let mut signer = match verify_request(&request, &keys, NOW) {
        Ok(Some(signed)) => signed.signer,
        _ => panic!("our own request is not verified"),
    };
    let messages = parts.iter().map(|records| {
        let mut reply = message(Some(Type::AXFR), records);
        signer.sign(&mut reply, NOW);
        reply
    });
    let messages = messages.collect();
    (
        TransferReader::new(asked, None, Some(verifier), MIB),
        messages,
    )
}

#[test]
fn every_message_of_a_signed_transfer_is_verified() {
    let parts: [&[Sent]; 3] = [
        &[soa_record(7)],
        &[address("a.example.", 1)],
        &[soa_record(7)],
    ];
    let (reader, messages) = signed_transfer(&parts);
    assert!(read(reader, &messages).unwrap().is_some());
    for bad in 0..3 {
        let (reader, mut messages) = signed_transfer(&parts);
        let last = messages[bad].len() - 10;
        messages[bad][last] ^= 1;
        let failed = failure(reader, &messages);
        assert!(
            matches!(failed, TransferFailure::Tsig(_)),
            "{bad}: {failed}"
        );
    }
    // The first, the last, or all left unsigned.
    for unsigned in [vec![0], vec![2], vec![0, 1, 2]] {
        let (reader, mut messages) = signed_transfer(&parts);
        for at in unsigned {
            messages[at] = message(Some(Type::AXFR), parts[at]);
        }
        let failed = failure(reader, &messages);
        assert!(matches!(failed, TransferFailure::Tsig(_)), "{failed}");
    }
    // Messages in another order.
    let (reader, mut messages) = signed_transfer(&parts);
    messages.swap(0, 1);
    assert!(read(reader, &messages).is_err());
}

#[test]
fn the_soa_of_a_primary_is_accepted_only_in_an_authoritative_answer() {
    let asked = asked(Type::SOA);
    let reply = message(Some(Type::SOA), &[soa_record(7)]);
    assert_eq!(
        read_soa_reply(&asked, &reply),
        Ok(SoaReply::Serial(Serial(7), None))
    );
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut other = reply.clone();
        change(&mut other);
        read_soa_reply(&asked, &other)
    };
    assert_eq!(
        with(&|m| m[2] &= !4),
        Err(TransferFailure::NotAuthoritative)
    );
    assert_eq!(with(&|m| m[2] |= 2), Ok(SoaReply::Truncated));
    assert_eq!(with(&|m| m[3] |= 9), Err(TransferFailure::Code(9)));
    assert!(with(&|m| m[0] ^= 1).unwrap_err().is_forgeable());
    let other = message(Some(Type::SOA), &[address("www.example.", 1)]);
    assert_eq!(read_soa_reply(&asked, &other), Err(TransferFailure::NoSoa));
}

#[test]
fn questions_are_what_the_reader_expects_back() {
    for (qtype, have) in [
        (Type::SOA, None),
        (Type::AXFR, None),
        (Type::IXFR, Some(Serial(9))),
    ] {
        let message = asked(qtype).message(have);
        let parsed = nameward_wire::message::Message::parse(&message).unwrap();
        let question = parsed.questions().next().unwrap().unwrap();
        assert_eq!((question.qtype, question.name), (qtype, name("example.")));
        let records: Vec<_> = parsed.records().map(Result::unwrap).collect();
        assert_eq!(records.len(), usize::from(have.is_some()));
        for record in records {
            let mut rdata = Vec::new();
            record.expand_data(&mut rdata).unwrap();
            assert_eq!(nameward_zone::change::soa_serial(&rdata), have);
        }
    }
}

proptest! {
    #![proptest_config(property_cases(200))]

    /// Whatever the records and wherever messages end, the zone has just these records.
    #[test]
    fn the_zone_has_the_records_that_were_sent(
        hosts in proptest::collection::vec((0..20u8, 0..9u8), 0..60),
        cuts in proptest::collection::vec(1..12usize, 1..8),
        is_compressed in any::<bool>(),
    ) {
        let mut records = vec![soa_record(5)];
        records.extend(hosts.iter().map(|(host, octet)| address(&format!("h{host}.d{}.example.", octet % 3), *octet)));
        records.push(soa_record(5));
        let mut rest = &records[..];
        let mut messages = Vec::new();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            let has_question = messages.is_empty() || is_compressed;
            messages.push(message(has_question.then_some(Type::AXFR), now));
            rest = later;
        }
        let Some(TransferAnswer::Whole(whole)) = read(axfr(), &messages).unwrap() else {
            panic!("no whole zone");
        };
        let listed = |node: nameward_zone::Node<'_>| {
            let owner = node.name().to_string();
            let records = node.rrset(Type::A).into_iter().flat_map(|rrset| rrset.records());
            records.map(|record| (owner.clone(), record.rdata.to_vec())).collect::<Vec<_>>()
        };
        let found: BTreeSet<_> = whole.zone.nodes_in_order().flat_map(listed).collect();
        let expected: BTreeSet<_> = records[1..records.len() - 1]
            .iter()
            .map(|record| (record.owner.to_string(), record.rdata.clone()))
            .collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn arbitrary_octets_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzzing::transfer(&bytes);
    }
}

/// A short run of the fuzz target: mutated seeds, always the same ones.
#[test]
fn mutated_transfers_violate_no_invariant() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/transfer");
    let mut random = Random(0x5eed);
    let mut count = 0;
    for seed in fs::read_dir(seeds).unwrap() {
        let seed = fs::read(seed.unwrap().path()).unwrap();
        fuzzing::transfer(&seed);
        for _ in 0..3000 {
            let mut bytes = seed.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(4) {
                    0 => bytes[at] = random.below(256) as u8,
                    1 => bytes[at] ^= 1 << random.below(8),
                    2 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, random.below(256) as u8),
                }
            }
            fuzzing::transfer(&bytes);
            count += 1;
        }
    }
    assert!(count >= 9000, "{count}");
}
