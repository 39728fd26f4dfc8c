//! Catalogs and autoprimaries of the configuration and of databases for operators, and tables on a terminal.

use super::attributes::{done, run};
use super::rows::Sqlite;
use super::writes::{backend, started};
use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::server::binary;
use nameward_testkit::{Setup, TestServer};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The objects that a command prints.
fn objects(server: &TestServer, arguments: &[&str]) -> Vec<Value> {
    let said = done(server, &[arguments, &["--json"]].concat());
    let lines = said.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Waits until a catalog has this many members.
fn wait_for_members(server: &TestServer, catalog: &str, wanted: u64) {
    let end = Instant::now() + TIMEOUT;
    loop {
        let listed = objects(server, &["catalog", "list"]);
        let found = listed.iter().find(|one| one["name"] == catalog);
        if found.is_some_and(|one| one["members"] == wanted) {
            return;
        }
        assert!(Instant::now() < end, "{listed:?}\n{}", server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

const CONFIGURED: &str = "[server]\nstate_directory = \"state\"\n\
    [[zone]]\nname = \"own.test\"\nkind = \"producer\"\n\
    [[zone]]\nname = \"file.test\"\ncatalog = \"own.test\"\ncatalog_group = \"inner\"\n\
    catalog_moves_to = \"other.test\"\n\
    [[autoprimary]]\naddress = \"192.0.2.9\"\nname_server = \"ns.there.test\"\n";

fn start() -> (TestServer, Sqlite) {
    let setup = Setup::new().without_web().config(CONFIGURED);
    let database = Sqlite::new(setup.dir());
    let path = database.path.display();
    let config = format!("[[backend]]\ntype = \"sqlite\"\npath = \"{path}\"\n");
    let file = super::operation::zone("file.test", "192.0.2.23").file_text();
    let server = setup.config(&config).zone("file.test", &file).start();
    (server, database)
}

#[test]
fn catalogs_and_their_members_are_listed() {
    let (server, database) = start();
    wait_for_members(&server, "own.test.", 1);
    let members = objects(&server, &["catalog", "members", "own.test"]);
    assert_eq!(members.len(), 1);
    let member = &members[0];
    assert_eq!(
        (&member["zone"], &member["served"]),
        (&"file.test.".into(), &true.into())
    );
    assert_eq!(member["groups"], serde_json::json!(["inner"]));
    assert_eq!(member["moves_to"], "other.test.");
    for name in ["cat.test", "one.test"] {
        done(&server, &["zone", "create", name, "--ns", "ns.one.test"]);
    }
    done(&server, &["zone", "set", "cat.test", "--kind", "producer"]);
    done(
        &server,
        &["zone", "set", "one.test", "--catalog", "cat.test"],
    );
    database.run("UPDATE domains SET options = '{\"producer\":{\"group\":[\"g1\",\"g2\"]}}' WHERE name = 'one.test'");
    done(&server, &["reload"]);
    wait_for_members(&server, "cat.test.", 1);
    let end = Instant::now() + TIMEOUT;
    loop {
        let line = done(&server, &["catalog", "members", "cat.test"]);
        if line.starts_with("one.test. ") && line.ends_with(" g1,g2 - yes\n") {
            break;
        }
        assert!(Instant::now() < end, "{line}\n{}", server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    let listed = objects(&server, &["catalog", "list"]);
    let sources: Vec<&str> = listed
        .iter()
        .filter_map(|one| one["source"].as_str())
        .collect();
    assert_eq!(sources, ["backend 1", "configuration"], "{listed:?}");
    for words in [&["catalog", "list-members"][..], &["list-member-zones"]] {
        let words = [&["pdnsutil"], words, &["cat.test"]].concat();
        assert_eq!(done(&server, &words), "one.test\n");
    }
    for (catalog, code, reason) in [
        ("one.test", 6, "is not a catalog"),
        ("none.test", 4, "not found"),
    ] {
        let (found, said) = run(&server, &["catalog", "members", catalog]);
        assert!(found == Some(code) && said.contains(reason), "{said}");
    }
}

/// Adds, lists and removes autoprimaries, with our commands and those of PowerDNS.
fn check_autoprimaries(server: &TestServer) {
    let own = ["192.0.2.1", "NS1.example.org."];
    let add = [&["autoprimary", "add"], &own[..], &["joe"]].concat();
    let said = done(server, &add);
    assert_eq!(
        said,
        "added autoprimary 192.0.2.1 ns1.example.org. to backend 1\n"
    );
    let (code, said) = run(server, &add);
    assert!(code == Some(5) && said.contains("already"), "{said}");
    let theirs = ["2001:db8::1", "ns2.example.org"];
    done(
        server,
        &[&["pdnsutil", "autoprimary", "add"], &theirs[..]].concat(),
    );
    let listed = objects(server, &["autoprimary", "list"]);
    let stored: Vec<&Value> = listed
        .iter()
        .filter(|one| one["source"] == "backend 1")
        .collect();
    assert_eq!(stored.len(), 2, "{listed:?}");
    assert_eq!(stored[0]["name_server"], "ns1.example.org.");
    assert_eq!(stored[0]["account"], "joe");
    let said = done(server, &["pdnsutil", "list-autoprimaries"]);
    assert!(
        said.contains("IP=192.0.2.1, NS=ns1.example.org, account=joe\n"),
        "{said}"
    );
    assert!(
        said.contains("IP=2001:db8::1, NS=ns2.example.org, account=\n"),
        "{said}"
    );
    done(
        server,
        &[&["pdnsutil", "remove-autoprimary"], &own[..]].concat(),
    );
    done(server, &[&["autoprimary", "remove"], &theirs[..]].concat());
    let (code, said) = run(server, &[&["autoprimary", "remove"], &theirs[..]].concat());
    assert!(code == Some(4) && said.contains("not found"), "{said}");
    for (wrong, reason) in [
        ("nowhere", "invalid address"),
        ("192.0.2.1' OR 'a' = 'a", "invalid address"),
    ] {
        let (code, said) = run(server, &["autoprimary", "add", wrong, "ns.example.org"]);
        assert!(code == Some(6) && said.contains(reason), "{said}");
    }
}

#[test]
fn an_autoprimary_of_two_databases_is_removed_from_both_by_name() {
    let setup = Setup::new().without_web();
    let other = tempfile::tempdir().unwrap();
    let databases = [Sqlite::new(setup.dir()), Sqlite::new(other.path())];
    let backends = databases.each_ref().map(|one| one.backend("live"));
    let server = setup.config(&backends.concat()).start();
    let server_row = ["192.0.2.1", "ns1.example.org"];
    for number in ["1", "2"] {
        let add = [
            &["autoprimary", "add", "--backend", number],
            &server_row[..],
        ]
        .concat();
        done(&server, &add);
    }
    let remove = [&["autoprimary", "remove"], &server_row[..]].concat();
    let said = done(&server, &remove);
    let expected = "removed autoprimary 192.0.2.1 ns1.example.org. from backends 1, 2\n";
    assert_eq!(said, expected);
}

#[test]
fn a_reload_does_not_report_a_produced_database_catalog_as_contested() {
    let (server, _database) = start();
    done(
        &server,
        &["zone", "create", "made.test", "--ns", "ns.other.test"],
    );
    done(&server, &["zone", "set", "made.test", "--kind", "producer"]);
    wait_for_members(&server, "made.test.", 0);
    done(&server, &["reload"]);
    // The list is read again after that.
    done(
        &server,
        &["zone", "create", "new.test", "--ns", "ns.other.test"],
    );
    let set = ["zone", "set", "new.test", "--catalog", "made.test"];
    done(&server, &set);
    wait_for_members(&server, "made.test.", 1);
    let log = server.log();
    assert!(!log.contains("made.test. is in"), "{log}");
}

#[test]
fn autoprimaries_of_sqlite_and_of_the_configuration() {
    let (server, _database) = start();
    check_autoprimaries(&server);
    let listed = done(&server, &["autoprimary", "list"]);
    assert_eq!(listed, "192.0.2.9 ns.there.test. - configuration -\n");
    let (code, said) = run(
        &server,
        &["autoprimary", "remove", "192.0.2.9", "ns.there.test"],
    );
    assert!(
        code == Some(4) && said.contains("[[autoprimary]]"),
        "{said}"
    );
}

fn check_engine(kind: DatabaseKind) {
    let Some(database) = started(kind) else {
        return;
    };
    let setup = Setup::new().without_web();
    let server = setup.config(&backend(kind, &database, "live")).start();
    check_autoprimaries(&server);
}

#[test]
fn autoprimaries_of_postgres() {
    check_engine(DatabaseKind::Postgres);
}

#[test]
fn autoprimaries_of_mariadb() {
    check_engine(DatabaseKind::Mariadb);
}

/// The output of a command on a terminal.
fn on_terminal(server: &TestServer, command: &str) -> String {
    let binary = binary().display().to_string();
    let output = Command::new("script")
        .args(["-qec", &format!("{binary} {command}"), "/dev/null"])
        .env("RUNTIME_DIRECTORY", server.dir())
        .stdin(Stdio::null())
        .output()
        .expect("script of bsdutils is installed: run scripts/install-deps");
    String::from_utf8_lossy(&output.stdout).replace('\r', "")
}

#[test]
fn lists_are_tables_with_headers_on_a_terminal_and_plain_lines_in_a_pipe() {
    let (server, _database) = start();
    let said = done(&server, &["zone", "list"]);
    assert!(said.contains("file.test. file 2 1 current no\n"), "{said}");
    let table = on_terminal(&server, "zone list");
    assert!(
        table.starts_with("ZONE        KIND      BACKEND  SERIAL      STATE    SIGNING\n"),
        "{table}"
    );
    assert!(
        table.contains("file.test.  file      2        1           current  no\n"),
        "{table}"
    );
    let table = on_terminal(&server, "autoprimary list");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(
        lines,
        [
            "ADDRESS    NAME SERVER     ACCOUNT  SOURCE         KEY",
            "192.0.2.9  ns.there.test.  -        configuration  -",
        ]
    );
}
