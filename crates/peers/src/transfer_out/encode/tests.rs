//! Tests of transfer messages: whole zones, differences, and records that do not fit.

use super::*;
use nameward_wire::NameBuf;
use nameward_wire::message::{Message, RecordView};
use nameward_wire::zonefile::{Options, Record, parse_bytes};
use nameward_zone::change::Difference;
use nameward_zone::{RecordList, WireRecord, Zone, ZoneBuilder};
use proptest::prelude::*;
use std::sync::Arc;

const QUESTION: &[u8] = b"\x12\x34\x01\x00\x00\x01\0\0\0\0\0\0\x07example\0\x00\xfc\x00\x01";
const APEX: &str = "@ 60 SOA ns Host 7 2 3 4 5\n@ 60 NS ns\n@ 60 MX 10 Mail.other.\n";

fn zone(text: &str) -> Arc<Zone> {
    zone_with(text, |_| ())
}

fn zone_with(text: &str, more: impl FnOnce(&mut ZoneBuilder)) -> Arc<Zone> {
    let origin: NameBuf = "example.".parse().unwrap();
    let mut builder = ZoneBuilder::new(origin.as_name());
    parse_bytes("zone", text.as_bytes(), &Options::new(origin), &mut builder);
    more(&mut builder);
    let (zone, findings) = builder.finish();
    Arc::new(zone.unwrap_or_else(|| panic!("{findings:?}")))
}

fn add_large(builder: &mut ZoneBuilder, owner: &str, octets: usize) {
    let owner: NameBuf = owner.parse().unwrap();
    builder.add(&Record::new(
        owner.as_name(),
        Type(65_400),
        60,
        &vec![7; octets],
    ));
}

fn request() -> TransferRequest {
    TransferRequest::new(&Query::parse(QUESTION).unwrap(), None)
}

/// Formats a record completely as text.
fn listed(record: &RecordView<'_>) -> String {
    let mut data = Vec::new();
    record.expand_data(&mut data).unwrap();
    let (owner, rtype, ttl) = (record.owner, record.rtype, record.ttl);
    format!("{owner} {rtype} {ttl} {data:?}")
}

/// Collects all records of messages, and the length of each message.
fn collect(
    mut next: impl FnMut(&mut [u8]) -> Result<Option<usize>, OutgoingFault>,
    room: usize,
) -> Result<(Vec<String>, Vec<usize>), OutgoingFault> {
    let (mut records, mut lengths) = (Vec::new(), Vec::new());
    let mut out = vec![0xff; room];
    while let Some(len) = next(&mut out)? {
        let message = Message::parse(&out[..len]).unwrap();
        assert!(message.is_response() && message.is_authoritative());
        assert_eq!(message.id(), 0x1234);
        assert_eq!(message.questions().count(), usize::from(lengths.is_empty()));
        records.extend(message.records().map(|record| listed(&record.unwrap())));
        lengths.push(len);
        assert!(lengths.len() < 10_000, "an endless stream");
    }
    Ok((records, lengths))
}

fn axfr(zone: &Arc<Zone>, room: usize) -> Result<(Vec<String>, Vec<usize>), OutgoingFault> {
    let mut messages = AxfrMessages::new(Arc::clone(zone), request());
    let result = collect(|out| messages.next_message(out), room)?;
    assert_eq!(messages.records(), result.0.len() as u64);
    Ok(result)
}

/// Returns the records of a zone as text.
fn contents(zone: &Zone) -> Vec<String> {
    let nodes = zone.nodes_in_order();
    let mut all: Vec<String> = nodes
        .flat_map(|node| {
            let owner = node.name().to_string();
            let rrsets = node.rrsets();
            let records = rrsets.flat_map(|rrset| {
                let head = format!("{owner} {} {}", rrset.rtype(), rrset.ttl());
                let records = rrset.records().map(|record| record.rdata.to_vec());
                records
                    .map(move |data| format!("{head} {data:?}"))
                    .collect::<Vec<_>>()
            });
            records.collect::<Vec<_>>()
        })
        .collect();
    all.sort();
    all
}

