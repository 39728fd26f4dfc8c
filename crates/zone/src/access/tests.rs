//! Access lists checked against a naive evaluation of their entries, and rules checked against the
//! zones of a table.

use super::*;
use crate::{NameKey, Zone, ZoneTable};
use nameward_wire::{NameBuf, Type};
use proptest::prelude::*;

fn entry(text: &str) -> AccessEntry {
    let (is_negated, text) = match text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if let Some(key) = text.strip_prefix("key:") {
        let term = AccessWord::Key(key.parse().unwrap());
        return AccessEntry { is_negated, term };
    }
    let term = match text.split_once('/') {
        _ if text == "any" => AccessWord::Any,
        Some((address, bits)) => {
            AccessWord::Network(address.parse().unwrap(), bits.parse().unwrap())
        }
        None => {
            let address: IpAddr = text.parse().unwrap();
            AccessWord::Network(address, if address.is_ipv4() { 32 } else { 128 })
        }
    };
    AccessEntry { is_negated, term }
}

fn list(entries: &[&str]) -> AccessList {
    AccessList::new(&entries.iter().map(|text| entry(text)).collect::<Vec<_>>())
}

fn contains(list: &AccessList, client: &str) -> bool {
    list.contains(client.parse().unwrap())
}

#[test]
fn the_first_entry_that_matches_decides() {
    let some = list(&["!192.0.2.1", "192.0.2.0/24", "!192.0.2.2", "2001:db8::/32"]);
    for (client, expected) in [
        ("192.0.2.1", false),
        ("192.0.2.2", true),
        ("192.0.2.255", true),
        ("192.0.3.0", false),
        ("::ffff:192.0.2.2", true),
        ("2001:db8::1", true),
        ("2001:db9::", false),
        ("::", false),
    ] {
        assert_eq!(contains(&some, client), expected, "{client}");
    }
    assert!(list(&["any"]).is_any() && list(&["0.0.0.0/0", "::/0"]).is_any());
    assert!(!list(&["0.0.0.0/0"]).is_any());
    assert!(!contains(&list(&["!any", "any"]), "192.0.2.1"));
    assert!(!contains(&list(&[]), "192.0.2.1"));
    let edges = list(&[
        "0.0.0.0",
        "255.255.255.255",
        "::",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    ]);
    assert!(contains(&edges, "0.0.0.0") && contains(&edges, "255.255.255.255"));
    assert!(contains(&edges, "::") && !contains(&edges, "::1"));
}

#[test]
fn a_list_in_a_list_matches_with_its_own_addresses_only() {
    let inner = list(&["!192.0.2.1", "192.0.2.0/24"]);
    let nested = |is_negated| AccessEntry {
        is_negated,
        term: AccessWord::List(inner.clone()),
    };
    let positive = AccessList::new(&[nested(false), entry("192.0.2.1")]);
    assert!(contains(&positive, "192.0.2.1") && contains(&positive, "192.0.2.9"));
    let negative = AccessList::new(&[nested(true), entry("any")]);
    assert!(contains(&negative, "192.0.2.1") && !contains(&negative, "192.0.2.9"));
}

#[test]
fn a_key_lets_in_from_anywhere_and_its_letter_case_does_not_matter() {
    let some = list(&["!192.0.2.1", "key:Transfer.Example.", "198.51.100.0/24"]);
    let allows = |client: &str, key: Option<&str>| {
        let key = key.map(name);
        some.allows(&AccessClient::in_plain_text(
            client.parse().unwrap(),
            key.as_ref().map(NameBuf::as_name),
        ))
    };
    assert!(allows("203.0.113.1", Some("tRANSFER.example.")));
    assert!(!allows("203.0.113.1", Some("other.example.")));
    assert!(!allows("203.0.113.1", None));
    assert!(
        !allows("192.0.2.1", Some("transfer.example.")),
        "the first entry decides"
    );
    assert!(allows("198.51.100.1", Some("other.example.")) && allows("198.51.100.1", None));
    assert!(!some.is_none() && !list(&["key:a."]).is_none());
    assert!(list(&["any", "key:a."]).is_any() && !list(&["!key:a.", "any"]).is_any());
    assert_eq!(list(&["any", "key:a."]), list(&["any"]));
}

