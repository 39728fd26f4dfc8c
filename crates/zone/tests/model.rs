//! Zones compared with a naive model: a sorted map of names that is searched label by label.

use crate::common::{APEX, Rec, add, build, contents, list, name, soa, wire_name};
use nameward_testkit::property_cases;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::change::Difference;
use nameward_zone::{Find, NameKey, WireRecord, Zone, ZoneBuilder, ZoneTable};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Few labels, so that names collide.
fn owner() -> impl Strategy<Value = String> {
    let label = prop_oneof![
        Just("a".to_string()),
        Just("B".to_string()),
        Just("*".to_string()),
        Just(r"\000".to_string()),
        Just("a-label-of-some-length".to_string()),
    ];
    proptest::collection::vec(label, 0..4).prop_map(|labels| {
        labels
            .iter()
            .fold(APEX.to_string(), |name, label| format!("{label}.{name}"))
    })
}

fn record() -> impl Strategy<Value = Rec> {
    let data = prop_oneof![
        4 => any::<u8>().prop_map(|n| (1u16, vec![192, 0, 2, n % 4])),
        1 => owner().prop_map(|target| (2u16, wire_name(&target))),
        1 => any::<u8>().prop_map(|n| (16u16, vec![1, n % 4])),
        1 => Just((39u16, wire_name("elsewhere.test."))),
        1 => owner().prop_map(|target| (15u16, [vec![0, 5], wire_name(&target)].concat())),
    ];
    (owner(), data).prop_map(|(owner, (rtype, rdata))| (owner, rtype, rdata))
}

fn records() -> impl Strategy<Value = BTreeSet<Rec>> {
    proptest::collection::btree_set(record(), 0..25).prop_map(|mut set| {
        // One DNAME per name, and the SOA.
        let lower = |r: Rec| (r.0.to_ascii_lowercase(), r.1, r.2.to_ascii_lowercase());
        set = set.into_iter().map(lower).collect();
        set.insert(soa(1));
        set
    })
}

/// Returns the names of the model with their types, including all ancestors.
fn names(records: &BTreeSet<Rec>) -> BTreeMap<Vec<u8>, BTreeSet<u16>> {
    let mut names: BTreeMap<Vec<u8>, BTreeSet<u16>> = BTreeMap::new();
    for (owner, rtype, _) in records {
        let owner = name(owner);
        names
            .entry(owner.as_name().as_wire().to_vec())
            .or_default()
            .insert(*rtype);
        let mut ancestor = owner.as_name();
        while ancestor != name(APEX).as_name() {
            ancestor = ancestor.parent().unwrap();
            names.entry(ancestor.as_wire().to_vec()).or_default();
        }
    }
    names
}

/// Searches as in RFC 1034 section 4.3.2 and RFC 4592, label by label from the top.
fn model_find(names: &BTreeMap<Vec<u8>, BTreeSet<u16>>, question: Name<'_>) -> String {
    let apex = name(APEX);
    let mut path = vec![question];
    while *path.last().unwrap() != apex.as_name() {
        path.push(path.last().unwrap().parent().unwrap());
    }
    let mut encloser = apex.as_name();
    for ancestor in path.into_iter().rev() {
        let lower = ancestor.as_wire().to_ascii_lowercase();
        let Some(types) = names.get(&lower) else {
            let wildcard = NameBuf::join(b"\x01*", encloser).unwrap();
            let found = names.contains_key(&wildcard.as_name().as_wire().to_ascii_lowercase());
            return format!(
                "{} {}",
                if found { "wildcard" } else { "missing" },
                encloser.label_count()
            );
        };
        let (is_apex, is_end) = (ancestor == apex.as_name(), ancestor == question);
        if types.contains(&2) && !is_apex {
            return format!("cut {ancestor} {is_end}").to_ascii_lowercase();
        }
        if types.contains(&39) && !is_end {
            return format!("dname {ancestor}").to_ascii_lowercase();
        }
        encloser = ancestor;
    }
    format!("exact {question}").to_ascii_lowercase()
}

fn describe(found: Find<'_>) -> String {
    let text = match found {
        Find::Exact(node) => format!("exact {}", node.name()),
        Find::Cut { node, exact } => format!("cut {} {exact}", node.name()),
        Find::Dname { node, .. } => format!("dname {}", node.name()),
        Find::Wildcard { encloser, .. } => format!("wildcard {encloser}"),
        Find::Missing { encloser } => format!("missing {encloser}"),
    };
    text.to_ascii_lowercase()
}

