//! Zones secured by `pdnsutil`, in the same database under `pdns_server` and under Nameward: the same keys,
//! signatures by the same keys, the same answers to clients with DO, and secure for BIND.

use super::operation::wait_for_code;
use super::powerdns::{PREFIXES, Store, ZONE, powerdns, run_pdnsutil};
use super::signed::{anchors, is_complete, judge, question, whole};
use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::validator::Validator;
use nameward_testkit::wire::{Message, Record, type_text};
use std::collections::BTreeSet;
use std::path::Path;

/// Each zone and what is done with it after it was loaded; `@` is its name.
type Steps = &'static [&'static [&'static str]];
const ZONES: &[(&str, Steps)] = &[
    (
        "nsec.test",
        &[
            &["secure-zone", "@"],
            &["set-publish-cds", "@", "2,4"],
            &["set-publish-cdnskey", "@"],
            &["set-meta", "@", "SOA-EDIT", "INCREMENT-WEEKS"],
        ],
    ),
    (
        "nsec3.test",
        &[
            &["secure-zone", "@"],
            &["set-nsec3", "@", "1 0 5 ab"],
            &["set-meta", "@", "SOA-EDIT", "INCEPTION-INCREMENT"],
        ],
    ),
    (
        "narrow.test",
        &[
            &["secure-zone", "@"],
            &["set-nsec3", "@", "1 0 0 -", "narrow"],
            &["set-meta", "@", "SOA-EDIT", "INCEPTION-EPOCH"],
        ],
    ),
    (
        "rsa.test",
        &[
            &["add-zone-key", "@", "ksk", "2048", "active", "rsasha512"],
            &["add-zone-key", "@", "zsk", "1024", "active", "rsasha512"],
        ],
    ),
    (
        "chain.test",
        &[
            &["add-zone-key", "@", "ksk", "2048", "active", "rsasha256"],
            &["set-nsec3", "@", "1 0 1 ab"],
        ],
    ),
    (
        "optout.test",
        &[
            &["secure-zone", "@"],
            &["set-nsec3", "@", "1 1 0 -"],
            &["set-meta", "@", "X-NAMEWARD-DENIAL", "chain"],
        ],
    ),
    (
        "rollover.test",
        &[
            &["add-zone-key", "@", "ksk", "active", "ecdsa256"],
            &["add-zone-key", "@", "zsk", "active", "ecdsa256"],
            &["add-zone-key", "@", "ksk", "inactive", "ecdsa256"],
            &["add-zone-key", "@", "zsk", "inactive", "ecdsa256"],
            &[
                "add-zone-key",
                "@",
                "ksk",
                "active",
                "unpublished",
                "ed25519",
            ],
            &["add-zone-key", "@", "ksk", "active", "ecdsa384"],
            &["set-publish-cds", "@"],
            &["set-publish-cdnskey", "@"],
        ],
    ),
    (
        "lone.test",
        &[
            &["add-zone-key", "@", "zsk", "active", "ecdsa256"],
            &[
                "add-zone-key",
                "@",
                "ksk",
                "inactive",
                "unpublished",
                "ed448",
            ],
            &["set-publish-cds", "@", "2"],
            &["set-meta", "@", "PUBLISH-CDNSKEY", "yes"],
            &["set-meta", "@", "SOA-EDIT", "INCEPTION-WEEK"],
        ],
    ),
    (
        "retired.test",
        &[
            &["add-zone-key", "@", "ksk", "inactive", "ecdsa256"],
            &["set-publish-cds", "@"],
        ],
    ),
];

/// With chains of NSEC, NSEC3 and Opt-Out, and with many keys.
const ZONES_OF_SERVERS: [&(&str, Steps); 4] = [&ZONES[3], &ZONES[4], &ZONES[5], &ZONES[6]];

const TYPES: &[&str] = &["A", "MX", "DS", "TXT"];
const APEX_TYPES: &[&str] = &["SOA", "NS", "DNSKEY", "CDS", "CDNSKEY", "NSEC3PARAM"];

fn fill(store: &Store, directory: &Path, zones: &[&(&str, Steps)]) {
    std::fs::write(directory.join("pdns.conf"), store.powerdns()).unwrap();
    let run = |arguments: &[&str]| run_pdnsutil(directory, arguments);
    for (name, steps) in zones {
        let file = directory.join(name);
        std::fs::write(&file, format!("$ORIGIN {name}.\n{ZONE}")).unwrap();
        run(&["load-zone", name, file.to_str().unwrap()]);
        for step in *steps {
            let step: Vec<&str> = step
                .iter()
                .map(|word| if *word == "@" { *name } else { *word })
                .collect();
            run(&step);
        }
        run(&["rectify-zone", name]);
    }
}

/// A record for comparison: of signatures everything except their times and the signature itself.
fn comparable(record: &Record) -> String {
    if record.rtype != 46 {
        return record.comparable();
    }
    let (head, rest) = record.data.split_at(8);
    let covered = u16::from_be_bytes([head[0], head[1]]);
    let tag = u16::from_be_bytes([rest[8], rest[9]]);
    let owner = record.owner.lowercase();
    format!(
        "{owner} {} RRSIG {} {:?} {tag}",
        record.ttl,
        type_text(covered),
        &head[2..]
    )
}

/// Returns what must be equal: the records, their signers, and the existence of a denial proof. The proofs themselves
/// may differ: PowerDNS returns neighbours, we do not.
fn essence(reply: &Message) -> (u16, bool, BTreeSet<String>, BTreeSet<String>) {
    let is_proof = |record: &&Record| {
        let covered = record
            .data
            .first_chunk()
            .map(|covered| u16::from_be_bytes(*covered));
        matches!(record.rtype, 47 | 50) || record.rtype == 46 && matches!(covered, Some(47 | 50))
    };
    let answer = reply.answer.iter().map(comparable).collect();
    let authority = reply.authority.iter();
    let mut rest: BTreeSet<String> = authority
        .clone()
        .filter(|record| !is_proof(record))
        .map(comparable)
        .collect();
    if authority.clone().any(|record| is_proof(&record)) {
        rest.insert("a proof".into());
    }
    (reply.rcode(), reply.authoritative(), answer, rest)
}

fn check(kind: Option<DatabaseKind>, modes: &[&str], zones: &[&(&str, Steps)]) {
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = Store::new(kind, directory.path()) else {
        return;
    };
    fill(&store, directory.path(), zones);
    let names: Vec<&str> = zones.iter().map(|(name, _)| *name).collect();
    let Some(peer) = powerdns(&store, &names) else {
        return;
    };
    let mut wrong = Vec::new();
    for mode in modes {
        let server = store.nameward(mode);
        wait_for_code(&server, &format!("ns1.{}.", names[names.len() - 1]), 0);
        let validator = Validator::start(server.address(), &anchors(server.address(), &names));
        for name in &names {
            let prefixes = PREFIXES.iter().filter(|prefix| **prefix != "out.");
            let below =
                prefixes.flat_map(|prefix| TYPES.iter().map(move |rtype| (*prefix, *rtype)));
            let all = below.chain(APEX_TYPES.iter().map(|rtype| ("", *rtype)));
            for (prefix, rtype) in all {
                let ask = question(&format!("{prefix}{name}."), rtype);
                let (own, other) = (whole(server.address(), &ask), whole(peer.addr(), &ask));
                if essence(&own) != essence(&other) {
                    wrong.push(format!(
                        "{mode} {ask}:\n  ours   {:?}\n  theirs {:?}",
                        essence(&own),
                        essence(&other)
                    ));
                }
                if let Ok(validator) = &validator
                    && *name != "retired.test"
                    && is_complete(&ask, &own)
                {
                    // RFC 5155 section 9.2: names denied by Opt-Out are not secure, but not bogus either.
                    let same_code = format!("codes {:?}", (own.rcode(), own.rcode()));
                    let is_wrong =
                        |said: &String| *name != "optout.test" || !said.contains(&same_code);
                    wrong.extend(judge(validator, &ask, &own).filter(is_wrong));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn zones_secured_by_pdnsutil_in_sqlite_are_secure_and_answered_as_by_pdns_server() {
    check(
        None,
        &["live", "resident"],
        &ZONES.iter().collect::<Vec<_>>(),
    );
}

#[test]
fn zones_secured_by_pdnsutil_in_postgres_are_secure_and_answered_as_by_pdns_server() {
    check(Some(DatabaseKind::Postgres), &["live"], &ZONES_OF_SERVERS);
}

#[test]
fn zones_secured_by_pdnsutil_in_mariadb_are_secure_and_answered_as_by_pdns_server() {
    check(Some(DatabaseKind::Mariadb), &["live"], &ZONES_OF_SERVERS);
}
