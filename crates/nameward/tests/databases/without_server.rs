//! Commands on databases where no server runs.

use super::operation::wait_for;
use super::rows::Sqlite;
use super::writes::{backend, started};
use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::{Setup, TestServer, server::binary};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a command that must succeed without a server; returns its output.
fn done(home: &Path, arguments: &[&str]) -> String {
    let output = Command::new(binary())
        .args(arguments)
        .arg("--config")
        .arg(home.join("nameward.toml"))
        .env("RUNTIME_DIRECTORY", home)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {error}");
    let note = "nameward: no server is running: using the stores directly\n";
    assert!(error.starts_with(note), "{arguments:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn of_server(server: &TestServer, arguments: &[&str]) -> String {
    let output = server.command(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Makes changes of every kind without a server, and then checks them with one.
fn work_on(backend: &str, mode: &str) {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state");
    let text = format!("[server]\nstate_directory = {state:?}\n{backend}");
    std::fs::write(home.path().join("nameward.toml"), &text).unwrap();
    let run = |arguments: &[&str]| done(home.path(), arguments);
    run(&["zone", "create", "one.test", "--ns", "ns.one.test"]);
    run(&["record", "set", "one.test", "www", "A", "60", "192.0.2.7"]);
    let server = Setup::new().without_web().config(&text).start();
    wait_for(&server, "www.one.test.", (0, 7));
    assert!(server.stop().success());
    run(&["record", "set", "one.test", "www", "A", "60", "192.0.2.8"]);
    let batch = home.path().join("batch");
    std::fs::write(&batch, "zone one.test\n+mail 60 A 192.0.2.9\n").unwrap();
    run(&["apply", batch.to_str().unwrap()]);
    run(&["metadata", "set", "one.test", "X-OURS", "a"]);
    run(&["record", "comment", "one.test", "www", "A", "kept"]);
    run(&["zone", "secure", "one.test"]);
    run(&["autoprimary", "add", "192.0.2.1", "ns.other.test"]);
    run(&["zone", "create", "two.test", "--ns", "ns.two.test"]);
    run(&["zone", "delete", "two.test"]);
    run(&["zone", "undelete", "two.test"]);
    let commands: [&[&str]; 7] = [
        &["zone", "list"],
        &["zone", "list", "--deleted"],
        &["record", "list", "one.test"],
        &["record", "comments", "one.test"],
        &["metadata", "list", "one.test"],
        &["key", "list"],
        &["autoprimary", "list"],
    ];
    let without: Vec<String> = commands.iter().map(|command| run(command)).collect();
    let history = match mode {
        "resident" => Some(run(&["zone", "history", "one.test"])),
        _ => None,
    };
    let server = Setup::new().without_web().config(&text).start();
    wait_for(&server, "www.one.test.", (0, 8));
    wait_for(&server, "mail.one.test.", (0, 9));
    for (command, without) in commands.iter().zip(without) {
        // State and signing are known only to a server.
        let columns = |text: String| match command {
            ["zone", "list"] => {
                let rows = text.lines().map(|row| row.split(' ').take(4));
                rows.map(Vec::from_iter)
                    .map(|row| row.join(" ") + "\n")
                    .collect()
            }
            _ => text,
        };
        let served = columns(of_server(&server, command));
        assert_eq!(served, columns(without), "{command:?}");
    }
    if let Some(history) = history {
        // The header and three changes: the journal continues.
        assert_eq!(history.lines().count(), 4, "{history}");
        assert_eq!(
            of_server(&server, &["zone", "history", "one.test"]),
            history
        );
    }
}

#[test]
fn sqlite_zones_are_changed_without_a_server() {
    let dir = tempfile::tempdir().unwrap();
    work_on(&Sqlite::new(dir.path()).backend("resident"), "resident");
}

#[test]
fn postgres_zones_are_changed_without_a_server() {
    let kind = DatabaseKind::Postgres;
    if let Some(database) = started(kind) {
        work_on(&backend(kind, &database, "live"), "live");
    }
}

#[test]
fn mariadb_zones_are_changed_without_a_server() {
    let kind = DatabaseKind::Mariadb;
    if let Some(database) = started(kind) {
        work_on(&backend(kind, &database, "live"), "live");
    }
}
