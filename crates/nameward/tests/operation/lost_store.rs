//! A state store whose file is removed, replaced or emptied, and other files at its path when a server starts.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use nameward_testkit::{Setup, StartFailure, TestServer};

use super::ask::{has_record, rcode, serial};
use super::secure::{dig, done};

const ZONE: &str =
    "$TTL 300\n@ SOA ns1 hostmaster 10 3600 600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\n";

/// Lets a policy sign the zone, which generates keys if there are none.
const POLICY: &str = "dnssec_policy = \"p\"\n[[dnssec_policy]]\nname = \"p\"";

/// A server with one zone; the directory with all its files outlives it.
fn setup(home: &Path, terms: &str) -> Setup {
    let (state, file) = (home.join("state"), home.join("one.test.zone"));
    if !file.exists() {
        fs::write(&file, ZONE).unwrap();
    }
    Setup::new().without_web().config(&format!(
        "[server]\nstate_directory = {state:?}\n[[zone]]\nname = \"one.test\"\nfile = {file:?}\n{terms}\n"
    ))
}

fn failure(home: &Path, terms: &str) -> StartFailure {
    match setup(home, terms).try_start() {
        Ok(server) => panic!("started: {}", server.log()),
        Err(failure) => failure,
    }
}

fn store(home: &Path) -> PathBuf {
    home.join("state/state.db")
}

fn add(server: &TestServer, host: &str) -> (bool, String) {
    let output = server.command(&["record", "add", "one.test", host, "A", "300", "192.0.2.9"]);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.into_owned())
}

fn keys(server: &TestServer) -> Vec<String> {
    let answer = dig(
        server.address(),
        &["one.test", "DNSKEY", "+short", "+nodnssec"],
    );
    let mut keys: Vec<String> = answer.lines().map(str::to_string).collect();
    keys.sort();
    keys
}

#[test]
fn after_a_stop_the_file_alone_is_the_whole_state_store() {
    let home = tempfile::tempdir().unwrap();
    let server = setup(home.path(), "").start();
    assert!(add(&server, "new").0);
    done(&server, &["zone", "secure", "one.test"]);
    let before = keys(&server);
    let version = serial(server.address(), "one.test");
    done(&server, &["stop"]);
    assert!(server.wait().success());
    let log = home.path().join("state/state.db-wal");
    assert_eq!(log.metadata().map_or(0, |log| log.len()), 0);
    // As a backup with `cp`.
    let copy = tempfile::tempdir().unwrap();
    fs::create_dir(copy.path().join("state")).unwrap();
    fs::copy(store(home.path()), store(copy.path())).unwrap();
    let server = setup(copy.path(), "").start();
    assert_eq!(keys(&server), before);
    assert!(has_record(server.address(), "new.one.test", "A"));
    assert_eq!(serial(server.address(), "one.test"), version);
}