fn over_tls(network: Option<(IpAddr, u8)>, key: Option<&str>, term: TlsTerm) -> AccessEntry {
    AccessEntry::positive(AccessWord::OverTls(Box::new(TlsEntry {
        network,
        key: key.map(|key| key.parse().unwrap()),
        term,
    })))
}

#[test]
fn an_entry_with_tls_matches_encrypted_connections_alone() {
    let network = Some(("192.0.2.0".parse().unwrap(), 24));
    let named = || TlsTerm::Name("ns2.example".into());
    let peer = |names: &[&str], pin| TlsPeer {
        names: names.iter().map(|name| (*name).into()).collect(),
        pin,
    };
    let (bare, with_name) = (
        peer(&[], None),
        peer(&["x.example", "ns2.example"], Some([1; 32])),
    );
    let with_pin = peer(&[], Some([7; 32]));
    let client = |address: &str, tls| AccessClient {
        tls,
        ..AccessClient::in_plain_text(address.parse().unwrap(), None)
    };
    let check = |list: &AccessList, tls| list.allows(&client("192.0.2.1", tls));

    let encrypted = AccessList::new(&[over_tls(network, None, TlsTerm::Encrypted)]);
    assert!(check(&encrypted, Some(&bare)) && !check(&encrypted, None));
    assert!(!encrypted.allows(&client("198.51.100.1", Some(&bare))));
    assert!(!encrypted.is_none() && !encrypted.is_any());
    assert!(!encrypted.contains("192.0.2.1".parse().unwrap()));

    let name = AccessList::new(&[over_tls(None, None, named())]);
    assert!(check(&name, Some(&with_name)));
    assert!(!check(&name, Some(&with_pin)) && !check(&name, Some(&bare)) && !check(&name, None));

    let pin = AccessList::new(&[over_tls(None, None, TlsTerm::Pin([7; 32]))]);
    assert!(check(&pin, Some(&with_pin)) && !check(&pin, Some(&with_name)));

    // All conditions of an entry must hold, and the first entry that matches decides.
    let signed = AccessList::new(&[over_tls(None, Some("k.example."), named())]);
    assert_eq!(signed.named_keys().count(), 1);
    let key: NameBuf = "K.example.".parse().unwrap();
    let with_key = AccessClient {
        key: Some(key.as_name()),
        ..client("192.0.2.1", Some(&with_name))
    };
    assert!(signed.allows(&with_key) && !check(&signed, Some(&with_name)));
    let denied = AccessEntry {
        is_negated: true,
        ..over_tls(None, None, named())
    };
    let except = AccessList::new(&[denied, entry("192.0.2.0/24")]);
    assert!(check(&except, None) && check(&except, Some(&bare)));
    assert!(!check(&except, Some(&with_name)));

    // Sets of lists keep the conditions.
    let both = name.union(&list(&["198.51.100.0/24"]));
    assert!(check(&both, Some(&with_name)) && !check(&both, None));
    let narrow = encrypted.intersection(&list(&["192.0.2.1"]));
    assert!(check(&narrow, Some(&bare)) && !check(&narrow, None));
    assert!(!narrow.allows(&client("192.0.2.2", Some(&bare))));
    assert_eq!(AccessList::new(&narrow.entries()), narrow);
}

/// Evaluates a list by walking its entries.
fn plainly(entries: &[AccessEntry], client: IpAddr, key: Option<Name<'_>>) -> bool {
    let is_in = |address: &IpAddr, bits: &u8| match (address, client) {
        (IpAddr::V4(network), IpAddr::V4(client)) => {
            let shift = 32 - u32::from(*bits);
            network.to_bits().checked_shr(shift) == client.to_bits().checked_shr(shift)
        }
        (IpAddr::V6(network), IpAddr::V6(client)) => {
            let shift = 128 - u32::from(*bits);
            network.to_bits().checked_shr(shift) == client.to_bits().checked_shr(shift)
        }
        _ => false,
    };
    for entry in entries {
        let is_match = match &entry.term {
            AccessWord::Any => true,
            AccessWord::Network(address, bits) => is_in(address, bits),
            AccessWord::Key(name) => key == Some(name.as_name()),
            AccessWord::NetworkWithKey(address, bits, name) => {
                is_in(address, bits) && key == Some(name.as_name())
            }
            AccessWord::OverTls(_) => false,
            AccessWord::List(list) => list.allows(&AccessClient::in_plain_text(client, key)),
        };
        if is_match {
            return !entry.is_negated;
        }
    }
    false
}

