//! Zone files that are broken when a server starts: the last version without errors is served.

use std::{fs, path::Path};

use nameward_testkit::{Setup, TestServer};

use super::ask::{answered_address, rcode, serial};
use super::secure::done;

const ZONE: &str =
    "$TTL 300\n@ SOA ns1 host 10 3600 600 86400 300\n@ NS ns1\nns1 A 192.0.2.1\nwww A 192.0.2.10\n";

/// A server with one zone; the directory with all its files outlives it.
fn setup(home: &Path, journal: &str) -> Setup {
    let (state, file) = (home.join("state"), home.join("one.test.zone"));
    if !file.exists() {
        fs::write(&file, ZONE).unwrap();
    }
    Setup::new().without_web().config(&format!(
        "[server]\nstate_directory = {state:?}\n[journal]\n{journal}\n[[zone]]\nname = \"one.test\"\nfile = {file:?}\n"
    ))
}

fn write(home: &Path, text: &str) {
    fs::write(home.join("one.test.zone"), text).unwrap();
}

fn broken() -> String {
    ZONE.replace("192.0.2.10", "192.0.2.1000")
}

/// The serials of the copies that the state store has.
fn copies(home: &Path) -> Vec<u32> {
    let store = rusqlite::Connection::open(home.join("state/state.db")).unwrap();
    let mut statement = store.prepare("SELECT serial FROM file_copy").unwrap();
    let serials = statement.query_map([], |row| row.get(0)).unwrap();
    serials.map(Result::unwrap).collect()
}

fn wait_for_copy(server: &TestServer, home: &Path, serial: u32) {
    server.wait_until("a copy of the zone file", || copies(home) == [serial]);
}

fn add(server: &TestServer, host: &str, address: &str) {
    done(
        server,
        &["record", "add", "one.test", host, "A", "300", address],
    );
}

#[test]
fn a_file_that_is_broken_at_start_is_served_as_it_last_was_with_its_journal() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let server = setup(home, "").start();
    wait_for_copy(&server, home, 10);
    add(&server, "new", "192.0.2.77");
    assert!(server.stop().success());
    write(home, &broken());
    let server = setup(home, "").start();
    let at = server.address();
    assert_eq!(serial(at, "one.test"), 11);
    assert_eq!(answered_address(at, "new.one.test"), Some([192, 0, 2, 77]));
    assert_eq!(answered_address(at, "www.one.test"), Some([192, 0, 2, 10]));
    let log = server.log();
    assert!(log.contains("serving the last valid version"), "{log}");
    let status = done(&server, &["status"]);
    assert!(status.contains("one.test.zone:5:7: error"), "{status}");
    // Changes continue, and a second restart finds all of them.
    add(&server, "more", "192.0.2.78");
    assert!(server.stop().success());
    let server = setup(home, "").start();
    let at = server.address();
    assert_eq!(serial(at, "one.test"), 12);
    assert_eq!(answered_address(at, "more.one.test"), Some([192, 0, 2, 78]));
    // A valid file takes over, with the changes that it lacks.
    write(home, &ZONE.replace("192.0.2.10", "192.0.2.11"));
    done(&server, &["reload"]);
    server.wait_until("the good file", || {
        answered_address(at, "www.one.test") == Some([192, 0, 2, 11])
    });
    assert_eq!(serial(at, "one.test"), 13);
    assert_eq!(answered_address(at, "new.one.test"), Some([192, 0, 2, 77]));
    assert!(done(&server, &["status"]).contains("faults: none"));
}

#[test]
fn a_copy_follows_writes_and_edits_of_the_file() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let server = setup(home, "").start();
    wait_for_copy(&server, home, 10);
    add(&server, "new", "192.0.2.77");
    done(&server, &["zone", "sync", "one.test"]);
    wait_for_copy(&server, home, 11);
    let text = fs::read_to_string(home.join("one.test.zone")).unwrap();
    write(
        home,
        &format!("{}hand A 192.0.2.66\n", text.replace(" 11 ", " 12 ")),
    );
    done(&server, &["reload"]);
    wait_for_copy(&server, home, 12);
    assert!(server.stop().success());
    write(home, &broken());
    let server = setup(home, "").start();
    let at = server.address();
    assert_eq!(serial(at, "one.test"), 12);
    assert_eq!(answered_address(at, "hand.one.test"), Some([192, 0, 2, 66]));
    assert_eq!(answered_address(at, "new.one.test"), Some([192, 0, 2, 77]));
}

#[test]
fn a_copy_that_is_older_than_the_file_was_is_brought_forward_by_the_journal() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let server = setup(home, "").start();
    wait_for_copy(&server, home, 10);
    let store = home.join("state/state.db");
    let kept = rusqlite::Connection::open(&store).unwrap();
    let sql = "CREATE TEMP TABLE a AS SELECT * FROM file_copy; CREATE TEMP TABLE b AS SELECT * FROM file_copy_part";
    kept.execute_batch(sql).unwrap();
    add(&server, "new", "192.0.2.77");
    done(&server, &["zone", "sync", "one.test"]);
    wait_for_copy(&server, home, 11);
    assert!(server.stop().success());
    // As a server leaves it that is killed before it has written the copy.
    let sql = "DELETE FROM file_copy; DELETE FROM file_copy_part; \
               INSERT INTO file_copy SELECT * FROM a; INSERT INTO file_copy_part SELECT * FROM b";
    kept.execute_batch(sql).unwrap();
    drop(kept);
    write(home, &broken());
    let server = setup(home, "").start();
    assert_eq!(serial(server.address(), "one.test"), 11);
    let found = answered_address(server.address(), "new.one.test");
    assert_eq!(found, Some([192, 0, 2, 77]));
    add(&server, "more", "192.0.2.78");
    assert_eq!(serial(server.address(), "one.test"), 12);
}

#[test]
fn without_copies_a_server_whose_only_file_is_broken_does_not_start() {
    let home = tempfile::tempdir().unwrap();
    let server = setup(home.path(), "").start();
    wait_for_copy(&server, home.path(), 10);
    assert!(server.stop().success());
    let none = "file_copies_max_mb = 0";
    let server = setup(home.path(), none).start();
    server.wait_until("no copy", || copies(home.path()).is_empty());
    assert!(server.stop().success());
    write(home.path(), &broken());
    let failure = setup(home.path(), none).try_start().err().unwrap();
    assert!(
        failure.stderr.contains("no zone can be served"),
        "{failure}"
    );
}

#[test]
fn the_copy_of_a_zone_is_removed_with_its_file() {
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    let config = format!("[server]\nstate_directory = {state:?}\n");
    let names = ["a.test", "b.test", "c.test"];
    let setup = names
        .iter()
        .fold(setup.config(&config), |setup, name| setup.zone(name, ZONE));
    let server = setup.start();
    server.wait_until("three copies", || copies(server.dir()).len() == 3);
    server.remove_zone("c.test");
    done(&server, &["reload"]);
    assert_eq!(rcode(server.address(), "www.c.test"), 5);
    server.wait_until("two copies", || copies(server.dir()).len() == 2);
}
