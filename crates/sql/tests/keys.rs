//! Keys and metadata that cannot be read: a zone that was signed stays signed in the way it was, one of which nothing is
//! known fails, and none is ever served unsigned or with NSEC in the place of NSEC3.

use crate::common::{self, SqliteFixture, block_on, name, row};
use nameward_dnssec::Denial;
use nameward_sql::{CacheBounds, DatabaseAddress, LiveZone, SqlBackend, SqlError, SqlOptions, db};
use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_zone::ZoneBuilder;
use std::time::Duration;

const KEY: &str = "Private-key-format: v1.2
Algorithm: 15 (ED25519)
PrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=
";

fn zone() -> LiveZone {
    LiveZone {
        id: 1,
        apex: name("example.org"),
    }
}

/// A backend that asks for keys and metadata at each look-up.
fn backend(address: &DatabaseAddress) -> SqlBackend {
    let mut options = SqlOptions::for_tests(address.clone());
    options.timeout = Duration::from_secs(2);
    options.security.keys = CacheBounds {
        entries: 10,
        ttl: Duration::from_nanos(1),
    };
    options.security.metadata = options.security.keys;
    SqlBackend::new(options).unwrap()
}

#[derive(Debug, PartialEq)]
enum Seen {
    Unsigned,
    Nsec,
    Nsec3,
    Broken,
    Failed,
}

/// How an answer would be signed.
async fn look(backend: &SqlBackend) -> Seen {
    match backend
        .lookup(&zone(), name("www.example.org").as_name())
        .await
    {
        Err(SqlError::Row(error)) => panic!("{error}"),
        Err(error) => {
            // Shown if the test fails.
            println!("{error}");
            Seen::Failed
        }
        Ok(fragment) => match fragment.zone.signing().online() {
            None => Seen::Unsigned,
            Some(signing) if signing.is_broken() => Seen::Broken,
            Some(signing) => match signing.denial() {
                Denial::Nsec => Seen::Nsec,
                Denial::Nsec3(_) => Seen::Nsec3,
            },
        },
    }
}

/// Whether the zone can be loaded.
async fn loads(backend: &SqlBackend) -> bool {
    let mut builder = ZoneBuilder::new(zone().apex.as_name());
    let report = backend.load_zone(&zone(), &mut builder).await;
    if let Ok(report) = &report {
        let signing = report.signing.as_ref().expect("never unsigned");
        assert!(signing.is_broken() || matches!(signing.denial(), Denial::Nsec3(_)));
    }
    report.is_ok()
}

/// A kind of trouble: how it begins and how it ends.
struct Trouble {
    what: String,
    begin: String,
    end: String,
}

fn trouble(what: impl Into<String>, begin: impl Into<String>, end: impl Into<String>) -> Trouble {
    Trouble {
        what: what.into(),
        begin: begin.into(),
        end: end.into(),
    }
}

/// A table that is not there, as while it is migrated.
fn missing(table: &str) -> Trouble {
    trouble(
        format!("no table {table}"),
        format!("ALTER TABLE {table} RENAME TO away"),
        format!("ALTER TABLE away RENAME TO {table}"),
    )
}

/// Statements are refused: a server that knew the zone still signs, one that did not fails, and loads fail.
fn check_refusal(address: &DatabaseAddress, trouble: &Trouble, run: &dyn Fn(&str)) {
    block_on(async {
        let known = backend(address);
        assert_eq!(look(&known).await, Seen::Nsec3, "{}", trouble.what);
        let unknown = backend(address);
        run(&trouble.begin);
        // Also after a notice that something changed.
        known.forget(None);
        let during = [look(&known).await, look(&known).await, look(&unknown).await];
        let can_load = loads(&unknown).await;
        run(&trouble.end);
        assert_eq!(
            during,
            [Seen::Nsec3, Seen::Nsec3, Seen::Failed],
            "{}",
            trouble.what
        );
        assert!(!can_load, "{}", trouble.what);
        assert_eq!(look(&unknown).await, Seen::Nsec3, "{}", trouble.what);
        assert!(loads(&unknown).await, "{}", trouble.what);
    });
}