fn assert_same(zone: &Zone, records: &BTreeSet<Rec>, questions: &[String]) {
    let names = names(records);
    assert_eq!(&contents(zone), records);
    assert_eq!(
        zone.name_count(),
        names.len(),
        "names, empty non-terminals included"
    );
    let ordered: Vec<NameBuf> = zone
        .nodes_in_order()
        .map(|node| node.name().into())
        .collect();
    assert!(
        ordered
            .windows(2)
            .all(|w| w[0].as_name().canonical_cmp(w[1].as_name()).is_lt())
    );
    for question in questions {
        let question = name(question);
        let key = NameKey::new(question.as_name());
        assert_eq!(
            describe(zone.find(&key)),
            model_find(&names, question.as_name()),
            "{question}"
        );
    }
}

fn difference(old: &BTreeSet<Rec>, new: &BTreeSet<Rec>) -> Difference {
    Difference {
        removed: list(old.difference(new)),
        added: list(new.difference(old)),
    }
}

/// A record of a difference: owner in lower case, type, TTL, data.
type Listed = (String, Type, u32, Vec<u8>);

/// Returns the records of a difference in a fixed order.
fn sorted(difference: &Difference) -> [Vec<Listed>; 2] {
    [&difference.removed, &difference.added].map(|list| {
        let record = |r: WireRecord<'_>| {
            let owner = r.owner.to_string().to_ascii_lowercase();
            (owner, r.rtype, r.ttl, r.rdata.to_vec())
        };
        let mut records: Vec<_> = list.iter().map(record).collect();
        records.sort();
        records
    })
}

proptest! {
    #![proptest_config(property_cases(400))]

    #[test]
    fn a_zone_finds_what_the_model_finds(records in records(), questions in proptest::collection::vec(owner(), 30), seed in any::<u64>()) {
        // In any order: the builder must handle owners that reappear.
        let mut shuffled: Vec<Rec> = records.iter().cloned().collect();
        shuffled.sort_by_key(|r| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (r.0.len() as u64 * 31 + r.2.len() as u64 * 7 + r.1 as u64).wrapping_mul(seed | 1));
        assert_same(&build(shuffled), &records, &questions);
    }

    #[test]
    fn a_changed_zone_equals_one_built_from_its_records(versions in proptest::collection::vec(records(), 2..5), questions in proptest::collection::vec(owner(), 20)) {
        let first = Arc::new(build(versions[0].iter().cloned()));
        let mut zone = first.clone();
        for pair in versions.windows(2) {
            let step = difference(&pair[0], &pair[1]);
            let next = Arc::new(zone.apply(&step).unwrap());
            assert_same(&next, &pair[1], &questions);
            prop_assert_eq!(sorted(&next.difference_from(&zone)), sorted(&step));
            // Also if the versions share nothing.
            let rebuilt = build(pair[1].iter().cloned());
            prop_assert_eq!(sorted(&rebuilt.difference_from(&zone)), sorted(&step));
            prop_assert!(rebuilt.difference_from(&next).is_empty());
            zone = next;
        }
    }
}

#[test]
fn many_changes_are_packed_again_and_stay_right() {
    let mut records = BTreeSet::from([soa(1)]);
    let mut zone = Arc::new(build(records.iter().cloned()));
    for i in 0..1000u32 {
        let before = records.clone();
        records.insert((format!("n{i}.deep.example."), 1, i.to_be_bytes().to_vec()));
        if i > 500 {
            records.remove(&(
                format!("n{}.deep.example.", i - 500),
                1,
                (i - 500).to_be_bytes().to_vec(),
            ));
        }
        zone = Arc::new(zone.apply(&difference(&before, &records)).unwrap());
    }
    assert_same(
        &zone,
        &records,
        &["n999.deep.example.".into(), "n3.deep.example.".into()],
    );
}

#[test]
fn a_change_that_breaks_the_zone_is_refused() {
    let zone = Arc::new(build([soa(1), ("a.example.".into(), 1, vec![1, 2, 3, 4])]));
    let change = |removed: &[Rec], added: &[Rec]| {
        zone.apply(&Difference {
            removed: list(removed),
            added: list(added),
        })
        .map(|_| ())
        .unwrap_err()
        .to_string()
    };
    assert!(change(&[soa(1)], &[]).contains("needs an SOA"));
    assert!(
        change(&[], &[("a.example.".into(), 5, wire_name("b.example."))])
            .contains("cannot coexist")
    );
    assert!(change(&[("b.example.".into(), 1, vec![1, 2, 3, 4])], &[]).contains("no such record"));
    assert!(change(&[], &[("a.test.".into(), 1, vec![1, 2, 3, 4])]).contains("outside"));
    assert!(change(&[], &[soa(2)]).contains("several"));
}

