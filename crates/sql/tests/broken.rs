//! Rows that cannot be read: the same names fail in memory as in look-ups, and no others.

use crate::common::{Row, SqliteFixture, answer, block_on, name, row};
use nameward_sql::{LiveZone, SqlBackend, SqlError, SqlOptions};
use nameward_wire::Type;
use nameward_wire::zonefile::Severity;
use nameward_zone::{Finding, ZoneBuilder, ZoneLimits};

const SERVFAIL: u8 = 2;

fn sound() -> Vec<Row> {
    let e = "example.org";
    vec![
        row(e, "SOA", "ns1.example.org host.example.org 1 2 3 4 5"),
        row(e, "NS", "ns1.example.org"),
        row("ns1.example.org", "A", "192.0.2.1"),
        row("www.example.org", "A", "192.0.2.2"),
        row("sub.example.org", "NS", "ns.elsewhere.test"),
        row("*.wild.example.org", "A", "192.0.2.3"),
        row("alias.example.org", "CNAME", "www.example.org"),
    ]
}

fn flawed() -> Vec<Row> {
    let mut rows = sound();
    rows.extend([
        // Nothing else at the name; something else; an unknown type; an ancestor.
        row("lone.example.org", "A", "nonsense"),
        row("www.example.org", "TXT", "\"open"),
        row("odd.example.org", "NOSUCHTYPE", "x"),
        row("ok.odd.example.org", "A", "192.0.2.4"),
        // Delegations: none of its servers can be read; one cannot; a DS; only a TXT beside it.
        row("cut1.example.org", "NS", "a..b"),
        row("glue.cut1.example.org", "A", "192.0.2.5"),
        row("cut2.example.org", "NS", "ns.elsewhere.test"),
        row("cut2.example.org", "NS", "a..b"),
        row("cut3.example.org", "NS", "ns.elsewhere.test"),
        row("cut3.example.org", "DS", "x"),
        row("cut4.example.org", "NS", "ns.elsewhere.test"),
        row("cut4.example.org", "TXT", "\"open"),
        // Hosts with an address that cannot be read, and who leads to them.
        row("host.example.org", "A", "192.0.2.6"),
        row("host.example.org", "AAAA", "nonsense"),
        row("mx.example.org", "MX", "host.example.org"),
        row("mx.example.org", "A", "192.0.2.7"),
        row("cut5.example.org", "NS", "host.example.org"),
        row("cut6.example.org", "NS", "ns.cut6.example.org"),
        row("ns.cut6.example.org", "A", "nonsense"),
        row("tohost.example.org", "CNAME", "host.example.org"),
        // DNAME, wildcard, and records that do not go together.
        row("old.example.org", "DNAME", "a..b"),
        row("*.star.example.org", "A", "nonsense"),
        row("two.example.org", "CNAME", "www.elsewhere.test"),
        row("two.example.org", "CNAME", "www2.elsewhere.test"),
        row("mixed.example.org", "CNAME", "www.elsewhere.test"),
        row("mixed.example.org", "A", "192.0.2.8"),
        row("soa.example.org", "SOA", "a.b c.d 1 2 3 4 5"),
        row("below.soa.example.org", "A", "192.0.2.9"),
        // Not a name: it cannot be queried.
        row("a..example.org", "A", "192.0.2.10"),
    ]);
    rows
}

const NAMES: &[&str] = &[
    "",
    "ns1",
    "www",
    "sub",
    "x.sub",
    "wild",
    "x.wild",
    "alias",
    "lone",
    "x.lone",
    "odd",
    "ok.odd",
    "x.odd",
    "cut1",
    "x.cut1",
    "glue.cut1",
    "cut2",
    "x.cut2",
    "cut3",
    "x.cut3",
    "cut4",
    "x.cut4",
    "host",
    "x.host",
    "mx",
    "cut5",
    "x.cut5",
    "cut6",
    "ns.cut6",
    "tohost",
    "old",
    "x.old",
    "star",
    "x.star",
    "two",
    "x.two",
    "mixed",
    "x.mixed",
    "soa",
    "below.soa",
    "x.soa",
    "nothing",
];

