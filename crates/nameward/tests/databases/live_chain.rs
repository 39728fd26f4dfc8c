//! Looked-up zones that deny names with the complete NSEC chain: a flood costs only the signatures of the chain, and
//! no record denies an existing name, whatever other programs do to the rows.

use super::rows::Sqlite;
use super::signed::{P256, add_key, gauge, question, set_meta, whole};
use data_encoding::BASE32HEX_NOPAD;
use nameward_dnssec::Nsec3;
use nameward_testkit::conformance::ZoneText;
use nameward_testkit::wait_until;
use nameward_testkit::wire::{Message, Name, Record};
use nameward_testkit::{Setup, TestServer};
use nameward_wire::NameBuf;
use std::collections::{BTreeMap, BTreeSet};

const RSA: &str = include_str!("../../../serve/tests/rsa2048.private");
const NSEC: u16 = 47;
const NSEC3: u16 = 50;
const NSEC3PARAM: (&str, &str) = ("NSEC3PARAM", "1 0 0 -");
const OPT_OUT: (&str, &str) = ("NSEC3PARAM", "1 1 0 -");
const CHAIN: (&str, &str) = ("X-NAMEWARD-DENIAL", "chain");

/// Labels in lower case from the root: their order is the canonical one (RFC 4034 section 6.1).
type Labels = Vec<Vec<u8>>;

fn labels(name: &Name) -> Labels {
    let mut labels: Labels = name.lowercase().labels().map(<[u8]>::to_vec).collect();
    labels.reverse();
    labels
}

fn labels_of(name: &str) -> Labels {
    labels(&Name::parse(name).unwrap())
}

/// A denial record: its start and end, and the types at its owner.
struct Span<T> {
    owner: T,
    next: T,
    types: BTreeSet<u16>,
    is_opt_out: bool,
}

impl<T: Ord> Span<T> {
    fn covers(&self, name: &T) -> bool {
        if self.owner < self.next {
            self.owner < *name && *name < self.next
        } else {
            self.owner < *name || *name < self.next
        }
    }
}

fn types_of(mut windows: &[u8]) -> BTreeSet<u16> {
    let mut types = BTreeSet::new();
    while let [window, len, rest @ ..] = windows {
        let (bits, rest) = rest.split_at(usize::from(*len));
        let is_set = |bit: &usize| bits[bit / 8] & 0x80 >> (bit % 8) != 0;
        let set = (0..bits.len() * 8).filter(is_set);
        types.extend(set.map(|bit| u16::from(*window) << 8 | bit as u16));
        windows = rest;
    }
    types
}

fn nsec(record: &Record) -> Span<Labels> {
    let mut end = 0;
    while record.data[end] != 0 {
        end += usize::from(record.data[end]) + 1;
    }
    Span {
        owner: labels(&record.owner),
        next: labels(&Name(record.data[..=end].to_vec())),
        types: types_of(&record.data[end + 1..]),
        is_opt_out: false,
    }
}

fn nsec3(record: &Record) -> Span<Vec<u8>> {
    let owner = record.owner.labels().next().unwrap().to_ascii_uppercase();
    let next = &record.data[6 + usize::from(record.data[4])..];
    Span {
        owner: BASE32HEX_NOPAD.decode(&owner).unwrap(),
        next: next[..20].to_vec(),
        types: types_of(&next[20..]),
        is_opt_out: record.data[1] & 1 != 0,
    }
}

fn hash(name: &Labels) -> Vec<u8> {
    let text: Vec<String> = name
        .iter()
        .rev()
        .map(|label| String::from_utf8(label.clone()).unwrap())
        .collect();
    let name: NameBuf = format!("{}.", text.join(".")).parse().unwrap();
    Nsec3::default().hash(name.as_name()).to_vec()
}

/// Checks whether the denial records in a reply belong to a chain over these names: each starts and ends at one of
/// them.
fn is_of_chain(reply: &Message, names: &[String]) -> bool {
    let names: BTreeSet<Labels> = names.iter().map(|name| labels_of(name)).collect();
    let hashes: BTreeSet<Vec<u8>> = names.iter().map(hash).collect();
    let is_of_chain = |record: &Record| match record.rtype {
        NSEC => {
            let span = nsec(record);
            names.contains(&span.owner) && names.contains(&span.next)
        }
        NSEC3 => {
            let span = nsec3(record);
            hashes.contains(&span.owner) && hashes.contains(&span.next)
        }
        _ => true,
    };
    reply.authority.iter().all(is_of_chain)
        && reply
            .authority
            .iter()
            .any(|record| matches!(record.rtype, NSEC | NSEC3))
}

