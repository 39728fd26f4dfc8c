//! A database made by the tools of PowerDNS is served as its zone file would be.

use crate::common::{answer, block_on, name, resident};
use nameward_sql::{DatabaseAddress, LiveZone, SqlBackend, SqlOptions, db};
use nameward_testkit::require;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_wire::{NameBuf, Type};
use nameward_zone::{Zone, ZoneBuilder};
use std::path::Path;
use std::process::Command;

const ZONE: &str = r#"$ORIGIN example.org.
$TTL 3600
@ IN SOA ns1 hostmaster 2024010101 10800 3600 604800 3600
@ IN NS ns1
@ IN NS ns2.example.net.
@ IN MX 10 mail
@ IN MX 20 mail.example.net.
@ IN TXT "v=spf1 mx -all"
@ IN CAA 0 issue "ca.example.net"
ns1 IN A 192.0.2.1
ns1 IN AAAA 2001:db8::1
mail 300 IN A 192.0.2.2
www IN CNAME mail
deep.below.an.empty.name IN A 192.0.2.3
*.wild IN TXT "semi;colon" "quo\"te"
sub IN NS ns.sub
ns.sub IN A 192.0.2.4
sub IN DS 12345 13 2 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
_sip._tcp IN SRV 1 2 5060 mail
svc IN HTTPS 1 . alpn=h2 ipv4hint=192.0.2.9
old IN DNAME new
host.new IN A 192.0.2.5
naptr IN NAPTR 100 10 "u" "E2U+sip" "!^.*$!sip:info@example.org!" .
dotted\.label IN A 192.0.2.6
"#;

/// The database of PowerDNS: its own schema, filled by its own tool.
fn made_by_powerdns(directory: &Path) -> Option<DatabaseAddress> {
    let schema = Path::new("/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql");
    let path = directory.join("pdns.sqlite3");
    let schema = require(
        std::fs::read_to_string(schema).ok(),
        "the schema of PowerDNS",
    )?;
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(&schema)
        .unwrap();
    std::fs::write(
        directory.join("pdns.conf"),
        format!(
            "launch=gsqlite3\ngsqlite3-dnssec\ngsqlite3-database={}\n",
            path.display()
        ),
    )
    .unwrap();
    std::fs::write(directory.join("zone"), ZONE).unwrap();
    let zone_file = directory.join("zone").display().to_string();
    let commands: [&[&str]; 6] = [
        &["load-zone", "example.org", &zone_file],
        &["create-zone", "empty.test", "ns1.empty.test"],
        &["create-slave-zone", "secondary.test", "192.0.2.53"],
        &["set-kind", "example.org", "master"],
        &["secure-zone", "example.org"],
        &["rectify-zone", "example.org"],
    ];
    for arguments in commands {
        let output = Command::new("pdnsutil")
            .arg(format!("--config-dir={}", directory.display()))
            .args(arguments)
            .output();
        let output = require(output.ok(), "pdnsutil")?;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    Some(DatabaseAddress::Sqlite(path))
}

fn from_file() -> Zone {
    let apex = name("example.org");
    let mut builder = ZoneBuilder::new(apex.as_name());
    let report = parse_bytes("zone", ZONE.as_bytes(), &Options::new(apex), &mut builder);
    assert!(!report.has_errors(), "{:?}", report.diagnostics);
    builder.finish().0.expect("a zone")
}

#[test]
fn a_database_filled_by_pdnsutil_is_served_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let Some(address) = made_by_powerdns(directory.path()) else {
        return;
    };
    let DatabaseAddress::Sqlite(path) = &address else {
        unreachable!()
    };
    let connection = rusqlite::Connection::open(path).unwrap();
    let count = |sql: &str| {
        connection
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    // What the test is about is really there: rows of empty non-terminals, derived columns.
    assert!(count("SELECT count(*) FROM records WHERE type IS NULL") > 0);
    assert!(count("SELECT count(*) FROM records WHERE ordername IS NOT NULL") > 0);
    connection
        .execute_batch(
            "INSERT INTO records (domain_id, name, type, content, ttl, prio, disabled, auth)
               SELECT id, 'off.example.org', 'A', '192.0.2.66', 60, 0, 1, 1 FROM domains WHERE name = 'example.org';
             INSERT INTO records (domain_id, name, type) SELECT id, 'gone.example.org', NULL FROM domains
               WHERE name = 'example.org';
             INSERT INTO comments (domain_id, name, type, modified_at, comment)
               SELECT id, 'www.example.org', 'CNAME', 1700000000, 'a comment' FROM domains WHERE name = 'example.org';
             UPDATE records SET ordername = 'wrong', auth = 0;",
        )
        .unwrap();
    let report = block_on(db::check(&address)).unwrap();
    // A secondary that was never transferred has no SOA yet; all else is in order.
    assert_eq!(report.schema, Vec::<String>::new());
    assert_eq!(report.bad_rows, 1, "{:?}", report.rows);

    let backend = SqlBackend::new(SqlOptions::for_tests(address)).unwrap();
    block_on(async {
        let zones = backend.zones().await.unwrap();
        let zones: Vec<_> = zones.rows().collect();
        let kind = |wanted: &str| {
            let zone = zones.iter().find(|zone| zone.name == name(wanted));
            zone.map(|zone| (zone.kind, zone.primaries.as_deref()))
        };
        assert_eq!(
            kind("example.org"),
            Some((nameward_zone::ZoneKind::Primary, None))
        );
        assert_eq!(
            kind("empty.test"),
            Some((nameward_zone::ZoneKind::Native, None))
        );
        assert_eq!(
            kind("secondary.test"),
            Some((nameward_zone::ZoneKind::Secondary, Some("192.0.2.53")))
        );
        let row = zones
            .iter()
            .find(|zone| zone.name == name("example.org"))
            .unwrap();
        let live = LiveZone {
            id: row.id,
            apex: row.name,
        };
        let (file, whole) = (from_file(), resident(&backend, &live).await);
        for qname in questions() {
            let part = backend.lookup(&live, qname.as_name()).await.unwrap();
            for qtype in [1, 2, 5, 6, 15, 16, 28, 33, 35, 39, 43, 65, 255, 257].map(Type) {
                let expected = answer(&file, &qname, qtype);
                assert_eq!(
                    answer(&whole, &qname, qtype),
                    expected,
                    "resident: {qname} {qtype}"
                );
                assert_eq!(
                    answer(&part.zone, &qname, qtype),
                    expected,
                    "live: {qname} {qtype}"
                );
            }
        }
    });
}

fn questions() -> Vec<NameBuf> {
    let prefixes = [
        "",
        "ns1.",
        "mail.",
        "www.",
        "deep.below.an.empty.name.",
        "below.an.empty.name.",
        "an.empty.name.",
        "empty.name.",
        "name.",
        "x.name.",
        "wild.",
        "*.wild.",
        "x.wild.",
        "y.x.wild.",
        "sub.",
        "ns.sub.",
        "x.sub.",
        "_sip._tcp.",
        "_tcp.",
        "svc.",
        "old.",
        "host.old.",
        "other.old.",
        "new.",
        "host.new.",
        "naptr.",
        r"dotted\.label.",
        "off.",
        "gone.",
        "nothing.",
    ];
    prefixes
        .iter()
        .map(|prefix| format!("{prefix}example.org").parse().unwrap())
        .collect()
}
