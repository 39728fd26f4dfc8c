//! The part of a zone that was looked up answers as the whole zone does, for every name and type.

use crate::common::{Row, SqliteFixture, answer, block_on, name, resident, row};
use nameward_sql::{Found, LiveZone, SqlError};
use nameward_testkit::property_cases;
use nameward_wire::{NameBuf, Type};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const APEX: &str = "example.org";
const TYPES: [Type; 12] = [
    Type::A,
    Type::AAAA,
    Type::NS,
    Type::MX,
    Type::SRV,
    Type::HTTPS,
    Type::CNAME,
    Type::DNAME,
    Type::DS,
    Type::SOA,
    Type::TXT,
    Type::ANY,
];

fn label() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just("a"), 3 => Just("b"), 2 => Just("*"), 1 => Just("c")]
}

fn owner() -> impl Strategy<Value = String> {
    proptest::collection::vec(label(), 0..4).prop_map(|labels| {
        labels
            .iter()
            .fold(APEX.to_string(), |name, label| format!("{label}.{name}"))
    })
}

/// A host in the zone mostly, sometimes outside.
fn target() -> impl Strategy<Value = String> {
    prop_oneof![5 => owner(), 1 => Just("host.elsewhere.test".to_string())]
}

/// The records at one name: an alias alone, or some records.
fn contents() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let record = prop_oneof![
        4 => (0u8..4).prop_map(|n| ("A", format!("192.0.2.{n}"))),
        1 => (0u8..4).prop_map(|n| ("AAAA", format!("2001:db8::{n}"))),
        1 => Just(("TXT", "\"text\"".to_string())),
        1 => target().prop_map(|host| ("MX", host)),
        1 => target().prop_map(|host| ("SRV", format!("0 80 {host}"))),
        1 => target().prop_map(|host| ("HTTPS", format!("1 {host} alpn=h2"))),
        1 => Just(("HTTPS", "1 . alpn=h3".to_string())),
        1 => target().prop_map(|host| ("NS", host)),
        1 => Just(("DS", format!("1 13 1 {}", "ab".repeat(20)))),
    ];
    let records = proptest::collection::vec(record, 1..4);
    let dname = target().prop_map(|host| vec![("DNAME", host), ("A", "192.0.2.9".to_string())]);
    let cname = target().prop_map(|host| vec![("CNAME", host)]);
    prop_oneof![6 => records, 1 => dname, 2 => cname]
}

fn zone() -> impl Strategy<Value = Vec<Row>> {
    proptest::collection::btree_map(owner(), contents(), 1..12).prop_map(rows_of)
}

