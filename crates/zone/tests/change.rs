//! Zone changes: edits, differences, packing, and what a version keeps from the previous one.

use crate::common::{self, Rec, build, contents, differs, list, name, soa, wire_name};
use nameward_testkit::property_cases;
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::{
    ChangeError, ChangeOrigin, Difference, Edit, NewRecord, RrsetData, ZoneChange,
};
use nameward_zone::{NameKey, Serial, SerialRule, Zone, ZoneBuilder};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

fn rrset(owner: &str, rtype: u16, data: &[&[u8]]) -> RrsetData {
    RrsetData {
        name: name(owner),
        rtype: Type(rtype),
        ttl: 300,
        records: data
            .iter()
            .map(|rdata| NewRecord {
                text: None,
                rdata: rdata.to_vec(),
                disabled: false,
            })
            .collect(),
    }
}

fn change(edits: Vec<Edit>) -> ZoneChange {
    ZoneChange {
        edits,
        origin: ChangeOrigin::Operator,
        now: UNIX_EPOCH + Duration::from_secs(1_709_164_800),
        serial: SerialRule::default(),
    }
}

fn address(n: u8) -> [u8; 4] {
    [192, 0, 2, n]
}

/// One edit of the model: its content, and its effect on a set of records.
#[derive(Debug, Clone)]
enum Step {
    Add(u8, u8),
    Delete(u8, u8),
    DeleteRrset(u8),
    DeleteName(u8),
    Replace(u8, Vec<u8>),
}

const OWNERS: [&str; 5] = [
    "a.example.",
    "b.a.example.",
    "*.a.example.",
    "c.example.",
    "deep.er.c.example.",
];

fn step() -> impl Strategy<Value = Step> {
    let (owner, data) = (0..OWNERS.len() as u8, 0..4u8);
    prop_oneof![
        4 => (owner.clone(), data.clone()).prop_map(|(o, d)| Step::Add(o, d)),
        2 => (owner.clone(), data.clone()).prop_map(|(o, d)| Step::Delete(o, d)),
        1 => owner.clone().prop_map(Step::DeleteRrset),
        1 => owner.clone().prop_map(Step::DeleteName),
        2 => (owner, proptest::collection::vec(data, 0..3)).prop_map(|(o, d)| Step::Replace(o, d)),
    ]
}

impl Step {
    fn edit(&self) -> Edit {
        match self {
            Step::Add(o, d) => Edit::Add(rrset(OWNERS[*o as usize], 1, &[&address(*d)])),
            Step::Delete(o, d) => Edit::DeleteRecords {
                name: name(OWNERS[*o as usize]),
                rtype: Type::A,
                rdata: vec![address(*d).to_vec()],
            },
            Step::DeleteRrset(o) => Edit::DeleteRrset {
                name: name(OWNERS[*o as usize]),
                rtype: Type::A,
            },
            Step::DeleteName(o) => Edit::DeleteName {
                name: name(OWNERS[*o as usize]),
            },
            Step::Replace(o, list) => {
                let data: Vec<[u8; 4]> = list.iter().map(|d| address(*d)).collect();
                let data: Vec<&[u8]> = data.iter().map(|d| &d[..]).collect();
                Edit::Replace(rrset(OWNERS[*o as usize], 1, &data))
            }
        }
    }

    fn play(&self, records: &mut BTreeSet<Rec>) {
        let rec = |o: u8, d: u8| (OWNERS[o as usize].to_string(), 1, address(d).to_vec());
        match self {
            Step::Add(o, d) => {
                records.insert(rec(*o, *d));
            }
            Step::Delete(o, d) => {
                records.remove(&rec(*o, *d));
            }
            Step::DeleteRrset(o) | Step::DeleteName(o) => {
                records.retain(|r| r.0 != OWNERS[*o as usize]);
            }
            Step::Replace(o, list) => {
                records.retain(|r| r.0 != OWNERS[*o as usize]);
                records.extend(list.iter().map(|d| rec(*o, *d)));
            }
        }
    }
}