/// A server with one looked-up zone, with a key and metadata; and the names in its chain.
fn start(key: &str, metadata: &[(&str, &str)]) -> (TestServer, Vec<String>) {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    let mut names = vec!["live.test.".to_string()];
    let mut text =
        "@ 3600 SOA ns.other. host 1 7200 3600 1209600 300\n@ 3600 NS ns.other.\n".to_string();
    for n in 0..40 {
        text.push_str(&format!("n{n} 300 A 192.0.2.1\n"));
        names.push(format!("n{n}.live.test."));
    }
    database.add(&ZoneText {
        name: "live.test".into(),
        text,
    });
    add_key(&database, "live.test", 257, key);
    for (kind, content) in metadata {
        set_meta(&database, "live.test", kind, content);
    }
    (setup.config(&database.backend("live")).start(), names)
}

#[test]
fn a_flood_of_new_names_costs_no_more_signatures_than_the_chain_has_records() {
    let cases: [(&str, &[(&str, &str)]); 4] = [
        (RSA, &[]),
        (RSA, &[NSEC3PARAM]),
        (P256, &[CHAIN]),
        (P256, &[CHAIN, OPT_OUT]),
    ];
    for (key, metadata) in cases {
        let (server, names) = start(key, metadata);
        for n in 0..300 {
            let reply = whole(
                server.address(),
                &question(&format!("x{n}.live.test."), "A"),
            );
            assert_eq!(reply.rcode(), 3);
            assert!(is_of_chain(&reply, &names), "{metadata:?}: {reply:?}");
        }
        // The records of the chain, and the SOA.
        let signatures = gauge(&server, "signatures");
        assert!(signatures <= names.len() as u64 + 1, "{signatures}");
    }
}

#[test]
fn white_lies_are_used_where_keys_are_fast_or_metadata_requests_them() {
    let narrow = ("NSEC3NARROW", "1");
    let cases: [(&str, &[(&str, &str)]); 4] = [
        (P256, &[]),
        (P256, &[NSEC3PARAM]),
        (RSA, &[NSEC3PARAM, narrow, CHAIN]),
        (RSA, &[("X-NAMEWARD-DENIAL", "white-lies")]),
    ];
    for (key, metadata) in cases {
        let (server, names) = start(key, metadata);
        for n in 0..3 {
            let reply = whole(
                server.address(),
                &question(&format!("x{n}.live.test."), "A"),
            );
            assert_eq!(reply.rcode(), 3);
            assert!(!is_of_chain(&reply, &names), "{metadata:?}: {reply:?}");
        }
    }
}

/// The rows that are served, by name and type.
type Model = BTreeSet<(String, &'static str)>;

/// The names that exist with their types, as the parent of delegations has them.
fn existing(model: &Model) -> BTreeMap<Labels, BTreeSet<u16>> {
    let mut all: BTreeMap<Labels, BTreeSet<u16>> = BTreeMap::new();
    for (name, rtype) in model {
        let name = labels_of(name);
        for len in 2..name.len() {
            all.entry(name[..len].to_vec()).or_default();
        }
        let rtype = nameward_testkit::wire::type_from_text(rtype).unwrap();
        all.entry(name).or_default().insert(rtype);
    }
    let is_cut = |types: &BTreeSet<u16>| types.contains(&2) && !types.contains(&6);
    let cuts: Vec<Labels> = all
        .iter()
        .filter(|(_, types)| is_cut(types))
        .map(|(name, _)| name.clone())
        .collect();
    all.retain(|name, _| !cuts.iter().any(|cut| name.starts_with(cut) && name != cut));
    for types in all.values_mut().filter(|types| is_cut(types)) {
        types.retain(|rtype| matches!(rtype, 2 | 43));
    }
    all
}

/// Returns a name or type that a reply denies although it exists.
fn denied(reply: &Message, existing: &BTreeMap<Labels, BTreeSet<u16>>) -> Option<String> {
    for record in reply.answer.iter().chain(&reply.authority) {
        for (name, types) in existing {
            let (is_covered, is_owner, shown) = match record.rtype {
                NSEC => {
                    let span = nsec(record);
                    // RFC 4592 section 2.2.2: the next name shows that an empty non-terminal exists.
                    let is_shown = types.is_empty() && span.next.starts_with(name);
                    let is_covered = span.covers(name) && !is_shown;
                    (is_covered, span.owner == *name, span.types)
                }
                NSEC3 => {
                    let span = nsec3(record);
                    let own = hash(name);
                    let is_left_out = span.is_opt_out && *types == BTreeSet::from([2]);
                    let is_covered = span.covers(&own) && !is_left_out;
                    (is_covered, span.owner == own, span.types)
                }
                _ => continue,
            };
            // RFC 6840 section 4.1: the record of a delegation proves DS only.
            let is_of_parent = shown.contains(&2) && !shown.contains(&6);
            let is_denied = |rtype: &u16| !shown.contains(rtype) && (!is_of_parent || *rtype == 43);
            if is_covered || is_owner && types.iter().any(is_denied) {
                return Some(format!("{record} denies {name:?} {types:?}"));
            }
        }
    }
    None
}

/// Pseudo-random numbers that are the same in every run (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn name(&mut self) -> String {
        let label = |chance: &mut Chance| ["a", "b", "c", "d", "*", "m"][chance.below(6)];
        let labels: Vec<&str> = (0..=self.below(3)).map(|_| label(self)).collect();
        format!("{}.live.test", labels.join("."))
    }
}