#[test]
fn the_same_names_fail_in_memory_as_in_look_ups() {
    let fixture = SqliteFixture::new("example.org", &flawed());
    let backend = fixture.backend();
    let zone = LiveZone {
        id: 1,
        apex: name("example.org"),
    };
    block_on(async {
        let mut builder = ZoneBuilder::new(zone.apex.as_name());
        let report = backend.load_zone(&zone, &mut builder).await.unwrap();
        assert_eq!(report.bad_count, 12, "{:?}", report.bad);
        let (whole, findings) = builder.finish();
        let whole = whole.unwrap_or_else(|| panic!("{findings:?}"));
        let errors: Vec<_> = findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
            .collect();
        assert_eq!(errors.len(), 3, "{errors:?}");
        let has_row = |error: &&Finding| error.location.row_id().is_some();
        assert!(errors.iter().all(has_row), "{errors:?}");
        let mut failed = Vec::new();
        for prefix in NAMES {
            let dot = if prefix.is_empty() { "" } else { "." };
            let qname = name(&format!("{prefix}{dot}example.org"));
            let part = backend.lookup(&zone, qname.as_name()).await;
            for qtype in [Type::A, Type::NS, Type::MX, Type::TXT, Type::DS, Type::SOA] {
                let in_memory = answer(&whole, &qname, qtype);
                match &part {
                    Ok(part) => {
                        let looked_up = answer(&part.zone, &qname, qtype);
                        assert_eq!(in_memory, looked_up, "{qname} {qtype}");
                    }
                    Err(SqlError::Row(_)) => {
                        assert_eq!(
                            in_memory[3] & 15,
                            SERVFAIL,
                            "{qname} {qtype}: {part:?}",
                            part = part.as_ref().err()
                        );
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            if part.is_err() {
                failed.push(*prefix);
            }
        }
        let expected = [
            "www",
            "alias",
            "lone",
            "odd",
            "cut1",
            "x.cut1",
            "glue.cut1",
            "cut2",
            "x.cut2",
            "cut3",
            "x.cut3",
            "cut4",
            "host",
            "cut5",
            "x.cut5",
            "cut6",
            "ns.cut6",
            "tohost",
            "x.old",
            "old",
            "x.star",
            "two",
            "mixed",
            "soa",
        ];
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        failed.sort_unstable();
        assert_eq!(failed, expected);
    });
}

#[test]
fn an_address_that_cannot_be_read_is_left_out_of_additional_sections() {
    let mut rows = sound();
    rows.push(row("ns1.example.org", "A", "nonsense"));
    rows.push(row("mail.example.org", "MX", "ns1.example.org"));
    rows.push(row("mail.example.org", "MX", "www.example.org"));
    let fixture = SqliteFixture::new("example.org", &rows);
    let backend = fixture.backend();
    let zone = LiveZone {
        id: 1,
        apex: name("example.org"),
    };
    let mut builder = ZoneBuilder::new(zone.apex.as_name());
    block_on(backend.load_zone(&zone, &mut builder)).unwrap();
    let whole = builder.finish().0.unwrap();
    // The response code, the answers, and the additional records without OPT.
    let ask = |qname: &str, qtype| {
        let qname = name(qname);
        let part = block_on(backend.lookup(&zone, qname.as_name()));
        let in_memory = answer(&whole, &qname, qtype);
        if let Ok(part) = part {
            assert_eq!(answer(&part.zone, &qname, qtype), in_memory, "{qname}");
        }
        let count = |at| u16::from_be_bytes([in_memory[at], in_memory[at + 1]]);
        (in_memory[3] & 15, count(6), count(10) - 1)
    };
    assert_eq!(ask("example.org", Type::SOA), (0, 1, 0));
    assert_eq!(ask("example.org", Type::NS), (0, 1, 0));
    assert_eq!(ask("example.org", Type::TXT), (0, 0, 0));
    assert_eq!(ask("nothing.example.org", Type::A), (3, 0, 0));
    assert_eq!(ask("mail.example.org", Type::MX), (0, 2, 1));
    assert_eq!(ask("ns1.example.org", Type::A), (SERVFAIL, 0, 0));
}

#[test]
fn a_zone_whose_soa_or_servers_cannot_be_read_fails_as_a_whole() {
    for (rtype, content) in [
        ("SOA", "a..b"),
        ("NS", "a..b"),
        ("SOA", "a.b c.d 7 2 3 4 5"),
    ] {
        let mut rows = sound();
        rows.push(row("example.org", rtype, content));
        let fixture = SqliteFixture::new("example.org", &rows);
        let backend = fixture.backend();
        let zone = LiveZone {
            id: 1,
            apex: name("example.org"),
        };
        let mut builder = ZoneBuilder::new(zone.apex.as_name());
        block_on(backend.load_zone(&zone, &mut builder)).unwrap();
        assert!(builder.finish().0.is_none(), "{rtype} {content}");
        let part = block_on(backend.lookup(&zone, name("www.example.org").as_name()));
        assert!(matches!(part, Err(SqlError::Row(_))), "{rtype} {content}");
    }
}

#[test]
fn a_zone_of_a_database_that_grows_beyond_its_limits_is_refused_when_it_is_read_as_a_whole() {
    let fixture = SqliteFixture::new("example.org", &sound());
    let zone = LiveZone {
        id: 1,
        apex: name("example.org"),
    };
    let limits = |octets, records| {
        let mut options = SqlOptions::for_tests(fixture.address.clone());
        options.zone_limits = ZoneLimits { octets, records };
        let backend = SqlBackend::new(options).unwrap();
        let mut builder = ZoneBuilder::new(zone.apex.as_name());
        block_on(backend.load_zone(&zone, &mut builder)).unwrap();
        let (zone, findings) = builder.finish();
        let said = findings.into_iter().map(|finding| finding.message);
        (zone.is_some(), said.collect::<Vec<_>>().join("; "))
    };
    assert!(limits(1 << 20, 100).0);
    let (is_taken, said) = limits(1 << 20, 3);
    assert!(!is_taken && said.contains("3"), "{said}");
    assert!(!limits(64, 100).0);
}

#[test]
fn the_fingerprint_of_a_zone_changes_with_any_of_its_rows_and_with_nothing_else() {
    let fixture = SqliteFixture::new("example.org", &flawed());
    let backend = fixture.backend();
    let zone = LiveZone {
        id: 1,
        apex: name("example.org"),
    };
    let fingerprint = || {
        let mut builder = ZoneBuilder::new(zone.apex.as_name());
        block_on(backend.load_zone(&zone, &mut builder))
            .unwrap()
            .fingerprint
    };
    let run = |sql: &str| fixture.connection().execute_batch(sql).unwrap();
    let mut seen = vec![fingerprint()];
    run("UPDATE records SET ordername = 'x', auth = 0");
    run("INSERT INTO domains (id, name, type) VALUES (2, 'other.test', 'NATIVE')");
    run(
        "INSERT INTO records (domain_id, name, type, content) VALUES (2, 'other.test', 'A', '192.0.2.1')",
    );
    assert_eq!(fingerprint(), seen[0]);
    for change in [
        "ttl = 301",
        "prio = NULL",
        "content = '192.0.2.77'",
        "name = 'www3.example.org'",
        "type = 'TXT'",
        "disabled = 1",
    ] {
        run(&format!("UPDATE records SET {change} WHERE id = 4"));
        let now = fingerprint();
        assert!(!seen.contains(&now), "{change}");
        seen.push(now);
    }
}
