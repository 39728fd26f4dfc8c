//! The denial chain of a zone follows its changes: after each one, it equals the chain built from the contents.

use crate::common::{APEX, Rec, build, contents, list, name, soa, wire_name};
use nameward_dnssec::{Denial, Keys, Nsec3, SignatureCache, Signing, SigningPolicy};
use nameward_testkit::property_cases;
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::Difference;
use nameward_zone::{ChainLister, ListedChain, NameRecord, SigningState, Zone};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

const A: u16 = 1;
const NS: u16 = 2;
const DNAME: u16 = 39;
const DS: u16 = 43;

fn signing(denial: Denial, is_opt_out: bool) -> Arc<Signing> {
    let policy = SigningPolicy {
        denial,
        is_opt_out,
        ..SigningPolicy::default()
    };
    let cache = Arc::new(SignatureCache::new(0));
    let keys = Arc::new(Keys::default());
    Arc::new(Signing::new(
        name(APEX).as_name(),
        keys,
        Arc::new(policy),
        cache,
    ))
}

fn kinds() -> [Arc<Signing>; 3] {
    let nsec3 = || Denial::Nsec3(Nsec3::default());
    [
        signing(Denial::Nsec, false),
        signing(nsec3(), false),
        signing(nsec3(), true),
    ]
}

/// Returns the members with their successors.
fn links(zone: &Zone, signing: &Signing) -> Vec<(String, Vec<u8>)> {
    let chain = zone.chain_for(signing);
    let nsec = chain.hashing().is_none().then(|| chain.nsec_links());
    let nsec = nsec.into_iter().flatten();
    let nsec = nsec.map(|link| {
        (
            link.name.to_string(),
            link.next.as_name().as_wire().to_vec(),
        )
    });
    let nsec3 = chain.hashing().is_some().then(|| chain.nsec3_links());
    let nsec3 = nsec3.into_iter().flatten();
    let nsec3 = nsec3.map(|link| (link.name.to_string(), [link.hash, link.next].concat()));
    nsec.chain(nsec3).collect()
}

fn record(owner: &str, rtype: u16) -> Rec {
    let data = match rtype {
        A => vec![192, 0, 2, 1],
        DS => [&[0, 1, 13, 2][..], &[7; 32]].concat(),
        _ => wire_name("target.other."),
    };
    (owner.into(), rtype, data)
}

#[test]
fn names_that_a_delegation_or_a_dname_hides_are_no_members() {
    let mut records = vec![soa(1), record(APEX, NS)];
    for (owner, rtype) in [
        ("a.b.example.", A),
        ("cut.example.", NS),
        ("ns.cut.example.", A),
        ("moved.example.", DNAME),
        ("x.moved.example.", A),
        ("safe.example.", NS),
        ("safe.example.", DS),
        ("*.example.", A),
    ] {
        records.push(record(owner, rtype));
    }
    let members = |signing: &Signing| -> BTreeSet<String> {
        let zone = build(records.clone());
        links(&zone, signing)
            .into_iter()
            .map(|link| link.0)
            .collect()
    };
    let [nsec, nsec3, opt_out] = kinds();
    let own = [
        "example.",
        "*.example.",
        "a.b.example.",
        "moved.example.",
        "safe.example.",
    ];
    let set = |more: &[&str]| {
        own.iter()
            .chain(more)
            .map(|name| name.to_string())
            .collect()
    };
    assert_eq!(members(&nsec), set(&["cut.example."]));
    assert_eq!(members(&nsec3), set(&["cut.example.", "b.example."]));
    assert_eq!(members(&opt_out), set(&["b.example."]));
}