const CONTENTS: [(&str, &str); 4] = [
    ("A", "192.0.2.1"),
    ("TXT", "\"x\""),
    ("NS", "ns.other"),
    (
        "DS",
        "1 13 2 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
    ),
];

/// Changes rows like a program that knows nothing of ordering and empty non-terminals; returns the statements.
fn change(model: &mut Model, chance: &mut Chance) -> String {
    let below: Vec<_> = model
        .iter()
        .filter(|row| row.0 != "live.test")
        .cloned()
        .collect();
    let is_removal = chance.below(3) == 0;
    if let Some(row) = below
        .get(chance.below(below.len().max(1)))
        .filter(|_| is_removal)
    {
        model.remove(row);
        let (name, rtype) = row;
        return match chance.below(2) {
            0 => format!("DELETE FROM records WHERE name = '{name}' AND type = '{rtype}';"),
            _ => format!(
                "UPDATE records SET disabled = 1 WHERE name = '{name}' AND type = '{rtype}';"
            ),
        };
    }
    let name = chance.name();
    let (rtype, content) = CONTENTS[chance.below(CONTENTS.len())];
    // DS is at the same name as NS.
    let is_lone = rtype == "DS" && !model.contains(&(name.clone(), "NS"));
    // RFC 4592 section 4.2: the semantics are undefined.
    let is_odd = rtype == "NS" && name.contains('*');
    if is_lone || is_odd || !model.insert((name.clone(), rtype)) {
        return String::new();
    }
    insertion(&name, (rtype, content))
}

/// The statements that add a row where there is none, or only a disabled one.
fn insertion(name: &str, (rtype, content): (&str, &str)) -> String {
    format!(
        "DELETE FROM records WHERE name = '{name}' AND type = '{rtype}';
         INSERT INTO records (domain_id, name, type, content, ttl) \
         SELECT id, '{name}', '{rtype}', '{content}', 300 FROM domains;"
    )
}

/// The names that exist, as text.
fn names_of(existing: &BTreeMap<Labels, BTreeSet<u16>>) -> Vec<String> {
    let text = |name: &Labels| {
        let labels = name.iter().rev();
        let labels = labels.map(|label| String::from_utf8(label.clone()).unwrap());
        labels.collect::<Vec<_>>().join(".")
    };
    existing.keys().map(text).collect()
}

fn check_changes(seed: u64, metadata: &[(&str, &str)]) {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&ZoneText {
        name: "live.test".into(),
        text: "@ 300 SOA ns.other. host.other. 1 2 3 4 60\n@ 300 NS ns.other.\n".into(),
    });
    add_key(&database, "live.test", 257, P256);
    for (kind, content) in metadata.iter().chain([&CHAIN]) {
        set_meta(&database, "live.test", kind, content);
    }
    // Without caches: a change is in the chain a moment before they are flushed.
    let caches = "[cache]\nquery_entries = 0\npacket_entries = 0\n";
    let server = setup.config(&(database.backend("live") + caches)).start();
    let apex = "live.test".to_string();
    let mut model: Model = [(apex.clone(), "SOA"), (apex, "NS")].into();
    let mut chance = Chance(seed);
    let mut asked = 0;
    for version in 2..32 {
        let mut sql = String::from("BEGIN;");
        for _ in 0..=chance.below(3) {
            sql.push_str(&change(&mut model, &mut chance));
        }
        let newest = format!("v{version}.live.test");
        sql.push_str(&insertion(&newest, CONTENTS[0]));
        model.insert((newest.clone(), "A"));
        sql.push_str("COMMIT;");
        database.run(&sql);
        let existing = existing(&model);
        let names = names_of(&existing);
        // A name below it that was not queried is denied by the chain once the chain has this version.
        wait_until("the chain with the change", || {
            asked += 1;
            let ask = question(&format!("x{asked}.{newest}."), "A");
            is_of_chain(&whole(server.address(), &ask), &names)
        });
        for _ in 0..12 {
            let name = chance.name();
            for rtype in ["A", "TXT", "DS"] {
                let reply = whole(server.address(), &question(&format!("{name}."), rtype));
                let wrong = denied(&reply, &existing);
                assert_eq!(wrong, None, "seed {seed}, {name} {rtype}: {model:?}");
            }
        }
    }
}

#[test]
fn no_nsec_denies_what_exists_after_changes_by_others() {
    check_changes(1, &[]);
}

#[test]
fn no_nsec3_denies_what_exists_after_changes_by_others() {
    check_changes(2, &[NSEC3PARAM]);
}

#[test]
fn no_nsec3_with_opt_out_denies_what_exists_after_changes_by_others() {
    check_changes(3, &[OPT_OUT]);
}
