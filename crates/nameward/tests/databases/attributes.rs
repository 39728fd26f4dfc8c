//! Attributes of database zones apart from served records: metadata, kind, disabled records, comments, and the
//! search.

use super::operation::{ask, zone};
use super::rows::Sqlite;
use super::writes::{backend, started};
use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::{Setup, TestServer};
use std::process::Command;
use std::time::{Duration, Instant};

const NXDOMAIN: u8 = 3;
const TIMEOUT: Duration = Duration::from_secs(60);

fn start(mode: &str) -> (TestServer, Sqlite) {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.10"));
    let file = zone("file.test", "192.0.2.23").file_text();
    (
        setup
            .config(&database.backend(mode))
            .zone("file.test", &file)
            .start(),
        database,
    )
}

/// Runs a command; returns its exit code and its output.
pub(crate) fn run(server: &TestServer, arguments: &[&str]) -> (Option<i32>, String) {
    let output = server.command(arguments);
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.code(), said)
}

/// Runs a command that must succeed; returns its output.
pub(crate) fn done(server: &TestServer, arguments: &[&str]) -> String {
    let (code, said) = run(server, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {said}\n{}", server.log());
    said
}

/// Checks whether the zone can be transferred from here.
fn is_transferred(server: &TestServer) -> bool {
    let at = server.address();
    let output = Command::new("dig")
        .args(["axfr", "one.test", "+time=30", "+tries=1"])
        .arg(format!("@{}", at.ip()))
        .args(["-p", &at.port().to_string()])
        .output()
        .expect("dig is installed: run scripts/install-deps");
    String::from_utf8_lossy(&output.stdout).contains("www.one.test.")
}

/// Waits until the zone can be transferred, or until it cannot.
fn wait_for_transfer(server: &TestServer, wanted: bool) {
    let end = Instant::now() + TIMEOUT;
    while is_transferred(server) != wanted {
        assert!(Instant::now() < end, "{}", server.log());
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story from start to end")]
fn metadata_is_listed_changed_and_in_force() {
    for mode in ["live", "resident"] {
        let (server, _database) = start(mode);
        wait_for_transfer(&server, false);
        let kind = "ALLOW-AXFR-FROM";
        let set = ["metadata", "set", "one.test", kind, "127.0.0.0/8"];
        assert_eq!(done(&server, &set), "zone one.test: changed\n");
        wait_for_transfer(&server, true);
        assert_eq!(done(&server, &set), "zone one.test: no change\n");
        done(
            &server,
            &["metadata", "add", "one.test", kind, "192.0.2.0/24"],
        );
        done(&server, &["metadata", "add", "one.test", "X-OURS", "a b"]);
        let listed = done(&server, &["metadata", "list", "one.test"]);
        assert_eq!(
            listed,
            "ALLOW-AXFR-FROM 127.0.0.0/8\nALLOW-AXFR-FROM 192.0.2.0/24\nX-OURS a b\n"
        );
        done(
            &server,
            &["metadata", "remove", "one.test", kind, "127.0.0.0/8"],
        );
        wait_for_transfer(&server, false);
        let got = done(
            &server,
            &["metadata", "get", "one.test", "allow-axfr-from", "--json"],
        );
        assert_eq!(
            got,
            "{\"kind\":\"ALLOW-AXFR-FROM\",\"content\":\"192.0.2.0/24\"}\n"
        );
        done(&server, &["metadata", "remove", "one.test", kind]);
        assert_eq!(
            done(&server, &["metadata", "list", "one.test"]),
            "X-OURS a b\n"
        );
        for (arguments, code, reason) in [
            (
                ["metadata", "set", "one.test", "NSEC3PARAM", "1 0 500 -"],
                6,
                "at most 100 iterations",
            ),
            (
                ["metadata", "add", "one.test", "NSEC3PARAM", "1 0 0 -"],
                6,
                "a single NSEC3PARAM",
            ),
            (
                ["metadata", "set", "one.test", "NSEC3PARAM", "2 0 0 -"],
                6,
                "unsupported NSEC3 algorithm",
            ),
            (
                ["metadata", "set", "one.test", "NSEC3NARROW", "yes"],
                6,
                "0 or 1",
            ),
            (
                ["metadata", "set", "one.test", "no kind", "x"],
                6,
                "invalid metadata kind",
            ),
            (
                ["metadata", "set", "one.test", "SOA-EDIT", "NONSENSE"],
                6,
                "SOA-EDIT",
            ),
            (
                ["metadata", "add", "one.test", "NONSENSE", "x"],
                6,
                "unknown metadata kind NONSENSE",
            ),
            (
                ["metadata", "set", "one.test", "ALSO-NOTIFY", "ns1.test"],
                6,
                "ALSO-NOTIFY",
            ),
            (
                ["metadata", "set", "one.test", "IXFR", "perhaps"],
                6,
                "expected IXFR 0, 1",
            ),
            (["metadata", "set", "file.test", "IXFR", "1"], 7, "[[zone]]"),
            (
                ["metadata", "set", "none.test", "IXFR", "1"],
                4,
                "not found",
            ),
        ] {
            let (found, said) = run(&server, &arguments);
            assert!(found == Some(code) && said.contains(reason), "{said}");
        }
    }
}

#[test]
fn records_are_disabled_enabled_commented_and_found() {
    for mode in ["live", "resident"] {
        let (server, _database) = start(mode);
        done(
            &server,
            &["record", "add", "one.test", "www", "A", "60", "192.0.2.44"],
        );
        done(&server, &["record", "disable", "one.test", "www", "A"]);
        assert_eq!(
            ask(&server, "www.one.test.").map(|answer| answer.0),
            Some(NXDOMAIN)
        );
        let listed = done(&server, &["record", "list", "one.test", "www"]);
        assert_eq!(
            listed
                .matches("; disabled: www.one.test. 60 IN A 192.0.2.")
                .count(),
            2,
            "{listed}"
        );
        let again = ["record", "disable", "one.test", "www", "A"];
        assert_eq!(done(&server, &again), "zone one.test: no change\n");
        done(
            &server,
            &["record", "enable", "one.test", "www", "A", "192.0.2.44"],
        );
        assert_eq!(ask(&server, "www.one.test."), Some((0, 44)), "{mode}");
        let (code, said) = run(
            &server,
            &["record", "enable", "one.test", "www", "A", "192.0.2.45"],
        );
        assert!(code == Some(4) && said.contains("no such record"), "{said}");
        let (code, said) = run(&server, &["record", "disable", "one.test", "@", "SOA"]);
        assert!(
            code == Some(6) && said.contains("needs an SOA record"),
            "{said}"
        );
        let comment = [
            "record",
            "comment",
            "one.test",
            "www",
            "A",
            "the web; ours",
            "--account",
            "joe",
        ];
        done(&server, &comment);
        let comments = ["record", "comments", "one.test"];
        assert_eq!(
            done(&server, &comments),
            "www.one.test. A ; the web; ours (joe)\n"
        );
        done(&server, &["record", "comment", "one.test", "www", "A"]);
        assert_eq!(done(&server, &comments), "");
        let found = done(&server, &["record", "search", "www.*.test"]);
        assert_eq!(
            found,
            "; disabled: www.one.test. 60 IN A 192.0.2.10\nwww.one.test. 60 IN A 192.0.2.44\n\
             www.file.test. 60 IN A 192.0.2.23\n",
            "{mode}"
        );
        let found = done(&server, &["record", "search", "192.0.2.?3", "--json"]);
        assert_eq!(
            found,
            "{\"zone\":\"file.test.\",\"name\":\"www.file.test.\",\"ttl\":60,\"type\":\"A\",\"content\":\"192.0.2.23\",\"disabled\":false}\n"
        );
        let found = done(&server, &["record", "search", "*.test", "--limit", "2"]);
        assert_eq!(found.lines().count(), 2, "{found}");
        let (code, said) = run(&server, &["record", "search", "*"]);
        assert!(code == Some(6) && said.contains("needs a letter"), "{said}");
    }
}

const SET_ADDRESS: [&str; 7] = ["record", "set", "one.test", "www", "A", "60", "192.0.2.1"];

/// Sets kind and account of a zone, and checks that they are shown.
fn check_terms_are_set(server: &TestServer) {
    let terms = ["--kind", "primary", "--account", "joe"];
    done(server, &[&["zone", "set", "one.test"][..], &terms].concat());
    let shown = done(server, &["zone", "show", "one.test"]);
    assert!(
        shown.contains("\nkind primary\n") && shown.contains("\naccount joe\n"),
        "{shown}"
    );
}

#[test]
fn the_terms_of_a_zone_are_set() {
    let (server, database) = start("live");
    check_terms_are_set(&server);
    let secondary = ["zone", "set", "one.test", "--kind", "secondary"];
    let (code, said) = run(&server, &secondary);
    assert!(
        code == Some(6) && said.contains("needs a primary"),
        "{said}"
    );
    done(
        &server,
        &[&secondary[..], &["--primary", "192.0.2.53"]].concat(),
    );
    let (code, said) = run(&server, &SET_ADDRESS);
    assert!(
        code == Some(7) && said.contains("change it at its primary"),
        "{said}"
    );
    let native = ["--kind", "native", "--primary", ""];
    done(
        &server,
        &[&["zone", "set", "one.test"][..], &native].concat(),
    );
    done(&server, &SET_ADDRESS);
    done(
        &server,
        &["zone", "create", "catalog.test", "--ns", "ns.one.test"],
    );
    let join = ["zone", "set", "one.test", "--catalog", "catalog.test"];
    let (code, said) = run(&server, &join);
    assert!(
        code == Some(6) && said.contains("must be producer"),
        "{said}"
    );
    done(
        &server,
        &["zone", "set", "catalog.test", "--kind", "producer"],
    );
    done(&server, &join);
    let row = rusqlite::Connection::open(&database.path).unwrap();
    let sql = "SELECT catalog FROM domains WHERE name = 'one.test'";
    let catalog: String = row.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(catalog, "catalog.test");
    let (code, said) = run(&server, &["zone", "set", "one.test"]);
    assert!(
        code == Some(6) && said.contains("nothing to change"),
        "{said}"
    );
}

/// The same with the SQL of the other engines.
fn check_engine(kind: DatabaseKind) {
    let Some(database) = started(kind) else {
        return;
    };
    let config = backend(kind, &database, "live");
    let server = Setup::new().without_web().config(&config).start();
    done(
        &server,
        &["zone", "create", "one.test", "--ns", "ns.one.test"],
    );
    done(&server, &SET_ADDRESS);
    done(
        &server,
        &["metadata", "add", "one.test", "X-OURS", "a", "b"],
    );
    done(&server, &["metadata", "remove", "one.test", "X-OURS", "a"]);
    assert_eq!(
        done(&server, &["metadata", "list", "one.test"]),
        "X-OURS b\n"
    );
    done(
        &server,
        &["record", "comment", "one.test", "www", "A", "ours"],
    );
    let comments = done(&server, &["record", "comments", "one.test"]);
    assert_eq!(comments, "www.one.test. A ; ours\n");
    done(&server, &["record", "disable", "one.test", "www", "A"]);
    let found = done(&server, &["record", "search", "WWW*"]);
    assert_eq!(found, "; disabled: www.one.test. 60 IN A 192.0.2.1\n");
    check_terms_are_set(&server);
}

#[test]
fn postgres_stores_attributes() {
    check_engine(DatabaseKind::Postgres);
}

#[test]
fn mariadb_stores_attributes() {
    check_engine(DatabaseKind::Mariadb);
}
