//! Deleted zones are restored with everything that databases store about them, as long as copies are stored.

use super::attributes::{done, run};
use super::operation::{ask, zone};
use super::rows::Sqlite;
use super::writes::{backend, started};
use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::{Setup, TestServer};
use std::time::{Duration, Instant};

const REFUSED: u8 = 5;
const TIMEOUT: Duration = Duration::from_secs(60);
const STATE: &str = "[server]\nstate_directory = \"state\"\n";
/// Every row of every table with data of a zone; `notified_serial` is written by the server itself.
const ROWS: [&str; 5] = [
    "SELECT name, master, last_check, type, account, options, catalog FROM domains",
    "SELECT name, type, content, ttl, prio, disabled, ordername, auth FROM records ORDER BY name, type, content",
    "SELECT name, type, modified_at, account, comment FROM comments",
    "SELECT kind, content FROM domainmetadata ORDER BY kind, content",
    "SELECT flags, active, published, content FROM cryptokeys",
];
const KEY: &str = "INSERT INTO cryptokeys (domain_id, flags, active, published, content) SELECT id, 257, true, true, \
     'Private-key-format: v1.2\nAlgorithm: 13 (ECDSAP256SHA256)\nPrivateKey: AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\n' \
     FROM domains WHERE name = 'one.test'; \
     UPDATE domains SET options = '{\"producer\":{\"coo\":\"\"}}', last_check = 7 WHERE name = 'one.test'";

