//! The apex that look-ups of a zone share: each part has the records that the zone has there now.

use crate::common::{Row, SqliteFixture, answer, block_on, name, resident, row};
use nameward_sql::{Found, LiveZone, SqlBackend, SqlError};
use nameward_wire::Type;

const APEX: &str = "example.org";
const KEY: &str = "Private-key-format: v1.2
Algorithm: 15 (ED25519)
PrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=
";
/// Look-ups until all is kept that one keeps for the next.
const TURNS: usize = 3;

fn zone(id: i64, apex: &str) -> LiveZone {
    LiveZone {
        id,
        apex: name(apex),
    }
}

fn rows() -> Vec<Row> {
    vec![
        row(APEX, "SOA", "ns1.example.org host.example.org 1 2 3 4 5"),
        row(APEX, "NS", "ns1.example.org"),
        row("ns1.example.org", "A", "192.0.2.1"),
        row("www.example.org", "A", "192.0.2.2"),
        row("mail.example.org", "MX", "ns1.example.org"),
    ]
}

/// Compares answers of parts with those of the whole zone: data, and the absence of data, which has the SOA.
async fn compare(backend: &SqlBackend, zone: &LiveZone, labels: &[&str]) {
    let whole = resident(backend, zone).await;
    for _ in 0..TURNS {
        for label in labels {
            let qname = name(&format!("{label}.{}", zone.apex));
            let part = backend.lookup(zone, qname.as_name()).await.unwrap();
            let apex = part.zone.apex_name().as_wire();
            assert_eq!(apex, zone.apex.as_name().as_wire(), "in its letter case");
            for qtype in [Type::A, Type::MX, Type::TXT] {
                let expected = answer(&whole, &qname, qtype);
                let found = answer(&part.zone, &qname, qtype);
                assert_eq!(found, expected, "{qname} {qtype}");
            }
        }
    }
}

#[test]
fn a_changed_apex_is_in_all_parts_after_its_notice() {
    let fixture = SqliteFixture::new(APEX, &rows());
    let (backend, zone) = (fixture.backend(), zone(1, APEX));
    block_on(async {
        compare(&backend, &zone, &["www", "ns1", "mail"]).await;
        let sql = "UPDATE records SET content = 'ns9.example.org host.example.org 77 2 3 4 9' WHERE type = 'SOA';
            UPDATE records SET content = 'www.example.org' WHERE type = 'NS';
            INSERT INTO records (domain_id, name, type, content, ttl) VALUES (1, 'example.org', 'NS', 'ns1.example.org', 60);";
        fixture.connection().execute_batch(sql).unwrap();
        backend.forget(Some(1));
        compare(&backend, &zone, &["www", "ns1", "mail"]).await;
    });
}

#[test]
fn a_zone_with_the_id_of_one_that_was_deleted_has_its_own_apex() {
    let fixture = SqliteFixture::new(APEX, &rows());
    let backend = fixture.backend();
    block_on(async {
        compare(&backend, &zone(1, APEX), &["www", "mail"]).await;
        let sql = "DELETE FROM records; DELETE FROM domains;
            INSERT INTO domains (id, name, type) VALUES (1, 'example.net', 'NATIVE');
            INSERT INTO records (domain_id, name, type, content, ttl) VALUES
              (1, 'example.net', 'SOA', 'ns.example.net host.example.net 5 2 3 4 5', 60),
              (1, 'example.net', 'NS', 'ns.example.net', 60),
              (1, 'ns.example.net', 'A', '192.0.2.7', 60);";
        fixture.connection().execute_batch(sql).unwrap();
        backend.forget(Some(1));
        compare(&backend, &zone(1, "example.net"), &["ns"]).await;
    });
}

#[test]
fn parts_have_the_letter_case_of_their_zone() {
    let fixture = SqliteFixture::new(APEX, &rows());
    let backend = fixture.backend();
    block_on(async {
        for apex in [APEX, "Example.ORG", APEX] {
            compare(&backend, &zone(1, apex), &["www", "mail"]).await;
        }
    });
}