fn assert_whole(zone: &Arc<Zone>, mut records: Vec<String>) {
    assert_eq!(records.first(), records.last());
    assert!(records[0].starts_with("example. SOA"));
    records.pop();
    records.sort();
    assert_eq!(records, contents(zone));
}

#[test]
fn a_whole_zone_is_sent_in_messages_as_large_as_possible() {
    let mut text = APEX.to_string();
    for n in 0..4000 {
        text += &format!("Host{n}.sub 60 A 192.0.2.1\nhost{n}.sub 60 AAAA 2001:db8::{n:x}\n");
        text += &format!("host{n}.sub 60 MX 5 mail{}.other.\n", n % 7);
    }
    let zone = zone(&text);
    for room in [65_535, 9000, 512, 120] {
        let (records, lengths) = axfr(&zone, room).unwrap();
        assert_whole(&zone, records);
        let (last, full) = lengths.split_last().unwrap();
        assert!(*last <= room);
        // Only a record that did not fit ends a message.
        assert!(
            full.iter().all(|len| room - len < 80),
            "{room}: {lengths:?}"
        );
    }
    // Compression: the owner of three records is written once as long as pointers reach it.
    let (_, lengths) = axfr(&zone, 16_384).unwrap();
    let octets: usize = lengths.iter().sum();
    assert!(octets < 12_000 * 33, "{octets}");
}

#[test]
fn the_smallest_zone_is_one_message() {
    let zone = zone("@ 60 SOA ns host 7 2 3 4 5\n");
    let (records, lengths) = axfr(&zone, 65_535).unwrap();
    assert_eq!((records.len(), lengths.len()), (2, 1));
}

#[test]
fn a_record_as_large_as_a_message_is_sent_and_a_larger_one_ends_the_transfer() {
    let owner = "large.example.";
    // The header, the uncompressed owner, and the fixed part of a record precede the data.
    let fits = 65_535 - 12 - 15 - 10;
    let zone = zone_with(APEX, |builder| add_large(builder, owner, fits));
    let (records, lengths) = axfr(&zone, 65_535).unwrap();
    assert_whole(&zone, records);
    assert_eq!(lengths.iter().max(), Some(&65_535));
    let zone = zone_with(APEX, |builder| add_large(builder, owner, fits + 1));
    let fault = OutgoingFault::TooLarge {
        owner: Box::new(owner.parse().unwrap()),
        rtype: Type(65_400),
    };
    assert_eq!(axfr(&zone, 65_535), Err(fault.clone()));
    // Room for a signature is not available to the record.
    let zone = zone_with(APEX, |builder| add_large(builder, owner, 65_000));
    assert!(axfr(&zone, 65_535 - 120).is_ok());
    assert_eq!(axfr(&zone, 65_000), Err(fault));
    assert!(matches!(
        axfr(&zone, 20),
        Err(OutgoingFault::TooLarge { .. })
    ));
    assert!(matches!(
        axfr(&zone, 5),
        Err(OutgoingFault::TooLarge { .. })
    ));
}

#[test]
fn an_rrset_larger_than_a_message_is_sent_in_several() {
    let mut text = APEX.to_string();
    for n in 0..9000 {
        text += &format!("big 60 TXT \"{n} {}\"\n", "x".repeat(60));
    }
    let zone = zone(&text);
    let (records, lengths) = axfr(&zone, 65_535).unwrap();
    assert!(lengths.len() > 9);
    assert_whole(&zone, records);
}

#[test]
fn signatures_have_the_ttl_of_what_they_cover() {
    let rrsig = |covered: &str, ttl: u32| {
        format!(
            "h {ttl} RRSIG {covered} 15 2 {ttl} 20300101000000 20200101000000 1 example. AAAA\n"
        )
    };
    let older = zone(&(APEX.to_string() + "h 60 A 192.0.2.1\n"));
    let text = "@ 60 SOA ns Host 8 2 3 4 5\n@ 60 NS ns\n@ 60 MX 10 Mail.other.\nh 60 A 192.0.2.1\nh 7 TXT x\n";
    let newer = zone(&(text.to_string() + &rrsig("A", 60) + &rrsig("TXT", 7)));
    let is_right = |records: &[String]| {
        let of = |covered: u8, ttl: u32| {
            let start = format!("h.example. RRSIG {ttl} [0, {covered},");
            records
                .iter()
                .filter(|record| record.starts_with(&start))
                .count()
        };
        (of(1, 60), of(16, 7)) == (1, 1)
    };
    assert!(is_right(&axfr(&newer, 65_535).unwrap().0));
    let differences = vec![newer.difference_from(&older)];
    let mut messages = IxfrMessages::new(&newer, differences, request());
    let (records, _) = collect(|out| messages.next_message(out), 65_535).unwrap();
    assert!(is_right(&records), "{records:#?}");
}