/// Rows that make no sense: the same, but the zone can be looked up and loaded without DNSSEC.
fn check_bad_rows(address: &DatabaseAddress, run: &dyn Fn(&str)) {
    let bad_key = "INSERT INTO cryptokeys (id, domain_id, flags, active, published, content)
                   VALUES (77, 1, 257, TRUE, TRUE, 'Algorithm: 16')";
    let bad_item = "INSERT INTO domainmetadata (id, domain_id, kind, content)
                    VALUES (77, 1, 'NSEC3PARAM', 'nonsense')";
    for (table, insert) in [("cryptokeys", bad_key), ("domainmetadata", bad_item)] {
        block_on(async {
            let known = backend(address);
            assert_eq!(look(&known).await, Seen::Nsec3);
            run(insert);
            assert_eq!(look(&known).await, Seen::Nsec3, "{table}");
            assert_eq!(look(&backend(address)).await, Seen::Broken, "{table}");
            run(&format!("DELETE FROM {table} WHERE id = 77"));
            assert_eq!(look(&backend(address)).await, Seen::Nsec3, "{table}");
            // The zone counts as unsigned when the database says so.
            run("UPDATE cryptokeys SET domain_id = 2");
            assert_eq!(look(&known).await, Seen::Unsigned);
            run("UPDATE cryptokeys SET domain_id = 1");
            assert_eq!(look(&known).await, Seen::Nsec3);
        });
    }
}

fn rows() -> Vec<common::Row> {
    vec![
        row(
            "example.org",
            "SOA",
            "ns1.example.org host.example.org 1 2 3 4 5",
        ),
        row("example.org", "NS", "ns.elsewhere.test"),
        row("www.example.org", "A", "192.0.2.1"),
    ]
}

fn secure() -> String {
    format!(
        "INSERT INTO cryptokeys (domain_id, flags, active, published, content)
           VALUES (1, 257, TRUE, TRUE, '{KEY}');
         INSERT INTO domainmetadata (domain_id, kind, content) VALUES (1, 'NSEC3PARAM', '1 0 0 -');"
    )
}

#[test]
fn sqlite_zones_never_turn_unsigned() {
    let fixture = SqliteFixture::new("example.org", &rows());
    let run = |sql: &str| fixture.connection().execute_batch(sql).unwrap();
    run("INSERT INTO domains (id, name, type) VALUES (2, 'example.net', 'NATIVE')");
    run(&secure());
    for table in ["cryptokeys", "domainmetadata"] {
        check_refusal(&fixture.address, &missing(table), &run);
    }
    // A column that is not there yet.
    let column = trouble(
        "no column",
        "ALTER TABLE cryptokeys RENAME COLUMN published TO later",
        "ALTER TABLE cryptokeys RENAME COLUMN later TO published",
    );
    check_refusal(&fixture.address, &column, &run);
    check_bad_rows(&fixture.address, &run);
}

#[test]
fn a_database_configured_without_keys_is_served_without_querying_for_them() {
    let fixture = SqliteFixture::new("example.org", &rows());
    fixture
        .connection()
        .execute_batch("DROP TABLE cryptokeys; DROP TABLE domainmetadata")
        .unwrap();
    let mut options = SqlOptions::for_tests(fixture.address.clone());
    options.security.is_read = false;
    let backend = SqlBackend::new(options).unwrap();
    assert_eq!(block_on(look(&backend)), Seen::Unsigned);
}

/// A database of a server with the zone in it.
fn started(kind: DatabaseKind) -> Option<(Database, DatabaseAddress)> {
    let database = Database::start(kind)?.unwrap();
    let address = DatabaseAddress::parse(&database.url()).unwrap();
    assert!(block_on(db::init(&address)).unwrap().is_empty());
    let mut sql = "INSERT INTO domains (id, name, type) VALUES (1, 'example.org', 'NATIVE'),
                   (2, 'example.net', 'NATIVE');\n"
        .to_string();
    for row in rows() {
        sql.push_str(&format!(
            "INSERT INTO records (domain_id, name, type, content, ttl, prio, disabled)
             VALUES (1, '{}', '{}', '{}', 300, 0, FALSE);\n",
            row.name,
            row.rtype.unwrap(),
            row.content
        ));
    }
    database.run(&sql).unwrap();
    database.run(&secure()).unwrap();
    Some((database, address))
}