#[test]
fn the_member_before_a_name_covers_it_and_the_last_leads_to_the_apex() {
    let owners = [
        "b.example.",
        r"B\000.example.",
        r"\001.example.",
        "x.c.example.",
    ];
    let mut records = vec![soa(1)];
    records.extend(owners.map(|owner| record(owner, A)));
    let zone = build(records);
    let chain = zone.chain_for(&kinds()[0]);
    for (asked, owner, next) in [
        ("example.", "example.", r"\001.example."),
        (r"\000.example.", "example.", r"\001.example."),
        (r"\001.example.", r"\001.example.", "b.example."),
        ("B.example.", "b.example.", r"b\000.example."),
        (r"y.b\000.example.", r"b\000.example.", "x.c.example."),
        ("c.example.", r"b\000.example.", "x.c.example."),
        ("z.example.", "x.c.example.", "example."),
    ] {
        let link = chain.nsec_at_or_before(name(asked).as_name()).unwrap();
        let found = (link.name.to_string(), link.next.to_string());
        assert_eq!(found, (owner.into(), next.into()), "{asked}");
    }
}

#[test]
fn a_change_of_one_name_of_many_shares_the_chain() {
    for signing in kinds() {
        let records = (0..20_000).map(|n| record(&format!("n{n}.example."), A));
        let mut zone = build([soa(1)].into_iter().chain(records));
        zone.set_resident_signing(Some(Arc::clone(&signing)));
        let zone = Arc::new(zone);
        let version = |difference: &Difference| Arc::new(zone.apply(difference).unwrap());
        let types = version(&Difference {
            removed: list(&[]),
            added: list(&[record("n7.example.", 16)]),
        });
        let chain_of = |zone: &Zone| match zone.signing() {
            SigningState::Chained(chained) => Arc::clone(&chained.chain),
            _ => panic!("no chain"),
        };
        // Types are not part of it.
        assert!(Arc::ptr_eq(&chain_of(&zone), &chain_of(&types)));
        let more = version(&Difference {
            removed: list(&[]),
            added: list(&[record("new.example.", A)]),
        });
        assert_eq!(chain_of(&more).len(), chain_of(&zone).len() + 1);
        assert_eq!(chain_of(&more).len(), more.name_count());
    }
}

/// Returns the chain of names read in this order, as for a looked-up zone.
fn listed(records: &[Rec], signing: &Signing, bytes_max: usize) -> Option<ListedChain> {
    let mut lister = ChainLister::new(name(APEX).as_name(), signing, bytes_max);
    for (owner, rtype, _) in records {
        lister.push(name(owner).as_name(), NameRecord::Of(Type(*rtype)));
    }
    lister.finish()
}

/// Checks that listed names yield the chain of the zone, including types.
fn check_listed(zone: &Zone, listed: &ListedChain, signing: &Signing) {
    let chain = zone.chain_for(signing);
    assert_eq!(listed.len(), chain.len());
    assert!(listed.fits(signing));
    for link in chain.nsec_links().filter(|_| chain.hashing().is_none()) {
        let (found, types) = listed.nsec_at_or_before(link.name.as_name()).unwrap();
        assert_eq!((found.name, found.next), (link.name, link.next));
        check_types(zone, &link.name, types.iter());
    }
    for link in chain.nsec3_links().filter(|_| chain.hashing().is_some()) {
        let found = listed.nsec3_at_or_before(&link.hash).unwrap();
        assert_eq!((found.hash, found.next), (link.hash, link.next));
        check_types(zone, &link.name, found.types.iter());
    }
}

fn check_types(zone: &Zone, name: &NameBuf, types: impl Iterator<Item = Type>) {
    let node = zone.node_of(name.as_name()).unwrap();
    // Signing adds it at the apex.
    let types = types.filter(|&rtype| rtype != Type::NSEC3PARAM);
    let own: BTreeSet<Type> = node.types_of_denial().collect();
    assert_eq!(types.collect::<BTreeSet<_>>(), own, "{name}");
}

#[test]
fn a_list_that_takes_too_much_memory_or_has_no_soa_makes_no_chain() {
    let records: Vec<Rec> = (0..1000)
        .map(|n| record(&format!("n{n}.example."), A))
        .chain([soa(1)])
        .collect();
    for signing in kinds() {
        assert!(listed(&records, &signing, 1 << 20).is_some());
        assert!(listed(&records, &signing, 1 << 10).is_none());
        assert!(listed(&records[..1000], &signing, 1 << 20).is_none());
    }
}

