//! The history of live zones: stored in a table of their database, for commands, the API and the web administration,
//! shared by all servers.

use super::attributes::{done, run};
use super::operation::{ask, zone};
use super::rows::Sqlite;
use super::writes::{backend, started};
use crate::api::client::{Client, set_address, settings};
use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::{Setup, TestServer};
use serde_json::{Value, json};

const ZONE: [&str; 5] = ["zone", "create", "one.test", "--ns", "ns.one.test"];

fn start(backend: &str) -> (TestServer, Client) {
    let server = Setup::new().without_web().config(&settings());
    let server = server.config(backend).start();
    let client = Client::new(server.api());
    (server, client)
}

/// The versions of a zone, oldest first.
fn history(server: &TestServer) -> Vec<Value> {
    let said = done(server, &["zone", "history", "one.test", "--json"]);
    said.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Changes a zone by command and by the API, and rolls it back on another server.
fn change_and_turn_back(backend: &str, sql: &dyn Fn(&str)) {
    let ((server, client), (other, other_client)) = (start(backend), start(backend));
    done(&server, &ZONE);
    let set = ["record", "set", "one.test", "www", "A", "60", "192.0.2.1"];
    done(
        &server,
        &[&set[..], &["--message", "ticket \u{fc} 7"]].concat(),
    );
    client.expect(
        204,
        "PUT",
        "/zones/one.test.",
        Some(&json!({ "soa_edit_api": "INCREASE" })),
    );
    let path = "/zones/one.test.";
    let second = set_address("www.one.test.", "192.0.2.2");
    client.expect(204, "PATCH", path, Some(&second));
    done(
        &server,
        &["record", "set", "one.test", "new", "TXT", "60", "text"],
    );
    let versions = history(&server);
    assert_eq!(versions.len(), 3, "{versions:?}");
    let serial = |at: usize| versions[at]["serial"].as_u64().unwrap();
    assert_eq!(versions[0]["message"], "ticket \u{fc} 7");
    assert!(versions[0]["who"].as_str().unwrap().starts_with("user "));
    assert!(
        versions[1]["who"]
            .as_str()
            .unwrap()
            .starts_with("api 127.0.0.1")
    );
    assert_eq!(
        (&versions[1]["removed"], &versions[1]["added"]),
        (&1.into(), &1.into())
    );
    assert_eq!(versions[2]["before"], versions[1]["serial"]);
    // A dry run leaves no trace.
    client.expect(
        200,
        "PATCH",
        &format!("{path}?check=true"),
        Some(&set_address("x.one.test.", "192.0.2.9")),
    );
    assert_eq!(history(&server), versions);
    // The other server has the same history.
    other.wait_until("the zone", || ask(&other, "www.one.test.") == Some((0, 2)));
    assert_eq!(history(&other), versions);
    let shown = other_client.expect(200, "GET", &format!("{path}/history"), None);
    assert_eq!(shown.as_array().unwrap().len(), 3, "{shown}");
    let from = serial(0).to_string();
    let (_, said) = run(&other, &["zone", "diff", "one.test", "--from", &from]);
    assert!(
        said.contains("-www.one.test.") && said.contains("192.0.2.2"),
        "{said}"
    );
    assert!(said.contains("+new.one.test."), "{said}");
    done(&other, &["zone", "rollback", "one.test", "--to", &from]);
    assert_eq!(ask(&other, "www.one.test."), Some((0, 1)));
    assert_eq!(ask(&other, "new.one.test.").map(|answer| answer.0), Some(3));
    server.wait_until("the version", || {
        ask(&server, "www.one.test.") == Some((0, 1))
    });
    assert_eq!(history(&server).len(), 4);
    changed_by_another_program(&other, sql, (&from, &serial(1).to_string()));
    // It is deleted with the zone.
    done(&other, &["zone", "delete", "one.test", "--no-copy"]);
    done(&other, &ZONE);
    assert_eq!(history(&other), Vec::<Value>::new());
}

/// Another program changes the zone and its serial: no previous version can be restored.
fn changed_by_another_program(
    server: &TestServer,
    sql: &dyn Fn(&str),
    (from, later): (&str, &str),
) {
    sql(
        "UPDATE records SET content = 'ns.one.test hostmaster.one.test 4000000000 7200 3600 1209600 300' \
         WHERE type = 'SOA'; UPDATE records SET content = '192.0.2.77' WHERE name = 'www.one.test' AND type = 'A'",
    );
    server.wait_until("the change", || {
        ask(server, "www.one.test.") == Some((0, 77))
    });
    // The second version has the same records as the last one in the history: a missing difference there proves
    // nothing about the zone.
    for to in [later, from] {
        for arguments in [&[][..], &["--dry-run"]] {
            let command = ["zone", "rollback", "one.test", "--to", to];
            let (code, said) = run(server, &[&command[..], arguments].concat());
            assert!(
                code == Some(5) && said.contains("4000000000"),
                "{arguments:?} {code:?} {said}"
            );
        }
    }
    done(
        server,
        &["record", "set", "one.test", "late", "A", "60", "192.0.2.5"],
    );
    let (code, said) = run(server, &["zone", "rollback", "one.test", "--to", from]);
    assert!(
        code == Some(4) && said.contains("does not cover"),
        "{code:?} {said}"
    );
    assert_eq!(ask(server, "www.one.test."), Some((0, 77)));
}

#[test]
fn live_sqlite_zones_are_rolled_back_by_the_history_in_their_database() {
    let directory = tempfile::tempdir().unwrap();
    let database = Sqlite::new(directory.path());
    change_and_turn_back(&database.backend("live"), &|sql| database.run(sql));
}

fn check_engine(kind: DatabaseKind) {
    let Some(database) = started(kind) else {
        return;
    };
    let sql = |sql: &str| drop(database.run(sql).unwrap());
    change_and_turn_back(&backend(kind, &database, "live"), &sql);
}

#[test]
fn live_postgres_zones_are_rolled_back_by_the_history_in_their_database() {
    check_engine(DatabaseKind::Postgres);
}

#[test]
fn live_mariadb_zones_are_rolled_back_by_the_history_in_their_database() {
    check_engine(DatabaseKind::Mariadb);
}

#[test]
fn without_the_table_the_error_names_the_command_that_creates_it() {
    let directory = tempfile::tempdir().unwrap();
    let database = Sqlite::new(directory.path());
    database.run("DROP TABLE nameward_history");
    database.add(&zone("one.test", "192.0.2.10"));
    let (server, client) = start(&database.backend("live"));
    done(
        &server,
        &["record", "set", "one.test", "a", "A", "60", "192.0.2.1"],
    );
    for path in ["history", "difference?from=1"] {
        let reply = client.send("GET", &format!("/zones/one.test./{path}"), None);
        assert_eq!(reply.status, 422, "{reply:?}");
        assert!(reply.body.contains("nameward db init"), "{reply:?}");
    }
    let (code, said) = run(&server, &["zone", "rollback", "one.test", "--to", "1"]);
    assert!(
        code != Some(0) && said.contains("nameward db init"),
        "{said}"
    );
    // A running server finds the table.
    let path = format!("sqlite:{}", database.path.display());
    done(&server, &["db", "init", &path]);
    let mut number = 0_u32;
    server.wait_until("the table", || {
        number += 1;
        let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).to_string();
        done(
            &server,
            &["record", "set", "one.test", "a", "A", "60", &address],
        );
        run(&server, &["zone", "history", "one.test"])
            .1
            .contains("change")
    });
}

