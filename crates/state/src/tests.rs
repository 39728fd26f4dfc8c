//! Tests of the state store: chains, limits, grouping, faults of the file and of the disk.

use super::*;
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::Difference;
use nameward_zone::{RecordList, Serial, WireRecord};
use std::sync::mpsc;
use tempfile::TempDir;

mod audit;
mod deleted;
mod kept;
mod opening;

const BOUNDS: JournalBounds = JournalBounds {
    octets: 1 << 20,
    entries: 100,
};

fn name(text: &str) -> NameBuf {
    text.parse().unwrap()
}

fn soa(serial: u32) -> Vec<u8> {
    let numbers = [serial, 7200, 3600, 1_209_600, 300];
    let numbers = numbers.iter().flat_map(|n| n.to_be_bytes());
    b"\x01m\0\x01h\0".iter().copied().chain(numbers).collect()
}

fn list(zone: &str, serial: u32, data: &[&[u8]]) -> RecordList {
    let zone = name(zone);
    let mut list = RecordList::default();
    let mut push = |rtype, rdata: &[u8]| {
        list.push(WireRecord {
            owner: zone.as_name(),
            rtype,
            ttl: 300,
            rdata,
        });
    };
    push(Type::SOA, &soa(serial));
    data.iter().for_each(|rdata| push(Type::TXT, rdata));
    list
}

fn append(zone: &str, storage: ZoneStorage, from: u32, to: u32) -> StateChange {
    let text = [&[4][..], &to.to_be_bytes()].concat();
    StateChange::Append {
        zone: name(zone),
        storage,
        origin: JournalOrigin::Change,
        difference: Arc::new(Difference {
            removed: list(zone, from, &[]),
            added: list(zone, to, &[&text]),
        }),
        time: 1000,
        author: None,
    }
}

fn contents(zone: &str, serial: u32) -> StateChange {
    StateChange::SetContents {
        zone: name(zone),
        serial: Serial(serial),
        parts: Arc::new(vec![list(zone, serial, &[b"\x01x"])]),
    }
}

fn serials(entries: &[JournalEntry]) -> Vec<(u32, u32)> {
    entries
        .iter()
        .map(|entry| (entry.from.0, entry.to.0))
        .collect()
}

fn open(directory: &TempDir) -> StateStore {
    StateStore::open(directory.path(), BOUNDS).unwrap()
}

#[test]
fn a_journal_is_a_chain_that_survives_and_refuses_a_gap() {
    let directory = TempDir::new().unwrap();
    let zone = name("Example.");
    let store = open(&directory);
    for serial in 1..5 {
        store
            .write(vec![append(
                "example.",
                ZoneStorage::Database,
                serial,
                serial + 1,
            )])
            .unwrap();
    }
    let gap = store.write(vec![append("example.", ZoneStorage::Database, 7, 8)]);
    assert!(matches!(
        gap,
        Err(StateError::Gap {
            tip: Serial(5),
            from: Serial(7),
            ..
        })
    ));
    drop(store);
    let store = open(&directory);
    let from = |serial| {
        store
            .journal_from(&zone, Serial(serial))
            .unwrap()
            .map(|e| serials(&e))
    };
    assert_eq!(from(2), Some(vec![(2, 3), (3, 4), (4, 5)]));
    assert_eq!(from(5), Some(vec![]));
    assert_eq!(from(9), None);
    let restart = StateChange::RestartJournal {
        zone,
        storage: ZoneStorage::Database,
        serial: Serial(7),
    };
    store
        .write(vec![
            restart,
            append("example.", ZoneStorage::Database, 7, 8),
        ])
        .unwrap();
    assert_eq!((from(2), from(7)), (None, Some(vec![(7, 8)])));
    assert_eq!(StateStore::check(directory.path()).unwrap().faults, [""; 0]);
}

#[test]
fn a_journal_is_bounded_in_number_and_size() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    for serial in 1..=1000 {
        store
            .write(vec![append(
                "example.",
                ZoneStorage::Database,
                serial,
                serial + 1,
            )])
            .unwrap();
        let kept = store.zones().unwrap()[0].entries;
        assert!(kept <= BOUNDS.entries, "{kept} entries");
    }
    let chain = store
        .journal_from(&name("example."), Serial(950))
        .unwrap()
        .unwrap();
    assert_eq!(
        (chain.len(), chain[0].from, chain[50].to),
        (51, Serial(950), Serial(1001))
    );
    // One that is larger than the limit is useless.
    let StateChange::Append {
        zone,
        storage,
        origin,
        time,
        ..
    } = append("example.", ZoneStorage::Database, 1, 2)
    else {
        unreachable!()
    };
    let text = [&[255][..], &[b'x'; 255]].concat();
    let difference = Difference {
        removed: list("example.", 1001, &[]),
        added: list("example.", 1002, &vec![&text[..]; 5000]),
    };
    let difference = Arc::new(difference);
    store
        .write(vec![StateChange::Append {
            zone,
            storage,
            origin,
            difference,
            time,
            author: None,
        }])
        .unwrap();
    let zone = &store.zones().unwrap()[0];
    assert_eq!(
        (zone.entries, zone.octets, zone.serial),
        (0, 0, Serial(1002))
    );
    assert_eq!(StateStore::check(directory.path()).unwrap().faults, [""; 0]);
}