#[test]
fn postgres_zones_never_turn_unsigned() {
    let Some((database, address)) = started(DatabaseKind::Postgres) else {
        return;
    };
    let run = |sql: &str| drop(database.run(sql).unwrap());
    for table in ["cryptokeys", "domainmetadata"] {
        check_refusal(&address, &missing(table), &run);
        // Serialisation failure, deadlock, lock timeout, no permission, cancelled, no memory, a bug of the server.
        for code in [
            "40001", "40P01", "55P03", "42501", "57014", "53200", "XX000",
        ] {
            let refused = trouble(
                format!("{table}: {code}"),
                format!(
                    "ALTER TABLE {table} RENAME TO away;
                     CREATE FUNCTION refuse() RETURNS BOOLEAN LANGUAGE plpgsql AS $$
                       BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '{code}'; END $$;
                     CREATE VIEW {table} AS SELECT * FROM away WHERE refuse();"
                ),
                format!(
                    "DROP VIEW {table}; DROP FUNCTION refuse(); ALTER TABLE away RENAME TO {table};"
                ),
            );
            check_refusal(&address, &refused, &run);
        }
    }
    check_bad_rows(&address, &run);
    check_locked(&address);
}

#[test]
fn a_statement_that_postgres_cancels_does_not_end_those_behind_it() {
    let Some((database, address)) = started(DatabaseKind::Postgres) else {
        return;
    };
    let mut options = SqlOptions::for_tests(address);
    options.security.keys.ttl = Duration::from_nanos(1);
    options.security.metadata.ttl = Duration::from_nanos(1);
    options.concurrency.connections = 1;
    let backend = SqlBackend::new(options).unwrap();
    block_on(async {
        assert_eq!(look(&backend).await, Seen::Nsec3);
        let slow_records_and_cancelled_metadata = "
            ALTER TABLE records RENAME TO fast;
            CREATE FUNCTION slow() RETURNS BOOLEAN LANGUAGE plpgsql AS $$
              BEGIN PERFORM pg_sleep(0.1); RETURN TRUE; END $$;
            CREATE VIEW records AS SELECT * FROM fast WHERE slow();
            ALTER TABLE domainmetadata RENAME TO away;
            CREATE FUNCTION refuse() RETURNS BOOLEAN LANGUAGE plpgsql AS $$
              BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '57014'; END $$;
            CREATE VIEW domainmetadata AS SELECT * FROM away WHERE refuse();";
        database.run(slow_records_and_cancelled_metadata).unwrap();
        // The records of the second and third are read while the metadata of the one before is refused.
        let seen = tokio::join!(look(&backend), look(&backend), look(&backend));
        assert_eq!(seen, (Seen::Nsec3, Seen::Nsec3, Seen::Nsec3));
    });
}

/// A table that another client has locked.
fn check_locked(address: &DatabaseAddress) {
    let DatabaseAddress::Postgres(url) = address else {
        unreachable!()
    };
    block_on(async {
        let known = backend(address);
        assert_eq!(look(&known).await, Seen::Nsec3);
        let (client, connection) = tokio_postgres::connect(url.reveal(), tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        let lock = "BEGIN; LOCK TABLE cryptokeys IN ACCESS EXCLUSIVE MODE";
        client.batch_execute(lock).await.unwrap();
        let during = [look(&known).await, look(&backend(address)).await];
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(during, [Seen::Nsec3, Seen::Failed]);
        assert_eq!(look(&backend(address)).await, Seen::Nsec3);
    });
}

#[test]
fn mariadb_zones_never_turn_unsigned() {
    let Some((database, address)) = started(DatabaseKind::Mariadb) else {
        return;
    };
    let run = |sql: &str| drop(database.run(sql).unwrap());
    for table in ["cryptokeys", "domainmetadata"] {
        check_refusal(&address, &missing(table), &run);
        // Deadlock, lock wait timeout, no permission, out of memory.
        for (state, code) in [
            ("40001", 1213),
            ("HY000", 1205),
            ("42000", 1142),
            ("HY001", 1037),
        ] {
            let refused = trouble(
                format!("{table}: {code}"),
                format!(
                    "ALTER TABLE {table} RENAME TO away;
                     DELIMITER //
                     CREATE FUNCTION refuse() RETURNS INT NO SQL BEGIN
                       SIGNAL SQLSTATE '{state}' SET MYSQL_ERRNO = {code}, MESSAGE_TEXT = 'refused';
                       RETURN 1; END//
                     DELIMITER ;
                     CREATE VIEW {table} AS SELECT * FROM away WHERE refuse() = 1;"
                ),
                format!(
                    "DROP VIEW {table}; DROP FUNCTION refuse; ALTER TABLE away RENAME TO {table};"
                ),
            );
            check_refusal(&address, &refused, &run);
        }
    }
    check_bad_rows(&address, &run);
}
