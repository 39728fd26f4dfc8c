//! Measures how long a server takes until it serves many secondary zones from its state store, and how long one large
//! transfer takes from the first message to the disk.
//!
//! `cargo run --release -p nameward-maintain --example take_over [ZONES] [RECORDS]`

use nameward_maintain::policy::{PolicyFragment, PolicySource, RemoteServer, ZoneKind};
use nameward_maintain::{Commits, Moment, TableWriter, VersionSource};
use nameward_peers::secondary::zone::SecondarySettings;
use nameward_peers::secondary::{PrimaryRequest, QueryPrimary, Secondaries};
use nameward_peers::transfer_in::{SentRequest, TransferAnswer, TransferReader, TransferStep};
use nameward_state::{
    JournalBounds, JournalOrigin, StateChange, StateStore, ZoneStorage, ZoneTimers,
};
use nameward_wire::{NameBuf, Type};
use nameward_zone::{RecordList, Serial, TableChange, WireRecord, Zone};
use std::sync::Arc;
use std::time::Instant;

const BOUNDS: JournalBounds = JournalBounds {
    octets: 64 << 20,
    entries: 1000,
};

struct NoPrimaries;

impl QueryPrimary for NoPrimaries {
    fn query(&mut self, _: PrimaryRequest) {}
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let zones = arguments.next().and_then(Result::ok).unwrap_or(100_000);
    let records = arguments.next().and_then(Result::ok).unwrap_or(3_000_000);
    take_over(zones);
    transfer(records);
}

fn soa_rdata(serial: u32) -> Vec<u8> {
    let mut rdata = b"\x01m\0\x01h\0".to_vec();
    for number in [serial, 3600, 600, 1_209_600, 300] {
        rdata.extend(number.to_be_bytes());
    }
    rdata
}

/// Octets of a zone of eight records.
fn small_zone(zone: &NameBuf) -> RecordList {
    let mut list = RecordList::default();
    let mut push = |owner: &NameBuf, rtype, rdata: &[u8]| {
        list.push(WireRecord {
            owner: owner.as_name(),
            rtype,
            ttl: 3600,
            rdata,
        });
    };
    let host = |label: &[u8]| NameBuf::join(label, zone.as_name()).expect("a short name");
    let (one, two) = (host(b"\x03ns1"), host(b"\x03ns2"));
    push(zone, Type::SOA, &soa_rdata(1));
    push(zone, Type::NS, one.as_name().as_wire());
    push(zone, Type::NS, two.as_name().as_wire());
    push(zone, Type::A, &[192, 0, 2, 1]);
    push(&one, Type::A, &[192, 0, 2, 53]);
    push(&two, Type::A, &[192, 0, 2, 54]);
    push(&host(b"\x03www"), Type::A, &[192, 0, 2, 2]);
    push(&host(b"\x04mail"), Type::A, &[192, 0, 2, 3]);
    list
}

fn take_over(count: usize) {
    let directory = tempfile::tempdir().expect("a directory");
    let store = StateStore::open(directory.path(), BOUNDS).expect("a store");
    let names: Vec<NameBuf> = (0..count)
        .map(|n| format!("zone{n}.example.").parse().expect("a name"))
        .collect();
    for group in names.chunks(1000) {
        let changes = group.iter().flat_map(|zone| {
            let timers = ZoneTimers {
                refreshed: 1_700_000_000,
                next_check: 1_700_003_600,
                expires: 1_701_000_000,
            };
            [
                StateChange::SetContents {
                    zone: *zone,
                    serial: Serial(1),
                    parts: Arc::new(vec![small_zone(zone)]),
                },
                StateChange::SetTimers {
                    zone: *zone,
                    timers,
                },
            ]
        });
        store.write(changes.collect()).expect("room on the disk");
    }
    let part = PolicyFragment {
        kind: Some(ZoneKind::Secondary),
        primaries: Some(vec![RemoteServer {
            address: "192.0.2.1:53".parse().expect("an address"),
            key: None,
            source: None,
            tls: None,
        }]),
        ..PolicyFragment::default()
    };
    let policy = Arc::new(part.finish(PolicySource::Configured));
    let settings = names.iter().map(|name| SecondarySettings {
        name: name.as_name().into(),
        rank: 0,
        policy: Arc::clone(&policy),
    });
    let settings = settings.collect();
    let table = Arc::new(TableWriter::default());
    let commits = Commits::new(Arc::clone(&table), Some(Arc::new(store)), ());
    let began = Instant::now();
    let mut secondaries = Secondaries::new(commits.expect("threads"), NoPrimaries, 1);
    secondaries.add_all(settings, Moment::from_seconds(1_700_000_100));
    let took = began.elapsed();
    let ready = table.load().zones().filter(|zone| !zone.is_stub()).count();
    println!(
        "{ready} secondary zones served after {:.3} s",
        took.as_secs_f64()
    );
}