#[test]
fn entries_that_the_storage_lacks_are_never_dropped() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    store.write(vec![contents("example.", 1)]).unwrap();
    let mut overfull = 0;
    for serial in 1..=150 {
        let written = store.write(vec![append(
            "example.",
            ZoneStorage::Store,
            serial,
            serial + 1,
        )]);
        overfull += written.unwrap().overfull.len();
    }
    assert_eq!(overfull, 50);
    let mut parts = 0;
    let missing = store
        .contents(&name("example."), |_| parts += 1)
        .unwrap()
        .unwrap();
    assert_eq!((parts, missing.len()), (1, 150));
    // From then on only the new contents are needed; the journal continues for secondaries that are
    // behind.
    store.write(vec![contents("example.", 151)]).unwrap();
    let missing = store.contents(&name("example."), |_| ()).unwrap().unwrap();
    assert_eq!(missing, []);
    assert!(store.zones().unwrap()[0].entries <= BOUNDS.entries);
    assert!(
        store
            .journal_from(&name("example."), Serial(140))
            .unwrap()
            .is_some()
    );
    // Contents of another serial have no history.
    store.write(vec![contents("example.", 900)]).unwrap();
    assert_eq!(
        store.journal_from(&name("example."), Serial(140)).unwrap(),
        None
    );
}

#[test]
fn a_file_lacks_changes_until_it_is_settled() {
    let directory = TempDir::new().unwrap();
    let (store, zone) = (open(&directory), name("example."));
    for serial in 1..4 {
        store
            .write(vec![append(
                "example.",
                ZoneStorage::File,
                serial,
                serial + 1,
            )])
            .unwrap();
    }
    assert_eq!(
        serials(&store.journal_after_base(&zone).unwrap()),
        [(1, 2), (2, 3), (3, 4)]
    );
    let settle = |serial| StateChange::Settle {
        zone,
        serial: Serial(serial),
    };
    store.write(vec![settle(3)]).unwrap();
    assert_eq!(serials(&store.journal_after_base(&zone).unwrap()), [(3, 4)]);
    store.write(vec![settle(4)]).unwrap();
    assert_eq!(store.journal_after_base(&zone).unwrap(), []);
}

#[test]
fn the_changes_of_a_caller_are_all_or_nothing() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    store
        .write(vec![append("a.", ZoneStorage::Database, 1, 2)])
        .unwrap();
    let item = || StateChange::SetItem {
        kind: "tsig",
        name: b"k".to_vec(),
        value: b"v".to_vec().into(),
    };
    let refused = store.write(vec![
        item(),
        append("b.", ZoneStorage::Database, 1, 2),
        append("a.", ZoneStorage::Database, 5, 6),
    ]);
    assert!(matches!(refused, Err(StateError::Gap { .. })));
    assert_eq!(store.item("tsig", b"k").unwrap(), None);
    assert_eq!(store.zones().unwrap().len(), 1);
    store
        .write(vec![item(), append("a.", ZoneStorage::Database, 2, 3)])
        .unwrap();
    assert_eq!(
        store.items("tsig").unwrap(),
        [(b"k".to_vec(), b"v".to_vec().into())]
    );
    store
        .write(vec![StateChange::RemoveItem {
            kind: "tsig",
            name: b"k".to_vec(),
        }])
        .unwrap();
    assert_eq!(store.item("tsig", b"k").unwrap(), None);
}

#[test]
fn many_callers_share_transactions_and_each_has_its_own_result() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    let (results, received) = mpsc::channel();
    for serial in 1..=400u32 {
        // Every tenth is invalid.
        let change = match serial % 10 {
            0 => append("example.", ZoneStorage::Database, 9000, 9001),
            n => append(
                &format!("z{n}."),
                ZoneStorage::Database,
                serial / 10 + 1,
                serial / 10 + 2,
            ),
        };
        let results = results.clone();
        let done = move |result| results.send((serial, result)).unwrap();
        store.submit(vec![change], Box::new(done));
    }
    drop(results);
    let mut seen = 0;
    for (serial, result) in received {
        seen += 1;
        // The first of a zone that does not exist yet is accepted as it is.
        let is_wrong = serial % 10 == 0 && serial > 10;
        assert_eq!(result.is_err(), is_wrong, "{serial}: {result:?}");
    }
    assert_eq!(seen, 400);
    assert_eq!(StateStore::check(directory.path()).unwrap().entries, 361);
}

