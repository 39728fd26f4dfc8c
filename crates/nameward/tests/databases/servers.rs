//! Real PostgreSQL and MariaDB under a running server: manual changes visible on two servers, and a database that is
//! killed, paused and restarted.

use super::operation::{ask, counter, wait_for, zone};
use super::rows::rows;
use nameward_sql::{DatabaseAddress, db};
use nameward_testkit::Setup;
use nameward_testkit::conformance::ZoneText;
use nameward_testkit::databases::{Database, DatabaseKind};
use std::time::{Duration, Instant};

const SERVFAIL: u8 = 2;

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

pub fn started(kind: DatabaseKind) -> Option<Database> {
    let database = Database::start(kind)?.unwrap();
    let address = DatabaseAddress::parse(&database.url()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let warnings = runtime.block_on(db::init(&address)).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    Some(database)
}

/// Runs statements; backslashes are plain in all of them.
pub fn run(database: &Database, kind: DatabaseKind, sql: &str) {
    let mode = match kind {
        DatabaseKind::Mariadb => "SET sql_mode = 'NO_BACKSLASH_ESCAPES';\n",
        DatabaseKind::Postgres => "",
    };
    database.run(&format!("{mode}{sql}")).unwrap();
}

/// The statements that replace all contents by these zones.
pub fn fill(zones: &[ZoneText]) -> String {
    let mut sql = String::from("DELETE FROM records;\nDELETE FROM domains;\n");
    for (index, zone) in zones.iter().enumerate() {
        let id = index + 1;
        let name = match zone.name.as_str() {
            "" => ".".into(),
            name => name.to_ascii_lowercase(),
        };
        let name = quoted(&name);
        sql.push_str(&format!(
            "INSERT INTO domains (id, name, type) VALUES ({id}, {name}, 'NATIVE');\n"
        ));
        for row in rows(zone) {
            sql.push_str(&format!(
                "INSERT INTO records (domain_id, name, type, content, ttl) VALUES ({id}, {}, {}, {}, {});\n",
                quoted(&row.name),
                quoted(&row.rtype),
                quoted(&row.content),
                row.ttl
            ));
        }
    }
    sql
}

pub fn backend(kind: DatabaseKind, url: &str, mode: &str) -> String {
    let name = match kind {
        DatabaseKind::Postgres => "postgres",
        DatabaseKind::Mariadb => "mysql",
    };
    format!("[[backend]]\ntype = \"{name}\"\nurl = \"{url}\"\nmode = \"{mode}\"\n")
}

/// The settings for a database that is soon considered down.
fn hasty(kind: DatabaseKind, database: &Database) -> String {
    backend(kind, &database.url(), "live") + "timeout_ms = 1000\n"
}

/// A manual change is answered by every server on the database, in both modes.
fn check_fleet(database: &Database, kind: DatabaseKind) {
    run(database, kind, &fill(&[zone("one.test", "192.0.2.10")]));
    let servers: Vec<_> = ["live", "resident"]
        .map(|mode| {
            Setup::new()
                .without_web()
                .config(&backend(kind, &database.url(), mode))
                .start()
        })
        .into();
    for server in &servers {
        assert_eq!(ask(server, "www.one.test."), Some((0, 10)));
    }
    run(
        database,
        kind,
        "UPDATE records SET content = '192.0.2.11' WHERE name = 'www.one.test'",
    );
    let start = Instant::now();
    servers
        .iter()
        .for_each(|server| wait_for(server, "www.one.test.", (0, 11)));
    eprintln!(
        "{kind:?}: a change was answered by two servers after {:?}",
        start.elapsed()
    );
    let mut more = fill(&[zone("two.test", "192.0.2.12")]);
    more = more.replace("DELETE FROM records;\nDELETE FROM domains;\n", "");
    more = more.replace("VALUES (1,", "VALUES (2,");
    run(database, kind, &more);
    servers
        .iter()
        .for_each(|server| wait_for(server, "www.two.test.", (0, 12)));
}

/// Killed, restarted, paused: its zones fail in the meantime, others are not affected, and everything recovers.
fn check_failures(database: &mut Database, kind: DatabaseKind) {
    run(database, kind, &fill(&[zone("one.test", "192.0.2.10")]));
    let config = "[cache]\nquery_ttl = 0\npacket_ttl = 0\nstale_while_down = 0\n[overload]\nquery_timeout_ms = 10000\n";
    let server = Setup::new()
        .without_web()
        .zone("file.test", &zone("file.test", "192.0.2.23").file_text())
        .config(&format!("{config}{}", hasty(kind, database)))
        .start();
    let stale = Setup::new()
        .without_web()
        .config(&format!(
            "[cache]\nquery_ttl = 0\npacket_ttl = 0\n{}",
            hasty(kind, database)
        ))
        .start();
    // The first look-ups may take longer than their timeout of one second.
    wait_for(&server, "www.one.test.", (0, 10));
    wait_for(&stale, "www.one.test.", (0, 10));
    database.kill();
    let answer = ask(&server, "www.one.test.").expect("an answer although the database is gone");
    assert_eq!(answer.0, SERVFAIL);
    assert_eq!(ask(&stale, "www.one.test."), Some((0, 10)), "stale");
    assert_eq!(ask(&server, "www.file.test."), Some((0, 23)));
    assert!(counter(&server, "servfail-packets") > 0);
    assert!(server.wait_for_log("look-up of"), "{}", server.log());

    // A server that starts in the meantime serves what it can.
    let late = Setup::new()
        .without_web()
        .zone("file.test", &zone("file.test", "192.0.2.23").file_text())
        .config(&hasty(kind, database))
        .start();
    assert_eq!(ask(&late, "www.file.test."), Some((0, 23)));

    database.restart().unwrap();
    for server in [&server, &stale, &late] {
        wait_for(server, "www.one.test.", (0, 10));
    }

    database.pause();
    let start = Instant::now();
    assert_eq!(
        ask(&server, "www.one.test.").map(|answer| answer.0),
        Some(SERVFAIL)
    );
    assert!(
        start.elapsed() > Duration::from_millis(500),
        "it waited for the database"
    );
    assert_eq!(ask(&server, "www.file.test."), Some((0, 23)));
    database.resume();
    wait_for(&server, "www.one.test.", (0, 10));
    wait_for(&stale, "www.one.test.", (0, 10));
}

/// One test for everything: starting a database takes seconds.
fn check(kind: DatabaseKind) {
    if let Some(mut database) = started(kind) {
        check_fleet(&database, kind);
        check_failures(&mut database, kind);
    }
}

#[test]
fn postgres_is_served_live_and_resident_and_may_fail() {
    check(DatabaseKind::Postgres);
}

#[test]
fn mariadb_is_served_live_and_resident_and_may_fail() {
    check(DatabaseKind::Mariadb);
}
