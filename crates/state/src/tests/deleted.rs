//! Tests of copies of deleted zones: limited in octets, number and time.

use super::*;

fn deleted(zone: &str, time: u64) -> DeletedZone {
    DeletedZone {
        name: name(zone),
        kind: "native".into(),
        backend: 1,
        serial: Some(Serial(7)),
        records: 3,
        time,
    }
}

fn keep(store: &StateStore, zone: &str, time: u64, octets: usize) -> i64 {
    let change = StateChange::KeepCopy {
        zone: deleted(zone, time),
        rows: Arc::new(vec![9; octets]),
        bounds: CopyBounds {
            octets: 100,
            copies: 3,
            seconds: 50,
        },
    };
    store.write(vec![change]).unwrap().copy.unwrap()
}

fn names(store: &StateStore, since: u64) -> Vec<String> {
    let copies = store.deleted_zones(since).unwrap();
    copies
        .iter()
        .map(|copy| copy.zone.name.to_string())
        .collect()
}

#[test]
fn the_oldest_copies_go_when_there_are_too_many_or_too_large_ones() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    keep(&store, "a.", 1000, 30);
    keep(&store, "b.", 1001, 30);
    keep(&store, "c.", 1002, 30);
    assert_eq!(names(&store, 0), ["c.", "b.", "a."]);
    keep(&store, "d.", 1003, 1);
    assert_eq!(names(&store, 0), ["d.", "c.", "b."]);
    keep(&store, "e.", 1004, 90);
    assert_eq!(names(&store, 0), ["e.", "d."]);
    keep(&store, "f.", 1060, 1);
    assert_eq!(names(&store, 0), ["f."]);
}

#[test]
fn the_last_copy_of_a_name_counts_until_it_expires() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    keep(&store, "A.", 1000, 1);
    let last = keep(&store, "a.", 1001, 2);
    let (copy, rows) = store.deleted_zone(&name("a."), 1001).unwrap().unwrap();
    assert_eq!((copy.number, rows.len(), copy.octets), (last, 2, 2));
    assert_eq!(copy.zone, deleted("a.", 1001));
    assert_eq!(store.deleted_zone(&name("a."), 1002).unwrap(), None);
    store
        .write(vec![StateChange::RemoveCopy { number: last }])
        .unwrap();
    let (copy, _) = store.deleted_zone(&name("a."), 0).unwrap().unwrap();
    assert_eq!(copy.zone.time, 1000);
    store
        .write(vec![StateChange::DropCopies { before: 1001 }])
        .unwrap();
    assert_eq!(names(&store, 0), Vec::<String>::new());
}