#[test]
fn a_panic_in_a_callback_costs_no_other_change() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    let submit = |from, done: Box<dyn FnOnce() + Send>| {
        let change = append("example.", ZoneStorage::Database, from, from + 1);
        store.submit(vec![change], Box::new(move |_| done()));
    };
    submit(1, Box::new(|| panic!("a bug on purpose")));
    submit(2, Box::new(|| ()));
    store
        .write(vec![append("example.", ZoneStorage::Database, 3, 4)])
        .unwrap();
    assert_eq!(StateStore::check(directory.path()).unwrap().entries, 3);
}

#[test]
fn timers_and_removal() {
    let directory = TempDir::new().unwrap();
    let (store, zone) = (open(&directory), name("Example."));
    let timers = ZoneTimers {
        refreshed: 1,
        next_check: 2,
        expires: 3,
    };
    store
        .write(vec![
            contents("example.", 1),
            StateChange::SetTimers { zone, timers },
        ])
        .unwrap();
    let kept = store.zones().unwrap();
    assert_eq!(
        (kept[0].timers, kept[0].storage),
        (Some(timers), ZoneStorage::Store)
    );
    store.write(vec![StateChange::RemoveZone { zone }]).unwrap();
    assert_eq!(store.zones().unwrap(), []);
    assert_eq!(store.contents(&zone, |_| ()).unwrap(), None);
}

#[test]
fn damage_is_found_by_a_check() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    store.write(vec![contents("example.", 1)]).unwrap();
    for serial in 1..5 {
        store
            .write(vec![append(
                "example.",
                ZoneStorage::Store,
                serial,
                serial + 1,
            )])
            .unwrap();
    }
    drop(store);
    let faults = |sql: &str| {
        let copy = TempDir::new().unwrap();
        StateStore::backup(directory.path(), &copy.path().join(FILE)).unwrap();
        Connection::open(copy.path().join(FILE))
            .unwrap()
            .execute_batch(sql)
            .unwrap();
        StateStore::check(copy.path()).unwrap().faults.join("\n")
    };
    assert_eq!(faults(""), "");
    assert!(faults("DELETE FROM journal WHERE number = 2").contains("has a gap"));
    assert!(faults("UPDATE zone SET serial = 9").contains("recorded serial"));
    assert!(faults("UPDATE contents SET records = x'00'").contains("no record starts at"));
    assert!(faults("UPDATE zone SET entries = 9").contains("journal size"));
    // A page of the file itself.
    let file = directory.path().join(FILE);
    let mut octets = std::fs::read(&file).unwrap();
    octets[4096..4200].fill(0xa5);
    std::fs::write(&file, octets).unwrap();
    let found = StateStore::check(directory.path());
    assert!(
        found
            .as_ref()
            .map_or(true, |report| !report.faults.is_empty()),
        "{found:?}"
    );
}

#[test]
fn a_backup_is_a_store_and_compacting_frees_space() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    let text = [&[255][..], &[b'x'; 255]].concat();
    let parts: Vec<RecordList> = (0..20u8)
        .map(|part| {
            let mut octets = text.clone();
            let records: Vec<Vec<u8>> = (0..200u8)
                .map(|n| {
                    octets[1..3].copy_from_slice(&[part, n]);
                    octets.clone()
                })
                .collect();
            list(
                "example.",
                1,
                &records.iter().map(|r| &r[..]).collect::<Vec<_>>(),
            )
        })
        .collect();
    let parts = Arc::new(parts);
    store
        .write(vec![StateChange::SetContents {
            zone: name("example."),
            serial: Serial(1),
            parts,
        }])
        .unwrap();
    // While the server has it open.
    let backup = TempDir::new().unwrap();
    let target = backup.path().join(FILE);
    StateStore::backup(directory.path(), &target).unwrap();
    assert!(
        StateStore::backup(directory.path(), &target).is_err(),
        "an existing file stays"
    );
    let copied = StateStore::open(backup.path(), BOUNDS).unwrap();
    let mut parts = 0;
    copied.contents(&name("example."), |_| parts += 1).unwrap();
    assert_eq!(parts, 20);
    store
        .write(vec![StateChange::RemoveZone {
            zone: name("example."),
        }])
        .unwrap();
    let report = StateStore::compact(directory.path()).unwrap();
    assert!(report.after < 200_000, "{report:?}");
    assert_eq!(StateStore::check(directory.path()).unwrap().faults, [""; 0]);
    use std::os::unix::fs::PermissionsExt;
    for file in [directory.path().join(FILE), target] {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