#[test]
fn the_history_of_a_zone_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let database = Sqlite::new(directory.path());
    let (server, client) = start(&database.backend("live"));
    done(&server, &ZONE);
    done(
        &server,
        &["record", "set", "one.test", "a", "A", "60", "192.0.2.1"],
    );
    // As after many changes.
    database.run("UPDATE nameward_history SET number = number + 2000, total = 99999");
    let versions = |server: &TestServer| history(server).len();
    assert_eq!(versions(&server), 1);
    database.run(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) \
         INSERT INTO nameward_history SELECT domain_id, i, zone, 1, 1, 1, origin, who, message, '', '', i \
         FROM nameward_history, n",
    );
    for number in 1..=32 {
        let body = set_address("www.one.test.", &format!("192.0.2.{number}"));
        client.expect(204, "PATCH", "/zones/one.test.", Some(&body));
    }
    let left = versions(&server);
    assert!((1000..=1032).contains(&left), "{left}");
    // A row cannot hold 5 MiB of records: the history starts again.
    let rrsets: Vec<_> = (0..100)
        .map(|number| {
            let text = format!("\"{}\"", "x".repeat(250));
            let records: Vec<_> = (0..200)
                .map(|at| json!({ "content": format!("\"{at}\" {text}"), "disabled": false }))
                .collect();
            json!({ "name": format!("t{number}.one.test."), "type": "TXT", "ttl": 60, "changetype": "REPLACE", "records": records })
        })
        .collect();
    let large = json!({ "rrsets": rrsets });
    let reply = client.send("PATCH", "/zones/one.test.", Some(&large));
    assert_eq!(reply.status, 204, "{reply:?}");
    assert_eq!(versions(&server), 0);
}
