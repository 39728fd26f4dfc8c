//! Tests of the audit log: filters, order, and the limit.

use super::*;
use crate::{AUDIT_ENTRIES_MAX, AuditEntry, AuditFilter};

fn entry(time: u64, zone: &str, key: Option<&str>) -> StateChange {
    StateChange::Audit(Box::new(AuditEntry {
        time,
        who: "user root".into(),
        zone: Some(zone.into()),
        key: key.map(Into::into),
        ..AuditEntry::default()
    }))
}

fn times(store: &StateStore, filter: &AuditFilter) -> Vec<u64> {
    let mut times = Vec::new();
    let read = store.audit(filter, |entry| {
        times.push(entry.time);
        times.len() < 3
    });
    read.unwrap();
    times
}

#[test]
fn entries_are_read_newest_first_and_filtered() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    for time in 1..=4 {
        let key = (time % 2 == 0).then_some("k");
        let zone = if time < 3 { "a." } else { "b." };
        store.write(vec![entry(time, zone, key)]).unwrap();
    }
    let all = AuditFilter::default();
    assert_eq!(times(&store, &all), [4, 3, 2]);
    let zone = AuditFilter {
        zone: Some("a.".into()),
        ..all.clone()
    };
    assert_eq!(times(&store, &zone), [2, 1]);
    let key = AuditFilter {
        key: Some("k".into()),
        ..all.clone()
    };
    assert_eq!(times(&store, &key), [4, 2]);
    let since = AuditFilter {
        since: Some(3),
        ..all.clone()
    };
    assert_eq!(times(&store, &since), [4, 3]);
    let before = AuditFilter {
        before: Some(3),
        ..all
    };
    assert_eq!(times(&store, &before), [2, 1]);
}

#[test]
fn the_oldest_entries_are_dropped_at_the_limit() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    let entries = (1..=AUDIT_ENTRIES_MAX + 10).map(|time| entry(time, "a.", None));
    store.write(entries.collect()).unwrap();
    let mut count = 0;
    let mut oldest = 0;
    let read = store.audit(&AuditFilter::default(), |entry| {
        (count, oldest) = (count + 1, entry.time);
        true
    });
    read.unwrap();
    assert_eq!((count, oldest), (AUDIT_ENTRIES_MAX, 11));
}
