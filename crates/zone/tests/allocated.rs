//! A lookup in a changed zone does not allocate, and a change allocates in proportion to its own size, whatever the
//! size of the zone.

mod common;

use common::{add, name, soa, wire_name};
use nameward_wire::Type;
use nameward_zone::change::{ChangeOrigin, Edit, NewRecord, RrsetData, ZoneChange};
use nameward_zone::{Find, NameKey, SerialRule, Zone, ZoneBuilder};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    static HELD: Cell<isize> = const { Cell::new(0) };
}

/// Counts the octets that each thread allocates and holds, so that the test harness does not interfere.
struct Counting;

fn count(allocated: usize, held: isize) {
    let _ = ALLOCATED.try_with(|sum| sum.set(sum.get() + allocated));
    let _ = HELD.try_with(|sum| sum.set(sum.get() + held));
}

// SAFETY: every call is passed to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), layout.size() as isize);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as isize));
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocated<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.get();
    let result = work();
    (result, ALLOCATED.get() - before)
}

fn zone_of(names: u32) -> Arc<Zone> {
    let mut builder = ZoneBuilder::new(name("example.").as_name());
    add(&mut builder, "example.", 6, &soa(1).2);
    add(
        &mut builder,
        "example.",
        15,
        &[&[0, 5][..], &wire_name("mail.example.")].concat(),
    );
    add(&mut builder, "mail.example.", 1, &[192, 0, 2, 1]);
    add(&mut builder, "*.wild.example.", 1, &[192, 0, 2, 2]);
    for i in 0..names {
        add(&mut builder, &format!("n{i}.example."), 1, &i.to_be_bytes());
    }
    Arc::new(builder.finish().0.unwrap())
}

fn replace_one(zone: &Arc<Zone>, owner: &str, n: u32) -> Arc<Zone> {
    let rrset = RrsetData {
        name: name(owner),
        rtype: Type::A,
        ttl: 60,
        records: vec![NewRecord {
            text: None,
            rdata: n.to_be_bytes().to_vec(),
            disabled: false,
        }],
    };
    let change = ZoneChange {
        edits: vec![Edit::Replace(rrset)],
        origin: ChangeOrigin::Operator,
        now: UNIX_EPOCH,
        serial: SerialRule::default(),
    };
    let difference = zone.difference_of(&change).unwrap();
    Arc::new(zone.apply(&difference).unwrap())
}

#[test]
fn a_look_up_in_a_changed_zone_allocates_nothing() {
    let mut zone = zone_of(1000);
    for i in 0..200 {
        zone = replace_one(&zone, &format!("n{i}.example."), i + 7);
    }
    zone = replace_one(&zone, "new.deep.example.", 1);
    let questions = [
        ("n3.example.", "exact"),
        ("n900.example.", "exact"),
        ("new.deep.example.", "exact"),
        ("deep.example.", "exact"),
        ("a.wild.example.", "wildcard"),
        ("b.c.wild.example.", "wildcard"),
        ("none.example.", "missing"),
        ("a.b.c.d.none.example.", "missing"),
    ];
    let mut key = NameKey::default();
    for (question, expected) in questions {
        let question = name(question);
        let (found, octets) = allocated(|| {
            key.set(question.as_name());
            let found = zone.find(&key);
            let mx = zone
                .apex()
                .rrset(Type::MX)
                .and_then(|mx| mx.records().next());
            assert!(mx.and_then(|record| zone.target(record)).is_some());
            assert!(zone.soa().is_some());
            match found {
                Find::Exact(_) => "exact",
                Find::Wildcard { .. } => "wildcard",
                Find::Missing { .. } => "missing",
                _ => "other",
            }
        });
        assert_eq!((found, octets), (expected, 0), "{question}");
    }
}

/// Octets that a change of one record may allocate and keep: the records of the change, the names it writes (the owner
/// and the apex) and a path of blocks to each.
const FOR_ONE_RECORD: usize = 24 << 10;

#[test]
fn a_change_of_one_record_allocates_by_its_own_size() {
    // With and without many earlier changes. In a large zone they are not packed by a change.
    for (names, changes) in [
        (10, 0),
        (10_000, 0),
        (10_000, 1000),
        (200_000, 0),
        (200_000, 3000),
    ] {
        let mut zone = zone_of(names);
        for i in 0..changes {
            zone = replace_one(&zone, &format!("n{i}.example."), i + 7);
        }
        let held = HELD.get();
        let (next, octets) = allocated(|| replace_one(&zone, "n5.example.", 1));
        assert!(
            octets < FOR_ONE_RECORD,
            "{octets} octets with {names} names after {changes} changes"
        );
        let kept = HELD.get() - held;
        assert!(kept < FOR_ONE_RECORD as isize, "{kept} octets kept");
        let (new, octets) = allocated(|| replace_one(&next, "new.name.example.", 1));
        assert!(octets < FOR_ONE_RECORD, "{octets} octets for a new name");
        assert_eq!(new.name_count(), zone.name_count() + 2);
    }
}

#[test]
fn the_difference_of_two_large_zones_allocates_by_what_differs() {
    let (old, new) = (zone_of(50_000), zone_of(50_001));
    let (difference, octets) = allocated(|| new.difference_from(&old));
    assert_eq!((difference.removed.len(), difference.added.len()), (0, 1));
    assert!(octets < 4096, "{octets} octets");
}