#[test]
fn an_apex_with_two_soa_records_fails_each_name() {
    let mut rows = rows();
    let second = "ns1.example.org host.example.org 2 2 3 4 5";
    rows.push(row(APEX, "SOA", second));
    let fixture = SqliteFixture::new(APEX, &rows);
    let (backend, zone) = (fixture.backend(), zone(1, APEX));
    block_on(async {
        for _ in 0..TURNS {
            for qname in ["www.example.org", "mail.example.org"] {
                let result = backend.lookup(&zone, name(qname).as_name()).await;
                let Err(SqlError::Row(error)) = result else {
                    panic!("expected an error about a row");
                };
                assert!(error.reason.contains("more than one SOA record"), "{error}");
            }
        }
        let sql = "DELETE FROM records WHERE type = 'SOA' AND content LIKE '% 2 2 3 4 5'";
        fixture.connection().execute_batch(sql).unwrap();
        backend.forget(Some(1));
        compare(&backend, &zone, &["www", "mail"]).await;
    });
}

#[test]
fn a_zone_that_gets_a_key_is_signed_and_has_its_dnskey_in_parts_that_list_types() {
    let fixture = SqliteFixture::new(APEX, &rows());
    let (backend, zone) = (fixture.backend(), zone(1, APEX));
    block_on(async {
        compare(&backend, &zone, &["www", "mail"]).await;
        let sql = "INSERT INTO cryptokeys (domain_id, flags, active, published, content) VALUES (1, 257, 1, 1, ?1)";
        fixture.connection().execute(sql, [KEY]).unwrap();
        backend.forget(Some(1));
        let absent = name("absent.example.org");
        for _ in 0..TURNS {
            let part = backend.lookup(&zone, absent.as_name()).await.unwrap();
            assert!(part.zone.signing().online().is_some());
            let apex = part.zone.node_of(zone.apex.as_name()).unwrap();
            assert!(apex.rrset(Type::DNSKEY).is_some() && apex.rrset(Type::SOA).is_some());
        }
        fixture
            .connection()
            .execute("DELETE FROM cryptokeys", [])
            .unwrap();
        backend.forget(Some(1));
        compare(&backend, &zone, &["www", "mail", "absent"]).await;
    });
}

#[test]
fn a_batch_takes_zones_in_turn_and_a_name_twice() {
    let fixture = SqliteFixture::new(APEX, &rows());
    let sql = "INSERT INTO domains (id, name, type) VALUES (2, 'example.net', 'NATIVE');
        INSERT INTO records (domain_id, name, type, content, ttl) VALUES
          (2, 'example.net', 'SOA', 'ns.example.net host.example.net 5 2 3 4 5', 60),
          (2, 'example.net', 'NS', 'ns.example.net', 60),
          (2, 'www.example.net', 'A', '192.0.2.7', 60);";
    fixture.connection().execute_batch(sql).unwrap();
    let backend = fixture.backend();
    let zones = [zone(1, APEX), zone(2, "example.net")];
    block_on(async {
        let wholes = [
            resident(&backend, &zones[0]).await,
            resident(&backend, &zones[1]).await,
        ];
        for _ in 0..TURNS {
            let order = [0, 0, 1, 0, 1, 1];
            let mut batch = backend.batch(order.len());
            let qname = |of: usize| name(&format!("www.{}", zones[of].apex));
            for of in order {
                batch.add(zones[of].request(qname(of).as_name()));
            }
            let mut found = batch.round().await.found;
            assert!(batch.is_done());
            found.sort_by_key(|(place, _)| *place);
            assert_eq!(found.len(), order.len());
            for ((_, found), of) in found.into_iter().zip(order) {
                let Found::Ended(Ok(part)) = found else {
                    panic!("expected a part");
                };
                for qtype in [Type::A, Type::TXT] {
                    let expected = answer(&wholes[of], &qname(of), qtype);
                    assert_eq!(answer(&part.zone, &qname(of), qtype), expected);
                }
            }
        }
    });
}
