//! SQLite as a store: the schema, its check, change notices, and a database that is not there.

use crate::common::{Row, SqliteFixture, block_on, name, row, until_noticed};
use nameward_sql::{Change, DatabaseAddress, LiveZone, SqlBackend, SqlError, SqlOptions, db};
use nameward_zone::ZoneBuilder;

fn zone_rows() -> Vec<Row> {
    vec![
        row(
            "example.org",
            "SOA",
            "ns1.example.org host.example.org 1 2 3 4 5",
        ),
        row("example.org", "NS", "ns1.example.org"),
        row("www.example.org", "a", "192.0.2.2"),
    ]
}

#[test]
fn a_new_schema_is_clean_and_can_be_made_twice() {
    let fixture = SqliteFixture::new("example.org", &zone_rows());
    assert!(block_on(db::init(&fixture.address)).unwrap().is_empty());
    let report = block_on(db::check(&fixture.address)).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.checked_rows, 4);
}

#[test]
fn check_names_what_is_missing_and_which_rows_are_wrong() {
    let fixture = SqliteFixture::new("example.org", &zone_rows());
    let connection = fixture.connection();
    connection
        .execute_batch(
            "INSERT INTO domains (id, name, type) VALUES (2, 'a..b', 'NATIVE'), (3, 'c.test', 'ODD'),
               (4, 'd.test', 'slave');
             INSERT INTO records (id, domain_id, name, type, content) VALUES
               (10, 1, 'x.example.org', 'A', 'nonsense'), (11, 1, 'y.example.net', 'A', '192.0.2.1'),
               (12, 1, 'Up.example.org', 'A', '192.0.2.1'), (13, NULL, 'z.example.org', 'A', '192.0.2.1'),
               (14, 1, 'z.example.org', 'NOSUCH', 'x');
             INSERT INTO records (id, domain_id, name, type, content, disabled) VALUES
               (15, 1, 'off.example.org', 'A', 'nonsense', 1);",
        )
        .unwrap();
    let report = block_on(db::check(&fixture.address)).unwrap();
    let mut found: Vec<_> = report
        .rows
        .iter()
        .map(|row| (row.error.table, row.error.id))
        .collect();
    found.sort();
    let records = [10, 11, 12, 13, 14].map(|id| ("records", id));
    let domains = [2, 3, 4].map(|id| ("domains", id));
    assert_eq!(found, [&domains[..], &records[..]].concat());
    connection
        .execute_batch("DROP INDEX records_lookup_idx; ALTER TABLE domains DROP COLUMN options; DROP TABLE tsigkeys")
        .unwrap();
    let report = block_on(db::check(&fixture.address)).unwrap();
    let text = report.schema.join("\n");
    for expected in [
        "table tsigkeys",
        "column options of table domains",
        "table records is missing an index that starts with name",
    ] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn bad_rows_are_left_out_of_a_load_and_reported() {
    let mut rows = zone_rows();
    rows.push(row("bad.example.org", "A", "nonsense"));
    rows.push(row("a..b.example.org", "A", "192.0.2.1"));
    let fixture = SqliteFixture::new("example.org", &rows);
    let live = LiveZone {
        id: 1,
        apex: name("example.org"),
    };
    let mut builder = ZoneBuilder::new(live.apex.as_name());
    let report = block_on(fixture.backend().load_zone(&live, &mut builder)).unwrap();
    assert_eq!((report.records, report.bad_count), (3, 2));

    assert!(builder.finish().0.is_some());
}

#[test]
fn a_missing_database_is_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("later.db");
    let backend =
        SqlBackend::new(SqlOptions::for_tests(DatabaseAddress::Sqlite(path.clone()))).unwrap();
    assert!(matches!(
        block_on(backend.zones()),
        Err(SqlError::Unavailable(_))
    ));
    assert!(!backend.health().is_up);
    block_on(db::init(&DatabaseAddress::Sqlite(path))).unwrap();
    assert!(block_on(backend.zones()).unwrap().is_empty());
    assert!(backend.health().is_up);
}

#[test]
fn changes_are_noticed_with_their_zone_and_without_triggers_as_one() {
    let fixture = SqliteFixture::new("example.org", &zone_rows());
    let backend = fixture.backend();
    let connection = fixture.connection();
    block_on(async {
        let mut changes = backend.watch().0;
        let run = |sql: &str| connection.execute_batch(sql).unwrap();
        until_noticed(&mut changes, Change::Zone(1, None), || {
            run("UPDATE records SET content = '192.0.2.3' WHERE name = 'www.example.org'");
        })
        .await;
        until_noticed(&mut changes, Change::Zone(7, None), || {
            run("INSERT OR REPLACE INTO domains (id, name, type) VALUES (7, 'new.test', 'NATIVE')");
        })
        .await;
        assert_eq!(
            backend.zone(7).await.unwrap().unwrap().name,
            name("new.test")
        );
        assert!(backend.zone(8).await.unwrap().is_none());
        for table in ["records", "domains"] {
            for event in ["insert", "update", "delete"] {
                run(&format!("DROP TRIGGER nameward_{table}_{event}"));
            }
        }
        run("DROP TABLE nameward_changes");
        until_noticed(&mut changes, Change::All, || {
            run("UPDATE records SET content = '192.0.2.4' WHERE name = 'www.example.org'");
        })
        .await;
    });
}

#[test]
fn a_file_that_replaces_the_database_is_used() {
    let fixture = SqliteFixture::new("example.org", &zone_rows());
    let other = SqliteFixture::new("other.test", &[]);
    let backend = fixture.backend();
    let apex = || {
        let zones = block_on(backend.zones()).unwrap();
        zones.rows().next().unwrap().name
    };
    assert_eq!(apex(), name("example.org"));
    // All of it must be in the one file that is moved.
    other
        .connection()
        .execute_batch("PRAGMA journal_mode = DELETE")
        .unwrap();
    let (DatabaseAddress::Sqlite(old), DatabaseAddress::Sqlite(new)) =
        (&fixture.address, &other.address)
    else {
        unreachable!()
    };
    block_on(async {
        let mut changes = backend.watch().0;
        let run = |sql: &str| fixture.connection().execute_batch(sql).unwrap();
        // Shows that the watch has begun.
        until_noticed(&mut changes, Change::Zone(1, None), || {
            run("UPDATE records SET ttl = ttl + 1")
        })
        .await;
        std::fs::rename(new, old).unwrap();
        until_noticed(&mut changes, Change::All, || {}).await;
    });
    assert_eq!(apex(), name("other.test"));
}