#[test]
fn the_longest_zone_answers_and_ds_goes_to_the_parent() {
    let zone = |apex: &str| {
        let mut builder = ZoneBuilder::new(name(apex).as_name());
        add(&mut builder, apex, 6, &soa(1).2);
        Arc::new(builder.finish().0.unwrap())
    };
    let mut table = ZoneTable::default();
    for apex in ["org.", "Example.org.", "sub.example.ORG.", "net."] {
        table.insert(zone(apex));
    }
    table.insert(zone("example.org."));
    assert_eq!(table.len(), 4);
    let find = |table: &ZoneTable, text: &str, qtype| {
        let key = NameKey::new(name(text).as_name());
        table
            .zone_for(&key, qtype)
            .map(|zone| zone.apex_name().to_string().to_lowercase())
    };
    assert_eq!(
        find(&table, "www.EXAMPLE.org.", Type::A).as_deref(),
        Some("example.org.")
    );
    assert_eq!(
        find(&table, "x.sub.example.org.", Type::DS).as_deref(),
        Some("sub.example.org.")
    );
    assert_eq!(
        find(&table, "sub.example.org.", Type::DS).as_deref(),
        Some("example.org.")
    );
    assert_eq!(find(&table, "net.", Type::DS).as_deref(), Some("net."));
    assert_eq!(find(&table, "com.", Type::A), None);
    assert_eq!(find(&table, ".", Type::A), None);
    assert!(table.remove(name("EXAMPLE.ORG.").as_name()));
    assert!(!table.remove(name("example.org.").as_name()));
    assert_eq!(
        find(&table, "www.example.org.", Type::A).as_deref(),
        Some("org.")
    );
    table.insert(zone("."));
    assert_eq!(find(&table, "com.", Type::A).as_deref(), Some("."));
}

#[test]
fn the_zone_that_is_prefetched_is_the_one_that_answers() {
    let mut table = ZoneTable::default();
    for n in 0..5000 {
        let apex = match n % 3 {
            0 => format!("zone{n}.example."),
            1 => format!("zone{n}."),
            _ => format!("a.b.zone{n}.test."),
        };
        let mut builder = ZoneBuilder::new(name(&apex).as_name());
        add(&mut builder, &apex, 6, &soa(1).2);
        table.insert(Arc::new(builder.finish().0.unwrap()));
        let key = |text: &str| NameKey::new(name(text).as_name());
        for below in ["", "www.", "x.y.z."] {
            let key = key(&format!("{below}{apex}"));
            let likely = table.likely_match(&key).unwrap();
            let answers = table.zone_for(&key, Type::A).unwrap();
            assert!(std::ptr::eq(likely, &**answers), "{below}{apex}");
        }
        assert!(
            table
                .likely_match(&key(&format!("none{n}.test.")))
                .is_none()
        );
    }
}

#[test]
fn a_name_noted_as_existing_exists_with_its_ancestors_and_as_a_wildcard() {
    let mut builder = ZoneBuilder::new(name(APEX).as_name());
    let (owner, rtype, rdata) = soa(1);
    add(&mut builder, &owner, rtype, &rdata);
    add(&mut builder, "full.example.", 1, &[192, 0, 2, 1]);
    for empty in [
        "a.b.example.",
        "*.c.example.",
        "full.example.",
        "example.",
        "elsewhere.test.",
    ] {
        builder.add_empty(name(empty).as_name());
    }
    let (zone, findings) = builder.finish();
    let zone = zone.unwrap_or_else(|| panic!("{findings:?}"));
    let find = |text: &str| match zone.find(&NameKey::new(name(text).as_name())) {
        Find::Exact(node) if node.is_empty() => "empty",
        Find::Exact(_) => "records",
        Find::Wildcard { node, .. } if node.is_empty() => "empty wildcard",
        Find::Missing { .. } => "missing",
        _ => "other",
    };
    assert_eq!(find("a.b.example."), "empty");
    assert_eq!(find("b.example."), "empty");
    assert_eq!(find("c.b.example."), "missing");
    assert_eq!(find("x.c.example."), "empty wildcard");
    assert_eq!(find("full.example."), "records");
    assert_eq!(zone.name_count(), 6);
}

#[test]
fn names_deep_below_an_apex_that_is_a_wildcard_have_their_ancestors() {
    let apex: NameBuf = "*.example.".parse().unwrap();
    let mut builder = ZoneBuilder::new(apex.as_name());
    let text = b"@ 60 SOA ns.other. host.other. 1 2 3 4 5\n@ 60 NS ns.other.\na.b 60 TXT x\n";
    parse_bytes("zone", text, &Options::new(apex), &mut builder);
    let zone = builder.finish().0.unwrap();
    let ancestor: NameBuf = "b.*.example.".parse().unwrap();
    let found = zone.find(&NameKey::new(ancestor.as_name()));
    assert!(matches!(found, Find::Exact(_)));
}
