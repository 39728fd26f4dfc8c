//! Tests of content digests, vanished zones, and contents that are rewritten under a continuing journal.

use super::*;
use nameward_wire::zonefile::Record;
use nameward_zone::{Zone, ZoneBuilder};

/// Builds a zone with the records of some lists.
fn zone(lists: &[RecordList]) -> Zone {
    let apex = name("example.");
    let mut builder = ZoneBuilder::new(apex.as_name());
    for record in lists.iter().flat_map(RecordList::iter) {
        builder.add(&Record::new(
            record.owner,
            record.rtype,
            record.ttl,
            record.rdata,
        ));
    }
    builder.finish().0.unwrap()
}

fn set_digest(serial: u32, zone: &Zone) -> StateChange {
    StateChange::SetDigest {
        zone: name("example."),
        serial: Serial(serial),
        digest: ContentsDigest::from_zone(zone),
    }
}

fn text(number: u32) -> Vec<u8> {
    [&[4][..], &number.to_be_bytes()].concat()
}

#[test]
fn a_digest_follows_the_differences_whenever_it_comes() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    let kept = || store.zones().unwrap()[0].digest;
    let first = zone(&[list("example.", 1, &[b"\x01x"])]);
    store
        .write(vec![append("example.", ZoneStorage::File, 1, 2)])
        .unwrap();
    assert_eq!(kept(), None);
    // Of an earlier version in the journal.
    store
        .write(vec![
            append("example.", ZoneStorage::File, 2, 3),
            set_digest(1, &first),
            append("example.", ZoneStorage::File, 3, 4),
        ])
        .unwrap();
    let (two, three, four) = (text(2), text(3), text(4));
    let texts: [&[u8]; 4] = [b"\x01x", &two, &three, &four];
    let last = zone(&[list("example.", 4, &texts)]);
    assert_eq!(kept(), Some(ContentsDigest::from_zone(&last)));
    let other = zone(&[list("example.", 4, &texts[..3])]);
    assert_ne!(kept(), Some(ContentsDigest::from_zone(&other)));
    // Of a version that the journal does not have.
    store.write(vec![set_digest(99, &first)]).unwrap();
    assert_eq!(kept(), Some(ContentsDigest::from_zone(&last)));
    let restart = StateChange::RestartJournal {
        zone: name("example."),
        storage: ZoneStorage::File,
        serial: Serial(7),
    };
    store.write(vec![restart]).unwrap();
    assert_eq!(kept(), None);
}

#[test]
fn a_zone_that_vanished_is_forgotten_unless_its_storage_lacks_changes() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    let vanished = |zone: &str, storage| StateChange::RemoveVanished {
        zone: name(zone),
        storage,
    };
    store
        .write(vec![
            append("lacking.", ZoneStorage::File, 1, 2),
            append("database.", ZoneStorage::Database, 1, 2),
            contents("secondary.", 1),
        ])
        .unwrap();
    let all = ["lacking.", "database.", "secondary.", "unknown."];
    let changes = all.map(|zone| vanished(zone, ZoneStorage::File));
    let written = store.write(changes.into()).unwrap();
    assert_eq!(written.unsettled, [name("lacking.")]);
    assert_eq!(written.removed, []);
    assert_eq!(store.zones().unwrap().len(), 3);
    let settle = StateChange::Settle {
        zone: name("lacking."),
        serial: Serial(2),
    };
    let changes = vec![
        settle,
        vanished("lacking.", ZoneStorage::File),
        vanished("database.", ZoneStorage::Database),
    ];
    let written = store.write(changes).unwrap();
    assert_eq!(written.removed, [name("lacking."), name("database.")]);
    assert_eq!(store.zones().unwrap().len(), 1);
    assert_eq!(StateStore::check(directory.path()).unwrap().faults, [""; 0]);
}

#[test]
fn contents_are_rewritten_while_the_journal_grows() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    store.write(vec![contents("example.", 1)]).unwrap();
    for serial in 1..10 {
        let change = append("example.", ZoneStorage::Store, serial, serial + 1);
        store.write(vec![change]).unwrap();
    }
    let refresh = |serial: u32| {
        let texts: Vec<Vec<u8>> = (2..=serial).map(text).collect();
        let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        StateChange::RefreshContents {
            zone: name("example."),
            serial: Serial(serial),
            parts: Arc::new(vec![list("example.", serial, &texts)]),
        }
    };
    store.write(vec![refresh(6)]).unwrap();
    let missing = |store: &StateStore| {
        let journal = store.contents(&name("example."), |_| ()).unwrap().unwrap();
        serials(&journal)
    };
    let after = [(6, 7), (7, 8), (8, 9), (9, 10)];
    assert_eq!(missing(&store), after);
    // Older ones, and those of a serial that never existed, change nothing.
    store.write(vec![refresh(3), refresh(77)]).unwrap();
    assert_eq!(missing(&store), after);
    assert_eq!(StateStore::check(directory.path()).unwrap().faults, [""; 0]);
    store.write(vec![refresh(10)]).unwrap();
    assert_eq!(missing(&store), []);
}