/// Builds a zone of hosts, each with some addresses.
fn hosts(serial: u32, hosts: &[(u8, u8)]) -> Arc<Zone> {
    let mut text = format!("@ 60 SOA ns host {serial} 2 3 4 5\n@ 60 NS ns.other.\n");
    for (host, address) in hosts {
        text += &format!("h{host} 60 A 192.0.2.{address}\n");
    }
    zone(&text)
}

/// Parses the records of an IXFR into differences.
fn read_ixfr(records: &[String]) -> Vec<(Vec<String>, Vec<String>)> {
    let is_soa = |record: &String| record.starts_with("example. SOA");
    let (first, rest) = records.split_first().unwrap();
    let (last, rest) = rest.split_last().unwrap();
    assert_eq!(first, last);
    let mut parts: Vec<Vec<String>> = Vec::new();
    for record in rest {
        if is_soa(record) {
            parts.push(vec![record.clone()])
        } else {
            parts.last_mut().expect("a SOA first").push(record.clone())
        }
    }
    assert_eq!(parts.len() % 2, 0);
    let pairs = parts.chunks(2);
    pairs
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect()
}

fn sorted(mut list: Vec<String>) -> Vec<String> {
    list.sort();
    list
}

fn listed_records(list: &RecordList) -> Vec<String> {
    let text = |record: WireRecord<'_>| {
        let (owner, rtype, ttl) = (record.owner, record.rtype, record.ttl);
        format!("{owner} {rtype} {ttl} {:?}", record.rdata)
    };
    sorted(list.iter().map(text).collect())
}

proptest! {
    #[test]
    fn differences_are_sent_as_in_the_rfc_and_condensed_ones_lead_to_the_same_zone(
        versions in proptest::collection::vec(proptest::collection::vec((0..6u8, 0..4u8), 0..12), 2..6),
        room in 150usize..2000,
    ) {
        let zones: Vec<Arc<Zone>> = versions
            .iter()
            .enumerate()
            .map(|(n, list)| hosts(10 + n as u32, list))
            .collect();
        let differences: Vec<Difference> =
            zones.windows(2).map(|pair| pair[1].difference_from(&pair[0])).collect();
        let newest = &zones[zones.len() - 1];
        let mut messages = IxfrMessages::new(newest, differences.clone(), request());
        let (records, lengths) = collect(|out| messages.next_message(out), room).unwrap();
        prop_assert!(messages.is_done() && lengths.iter().all(|len| *len <= room));
        let read = read_ixfr(&records);
        prop_assert_eq!(read.len(), differences.len());
        for ((removed, added), difference) in read.into_iter().zip(&differences) {
            prop_assert_eq!(sorted(removed), listed_records(&difference.removed));
            prop_assert_eq!(sorted(added), listed_records(&difference.added));
        }
        let condensed = condense(&differences);
        let after = zones[0].apply(&condensed).unwrap();
        prop_assert_eq!(contents(&after), contents(newest));
        prop_assert_eq!(condensed.serials(), Some((zones[0].serial(), newest.serial())));
        let direct = newest.difference_from(&zones[0]);
        prop_assert_eq!(condensed.octets(), direct.octets());
    }
}

#[test]
fn without_differences_an_incremental_transfer_is_the_soa_alone() {
    let mut messages = IxfrMessages::new(&hosts(7, &[]), Vec::new(), request());
    let (records, lengths) = collect(|out| messages.next_message(out), 512).unwrap();
    assert_eq!((records.len(), lengths.len()), (1, 1));
}
