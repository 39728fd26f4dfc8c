//! Databases that hang, are restored from a backup, or contain more than fits into an answer: their own queries
//! suffer as little as possible, and those of others not at all.

use super::operation::{SERVFAIL, ask, counter, wait_for, wait_for_code, zone};
use super::rows::Sqlite;
use super::servers::{self, fill, run, started};
use nameward_testkit::Setup;
use nameward_testkit::databases::DatabaseKind;
use std::fmt::Write as _;

const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

fn backend(database: &Sqlite, mode: &str, more: &str) -> String {
    let path = database.path.display();
    format!("[[backend]]\ntype = \"sqlite\"\npath = \"{path}\"\nmode = \"{mode}\"\n{more}\n")
}

/// Without a write-ahead log, readers wait for a writer.
fn without_log(database: &Sqlite) {
    database.run("PRAGMA journal_mode = DELETE");
}

/// Blocks all readers.
fn lock(database: &Sqlite) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(&database.path).unwrap();
    connection.busy_timeout(TIMEOUT).unwrap();
    connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
    connection
}

#[test]
fn a_sqlite_database_that_hangs_does_not_delay_others() {
    let setup = Setup::new().without_web();
    let directory = tempfile::tempdir().unwrap();
    let (hung, healthy) = (Sqlite::new(setup.dir()), Sqlite::new(directory.path()));
    hung.add(&zone("hung.test", "192.0.2.1"));
    healthy.add(&zone("healthy.test", "192.0.2.2"));
    without_log(&hung);
    let server = setup
        .config("[cache]\nquery_ttl = 0\nnegative_ttl = 0\npacket_ttl = 0\n")
        .config("[overload]\nquery_timeout_ms = 60000\nlookup_threads = 1\noverload_queue = 5\nclient_percent = 100\n")
        .config(&backend(&hung, "live", "timeout_ms = 60000"))
        .config(&backend(&healthy, "live", ""))
        .start();
    wait_for(&server, "www.hung.test.", (0, 1));
    wait_for(&server, "www.healthy.test.", (0, 2));
    let lock = lock(&hung);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for n in 0..40 {
        // More than may wait for one database.
        let packet =
            format!("\x00\x07\0\0\0\x01\0\0\0\0\0\0\x03n{n:02}\x04hung\x04test\0\0\x01\0\x01");
        socket.send_to(packet.as_bytes(), server.address()).unwrap();
        assert_eq!(ask(&server, "www.healthy.test."), Some((0, 2)));
    }
    assert_eq!(counter(&server, "qsize-q"), 5);
    assert_eq!(counter(&server, "overload-drops"), 35);
    drop(lock);
    // The waiting queries have their answers, and new ones are accepted.
    let start = std::time::Instant::now();
    while counter(&server, "qsize-q") > 0 {
        assert!(start.elapsed() < TIMEOUT, "{}", server.log());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    wait_for(&server, "www.hung.test.", (0, 1));
}

#[test]
fn a_sqlite_database_that_hangs_is_answered_for_with_stale_data() {
    let setup = Setup::new().without_web().with_default_timeouts();
    let database = Sqlite::new(setup.dir());
    let mut text = zone("one.test", "192.0.2.10");
    for n in 1..=8 {
        writeln!(text.text, "n{n} 60 A 192.0.2.{n}").unwrap();
    }
    database.add(&text);
    without_log(&database);
    // Waits with the default timeouts.
    let server = setup
        .config("[cache]\nquery_ttl = 0\npacket_ttl = 0\n")
        .config(&backend(&database, "live", ""))
        .start();
    let ask_all = || {
        for n in 1..=8 {
            let name = format!("n{n}.one.test.");
            assert_eq!(ask(&server, &name), Some((0, n)), "{}", server.log());
        }
    };
    ask_all();
    let lock = lock(&database);
    ask_all();
    assert_eq!(counter(&server, "timedout-packets"), 0);
    assert_eq!(counter(&server, "servfail-packets"), 0);
    drop(lock);
    database.run("UPDATE records SET content = '192.0.2.99' WHERE name = 'n1.one.test'");
    wait_for(&server, "n1.one.test.", (0, 99));
}

#[test]
fn a_backup_that_is_copied_over_a_database_is_served() {
    for mode in ["live", "resident"] {
        let setup = Setup::new().without_web();
        let database = Sqlite::new(setup.dir());
        database.add(&zone("one.test", "192.0.2.10"));
        let server = setup
            .config("[cache]\nstale_while_down = 0\n")
            .config(&backend(&database, mode, ""))
            .start();
        wait_for(&server, "www.one.test.", (0, 10));
        // Like an operator who knows about the log.
        let empty_log = || database.run("PRAGMA wal_checkpoint(TRUNCATE)");
        empty_log();
        let backup = std::fs::read(&database.path).unwrap();
        database.run("UPDATE records SET content = '192.0.2.11' WHERE name = 'www.one.test'");
        database.add(&zone("two.test", "192.0.2.12"));
        wait_for(&server, "www.one.test.", (0, 11));
        wait_for(&server, "www.two.test.", (0, 12));
        empty_log();
        // Same file, other contents: `cp backup.db live.db`.
        std::fs::write(&database.path, &backup).unwrap();
        wait_for(&server, "www.one.test.", (0, 10));
        wait_for_code(&server, "www.two.test.", super::operation::REFUSED);

        // Empty for a while.
        std::fs::write(&database.path, b"").unwrap();
        if mode == "live" {
            server.command(&["cache", "flush"]);
            wait_for_code(&server, "never-asked.one.test.", SERVFAIL);
        }
        std::fs::write(&database.path, &backup).unwrap();
        wait_for(&server, "www.one.test.", (0, 10));
        database.run("UPDATE records SET content = '192.0.2.13' WHERE name = 'www.one.test'");
        wait_for(&server, "www.one.test.", (0, 13));

        // Another file at its path.
        let other = setup_path(&database, "other.db");
        std::fs::write(&other, &backup).unwrap();
        for end in ["-wal", "-shm"] {
            let path = format!("{}{end}", database.path.display());
            let _ = std::fs::remove_file(path);
        }
        std::fs::rename(&other, &database.path).unwrap();
        wait_for(&server, "www.one.test.", (0, 10));
    }
}

fn setup_path(database: &Sqlite, name: &str) -> std::path::PathBuf {
    database.path.with_file_name(name)
}

#[test]
fn a_name_with_more_records_than_an_answer_holds_fails_and_costs_little() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.10"));
    database.run(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
         INSERT INTO records (domain_id, name, type, content)
         SELECT 1, '*.wild.one.test', 'A', '10.' || (i / 65536) || '.' || (i / 256 % 256) || '.' || (i % 256) FROM n",
    );
    let server = setup.config(&backend(&database, "live", "")).start();
    wait_for(&server, "www.one.test.", (0, 10));
    // The first query detects it, which may take a few statements, and the names of the zone are read.
    wait_for_code(&server, "first.wild.one.test.", SERVFAIL);
    let before = counter(&server, "backend-queries");
    for n in 0..50 {
        let name = format!("n{n}.wild.one.test.");
        assert_eq!(ask(&server, &name).map(|answer| answer.0), Some(SERVFAIL));
        assert_eq!(ask(&server, &name).map(|answer| answer.0), Some(SERVFAIL));
    }
    let asked = counter(&server, "backend-queries") - before;
    assert!(asked <= 50, "{asked} statements");
    assert_eq!(ask(&server, "ns1.one.test."), Some((0, 1)));
    assert!(
        server.wait_for_log("more than 16384 records"),
        "{}",
        server.log()
    );
    database.run("DELETE FROM records WHERE name = '*.wild.one.test' AND content <> '10.0.0.7'");
    wait_for(&server, "n1.wild.one.test.", (0, 7));
}

/// The database is not queried while its zones are served from memory: only the watch for changes can detect this.
#[test]
fn a_resident_server_whose_database_falls_silent_shows_that_changes_are_not_seen() {
    let kind = DatabaseKind::Postgres;
    let Some(database) = started(kind) else {
        return;
    };
    run(&database, kind, &fill(&[zone("one.test", "192.0.2.10")]));
    let source = servers::backend(kind, &database.url(), "resident");
    let config = format!("{source}timeout_ms = 500\n");
    let server = Setup::new().without_web().config(&config).start();
    wait_for(&server, "www.one.test.", (0, 10));
    let has_fault = || {
        let status = server.command(&["status"]).stdout;
        String::from_utf8_lossy(&status).contains("changes_unseen")
    };
    assert!(!has_fault());
    database.pause();
    server.wait_until("the fault is shown", has_fault);
    assert_eq!(ask(&server, "www.one.test."), Some((0, 10)));
    database.resume();
    server.wait_until("the fault is over", || !has_fault());
    let sql = "UPDATE records SET content = '192.0.2.11' WHERE name = 'www.one.test'";
    run(&database, kind, sql);
    wait_for(&server, "www.one.test.", (0, 11));
}