/// The digests of stored zones, as their readers get them.
#[derive(Default)]
struct Digests(Vec<Option<ContentsDigest>>);

impl StoredZoneSink for Digests {
    fn begin(&mut self, zone: &JournaledZone) -> bool {
        self.0.push(zone.digest);
        false
    }

    fn records(&mut self, _: RecordList) {}

    fn end(&mut self, _: &StateStore, _: &JournaledZone, _: Result<Vec<JournalEntry>, StateError>) {
    }
}

#[test]
fn stored_zones_are_read_with_their_digests() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    let records = list("example.", 1, &[b"\x01x"]);
    let digest = ContentsDigest::from_zone(&zone(std::slice::from_ref(&records)));
    let contents = |apex| StateChange::SetContents {
        zone: name(apex),
        serial: Serial(1),
        parts: Arc::new(vec![records.clone()]),
    };
    let with_digest = StateChange::SetDigest {
        zone: name("example."),
        serial: Serial(1),
        digest,
    };
    let changes = vec![contents("other."), contents("example."), with_digest];
    store.write(changes).unwrap();
    let mut found = Digests::default();
    store.stored_zones(&mut found).unwrap();
    assert_eq!(found.0, [None, Some(digest)]);
}

#[test]
fn a_journal_continues_after_an_edit_of_its_file_and_keeps_what_the_file_lacks() {
    let directory = TempDir::new().unwrap();
    let (store, zone) = (open(&directory), name("example."));
    let step = |from, to| match append("example.", ZoneStorage::File, from, to) {
        StateChange::Append { difference, .. } => difference,
        _ => unreachable!("it is an addition"),
    };
    for serial in 1..3 {
        let change = append("example.", ZoneStorage::File, serial, serial + 1);
        store.write(vec![change]).unwrap();
    }
    let rebase = |file, before, to| StateChange::Rebase {
        zone,
        version: RebasedVersion {
            forward: step(before, to),
            lacking: step(file, to),
            time: 1000,
        },
    };
    let from = |serial| store.journal_from(&zone, Serial(serial)).unwrap();
    let lacking = || serials(&store.journal_after_base(&zone).unwrap());
    store.write(vec![rebase(1, 3, 4)]).unwrap();
    let later = append("example.", ZoneStorage::File, 4, 5);
    store.write(vec![later]).unwrap();
    assert_eq!(serials(&from(1).unwrap()), [(1, 2), (2, 3), (3, 4), (4, 5)]);
    assert_eq!(lacking(), [(1, 4), (4, 5)]);
    // A second edit.
    store.write(vec![rebase(2, 5, 6)]).unwrap();
    assert_eq!(lacking(), [(2, 6)]);
    let storage = ZoneStorage::File;
    let vanished = store.write(vec![StateChange::RemoveVanished { zone, storage }]);
    assert_eq!(vanished.unwrap().unsettled, [zone]);
    // The file was written.
    let serial = Serial(6);
    store
        .write(vec![StateChange::Settle { zone, serial }])
        .unwrap();
    assert_eq!(lacking(), []);
    // A journal that does not lead there restarts.
    store.write(vec![rebase(8, 20, 21)]).unwrap();
    assert_eq!(from(6), None);
    assert_eq!(lacking(), [(8, 21)]);
    drop(store);
    assert_eq!(StateStore::check(directory.path()).unwrap().faults, [""; 0]);
}

#[test]
fn a_refused_change_does_not_affect_others_of_its_zone() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    let (results, received) = mpsc::channel();
    let step = |from, to| append("example.", ZoneStorage::File, from, to);
    let new = |from, to| append("new.", ZoneStorage::File, from, to);
    let mut callers = vec![vec![step(1, 2)]];
    for serial in 2..40 {
        callers.push(vec![new(1, 2), step(serial, serial + 1), step(900, 901)]);
        callers.push(vec![step(serial, serial + 1)]);
    }
    for changes in callers {
        let results = results.clone();
        store.submit(
            changes,
            Box::new(move |result| results.send(result).unwrap()),
        );
    }
    drop(results);
    let made: Vec<bool> = received.iter().map(|result| result.is_ok()).collect();
    let expected = (0..77).map(|number| number % 2 == 0);
    assert_eq!(made, expected.collect::<Vec<_>>());
    let kept = store.zones().unwrap();
    assert_eq!(
        (kept.len(), kept[0].serial, kept[0].entries),
        (1, Serial(40), 39)
    );
    assert_eq!(StateStore::check(directory.path()).unwrap().faults, [""; 0]);
}
