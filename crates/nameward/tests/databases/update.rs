//! DNS UPDATE of database zones: one transaction, visible in the next query here and soon on every other server.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_testkit::{Setup, TestServer};

use super::operation::{ask, counter, wait_for, zone};
use super::rows::Sqlite;
use super::servers::{backend, fill, run, started};

const ALLOWED: &str = "[[zone]]\nname = \"one.test\"\nallow_update = [\"127.0.0.1\"]\n";

fn nsupdate(server: &TestServer, lines: &str) -> (bool, String) {
    nsupdate_with(server, &["-t", "60"], lines)
}

fn nsupdate_with(server: &TestServer, arguments: &[&str], lines: &str) -> (bool, String) {
    nsupdate_at(
        server.address(),
        arguments,
        &format!("zone one.test.\n{lines}"),
    )
}

/// Sends an update to a server; returns whether the tool succeeded, and its output.
pub fn nsupdate_at(at: SocketAddr, arguments: &[&str], lines: &str) -> (bool, String) {
    let mut child = Command::new("nsupdate")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nsupdate is installed: run scripts/install-deps");
    let (ip, port) = (at.ip(), at.port());
    let text = format!("server {ip} {port}\n{lines}\nsend\n");
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), words.into_owned())
}

/// Updates through each server are in its own next answer, and soon in those of the other.
fn check(servers: &[TestServer; 2]) {
    let good = (true, String::new());
    for (number, server) in servers.iter().enumerate() {
        let other = &servers[1 - number];
        assert_eq!(ask(server, "www.one.test."), Some((0, 10)));
        let name = format!("new{number}.one.test.");
        assert_eq!(ask(server, &name).map(|answer| answer.0), Some(3));
        let add = format!(
            "prereq nxdomain {name}\nprereq yxrrset www.one.test. A 192.0.2.10\nupdate add {name} 60 A 192.0.2.77"
        );
        assert_eq!(nsupdate(server, &add), good);
        assert_eq!(ask(server, &name), Some((0, 77)), "the next query sees it");
        wait_for(other, &name, (0, 77));
        let (is_good, words) = nsupdate(server, &add);
        assert!(!is_good && words.contains("YXDOMAIN"), "{words}");
        let replace = format!("update delete {name} A\nupdate add {name} 60 A 192.0.2.78");
        assert_eq!(nsupdate(server, &replace), good);
        assert_eq!(ask(server, &name), Some((0, 78)), "the next query sees it");
        wait_for(other, &name, (0, 78));
        assert_eq!(counter(server, "dnsupdate-answers"), 2);
        assert_eq!(counter(server, "dnsupdate-changes"), 3);
    }
    let strange = "update add www.two.test. 60 A 192.0.2.1";
    assert!(nsupdate(&servers[0], strange).1.contains("NOTZONE"));
}

fn pair(backend: impl Fn(&str) -> String) -> [TestServer; 2] {
    ["live", "resident"].map(|mode| {
        let config = format!("{ALLOWED}{}", backend(mode));
        Setup::new().without_web().config(&config).start()
    })
}

#[test]
fn sqlite_zones_are_updated_in_both_modes() {
    let directory = tempfile::tempdir().unwrap();
    let database = Sqlite::new(directory.path());
    database.add(&zone("one.test", "192.0.2.10"));
    check(&pair(|mode| database.backend(mode)));
}

fn check_server(kind: DatabaseKind) {
    let Some(database) = started(kind) else {
        return;
    };
    let database: Database = database;
    run(&database, kind, &fill(&[zone("one.test", "192.0.2.10")]));
    check(&pair(|mode| backend(kind, &database.url(), mode)));
}

#[test]
fn postgresql_zones_are_updated_in_both_modes() {
    check_server(DatabaseKind::Postgres);
}

#[test]
fn mariadb_zones_are_updated_in_both_modes() {
    check_server(DatabaseKind::Mariadb);
}

#[test]
fn a_secondary_forwards_updates_to_its_primary_and_relays_its_signed_reply() {
    const SECRET: &str = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=";
    let key = format!(
        "[[key]]\nname = \"ddns.test.\"\nalgorithm = \"hmac-sha256\"\nsecret = \"{SECRET}\"\n"
    );
    let directory = tempfile::tempdir().unwrap();
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    std::fs::create_dir(&state).unwrap();
    let config = format!(
        "[server]\nstate_directory = {state:?}\n{key}[[zone]]\nname = \"one.test\"\nallow_update = [\"key:ddns.test.\"]\n"
    );
    let primary = setup
        .config(&config)
        .zone("one.test", &zone("one.test", "192.0.2.10").file_text())
        .start();
    let database = Sqlite::new(directory.path());
    database.add(&zone("one.test", "192.0.2.10"));
    let (ip, port) = (primary.address().ip(), primary.address().port());
    database.run(&format!(
        "UPDATE domains SET type = 'SLAVE', master = '{ip}:{port}';\n\
         INSERT INTO domainmetadata (domain_id, kind, content) VALUES (1, 'FORWARD-DNSUPDATE', '1'), \
         (1, 'ALLOW-DNSUPDATE-FROM', '127.0.0.1');"
    ));
    let backend = database.backend("live");
    let secondary = Setup::new()
        .without_web()
        .config(&format!("{key}{backend}"))
        .start();
    let add = "update add new.one.test. 60 A 192.0.2.77";
    let signed = format!("hmac-sha256:ddns.test.:{SECRET}");
    let sent = nsupdate_with(&secondary, &["-t", "60", "-y", &signed], add);
    assert_eq!(sent, (true, String::new()), "{}", secondary.log());
    assert_eq!(ask(&primary, "new.one.test."), Some((0, 77)));
    assert_eq!(counter(&secondary, "dnsupdate-answers"), 1);
    // The primary refuses unsigned updates, and the client gets that reply.
    let (_, words) = nsupdate(&secondary, "update add more.one.test. 60 A 192.0.2.78");
    assert!(words.contains("REFUSED"), "{words}");
    primary.stop();
    let (_, words) = nsupdate(&secondary, "update add more.one.test. 60 A 192.0.2.78");
    assert!(words.contains("SERVFAIL"), "{words}");
    assert!(secondary.wait_for_log("cannot forward"));
}
