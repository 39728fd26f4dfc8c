//! Changes one record at a time in a large zone and reports the cost of each change: `change_zone NAMES CHANGES`.

use nameward_wire::zonefile::Record;
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::{ChangeOrigin, Edit, NewRecord, RrsetData, ZoneChange};
use nameward_zone::{NameKey, SerialRule, Zone, ZoneBuilder};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

fn zone_of(names: u32) -> Zone {
    let mut builder = ZoneBuilder::with_capacity(name("example.").as_name(), names as usize * 40);
    let mut add = |owner: &str, rtype, rdata: &[u8]| {
        builder.add(&Record::new(name(owner).as_name(), rtype, 300, rdata));
    };
    let numbers = [1u32, 7200, 3600, 1_209_600, 300];
    let numbers: Vec<u8> = numbers.iter().flat_map(|n| n.to_be_bytes()).collect();
    add(
        "example.",
        Type::SOA,
        &[b"\x01m\0\x01h\0", &numbers[..]].concat(),
    );
    for i in 0..names {
        add(&format!("n{i}.example."), Type::A, &i.to_be_bytes());
    }
    builder.finish().0.expect("a zone")
}

/// Returns the resident memory of the process in kilobytes.
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let words = line.and_then(|line| line.split_whitespace().nth(1));
    words.and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn main() {
    let numbers: Vec<u32> = std::env::args()
        .skip(1)
        .flat_map(|word| word.parse())
        .collect();
    let [names, changes] = numbers[..] else {
        panic!("expected NAMES CHANGES")
    };
    let mut zone = Arc::new(zone_of(names));
    let before = resident_kb();
    let mut times: Vec<Duration> = Vec::new();
    for i in 0..changes {
        let owner = name(&format!(
            "n{}.example.",
            u64::from(i) * 7919 % u64::from(names)
        ));
        let started = Instant::now();
        let rrset = RrsetData {
            name: owner,
            rtype: Type::A,
            ttl: 60,
            records: vec![NewRecord {
                text: None,
                rdata: (i + 1).to_be_bytes().to_vec(),
                disabled: false,
            }],
        };
        let change = ZoneChange {
            edits: vec![Edit::Replace(rrset)],
            origin: ChangeOrigin::Operator,
            now: SystemTime::UNIX_EPOCH,
            serial: SerialRule::default(),
        };
        let difference = zone.difference_of(&change).expect("a difference");
        zone = Arc::new(zone.apply(&difference).expect("a version"));
        let key = NameKey::new(owner.as_name());
        assert!(zone.node(&key, key.labels()).is_some());
        times.push(started.elapsed());
    }
    times.sort_unstable();
    println!(
        "{names} names: a change takes {:?} (median), {:?} at most; {} KB for {changes} changes",
        times[times.len() / 2],
        times[times.len() - 1],
        resident_kb().saturating_sub(before)
    );
    let started = Instant::now();
    let packed = Arc::new(zone.pack().expect("a zone"));
    println!("packed aside in {:?}", started.elapsed());
    let started = Instant::now();
    assert!(packed.difference_from(&zone).is_empty());
    println!("compared as a whole in {:?}", started.elapsed());
}
