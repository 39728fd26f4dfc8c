//! Zones that are looked up and deny names with the chain of all of them: a flood costs the signatures of the chain.

use crate::rows::Sqlite;
use crate::signed::{P256, add_key, gauge, question, set_meta, whole};
use data_encoding::BASE32HEX_NOPAD;
use nameward_dnssec::Nsec3;
use nameward_testkit::conformance::ZoneText;
use nameward_testkit::wire::{Message, Name, Record};
use nameward_testkit::{Setup, TestServer};
use nameward_wire::NameBuf;
use std::collections::BTreeSet;

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

/// Where a record of denial begins and ends.
struct Span<T> {
    owner: T,
    next: T,
}

fn nsec(record: &Record) -> Span<Labels> {
    let mut end = 0;
    while record.data[end] != 0 {
        end += usize::from(record.data[end]) + 1;
    }
    Span {
        owner: labels(&record.owner),
        next: labels(&Name(record.data[..=end].to_vec())),
    }
}

fn nsec3(record: &Record) -> Span<Vec<u8>> {
    let owner = record.owner.labels().next().unwrap().to_ascii_uppercase();
    let next = &record.data[6 + usize::from(record.data[4])..];
    Span {
        owner: BASE32HEX_NOPAD.decode(&owner).unwrap(),
        next: next[..20].to_vec(),
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

/// Whether the records of denial in a reply are those of a chain over these names: each begins and ends at one of them.
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

/// A server that looks one zone up, with a key and metadata; and the names that its chain has.
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
fn white_lies_stay_where_keys_are_fast_or_metadata_asks_for_them() {
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