/// Messages of about 16 KiB, names compressed with the question, as primaries send them.
fn messages(records: usize) -> Vec<Vec<u8>> {
    let begin = || {
        let mut out = vec![0x12, 0x34, 0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        out.extend(b"\x05large\x07example\0\x00\xfc\x00\x01");
        out
    };
    let mut all = Vec::new();
    let (mut out, mut count) = (begin(), 0u16);
    let mut push = |owner: &[u8], rtype: u16, rdata: &[u8], is_last: bool| {
        out.extend_from_slice(owner);
        out.extend(b"\xc0\x0c");
        out.extend(rtype.to_be_bytes());
        out.extend([0, 1, 0, 0, 14, 16]);
        out.extend((rdata.len() as u16).to_be_bytes());
        out.extend_from_slice(rdata);
        count += 1;
        if out.len() > 16_000 || is_last {
            out[6..8].copy_from_slice(&count.to_be_bytes());
            all.push(std::mem::replace(&mut out, begin()));
            count = 0;
        }
    };
    push(b"", 6, &soa_rdata(1), false);
    for n in 0..records / 3 {
        let label = format!("host{n}");
        let owner = [&[label.len() as u8], label.as_bytes()].concat();
        push(&owner, 1, &(n as u32).to_be_bytes(), false);
        push(&owner, 28, &(n as u128).to_be_bytes(), false);
        push(&owner, 16, b"\x0bv=spf1 -all", false);
    }
    push(b"", 6, &soa_rdata(1), true);
    all
}

fn transfer(records: usize) {
    let messages = messages(records);
    let zone: NameBuf = "large.example.".parse().expect("a name");
    let began = Instant::now();
    let asked = SentRequest::query(0x1234, zone, Type::AXFR);
    let mut reader = TransferReader::new(asked, None, None, u64::MAX);
    let mut answer = None;
    for message in &messages {
        match reader.take(message, 0) {
            Ok(TransferStep::More) => {}
            Ok(TransferStep::Done(done)) => answer = Some(done),
            Err(failure) => panic!("{failure}"),
        }
    }
    let Some(TransferAnswer::Whole(whole)) = answer else {
        panic!("no whole zone");
    };
    let read = began.elapsed();
    let directory = tempfile::tempdir().expect("a directory");
    let store = StateStore::open(directory.path(), BOUNDS).expect("a store");
    let table = Arc::new(TableWriter::default());
    table.publish(&[TableChange::Offer(Arc::new(Zone::not_ready(
        zone.as_name(),
    )))]);
    let commits = Commits::new(table, Some(Arc::new(store)), ()).expect("threads");
    let source = VersionSource {
        zone,
        rank: 0,
        storage: ZoneStorage::Store,
        origin: JournalOrigin::Transfer,
        confirmed: None,
        author: None,
    };
    let (done, is_done) = std::sync::mpsc::channel();
    commits.version(source, whole.zone, Some(whole.contents), move |result| {
        let _ = done.send(result.map(|committed| committed.zone.name_count()));
    });
    let names = is_done.recv().expect("an end").expect("a commit");
    println!(
        "{} records, {names} names: read and packed after {:.3} s, on the disk after {:.3} s",
        reader.records(),
        read.as_secs_f64(),
        began.elapsed().as_secs_f64()
    );
}