fn rows_of(names: BTreeMap<String, Vec<(&'static str, String)>>) -> Vec<Row> {
    let mut rows = vec![
        row(APEX, "SOA", "ns1.example.org host.example.org 1 2 3 4 5"),
        row(APEX, "NS", "ns1.example.org"),
    ];
    for (owner, contents) in names {
        for (rtype, content) in contents {
            // The apex has a SOA, so it cannot be an alias.
            if owner != APEX || rtype != "CNAME" {
                rows.push(row(&owner, rtype, &content));
            }
        }
    }
    // A row of PowerDNS for a former empty non-terminal, and one that is not served.
    rows.push(Row {
        rtype: None,
        ..row("stale.c.example.org", "", "")
    });
    rows.push(Row {
        disabled: true,
        ..row("x.off.example.org", "A", "192.0.2.7")
    });
    rows
}

/// Names to ask for: all that the zone has, their ancestors, and names beside and below them.
fn questions(rows: &[Row]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for row in rows {
        let mut at = row.name.as_str();
        while at.len() >= APEX.len() {
            names.extend([
                at.to_string(),
                format!("a.{at}"),
                format!("zz.{at}"),
                format!("z.z.{at}"),
            ]);
            let Some((_, parent)) = at.split_once('.') else {
                break;
            };
            at = parent;
        }
    }
    names.insert(format!("{}{APEX}", "d.".repeat(20)));
    names.insert(format!("{}a.a.{APEX}", "b.".repeat(9)));
    names
}

proptest! {
    #![proptest_config(property_cases(24))]

    #[test]
    fn every_answer_is_that_of_the_whole_zone(rows in zone()) {
        let fixture = SqliteFixture::new(APEX, &rows);
        let backend = fixture.backend();
        let live = LiveZone { id: 1, apex: name(APEX) };
        block_on(async {
            let whole = resident(&backend, &live).await;
            for qname in questions(&rows) {
                let qname: NameBuf = qname.parse().unwrap();
                let part = backend.lookup(&live, qname.as_name()).await.unwrap();
                for qtype in TYPES {
                    assert_eq!(
                        answer(&part.zone, &qname, qtype),
                        answer(&whole, &qname, qtype),
                        "{qname} {qtype} of {:?}", rows.iter().map(|r| format!("{} {:?} {}", r.name, r.rtype, r.content)).collect::<Vec<_>>()
                    );
                }
            }
        });
    }
}

fn small() -> Vec<Row> {
    vec![
        row(APEX, "SOA", "ns1.example.org host.example.org 1 2 3 4 5"),
        row(APEX, "NS", "ns1.example.org"),
        row("ns1.example.org", "A", "192.0.2.1"),
        row("www.example.org", "A", "192.0.2.2"),
        row("mail.example.org", "MX", "mx.example.org"),
        row("mx.example.org", "A", "192.0.2.3"),
        row("broken.example.org", "A", "192.0.2.300"),
        row("broken.example.org", "TXT", "\"fine\""),
        row("below.broken.example.org", "A", "192.0.2.4"),
        row("odd.example.org", "NOSUCHTYPE", "x"),
    ]
}

#[test]
fn a_name_takes_one_statement_and_hosts_it_names_one_more() {
    let fixture = SqliteFixture::new(APEX, &small());
    let backend = fixture.backend();
    let live = LiveZone {
        id: 1,
        apex: name(APEX),
    };
    let statements = |qname: &str| {
        let qname = name(qname);
        block_on(backend.lookup(&live, qname.as_name()))
            .unwrap()
            .statements
    };
    // The first question of a zone also asks for its keys and its metadata.
    assert_eq!(statements("www.example.org"), 3);
    assert_eq!(statements("www.example.org"), 1);
    // The first name without rows has all names of the zone read, and is then asked for again.
    assert_eq!(statements("no.such.name.example.org"), 3);
    assert_eq!(statements("no.such.name.example.org"), 1);
    assert_eq!(statements("mail.example.org"), 2);
}

#[test]
fn a_broken_row_fails_only_the_names_that_need_it() {
    let fixture = SqliteFixture::new(APEX, &small());
    let backend = fixture.backend();
    let live = LiveZone {
        id: 1,
        apex: name(APEX),
    };
    let lookup = |qname: &str| {
        let qname = name(qname);
        block_on(backend.lookup(&live, qname.as_name())).map(|_| ())
    };
    let Err(SqlError::Row(error)) = lookup("broken.example.org") else {
        panic!("expected an error about a row");
    };
    assert_eq!((error.table, error.id), ("records", 7));
    assert!(error.reason.contains("broken.example.org"), "{error}");
    let Err(SqlError::Row(error)) = lookup("odd.example.org") else {
        panic!("expected an error about a row");
    };
    assert!(error.to_string().contains("NOSUCHTYPE"), "{error}");
    assert_eq!(lookup("below.broken.example.org"), Ok(()));
    assert_eq!(lookup("www.example.org"), Ok(()));
}

#[test]
fn a_change_is_seen_after_its_notice() {
    let fixture = SqliteFixture::new(APEX, &small());
    let backend = fixture.backend();
    let live = LiveZone {
        id: 1,
        apex: name(APEX),
    };
    let qname = name("new.example.org");
    let rcode = || {
        let part = block_on(backend.lookup(&live, qname.as_name())).unwrap();
        answer(&part.zone, &qname, Type::A)[3] & 15
    };
    assert_eq!(rcode(), 3);
    let insert = "INSERT INTO records (domain_id, name, type, content, ttl) \
                  VALUES (1, 'a.b.new.example.org', 'A', '192.0.2.9', 60)";
    fixture.connection().execute_batch(insert).unwrap();
    // Names are read again at most one twentieth of the time.
    for _ in 0..100 {
        backend.forget(Some(1));
        if rcode() == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("new.example.org is an empty non-terminal now, but was never seen");
}

/// A parent and its child zone in one database, with an alias in the parent.
fn family() -> SqliteFixture {
    let fixture = SqliteFixture::new(
        APEX,
        &[
            row(APEX, "SOA", "ns1.example.org host.example.org 1 2 3 4 5"),
            row(APEX, "NS", "ns1.example.org"),
            row("www.example.org", "A", "192.0.2.1"),
            row("alias.example.org", "CNAME", "www.example.org"),
            row("child.example.org", "NS", "ns.child.example.org"),
            row("ns.child.example.org", "A", "192.0.2.2"),
        ],
    );
    let sql = "INSERT INTO domains (id, name, type) VALUES (2, 'child.example.org', 'NATIVE');
        INSERT INTO records (domain_id, name, type, content, ttl) VALUES
          (2, 'child.example.org', 'SOA', 'ns.child.example.org host.example.org 1 2 3 4 5', 300),
          (2, 'child.example.org', 'NS', 'other.child.example.org', 300),
          (2, 'ns.child.example.org', 'A', '192.0.2.99', 300);";
    fixture.connection().execute_batch(sql).unwrap();
    fixture
}

#[test]
fn lookups_of_several_zones_share_a_statement_and_nothing_else() {
    let fixture = family();
    let backend = fixture.backend();
    let zone = |id, apex: &str| LiveZone {
        id,
        apex: name(apex),
    };
    let (parent, child) = (zone(1, APEX), zone(2, "child.example.org"));
    let wanted = [
        (&parent, "www.example.org"),
        (&parent, "child.example.org"),
        (&child, "child.example.org"),
        (&parent, "x.child.example.org"),
        (&child, "ns.child.example.org"),
        (&parent, "alias.example.org"),
        (&parent, "broken.example.org"),
    ];
    block_on(async {
        let wholes = [
            resident(&backend, &parent).await,
            resident(&backend, &child).await,
        ];
        let broken = "INSERT INTO records (domain_id, name, type, content, ttl) \
            VALUES (1, 'broken.example.org', 'A', 'not an address', 60)";
        fixture.connection().execute_batch(broken).unwrap();
        let mut batch = backend.batch(wanted.len());
        for (zone, qname) in wanted {
            batch.add(zone.request(name(qname).as_name()));
        }
        let (mut rounds, mut ended) = (0, 0);
        while !batch.is_done() {
            rounds += 1;
            let round = batch.round().await;
            assert_eq!(round.statements, 1, "round {rounds}");
            for (place, found) in round.found {
                ended += 1;
                let (zone, qname) = wanted[place];
                let Found::Ended(result) = found else {
                    panic!("{qname} needs no names of the whole zone");
                };
                if qname == "broken.example.org" {
                    assert!(matches!(result, Err(SqlError::Row(_))));
                    continue;
                }
                let (part, whole) = (result.unwrap().zone, &wholes[zone.id as usize - 1]);
                for qtype in TYPES {
                    let expected = answer(whole, &name(qname), qtype);
                    assert_eq!(
                        answer(&part, &name(qname), qtype),
                        expected,
                        "{qname} {qtype}"
                    );
                }
            }
        }
        assert_eq!(ended, wanted.len());
        // The delegation and the alias led to more names, which were fetched together.
        assert_eq!(rounds, 2);
    });
}

#[test]
fn a_lookup_that_needs_all_names_does_not_keep_others_waiting() {
    let fixture = family();
    let backend = fixture.backend();
    let zone = LiveZone {
        id: 1,
        apex: name(APEX),
    };
    block_on(async {
        let mut batch = backend.batch(2);
        batch.add(zone.request(name("missing.example.org").as_name()));
        batch.add(zone.request(name("www.example.org").as_name()));
        let found = batch.round().await.found;
        assert!(batch.is_done());
        assert!(matches!(found[0], (0, Found::Alone)));
        assert!(matches!(found[1], (1, Found::Ended(Ok(_)))));
        let missing = name("missing.example.org");
        backend.lookup(&zone, missing.as_name()).await.unwrap();
        // The names were read and are known now.
        let mut batch = backend.batch(1);
        batch.add(zone.request(missing.as_name()));
        let found = batch.round().await.found;
        assert!(matches!(found[0], (0, Found::Ended(Ok(_)))));
    });
}

#[test]
fn a_wildcard_at_the_apex_that_comes_later_is_seen() {
    let fixture = family();
    let backend = fixture.backend();
    let zone = LiveZone {
        id: 1,
        apex: name(APEX),
    };
    let missing = name("missing.example.org");
    block_on(async {
        let part = backend.lookup(&zone, missing.as_name()).await.unwrap();
        assert_eq!(answer(&part.zone, &missing, Type::TXT)[3] & 15, 3);
        let sql = "INSERT INTO records (domain_id, name, type, content, ttl) \
            VALUES (1, '*.example.org', 'TXT', '\"new\"', 60)";
        fixture.connection().execute_batch(sql).unwrap();
        backend.forget(Some(1));
        let part = backend.lookup(&zone, missing.as_name()).await.unwrap();
        assert_eq!(answer(&part.zone, &missing, Type::TXT)[3] & 15, 0);
    });
}

fn zone_of(rows: &[Row]) -> (SqliteFixture, LiveZone) {
    let apex = name(APEX);
    (SqliteFixture::new(APEX, rows), LiveZone { id: 1, apex })
}

fn wildcard(addresses: u32) -> Vec<Row> {
    let mut rows = small();
    rows.extend((0..addresses).map(|n| {
        let content = format!("10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255);
        row("*.wild.example.org", "A", &content)
    }));
    rows
}

#[test]
fn a_wildcard_is_built_for_its_first_name_and_kept_for_the_others() {
    let (fixture, live) = zone_of(&wildcard(4000));
    let backend = fixture.backend();
    let lookup = |qname: &str| block_on(backend.lookup(&live, name(qname).as_name())).unwrap();
    let first = lookup("a.wild.example.org");
    assert!(!first.is_shared);
    for qname in ["b.wild.example.org", "x.y.wild.example.org"] {
        let next = lookup(qname);
        assert!(
            Arc::ptr_eq(&first.zone, &next.zone) && next.is_shared,
            "{qname}"
        );
        assert_eq!(next.statements, 1, "whether the name itself has rows");
        let reply = answer(&next.zone, &name(qname), Type::A);
        assert_eq!(reply[2] & 2, 2, "it fills more than a datagram");
    }
    // Names with records of their own, the empty non-terminal and the wildcard itself have parts of their own.
    for qname in ["wild.example.org", "*.wild.example.org", "www.example.org"] {
        assert!(!Arc::ptr_eq(&first.zone, &lookup(qname).zone), "{qname}");
    }
    fixture
        .connection()
        .execute_batch(
            "DELETE FROM records WHERE name = '*.wild.example.org' AND content <> '10.0.0.7';
             INSERT INTO records (domain_id, name, type, content) VALUES
               (1, 'b.wild.example.org', 'A', '192.0.2.99');",
        )
        .unwrap();
    // A name that gets rows has them at once, whatever is kept of the wildcard.
    let reply = answer(
        &lookup("b.wild.example.org").zone,
        &name("b.wild.example.org"),
        Type::A,
    );
    assert_eq!(reply[7], 1);
    backend.forget(Some(1));
    let reply = answer(
        &lookup("a.wild.example.org").zone,
        &name("a.wild.example.org"),
        Type::A,
    );
    assert_eq!(reply[7], 1);
}

#[test]
fn names_below_a_delegation_and_names_that_do_not_exist_share_their_parts() {
    let mut rows = small();
    rows.push(row("sub.example.org", "NS", "ns.sub.example.org"));
    rows.push(row("ns.sub.example.org", "A", "192.0.2.53"));
    let (fixture, live) = zone_of(&rows);
    let backend = fixture.backend();
    let lookup = |qname: &str| block_on(backend.lookup(&live, name(qname).as_name())).unwrap();
    for (first, next, statements) in [
        ("x.sub.example.org", "ns.sub.example.org", 0),
        ("no1.example.org", "no2.example.org", 1),
        ("x.www.example.org", "y.www.example.org", 1),
    ] {
        let (first, next) = (lookup(first), lookup(next));
        assert!(Arc::ptr_eq(&first.zone, &next.zone));
        assert_eq!(next.statements, statements);
    }
}

#[test]
fn a_name_with_more_rows_than_an_answer_holds_fails_and_others_of_its_batch_do_not() {
    let (fixture, live) = zone_of(&wildcard(20_000));
    let backend = fixture.backend();
    let names = ["www.example.org", "a.wild.example.org", "mx.example.org"];
    let mut batch = backend.batch(names.len());
    names
        .iter()
        .for_each(|qname| batch.add(live.request(name(qname).as_name())));
    let mut failed = Vec::new();
    block_on(async {
        while !batch.is_done() {
            for (place, found) in batch.round().await.found {
                let result = match found {
                    Found::Ended(result) => result,
                    Found::Alone => {
                        backend
                            .lookup_alone(live.request(name(names[place]).as_name()))
                            .await
                    }
                };
                if let Err(error) = result {
                    failed.push((place, error));
                }
            }
        }
    });
    let [(1, SqlError::Row(error))] = &failed[..] else {
        panic!("{failed:?}");
    };
    assert!(error.reason.contains("more than 16384 records"), "{error}");
    assert!(error.reason.contains("*.wild.example.org"), "{error}");
    // It is known now: no statement asks for it again.
    let mut statements = 0;
    let mut batch = backend.batch(1);
    batch.add(live.request(name("b.wild.example.org").as_name()));
    block_on(async {
        while !batch.is_done() {
            let round = batch.round().await;
            statements += round.statements;
            assert!(matches!(
                &round.found[..],
                [(0, Found::Ended(Err(SqlError::Row(_))))] | []
            ));
        }
    });
    assert_eq!(statements, 1);
    // Names that do not need the wildcard are still answered.
    let lookup = |qname: &str| block_on(backend.lookup(&live, name(qname).as_name()));
    assert!(lookup("nothing.example.org").is_ok());
    fixture
        .connection()
        .execute_batch(
            "DELETE FROM records WHERE name = '*.wild.example.org' AND content <> '10.0.0.7'",
        )
        .unwrap();
    backend.forget(Some(1));
    assert!(lookup("b.wild.example.org").is_ok());
}

#[test]
fn a_name_with_more_text_than_an_answer_holds_fails() {
    let mut rows = small();
    let text = format!("\"{}\"", "x".repeat(60_000));
    rows.extend((0..60).map(|n| row("big.example.org", "TXT", &format!("\"{n}\" {text}"))));
    let (fixture, live) = zone_of(&rows);
    let backend = fixture.backend();
    let lookup = |qname: &str| block_on(backend.lookup(&live, name(qname).as_name())).map(|_| ());
    assert!(matches!(lookup("big.example.org"), Err(SqlError::Row(_))));
    assert_eq!(lookup("www.example.org"), Ok(()));
}
