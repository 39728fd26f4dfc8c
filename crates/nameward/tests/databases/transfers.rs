//! Transfers of database zones, whether they are looked up or in memory.

use super::operation::{wait_for, zone};
use super::rows::Sqlite;
use super::servers::{backend, fill, run, started};
use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::{Setup, TestServer};
use std::process::Command;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);
const ALLOWED: &str = "[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]\n";

/// Returns the zone as `dig` prints it.
fn transfer(server: &TestServer) -> String {
    let port = server.address().port().to_string();
    let output = Command::new("dig")
        .args(["@127.0.0.1", "-p", &port, "+tries=1", "+noall", "+answer"])
        .args(["one.test", "AXFR"])
        .output()
        .unwrap_or_else(|error| panic!("dig: {error}: run scripts/install-deps"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn records(text: &str) -> usize {
    text.lines().filter(|line| line.contains("\tIN\t")).count()
}

/// Transfers a zone of a running server, changes it by SQL, and breaks it.
fn check(server: &TestServer, run: impl Fn(&str)) {
    let whole = transfer(server);
    // SOA, NS, two addresses, SOA.
    assert_eq!(records(&whole), 5, "{whole}\n{}", server.log());
    assert!(
        whole.contains("www.one.test.") && whole.contains("192.0.2.10"),
        "{whole}"
    );
    run("UPDATE records SET content = '192.0.2.11' WHERE name = 'www.one.test'");
    wait_for(server, "www.one.test.", (0, 11));
    let changed = transfer(server);
    assert!(
        changed.contains("192.0.2.11") && records(&changed) == 5,
        "{changed}"
    );
    // All records or none (RFC 5936 section 3): an invalid row fails the transfer and is logged.
    run("UPDATE records SET content = 'no address' WHERE name = 'ns1.one.test'");
    let start = Instant::now();
    while records(&transfer(server)) > 0 {
        assert!(start.elapsed() < TIMEOUT, "{}", server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(
        server.wait_for_log(" failed after 0 records: "),
        "{}",
        server.log()
    );
}

#[test]
fn zones_of_sqlite_are_transferred_in_both_modes() {
    for mode in ["live", "resident"] {
        let setup = Setup::new().without_web();
        let database = Sqlite::new(setup.dir());
        database.add(&zone("one.test", "192.0.2.10"));
        let source = database.backend(mode);
        let server = setup.config(&format!("{ALLOWED}{source}")).start();
        check(&server, |sql| database.run(sql));
    }
}

/// AUTO-NS of ALLOW-AXFR-FROM permits the addresses of the zone's NS records, in both modes.
#[test]
fn auto_ns_lets_the_name_servers_of_a_zone_transfer_it() {
    for mode in ["live", "resident"] {
        let setup = Setup::new().without_web();
        let database = Sqlite::new(setup.dir());
        database.add(&zone("one.test", "192.0.2.10"));
        database.run(
            "INSERT INTO domainmetadata (domain_id, kind, content) VALUES (1, 'ALLOW-AXFR-FROM', 'AUTO-NS')",
        );
        let source = database.backend(mode);
        let server = setup.config(&source).start();
        wait_for(&server, "www.one.test.", (0, 10));
        assert_eq!(records(&transfer(&server)), 0, "{mode}: {}", server.log());
        database.run("UPDATE records SET content = '127.0.0.1' WHERE name = 'ns1.one.test'");
        wait_for(&server, "ns1.one.test.", (0, 1));
        let start = Instant::now();
        while records(&transfer(&server)) != 5 {
            assert!(start.elapsed() < TIMEOUT, "{mode}: {}", server.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Zones of a database with a template have its settings on every server, even after the template changes.
#[test]
fn a_template_in_the_database_lets_two_servers_transfer_its_zones() {
    let kind = DatabaseKind::Postgres;
    let Some(database) = started(kind) else {
        return;
    };
    let zones = [
        zone("one.test", "192.0.2.10"),
        zone("model.test", "192.0.2.10"),
    ];
    run(&database, kind, &fill(&zones));
    let servers = ["live", "resident"].map(|mode| {
        let setup = Setup::new().without_web();
        let server = setup.config(&backend(kind, &database.url(), mode)).start();
        wait_for(&server, "www.one.test.", (0, 10));
        server
    });
    let metadata = |words: &[&str]| {
        let done = servers[0].command(&[&["metadata"], words].concat());
        assert!(done.status.success(), "{done:?}");
    };
    let wait = |expected: usize| {
        for server in &servers {
            let start = Instant::now();
            while records(&transfer(server)) != expected {
                assert!(start.elapsed() < TIMEOUT, "{}", server.log());
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    };
    wait(0);
    metadata(&["set", "model.test", "ALLOW-AXFR-FROM", "127.0.0.0/8"]);
    metadata(&["set", "one.test", "X-NAMEWARD-TEMPLATE", "model.test"]);
    wait(5);
    metadata(&["set", "model.test", "ALLOW-AXFR-FROM", "192.0.2.0/24"]);
    wait(0);
    // Settings of the zone itself take precedence over the template.
    metadata(&["set", "one.test", "ALLOW-AXFR-FROM", "127.0.0.1"]);
    wait(5);
    metadata(&["remove", "one.test", "X-NAMEWARD-TEMPLATE"]);
    wait(5);
    let refused = ["metadata", "set", "one.test", "X-NAMEWARD-TEMPLATE", "a..b"];
    assert!(!servers[0].command(&refused).status.success());
    metadata(&["set", "one.test", "X-NAMEWARD-TEMPLATE", "none.test"]);
    for server in &servers {
        let line = "template none.test. is not a zone of this database";
        assert!(server.wait_for_log(line), "{}", server.log());
    }
}

/// TSIG-ALLOW-AXFR permits its key and no other: neither another known key, nor its name with another secret.
#[test]
fn tsig_allow_axfr_lets_no_other_key_in() {
    let secrets = ["c2VjcmV0IG9mIHRoZSBvbmU=", "c2VjcmV0IG9mIHRoZSBvdGhlcg=="];
    for mode in ["live", "resident"] {
        let setup = Setup::new().without_web();
        let database = Sqlite::new(setup.dir());
        database.add(&zone("one.test", "192.0.2.10"));
        database.run(&format!(
            "INSERT INTO tsigkeys (name, algorithm, secret) VALUES \
             ('one.key', 'hmac-sha256', '{}'), ('other.key', 'hmac-sha256', '{}'); \
             INSERT INTO domainmetadata (domain_id, kind, content) VALUES (1, 'TSIG-ALLOW-AXFR', 'one.key')",
            secrets[0], secrets[1]
        ));
        let source = database.backend(mode);
        let server = setup.config(&source).start();
        wait_for(&server, "www.one.test.", (0, 10));
        let with_key = |name: &str, secret: &str| {
            let port = server.address().port().to_string();
            let output = Command::new("dig")
                .args(["@127.0.0.1", "-p", &port, "+tries=1", "+noall", "+answer"])
                .args(["-y", &format!("hmac-sha256:{name}:{secret}")])
                .args(["one.test", "AXFR"])
                .output()
                .unwrap();
            records(&String::from_utf8_lossy(&output.stdout))
        };
        assert_eq!(with_key("one.key", secrets[0]), 5, "{}", server.log());
        assert_eq!(with_key("other.key", secrets[1]), 0, "{mode}: another key");
        assert_eq!(with_key("one.key", secrets[1]), 0, "{mode}: another secret");
        assert_eq!(with_key("third.key", secrets[0]), 0, "{mode}: unknown");
        assert_eq!(records(&transfer(&server)), 0, "{mode}: no key");
    }
}

fn check_server(kind: DatabaseKind) {
    for mode in ["live", "resident"] {
        let Some(database) = started(kind) else {
            return;
        };
        run(&database, kind, &fill(&[zone("one.test", "192.0.2.10")]));
        let source = backend(kind, &database.url(), mode);
        let setup = Setup::new().without_web();
        let server = setup.config(&format!("{ALLOWED}{source}")).start();
        check(&server, |sql| run(&database, kind, sql));
    }
}

#[test]
fn zones_of_postgres_are_transferred_in_both_modes() {
    check_server(DatabaseKind::Postgres);
}

#[test]
fn zones_of_mariadb_are_transferred_in_both_modes() {
    check_server(DatabaseKind::Mariadb);
}
