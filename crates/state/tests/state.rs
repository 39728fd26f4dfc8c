//! The state store on a disk that is full or read-only: a small tmpfs in a mount namespace of its own.

use nameward_state::{
    JournalBounds, JournalOrigin, StateChange, StateError, StateStore, ZoneStorage,
};
use nameward_testkit::run_on_small_disk;
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::Difference;
use nameward_zone::{RecordList, Serial, WireRecord};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

const BOUNDS: JournalBounds = JournalBounds {
    octets: 1 << 30,
    entries: 1 << 20,
};

fn disk() -> PathBuf {
    std::env::var_os("DISK")
        .expect("run by another test")
        .into()
}

fn list(serial: u32, filler: usize) -> RecordList {
    let owner: NameBuf = "example.".parse().unwrap();
    let numbers = [serial, 7200, 3600, 1_209_600, 300];
    let numbers: Vec<u8> = numbers.iter().flat_map(|n| n.to_be_bytes()).collect();
    let mut list = RecordList::default();
    let mut push = |rtype, rdata: &[u8]| {
        list.push(WireRecord {
            owner: owner.as_name(),
            rtype,
            ttl: 300,
            rdata,
        });
    };
    push(Type::SOA, &[b"\x01m\0\x01h\0", &numbers[..]].concat());
    for n in 0..filler {
        push(Type::TXT, &[&[200][..], &[n as u8; 200]].concat());
    }
    list
}

fn append(from: u32, filler: usize) -> StateChange {
    StateChange::Append {
        zone: "example.".parse().unwrap(),
        storage: ZoneStorage::Database,
        origin: JournalOrigin::Change,
        difference: Arc::new(Difference {
            removed: list(from, 0),
            added: list(from + 1, filler),
        }),
        time: 0,
        author: None,
    }
}

fn tip(store: &StateStore) -> Serial {
    store
        .zones()
        .unwrap()
        .first()
        .map_or(Serial(1), |zone| zone.serial)
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    run_on_small_disk("inside_a_small_disk", 1500);
}

#[test]
#[ignore = "run by a_full_disk_loses_nothing_that_was_acknowledged"]
fn inside_a_small_disk() {
    let store = StateStore::open(&disk(), BOUNDS).unwrap();
    let mut serial = 1;
    let error = loop {
        match store.write(vec![append(serial, 100)]) {
            Ok(_) => serial += 1,
            Err(error) => break error,
        }
        assert!(serial < 1000, "the disk has no bound");
    };
    assert!(matches!(error, StateError::Full(_)), "{error}");
    assert!(serial > 5, "{serial} changes fit");
    assert_eq!(tip(&store), Serial(serial));
    // Again and again: refused each time, and what is there stays.
    for _ in 0..20 {
        assert!(store.write(vec![append(serial, 100)]).is_err());
    }
    drop(store);
    let store = StateStore::open(&disk(), BOUNDS).unwrap();
    assert_eq!(tip(&store), Serial(serial));
    let chain = store
        .journal_from(&"example.".parse().unwrap(), Serial(1))
        .unwrap()
        .unwrap();
    assert_eq!(chain.len() as u32, serial - 1);
    assert!(StateStore::check(&disk()).unwrap().faults.is_empty());
    // With room it continues.
    let remount = format!("mount -o remount,size=8000k {}", disk().display());
    assert!(
        Command::new("sh")
            .args(["-c", &remount])
            .status()
            .unwrap()
            .success()
    );
    store.write(vec![append(serial, 100)]).unwrap();
    assert_eq!(tip(&store), Serial(serial + 1));
}

#[test]
fn a_disk_that_is_full_from_the_start_is_reported() {
    run_on_small_disk("inside_a_disk_without_room", 8);
}

#[test]
#[ignore = "run by a_disk_that_is_full_from_the_start_is_reported"]
fn inside_a_disk_without_room() {
    let error = StateStore::open(&disk(), BOUNDS).err().unwrap();
    assert!(error.to_string().contains("disk"), "{error}");
}

#[test]
fn a_read_only_disk_is_reported() {
    run_on_small_disk("inside_a_read_only_disk", 4000);
}

#[test]
#[ignore = "run by a_read_only_disk_is_reported"]
fn inside_a_read_only_disk() {
    let store = StateStore::open(&disk(), BOUNDS).unwrap();
    store.write(vec![append(1, 1)]).unwrap();
    drop(store);
    let remount = format!("mount -o remount,ro {}", disk().display());
    assert!(
        Command::new("sh")
            .args(["-c", &remount])
            .status()
            .unwrap()
            .success()
    );
    let error = StateStore::open(&disk(), BOUNDS).err().unwrap();
    assert!(matches!(error, StateError::ReadOnly(_)), "{error}");
    assert!(error.to_string().contains("read-only"));
}