proptest! {
    #![proptest_config(property_cases(300))]

    #[test]
    fn edits_in_any_order_do_what_the_model_does(changes in proptest::collection::vec(proptest::collection::vec(step(), 1..6), 1..8)) {
        let mut records = BTreeSet::from([soa(7)]);
        let mut zone = Arc::new(build(records.iter().cloned()));
        let first = zone.clone();
        for steps in changes {
            let mut after = records.clone();
            steps.iter().for_each(|step| step.play(&mut after));
            let before_serial = zone.serial();
            let difference = zone.difference_of(&change(steps.iter().map(Step::edit).collect())).unwrap();
            prop_assert_eq!(difference.is_empty(), after == records);
            if after != records {
                let serial = before_serial.plus(1);
                prop_assert_eq!(difference.serials(), Some((before_serial, serial)));
                after.remove(&soa(before_serial.0));
                after.insert(soa(serial.0));
            }
            let next = Arc::new(zone.apply(&difference).unwrap());
            prop_assert_eq!(&contents(&next), &after);
            prop_assert_eq!(&next.difference_from(&zone), &difference);
            (zone, records) = (next, after);
        }
        // And all steps at once, from a version that shares nothing with the last.
        let way = build(records.iter().cloned()).difference_from(&first);
        let applied = first.apply(&way).unwrap();
        prop_assert!(!differs(&applied, &zone));
    }

    #[test]
    fn lists_of_records_differ_as_zones_of_them_do(old in proptest::collection::vec((0..5usize, 0..4u8), 0..20), new in proptest::collection::vec((0..5usize, 0..4u8), 0..20)) {
        // In any order, and with duplicate records.
        let records = |list: &[(usize, u8)]| -> Vec<Rec> {
            let owned = list.iter().map(|(o, d)| (OWNERS[*o].to_string(), 1, address(*d).to_vec()));
            std::iter::once(soa(1)).chain(owned).collect()
        };
        let (old, new) = (records(&old), records(&new));
        let zones = build(new.iter().cloned()).difference_from(&build(old.iter().cloned()));
        prop_assert_eq!(Difference::between(&list(&old), &list(&new)), zones);
    }

    #[test]
    fn background_packing_keeps_changes_made_during_it(before in proptest::collection::vec(step(), 1..20), meanwhile in proptest::collection::vec(step(), 0..20)) {
        let mut zone = Arc::new(build([soa(7), ("a.example.".into(), 1, address(9).to_vec())]));
        let mut owners = Vec::new();
        let mut play = |steps: &[Step]| {
            owners.clear();
            for step in steps {
                let difference = zone.difference_of(&change(vec![step.edit()])).unwrap();
                let records = difference.removed.iter().chain(&difference.added);
                owners.extend(records.map(|record| NameBuf::from(record.owner)));
                zone = Arc::new(zone.apply(&difference).unwrap());
            }
            zone.clone()
        };
        let snapshot = play(&before);
        let current = play(&meanwhile);
        let packed = Arc::new(snapshot.pack().unwrap());
        prop_assert!(!differs(&packed, &snapshot));
        let caught_up = Arc::new(packed.caught_up(&current, owners.iter().map(|owner| owner.as_name())));
        prop_assert!(!differs(&caught_up, &current));
        // The tree of names is consistent: all can be deleted one by one, and nothing is left.
        let all = OWNERS.iter().map(|owner| Edit::DeleteName { name: name(owner) });
        let difference = caught_up.difference_of(&change(all.collect())).unwrap();
        prop_assert_eq!(caught_up.apply(&difference).unwrap().name_count(), 1);
    }
}

/// Returns a zone with names for every kind of broken record, and one that leads to a broken host.
fn zone_with_broken_names() -> Zone {
    let mut builder = ZoneBuilder::new(name("example.").as_name());
    builder.tolerate_broken_names();
    common::add(&mut builder, "example.", 6, &soa(1).2);
    common::add(&mut builder, "host.example.", 16, b"\x01x");
    common::add(
        &mut builder,
        "mail.example.",
        15,
        &[&[0, 5][..], &wire_name("host.example.")].concat(),
    );
    common::add(&mut builder, "cut.example.", 2, &wire_name("ns.elsewhere."));
    common::add(&mut builder, "plain.example.", 1, &address(1));
    builder.add_broken(name("host.example.").as_name(), Some(Type::A));
    builder.add_broken(name("cut.example.").as_name(), Some(Type::DS));
    builder.add_broken(name("empty.example.").as_name(), Some(Type::TXT));
    builder.add_broken(name("ghost.example.").as_name(), Some(Type::NS));
    builder.finish().0.unwrap()
}

fn is_broken(zone: &Zone, question: &str) -> bool {
    zone.find(&NameKey::new(name(question).as_name()))
        .is_broken()
}

const BROKEN: [&str; 4] = [
    "host.example.",
    "cut.example.",
    "x.cut.example.",
    "x.ghost.example.",
];