#[test]
fn listed_names_deny_nothing_that_they_may_have() {
    let signing = &kinds()[0];
    let mut lister = ChainLister::new(name(APEX).as_name(), signing, 1 << 20);
    let of = |rtype| NameRecord::Of(Type(rtype));
    for (owner, record) in [
        (APEX, of(6)),
        ("alias.example.", NameRecord::Of(Type::ALIAS)),
        ("cut.example.", of(NS)),
        ("cut.example.", NameRecord::Unreadable),
        ("left.example.", NameRecord::Of(Type::NSEC3PARAM)),
        ("lua.example.", NameRecord::Computed(Type::AAAA)),
        ("lua.example.", NameRecord::Computed(Type::LUA)),
        ("lua.example.", of(15)),
        ("odd.example.", NameRecord::Unreadable),
        ("other.", of(A)),
    ] {
        lister.push(name(owner).as_name(), record);
    }
    let chain = lister.finish().unwrap();
    let types = |owner: &str| -> Vec<Type> {
        let (link, types) = chain.nsec_at_or_before(name(owner).as_name()).unwrap();
        assert_eq!(link.name, name(owner));
        types.iter().collect()
    };
    assert_eq!(types("alias.example."), [Type::A, Type::AAAA]);
    assert_eq!(types("cut.example."), [Type::NS, Type::DS]);
    assert_eq!(types("left.example."), []);
    assert_eq!(types("lua.example."), [Type::MX, Type::AAAA]);
    assert_eq!(types("odd.example."), [Type::CNAME]);
    assert_eq!(chain.len(), 6);
}

fn owner() -> impl Strategy<Value = String> {
    let label = proptest::sample::select(&["a", "b", "*", r"a\000", "c"][..]);
    let labels = proptest::collection::vec(label, 0..4);
    labels.prop_map(|labels| {
        if labels.is_empty() {
            APEX.to_string()
        } else {
            format!("{}.{APEX}", labels.join("."))
        }
    })
}

fn any_record() -> impl Strategy<Value = Rec> {
    let rtype = proptest::sample::select(&[A, A, NS, DS, DNAME][..]);
    (owner(), rtype).prop_map(|(owner, rtype)| record(&owner, rtype))
}

proptest! {
    #![proptest_config(property_cases(96))]

    #[test]
    fn after_each_change_the_chain_is_that_of_the_contents(
        steps in proptest::collection::vec((proptest::collection::vec((any::<bool>(), any_record()), 1..6), any::<bool>()), 1..12),
    ) {
        for signing in kinds() {
            let mut zone = build([soa(1), record(APEX, NS)]);
            zone.set_resident_signing(Some(Arc::clone(&signing)));
            let mut zone = Arc::new(zone);
            for (changes, packs) in &steps {
                let there = contents(&zone);
                let mut difference = Difference::default();
                let (mut removed, mut added) = (BTreeSet::new(), BTreeSet::new());
                for (is_added, change) in changes {
                    match (is_added, there.contains(change)) {
                        (true, false) => added.insert(change.clone()),
                        (false, true) if change.0 != APEX => removed.insert(change.clone()),
                        _ => false,
                    };
                }
                difference.removed = list(&removed);
                difference.added = list(&added);
                if let Ok(version) = zone.apply(&difference) {
                    zone = Arc::new(version);
                }
                if *packs {
                    zone = Arc::new(zone.pack().unwrap());
                }
                let SigningState::Chained(chained) = zone.signing() else { panic!("no chain") };
                prop_assert!(Arc::ptr_eq(&chained.chain, &zone.chain_for(&signing)));
                let rebuilt = build(contents(&zone));
                prop_assert_eq!(links(&zone, &signing), links(&rebuilt, &signing));
                let mut rows: Vec<Rec> = contents(&zone).into_iter().collect();
                rows.sort_by_key(|row| row.1);
                check_listed(&zone, &listed(&rows, &signing, 1 << 20).unwrap(), &signing);
                for link in links(&zone, &signing) {
                    let owner: NameBuf = link.0.parse().unwrap();
                    prop_assert!(zone.node_of(owner.as_name()).is_some());
                }
            }
        }
    }
}
