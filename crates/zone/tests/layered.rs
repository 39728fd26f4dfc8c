//! Versions over the common version of their zone.

use crate::common::{APEX, Rec, build, contents, differs, name, soa, wire_name};
use nameward_testkit::property_cases;
use nameward_wire::rdata::BitmapBuilder;
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::LayerError;
use nameward_zone::{Serial, Zone};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

const NAMES: [&str; 6] = [
    "example.",
    "a.example.",
    "b.a.example.",
    "*.a.example.",
    "c.example.",
    "deep.er.c.example.",
];

fn hide(owner: &str, types: &[u16]) -> Rec {
    let mut bitmap = BitmapBuilder::default();
    types.iter().for_each(|rtype| bitmap.add(Type(*rtype)));
    let mut rdata = Vec::new();
    bitmap.write(&mut rdata);
    (owner.into(), Type::HIDE.0, rdata)
}

fn text(owner: &str, n: u8) -> Rec {
    (owner.into(), 16, vec![1, n])
}

fn address(owner: &str, n: u8) -> Rec {
    (owner.into(), 1, vec![192, 0, 2, n])
}

fn cname(owner: &str) -> Rec {
    (owner.into(), 5, wire_name("elsewhere."))
}

fn version(records: impl IntoIterator<Item = Rec>) -> Arc<Zone> {
    let zone = build(records);
    let id = NameBuf::with_variant(name(APEX).as_name(), "inside").unwrap();
    zone.set_id(id.as_name());
    Arc::new(zone)
}

#[test]
fn rrsets_of_a_version_replace_those_of_the_common_one() {
    let common = Arc::new(build([
        soa(100),
        address("a.example.", 1),
        text("a.example.", 1),
        address("b.example.", 1),
        cname("c.example."),
        address("x.d.example.", 1),
        text("d.example.", 1),
        (APEX.into(), 2, wire_name("ns.example.")),
    ]));
    let own = version([
        soa(7),
        address("a.example.", 9),
        cname("b.example."),
        address("c.example.", 9),
        hide("d.example.", &[16]),
        hide("x.d.example.", &[255]),
        // A zone has always a SOA and name servers.
        hide(APEX, &[255]),
        hide("never.example.", &[1]),
    ]);
    let served = Arc::new(own.layered_over(&common).unwrap());
    let expected: BTreeSet<Rec> = [
        soa(107),
        (APEX.into(), 2, wire_name("ns.example.")),
        address("a.example.", 9),
        text("a.example.", 1),
        cname("b.example."),
        address("c.example.", 9),
    ]
    .into();
    assert_eq!(contents(&served), expected);
    assert!(!differs(&served, &build(expected)), "no name is left over");
    assert_eq!(served.id().to_string(), "example..inside");
    assert_eq!(served.serial(), Serial(107));
    assert!(Arc::ptr_eq(&served.stored(), &own) && served.is_layered());
    assert!(Arc::ptr_eq(&own.stored(), &own));
}

#[test]
fn a_version_without_a_common_one_in_memory_keeps_its_contents() {
    let own = version([soa(1), address("a.example.", 1)]);
    let live = Arc::new(Zone::stub(name(APEX).as_name(), 0, 1));
    assert_eq!(own.layered_over(&live).err(), Some(LayerError::LiveBase));
    let waiting = Arc::new(own.without_base());
    assert!(waiting.is_stub() && !waiting.is_ready());
    assert_eq!(waiting.id().to_string(), "example..inside");
    assert!(Arc::ptr_eq(&waiting.stored(), &own));
}

#[test]
fn the_sum_of_serials_increases_across_the_wrap() {
    let serial = |common: u32, own: u32| {
        let common = Arc::new(build([soa(common)]));
        version([soa(own)]).layered_over(&common).unwrap().serial()
    };
    for (common, own) in [(1, 1), (u32::MAX, 1), (u32::MAX - 1, u32::MAX), (0, 0)] {
        let before = serial(common, own);
        assert!(serial(common.wrapping_add(1), own).is_after(before));
        assert!(serial(common, own.wrapping_add(1)).is_after(before));
    }
}

/// Records at one of the names: a set of numbers, of which the first ones are texts and the others addresses.
fn records() -> impl Strategy<Value = BTreeSet<Rec>> {
    let one = (0..NAMES.len(), 0..2u8, 0..4u8).prop_map(|(owner, kind, n)| match kind {
        0 => text(NAMES[owner], n),
        _ => address(NAMES[owner], n),
    });
    prop::collection::btree_set(one, 0..12)
}

proptest! {
    #![proptest_config(property_cases(256))]

    #[test]
    fn a_layered_zone_is_the_zone_of_its_records(common in records(), own in records()) {
        let with_soa = |records: &BTreeSet<Rec>, serial| {
            let mut records = records.clone();
            records.insert(soa(serial));
            records
        };
        let base = Arc::new(build(with_soa(&common, 5)));
        let served = version(with_soa(&own, 6)).layered_over(&base).unwrap();
        let has = |rec: &&Rec| !own.iter().any(|(owner, rtype, _)| (owner, rtype) == (&rec.0, &rec.1));
        let expected: BTreeSet<Rec> = common.iter().filter(has).chain(&own).cloned().collect();
        let expected = build(with_soa(&expected, 11));
        prop_assert!(!differs(&served, &expected));
        prop_assert_eq!(contents(&served), contents(&expected));
    }
}