fn wait_for(server: &TestServer, name: &str, wanted: (u8, u8)) {
    let end = Instant::now() + TIMEOUT;
    while ask(server, name) != Some(wanted) {
        assert!(Instant::now() < end, "{name}: {}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Fills a zone with data of each kind, deletes it, restores it and compares.
fn delete_and_undelete(server: &TestServer, sql: &dyn Fn(&str) -> String) {
    let create = ["zone", "create", "one.test", "--ns", "ns.one.test"];
    done(server, &[&create[..], &["--kind", "primary"]].concat());
    for arguments in [
        &["record", "set", "one.test", "www", "A", "60", "192.0.2.10"][..],
        // With an empty non-terminal above it.
        &["record", "set", "one.test", "a.b", "TXT", "60", "\"ü\" two"],
        &["record", "set", "one.test", "off", "A", "60", "192.0.2.3"],
        &["record", "disable", "one.test", "off", "A"],
        &["record", "comment", "one.test", "www", "A", "kept for joe"],
        &["metadata", "add", "one.test", "X-OURS", "a", "b"],
        &["zone", "set", "one.test", "--account", "joe"],
    ] {
        done(server, arguments);
    }
    sql(KEY);
    let dump = || ROWS.map(sql);
    let before = dump();
    assert!(before[4].contains("AQEBAQ") && before[2].contains("joe"));
    wait_for(server, "www.one.test.", (0, 10));
    let said = done(server, &["zone", "delete", "one.test"]);
    assert!(
        said.contains("restore it with `nameward zone undelete one.test` until 2"),
        "{said}"
    );
    assert_eq!(ask(server, "www.one.test.").map(|a| a.0), Some(REFUSED));
    let listed = done(server, &["zone", "list", "--deleted", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["name"], "one.test.");
    assert_eq!(
        (&listed["kind"], &listed["backend"]),
        (&"primary".into(), &1.into())
    );
    assert_eq!(listed["records"], 5, "{listed}");
    let days = listed["kept_until"].as_u64().unwrap() - listed["deleted"].as_u64().unwrap();
    assert_eq!(days, 7 * 86_400);
    let said = done(server, &["zone", "undelete", "one.test"]);
    assert!(
        said.starts_with("restored zone one.test in backend 1"),
        "{said}"
    );
    assert_eq!(dump(), before);
    wait_for(server, "www.one.test.", (0, 10));
    assert_eq!(done(server, &["zone", "list", "--deleted"]), "");
    let (code, said) = run(server, &["zone", "undelete", "one.test"]);
    assert!(code == Some(5) && said.contains("exists"), "{said}");
    // A zone that was created again in the meantime is not overwritten.
    done(server, &["zone", "delete", "one.test"]);
    done(server, &create);
    let (code, said) = run(server, &["zone", "undelete", "one.test"]);
    assert!(code == Some(5) && said.contains("exists"), "{said}");
    done(server, &["zone", "delete", "one.test", "--no-copy"]);
    done(server, &["zone", "undelete", "one.test"]);
    assert_eq!(dump(), before);
    done(server, &["zone", "delete", "one.test", "--no-copy"]);
    let (code, said) = run(server, &["zone", "undelete", "one.test"]);
    assert!(code == Some(4) && said.contains("no copy"), "{said}");
}

fn sqlite_backend(database: &Sqlite, mode: &str) -> String {
    let path = database.path.display();
    format!("[[backend]]\ntype = \"sqlite\"\npath = \"{path}\"\nmode = \"{mode}\"\n")
}

/// Runs statements; returns the rows of the first as text.
fn on_sqlite(database: &Sqlite, sql: &str) -> String {
    if !sql.starts_with("SELECT") {
        database.run(sql);
        return String::new();
    }
    let connection = rusqlite::Connection::open(&database.path).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let cells = (0..columns).map(|column| row.get::<_, rusqlite::types::Value>(column));
        Ok(format!("{:?}", cells.collect::<Result<Vec<_>, _>>()?))
    });
    let rows = rows.unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    rows.join("\n")
}

#[test]
fn a_deleted_zone_of_sqlite_is_restored_completely() {
    for mode in ["live", "resident"] {
        let setup = Setup::new().without_web().config(STATE);
        let database = Sqlite::new(setup.dir());
        let server = setup.config(&sqlite_backend(&database, mode)).start();
        delete_and_undelete(&server, &|sql| on_sqlite(&database, sql));
    }
}

fn check_engine(kind: DatabaseKind) {
    let Some(database) = started(kind) else {
        return;
    };
    let setup = Setup::new().without_web().config(STATE);
    let server = setup.config(&backend(kind, &database, "live")).start();
    delete_and_undelete(&server, &|sql| database.run(sql).unwrap());
}

#[test]
fn a_deleted_zone_of_postgres_is_restored_completely() {
    check_engine(DatabaseKind::Postgres);
}

#[test]
fn a_deleted_zone_of_mariadb_is_restored_completely() {
    check_engine(DatabaseKind::Mariadb);
}

#[test]
fn the_retention_of_copies_follows_a_reload() {
    let setup = Setup::new().without_web().config(STATE);
    let database = Sqlite::new(setup.dir());
    let server = setup.config(&sqlite_backend(&database, "live"));
    let server = server.config("[journal]\ndeleted_keep_days = 7\n").start();
    done(
        &server,
        &["zone", "create", "one.test", "--ns", "ns.other.test"],
    );
    done(&server, &["zone", "delete", "one.test"]);
    let days = || {
        let listed = done(&server, &["zone", "list", "--deleted", "--json"]);
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let seconds = listed["kept_until"].as_u64().unwrap() - listed["deleted"].as_u64().unwrap();
        seconds / 86_400
    };
    assert_eq!(days(), 7);
    let config = server.dir().join("nameward.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let text = text.replace("deleted_keep_days = 7", "deleted_keep_days = 3");
    std::fs::write(&config, text).unwrap();
    done(&server, &["reload"]);
    assert_eq!(days(), 3);
}

#[test]
fn without_a_state_directory_a_deletion_warns_that_no_copy_is_stored() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.10"));
    let server = setup.config(&sqlite_backend(&database, "live")).start();
    let said = done(&server, &["zone", "delete", "one.test"]);
    assert!(said.contains("warning: no copy is stored"), "{said}");
    for arguments in [
        &["zone", "undelete", "one.test"][..],
        &["zone", "list", "--deleted"],
    ] {
        let (code, said) = run(&server, arguments);
        assert!(
            code == Some(7) && said.contains("state_directory"),
            "{said}"
        );
    }
}

#[test]
fn a_zone_too_large_for_a_copy_stays_and_copies_end_with_their_time() {
    let setup = Setup::new().without_web();
    let setup = setup.config(&format!("{STATE}[journal]\ndeleted_max_mb = 1\n"));
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.10"));
    database.add(&zone("two.test", "192.0.2.20"));
    database.run(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) \
         INSERT INTO records (domain_id, name, type, content, ttl) SELECT \
         (SELECT id FROM domains WHERE name = 'two.test'), 't' || i || '.two.test', 'TXT', \
         '\"' || substr(hex(zeroblob(30000)), 1, 200) || '\" ' || replace(hex(zeroblob(140)), '00', '\"' || hex(zeroblob(100)) || '\" '), 60 FROM n",
    );
    let server = setup.config(&sqlite_backend(&database, "live")).start();
    let (code, said) = run(&server, &["zone", "delete", "two.test"]);
    assert!(code == Some(7) && said.contains("--no-copy"), "{said}");
    assert_eq!(ask(&server, "www.two.test."), Some((0, 20)));
    done(&server, &["zone", "delete", "two.test", "--no-copy"]);
    done(&server, &["zone", "delete", "one.test"]);
    assert_eq!(
        done(&server, &["zone", "list", "--deleted"])
            .lines()
            .count(),
        1
    );
    let state = server.dir().join("state/state.db");
    let on_state = |sql: &str| {
        let connection = rusqlite::Connection::open(&state).unwrap();
        connection.busy_timeout(TIMEOUT).unwrap();
        connection.execute(sql, []).unwrap()
    };
    assert_eq!(
        on_state("UPDATE deleted_zone SET time = time - 8 * 86400"),
        1
    );
    assert_eq!(done(&server, &["zone", "list", "--deleted"]), "");
    let (code, said) = run(&server, &["zone", "undelete", "one.test"]);
    assert!(code == Some(4) && said.contains("no copy"), "{said}");
    // The next deletion removes it, and so does the next start.
    database.add(&zone("three.test", "192.0.2.30"));
    wait_for(&server, "www.three.test.", (0, 30));
    done(&server, &["zone", "delete", "three.test"]);
    assert_eq!(
        on_state("DELETE FROM deleted_zone WHERE time < strftime('%s', 'now') - 7 * 86400"),
        0
    );
    assert_eq!(on_state("DELETE FROM deleted_zone"), 1);
}