/// Addresses close to each other, so that networks overlap, touch and contain each other.
fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0_u32..64).prop_map(|low| IpAddr::V4(low.into())),
        (0_u32..64).prop_map(|low| IpAddr::V4((u32::MAX - low).into())),
        (0_u128..64).prop_map(|low| IpAddr::V6((low + (1 << 100)).into())),
        (0_u128..64).prop_map(|low| IpAddr::V6((u128::MAX - low).into())),
    ]
}

fn key() -> impl Strategy<Value = NameBuf> {
    prop::sample::select(vec![name("a."), name("b."), name("c.")])
}

fn entries() -> impl Strategy<Value = Vec<AccessEntry>> {
    let width = |address: IpAddr| if address.is_ipv4() { 32 } else { 128 };
    let term = prop_oneof![
        (address(), 0_u8..8).prop_map(move |(address, bits)| match bits {
            7 => AccessWord::Any,
            bits => AccessWord::Network(address, width(address) - bits),
        }),
        key().prop_map(AccessWord::Key),
        (address(), 0_u8..8, key()).prop_map(move |(address, bits, key)| {
            AccessWord::NetworkWithKey(address, width(address) - bits, key)
        }),
    ];
    let entry =
        (any::<bool>(), term).prop_map(|(is_negated, term)| AccessEntry { is_negated, term });
    prop::collection::vec(entry, 0..12)
}

proptest! {
    #[test]
    fn ranges_decide_as_the_entries_do(
        one in entries(), other in entries(), negated: bool, client in address(),
        key in prop::option::of(key())
    ) {
        let key = key.as_ref().map(NameBuf::as_name);
        let (first, second) = (AccessList::new(&one), AccessList::new(&other));
        prop_assert_eq!(first.allows(&AccessClient::in_plain_text(client, key)), plainly(&one, client, key));
        prop_assert_eq!(first.contains(client), plainly(&one, client, None));
        let mut nested = one.clone();
        nested.insert(one.len() / 2, AccessEntry {
            is_negated: negated,
            term: AccessWord::List(second.clone()),
        });
        prop_assert_eq!(AccessList::new(&nested).allows(&AccessClient::in_plain_text(client, key)), plainly(&nested, client, key));
        let both = first.allows(&AccessClient::in_plain_text(client, key)) && second.allows(&AccessClient::in_plain_text(client, key));
        prop_assert_eq!(first.intersection(&second).allows(&AccessClient::in_plain_text(client, key)), both);
        let either = first.allows(&AccessClient::in_plain_text(client, key)) || second.allows(&AccessClient::in_plain_text(client, key));
        prop_assert_eq!(first.union(&second).allows(&AccessClient::in_plain_text(client, key)), either);
    }
}

fn name(text: &str) -> NameBuf {
    text.parse().unwrap()
}

fn table(zones: &[&str]) -> ZoneTable {
    let mut table = ZoneTable::default();
    for zone in zones {
        add(&mut table, zone);
    }
    table
}

fn add(table: &mut ZoneTable, zone: &str) {
    table.offer(Arc::new(Zone::stub(name(zone).as_name(), 0, 1)));
}

fn may_ask(table: &ZoneTable, qname: &str, client: &str) -> Option<bool> {
    let key = NameKey::new(name(qname).as_name());
    let found = table.match_for(&key, Type::A)?;
    let client = AccessClient::in_plain_text(client.parse().unwrap(), None);
    Some(table.allows(found, &client))
}

fn rules(zones: &[(&str, &[&str])], default: Option<&[&str]>) -> Arc<AccessRules> {
    let mut rules = AccessRules::default();
    for (zone, entries) in zones {
        rules.set_zone(name(zone).as_name(), Arc::new(list(entries)));
    }
    rules.default = default.map(|entries| Arc::new(list(entries)));
    Arc::new(rules)
}