#[test]
fn an_edit_leaves_broken_names_broken() {
    let mut zone = Arc::new(zone_with_broken_names());
    let edits = [
        Edit::Add(rrset("host.example.", 16, &[b"\x01y"])),
        Edit::Add(rrset("mail.example.", 16, &[b"\x01y"])),
        Edit::Add(rrset("empty.example.", 16, &[b"\x01y"])),
        Edit::DeleteName {
            name: name("empty.example."),
        },
        // Adding and removing a child rewrites its parent.
        Edit::Add(rrset("a.host.example.", 1, &[&address(1)])),
        Edit::DeleteName {
            name: name("a.host.example."),
        },
        Edit::Add(rrset("a.empty.example.", 1, &[&address(1)])),
        Edit::DeleteName {
            name: name("a.empty.example."),
        },
        Edit::DeleteRrset {
            name: name("cut.example."),
            rtype: Type::NS,
        },
        // A new delegation that leads to a broken host is as broken as an old one.
        Edit::Add(rrset("new.example.", 2, &[&wire_name("host.example.")])),
    ];
    for edit in edits {
        let difference = zone.difference_of(&change(vec![edit])).unwrap();
        zone = Arc::new(zone.apply(&difference).unwrap());
        for question in BROKEN {
            assert!(is_broken(&zone, question), "{question}");
        }
        assert!(is_broken(&zone, "empty.example."));
        assert!(!is_broken(&zone, "plain.example."));
    }
    assert!(is_broken(&zone, "new.example."));
    let packed = zone.pack().unwrap();
    for question in BROKEN.iter().chain(&["empty.example.", "new.example."]) {
        assert!(is_broken(&packed, question), "packed: {question}");
    }
}

#[test]
fn a_changed_and_a_packed_version_keep_rank_and_signing() {
    let mut zone = build([soa(1)]);
    zone.set_rank(7);
    zone.set_signing(Some(common::signing("example.")));
    let mut zone = Arc::new(zone);
    for i in 0..1000u32 {
        let owner = format!("n{i}.example.");
        let difference = zone.difference_of(&change(vec![Edit::Add(rrset(
            &owner,
            1,
            &[&i.to_be_bytes()],
        ))]));
        zone = Arc::new(zone.apply(&difference.unwrap()).unwrap());
        assert_eq!(
            (zone.rank(), zone.signing().is_signed()),
            (7, true),
            "after {i} changes"
        );
    }
    let packed = zone.pack().unwrap();
    assert_eq!((packed.rank(), packed.signing().is_signed()), (7, true));
}

#[test]
fn hosts_named_by_records_are_found_in_changed_and_packed_versions() {
    let mx = [&[0, 5][..], &wire_name("mail.example.")].concat();
    let zone = Arc::new(build([soa(1), ("example.".into(), 15, mx)]));
    let target = |zone: &Zone| {
        let record = zone
            .apex()
            .rrset(Type::MX)
            .unwrap()
            .records()
            .next()
            .unwrap();
        zone.target(record).map(|node| node.name().to_string())
    };
    assert_eq!(target(&zone), None);
    let step = |zone: &Arc<Zone>, edit| {
        let difference = zone.difference_of(&change(vec![edit])).unwrap();
        Arc::new(zone.apply(&difference).unwrap())
    };
    let with = step(&zone, Edit::Add(rrset("mail.example.", 1, &[&address(1)])));
    assert_eq!(target(&with).as_deref(), Some("mail.example."));
    let packed = Arc::new(with.pack().unwrap());
    assert_eq!(target(&packed).as_deref(), Some("mail.example."));
    let without = step(
        &packed,
        Edit::DeleteName {
            name: name("mail.example."),
        },
    );
    assert_eq!(target(&without), None);
    // Packing must not take over the location of a deleted host.
    assert_eq!(target(&without.pack().unwrap()), None);
}

#[test]
fn a_large_rrset_is_replaced_in_one_walk() {
    let data = |from: u32| {
        (from..from + 20_000).map(|i| ("a.example.".to_string(), 1, i.to_be_bytes().to_vec()))
    };
    let old: Vec<Rec> = std::iter::once(soa(1)).chain(data(0)).collect();
    let new: Vec<Rec> = std::iter::once(soa(2)).chain(data(10_000)).collect();
    let (old, new) = (Arc::new(build(old)), build(new));
    let difference = new.difference_from(&old);
    assert_eq!(
        (difference.removed.len(), difference.added.len()),
        (10_001, 10_001)
    );
    assert!(!differs(&old.apply(&difference).unwrap(), &new));
}