#[test]
fn a_command_without_a_server_leaves_the_file_complete() {
    let home = tempfile::tempdir().unwrap();
    let server = setup(home.path(), "").start();
    assert!(add(&server, "new").0);
    let config = fs::read_to_string(server.dir().join("nameward.toml")).unwrap();
    assert!(server.stop().success());
    let path = home.path().join("nameward.toml");
    fs::create_dir(home.path().join("zones")).unwrap();
    fs::write(&path, config).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_nameward"))
        .args(["record", "add", "one.test", "more", "A", "300", "192.0.2.9"])
        .arg("--config")
        .arg(&path)
        .env("RUNTIME_DIRECTORY", home.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let log = home.path().join("state/state.db-wal");
    assert_eq!(log.metadata().map_or(0, |log| log.len()), 0);
}

/// Harms the store of a running server by `harm` and returns the server, which has to notice it.
fn harmed(home: &Path, harm: impl FnOnce(&Path), word: &str) -> TestServer {
    let server = setup(home, "").start();
    assert!(add(&server, "first").0);
    done(&server, &["zone", "secure", "one.test"]);
    harm(&store(home));
    server.wait_until("a fault about the state store", || {
        done(&server, &["status"]).contains(word)
    });
    // Changes that are not durable are not acknowledged.
    let (is_good, text) = add(&server, "second");
    assert!(!is_good && text.contains(word), "{text}");
    assert_eq!(rcode(server.address(), "second.one.test"), 3);
    assert!(has_record(server.address(), "first.one.test", "A"));
    server
}

#[test]
fn a_store_that_is_deleted_under_a_server_accepts_no_change_and_is_saved() {
    let home = tempfile::tempdir().unwrap();
    let delete = |path: &Path| fs::remove_file(path).unwrap();
    let server = harmed(home.path(), delete, "was deleted");
    let (before, version) = (keys(&server), serial(server.address(), "one.test"));
    assert!(server.stop().success());
    // Never new keys for a zone that had some.
    let said = failure(home.path(), POLICY).stderr;
    assert!(
        said.contains("has lost the DNSSEC keys of one.test."),
        "{said}"
    );
    assert!(!store(home.path()).exists());
    let saved = home.path().join("state/state.db.rescued");
    fs::rename(saved, store(home.path())).unwrap();
    let server = setup(home.path(), "").start();
    assert_eq!(keys(&server), before);
    assert!(has_record(server.address(), "first.one.test", "A"));
    assert_eq!(serial(server.address(), "one.test"), version);
}

#[test]
fn a_store_that_is_replaced_under_a_server_accepts_no_change() {
    let home = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    assert!(setup(other.path(), "").start().stop().success());
    let replace = |path: &Path| {
        let new = path.with_extension("new");
        fs::copy(store(other.path()), &new).unwrap();
        fs::rename(new, path).unwrap();
    };
    let server = harmed(home.path(), replace, "was replaced");
    assert!(server.stop().success());
    let said = failure(home.path(), "").stderr;
    assert!(
        said.contains("has lost the DNSSEC keys of one.test."),
        "{said}"
    );
}

#[test]
fn a_store_that_is_emptied_or_overwritten_under_a_server_accepts_no_change() {
    let other = tempfile::tempdir().unwrap();
    assert!(setup(other.path(), "").start().stop().success());
    let empty = |path: &Path| fs::write(path, "").unwrap();
    let overwrite = |path: &Path| {
        fs::copy(store(other.path()), path).unwrap();
    };
    refuses(&empty, "was emptied");
    refuses(&overwrite, "was overwritten");
}

/// Has a store harmed under a server, and checks that the next server does not start with what is left.
fn refuses(harm: &dyn Fn(&Path), word: &str) {
    let home = tempfile::tempdir().unwrap();
    assert!(harmed(home.path(), harm, word).stop().success());
    let said = failure(home.path(), "").stderr;
    assert!(
        said.contains("has lost the DNSSEC keys of one.test."),
        "{said}"
    );
}

#[test]
fn a_zone_that_is_unsigned_again_may_lose_its_store() {
    let home = tempfile::tempdir().unwrap();
    let server = setup(home.path(), "").start();
    done(&server, &["zone", "secure", "one.test"]);
    done(&server, &["zone", "unsecure", "one.test", "--force"]);
    assert!(server.stop().success());
    fs::remove_file(store(home.path())).unwrap();
    let server = setup(home.path(), "").start();
    assert!(server.log().contains("is missing, but existed before"));
}

#[test]
fn anything_but_a_regular_file_as_the_store_is_one_error() {
    for name in ["state.db", "state.lock", "state.db-wal"] {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        fs::create_dir(&state).unwrap();
        let fifo = state.join(name);
        let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let failure = failure(home.path(), "");
        assert!(failure.status.is_some(), "it did not hang");
        let expected = format!("{} is not a regular file", fifo.display());
        assert!(failure.stderr.contains(&expected), "{failure}");
    }
}