#[test]
fn a_zone_has_its_own_list_whether_it_comes_before_the_rules_or_after() {
    let mut table = table(&["example.", "Internal.example."]);
    table.set_access(
        AccessSource::Configured,
        rules(
            &[("internal.EXAMPLE.", &["192.0.2.0/24"]), ("later.", &[])],
            None,
        ),
    );
    add(&mut table, "later.");
    for (qname, client, expected) in [
        ("www.example.", "198.51.100.1", Some(true)),
        ("www.internal.example.", "198.51.100.1", Some(false)),
        ("www.internal.example.", "192.0.2.7", Some(true)),
        ("later.", "192.0.2.7", Some(false)),
        ("other.", "192.0.2.7", None),
    ] {
        assert_eq!(may_ask(&table, qname, client), expected, "{qname} {client}");
    }
    // Many zones, so that slots are redistributed.
    (0..5000).for_each(|n| add(&mut table, &format!("z{n}.")));
    (0..5000).for_each(|n| assert_eq!(may_ask(&table, &format!("z{n}."), "192.0.2.7"), Some(true)));
    assert_eq!(
        may_ask(&table, "internal.example.", "198.51.100.1"),
        Some(false)
    );
    table.set_access(AccessSource::Configured, Arc::default());
    assert_eq!(
        may_ask(&table, "internal.example.", "198.51.100.1"),
        Some(true)
    );
}

#[test]
fn the_list_of_the_operator_comes_before_an_imported_one_and_that_before_the_default() {
    let mut table = table(&["a.", "b.", "c."]);
    let imported = rules(&[("a.", &["192.0.2.1"]), ("b.", &["192.0.2.1"])], None);
    table.set_access(AccessSource::Imported, imported);
    let own = rules(&[("a.", &["any"])], Some(&["192.0.2.2"]));
    table.set_access(AccessSource::Configured, own);
    let who =
        |zone| ["192.0.2.1", "192.0.2.2"].map(|client| may_ask(&table, zone, client).unwrap());
    assert_eq!(who("a."), [true, true]);
    assert_eq!(who("b."), [true, false]);
    assert_eq!(who("c."), [false, true]);
}

#[test]
fn leftovers_keep_what_is_about_to_go_and_never_widen_what_is_new() {
    let old = rules(&[("gone.", &["192.0.2.1"]), ("kept.", &["any"])], Some(&[]));
    let new = rules(&[("kept.", &["192.0.2.2"])], None);
    let merged = new.with_leftovers_of(&old);
    assert_eq!(
        merged.zone(name("gone.").as_name()),
        old.zone(name("gone.").as_name())
    );
    assert_eq!(
        merged.zone(name("kept.").as_name()),
        new.zone(name("kept.").as_name())
    );
    assert_eq!(merged.default, old.default);
}

#[test]
fn both_sources_blackhole() {
    let mut table = ZoneTable::default();
    assert!(table.blackhole().is_none());
    for (source, address) in [
        (AccessSource::Configured, "192.0.2.1"),
        (AccessSource::Imported, "192.0.2.2"),
    ] {
        let rules = AccessRules {
            blackhole: Some(Arc::new(list(&[address]))),
            ..AccessRules::default()
        };
        table.set_access(source, Arc::new(rules));
    }
    let dropped = table.blackhole().unwrap();
    assert_eq!(
        ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|client| contains(dropped, client)),
        [true, true, false]
    );
}

#[test]
fn entries_make_the_list_that_they_come_from() {
    let key = |text: &str| NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap();
    let net = |text: &str, bits| AccessWord::Network(text.parse().unwrap(), bits);
    let not = |term| AccessEntry {
        is_negated: true,
        term,
    };
    let inner = AccessList::new(&[
        not(net("10.1.0.0", 16)),
        AccessEntry::positive(AccessWord::Any),
    ]);
    for entries in [
        vec![],
        vec![AccessEntry::positive(AccessWord::Any)],
        vec![
            not(net("10.0.0.1", 32)),
            AccessEntry::positive(net("10.0.0.0", 8)),
            AccessEntry::positive(net("2001:db8::", 32)),
        ],
        // Signed and from that network, as BIND users write it.
        vec![
            not(AccessWord::List(inner.clone())),
            AccessEntry::positive(AccessWord::Key(key("k."))),
        ],
        vec![
            not(AccessWord::Key(key("bad."))),
            AccessEntry::positive(AccessWord::NetworkWithKey(
                "::1".parse().unwrap(),
                128,
                key("k."),
            )),
            AccessEntry::positive(net("192.0.2.0", 24)),
        ],
        vec![
            not(AccessWord::Key(key("bad."))),
            AccessEntry::positive(AccessWord::Any),
        ],
    ] {
        let list = AccessList::new(&entries);
        assert_eq!(AccessList::new(&list.entries()), list, "{entries:?}");
    }
}