#[test]
fn a_record_cannot_be_removed_twice_and_its_ttl_does_not_count() {
    let a: Rec = ("a.example.".into(), 1, address(1).to_vec());
    let zone = Arc::new(build([soa(1), a.clone()]));
    let twice = Difference {
        removed: list([&a, &a]),
        added: list([]),
    };
    assert!(matches!(
        zone.apply(&twice),
        Err(ChangeError::NotThere { .. })
    ));
    let once = Difference {
        removed: list([&a]),
        added: list([]),
    };
    assert_eq!(zone.apply(&once).unwrap().name_count(), 1);
}

#[test]
fn edits_that_would_make_a_zone_invalid_are_refused() {
    let zone = build([soa(1)]);
    let refused = |edit| {
        zone.difference_of(&change(vec![edit]))
            .unwrap_err()
            .to_string()
    };
    assert!(refused(Edit::Add(rrset("a.test.", 1, &[&address(1)]))).contains("outside"));
    assert!(
        refused(Edit::Add(rrset("a.example.", 1, &[b"\x01"]))).contains("invalid A record data")
    );
    assert!(refused(Edit::Add(rrset("a.example.", 255, &[b""]))).contains("not allowed in a zone"));
    let mut long = rrset("a.example.", 1, &[&address(1)]);
    long.ttl = u32::MAX;
    assert!(refused(Edit::Add(long)).contains("TTL"));
}

#[test]
fn deleting_the_apex_keeps_soa_and_ns_and_a_set_soa_keeps_its_serial() {
    let ns = ("example.".into(), 2, wire_name("ns.example."));
    let zone = Arc::new(build([
        soa(1),
        ns,
        ("example.".into(), 16, b"\x01x".to_vec()),
    ]));
    let all = zone
        .difference_of(&change(vec![Edit::DeleteName {
            name: name("example."),
        }]))
        .unwrap();
    assert_eq!(all.serials(), Some((Serial(1), Serial(2))));
    let after = zone.apply(&all).unwrap();
    let types: Vec<Type> = after.apex().rrsets().map(|r| r.rtype()).collect();
    assert_eq!(types, [Type::NS, Type::SOA]);
    let set = Edit::Replace(rrset("example.", 6, &[&soa(40).2]));
    let difference = zone.difference_of(&change(vec![set])).unwrap();
    assert_eq!(difference.serials(), Some((Serial(1), Serial(40))));
}

#[test]
fn a_deletion_of_a_soa_that_is_not_there_does_not_keep_the_serial() {
    let zone = build([soa(1), ("a.example.".into(), 1, address(1).to_vec())]);
    let edits = vec![
        Edit::DeleteRrset {
            name: name("b.example."),
            rtype: Type::SOA,
        },
        Edit::DeleteName {
            name: name("a.example."),
        },
    ];
    let difference = zone.difference_of(&change(edits)).unwrap();
    assert_eq!(difference.serials(), Some((Serial(1), Serial(2))));
}

#[test]
fn a_stub_cannot_be_changed() {
    let zone = Arc::new(Zone::not_ready(name("example.").as_name()));
    assert_eq!(
        zone.apply(&Difference::default()).err(),
        Some(ChangeError::NotResident)
    );
}

#[test]
fn an_rrset_does_not_grow_beyond_a_message_and_one_that_did_may_shrink() {
    let ns: Rec = ("example.".into(), 2, wire_name("ns.example."));
    let zone = Arc::new(build([soa(1), ns]));
    let texts = |count: u8| -> Vec<Vec<u8>> {
        let text = |n| [&[250][..], &[n; 250]].concat().repeat(40);
        (0..count).map(text).collect()
    };
    let large = |count: u8| {
        let texts = texts(count);
        let data: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        rrset("big.example.", 16, &data)
    };
    let error = zone.difference_of(&change(vec![Edit::Replace(large(7))]));
    assert!(
        matches!(&error, Err(ChangeError::Invalid { what, .. }) if what.contains("not fit in a DNS message")),
        "{error:?}"
    );
    let fits = change(vec![Edit::Replace(large(6))]);
    let difference = zone.difference_of(&fits).unwrap();
    let zone = Arc::new(zone.apply(&difference).unwrap());
    let more = zone.difference_of(&change(vec![Edit::Add(large(7))]));
    assert!(more.is_err());
    // A version from elsewhere may have it: a transfer or a file.
    let extra = texts(7);
    let added: Rec = ("big.example.".into(), 16, extra[6].clone());
    let from_elsewhere = Difference {
        added: list([&added]),
        ..Difference::default()
    };
    let zone = Arc::new(zone.apply(&from_elsewhere).unwrap());
    let smaller = Edit::DeleteRecords {
        name: name("big.example."),
        rtype: Type(16),
        rdata: vec![extra[6].clone()],
    };
    assert!(zone.difference_of(&change(vec![smaller])).is_ok());
}
