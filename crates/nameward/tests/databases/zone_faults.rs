//! Zones of a database that cannot be answered as they should be: each is a fault on the page, in `nameward status` and in
//! `/metrics`, and none of them makes the whole server not ready.

use super::operation::{SERVFAIL, wait_for, wait_for_code, zone};
use super::rows::Sqlite;
use nameward_testkit::wait_with_log;
use nameward_testkit::{Setup, TestServer};
use std::io::{Read, Write};
use std::net::TcpStream;

fn get(server: &TestServer, path: &str) -> String {
    let mut stream = TcpStream::connect(server.web()).unwrap();
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

fn status(server: &TestServer) -> String {
    String::from_utf8(server.command(&["status"]).stdout).unwrap()
}

/// Waits until `nameward status` shows a text, or no longer does.
fn wait_for_status(server: &TestServer, text: &str, is_shown: bool) {
    let what = format!("{text:?} in the status: {is_shown}");
    wait_with_log(
        &what,
        || status(server),
        || status(server).contains(text) == is_shown,
    );
}

fn has_metric(server: &TestServer, line: &str) -> bool {
    get(server, "/metrics").lines().any(|found| found == line)
}

/// A server on a live database with one valid zone besides the faulty one that the statements create.
fn server_with(sql: &str) -> (Sqlite, TestServer) {
    let setup = Setup::new();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("good.test", "192.0.2.10"));
    database.run(sql);
    let server = setup.config(&database.backend("live")).start();
    wait_for(&server, "www.good.test.", (0, 10));
    (database, server)
}

#[test]
fn a_live_zone_without_a_soa_is_a_fault_until_it_has_one() {
    let (database, server) =
        server_with("INSERT INTO domains (name, type) VALUES ('empty.test', 'NATIVE')");
    wait_for_code(&server, "www.empty.test.", SERVFAIL);
    wait_for_status(
        &server,
        "  zone_empty: 1 zone has no data to serve: empty.test.\n    Since 2",
        true,
    );
    assert!(has_metric(&server, "nameward_zones{state=\"not_ready\"} 1"));
    assert!(has_metric(
        &server,
        "nameward_faults{kind=\"zone_empty\"} 1"
    ));
    assert!(get(&server, "/").contains("1 zone has no data to serve: empty.test."));
    assert!(get(&server, "/readyz").ends_with("\nready\n"));
    database.run(
        "INSERT INTO records (domain_id, name, type, content, ttl, disabled, auth) SELECT id, name, 'SOA', \
         'ns.good.test hostmaster.good.test 1 10800 3600 604800 3600', 3600, 0, 1 FROM domains WHERE name = 'empty.test'",
    );
    wait_for_status(&server, "\nfaults: none\n", true);
    assert!(has_metric(&server, "nameward_zones{state=\"not_ready\"} 0"));
}

#[test]
fn a_database_secondary_that_was_never_filled_is_a_fault_and_leaves_the_server_ready() {
    // Port 1 of loopback refuses connections.
    let (database, server) = server_with(
        "INSERT INTO domains (name, type, master) VALUES ('never.test', 'SLAVE', '127.0.0.1:1')",
    );
    wait_for_code(&server, "www.never.test.", SERVFAIL);
    wait_for_status(
        &server,
        "  zone_never_transferred: Secondary zone never.test was never transferred: ",
        true,
    );
    for line in [
        "nameward_zones{state=\"never_transferred\"} 1",
        "nameward_zones{state=\"not_ready\"} 1",
        "nameward_faults{kind=\"zone_never_transferred\"} 1",
        "nameward_faults{kind=\"zone_empty\"} 0",
        "nameward_ready 1",
    ] {
        assert!(has_metric(&server, line), "{line}");
    }
    assert!(get(&server, "/readyz").ends_with("\nready\n"));
    database.run("DELETE FROM domains WHERE name = 'never.test'");
    wait_for_status(&server, "\nfaults: none\n", true);
}

#[test]
fn a_presigned_zone_that_is_answered_unsigned_is_a_fault() {
    let setup = Setup::new();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("signed.test", "192.0.2.10"));
    database.run(
        "INSERT INTO domainmetadata (domain_id, kind, content) SELECT id, 'PRESIGNED', '1' FROM domains",
    );
    let server = setup.config(&database.backend("live")).start();
    wait_for(&server, "www.signed.test.", (0, 10));
    wait_for_status(
        &server,
        "  zone_unsigned: Zone signed.test is PRESIGNED, but",
        true,
    );
    assert!(has_metric(&server, "nameward_zones{state=\"unsigned\"} 1"));
    assert!(get(&server, "/readyz").ends_with("\nready\n"));
    database.run("DELETE FROM domainmetadata");
    wait_for_status(&server, "\nfaults: none\n", true);
    assert!(has_metric(&server, "nameward_zones{state=\"unsigned\"} 0"));
}

#[test]
fn an_unreachable_live_database_makes_the_server_not_ready() {
    let setup = Setup::new();
    let path = setup.dir().join("missing.db");
    let backend = format!(
        "[[backend]]\ntype = \"sqlite\"\npath = \"{}\"\n",
        path.display()
    );
    let server = setup
        .config(&backend)
        .zone("file.test", &zone("file.test", "192.0.2.23").file_text())
        .start();
    wait_for(&server, "www.file.test.", (0, 23));
    wait_for_status(&server, "  backend_lost: Backend 1 (sqlite:", true);
    let probe = get(&server, "/readyz");
    assert!(probe.starts_with("HTTP/1.0 503 "), "{probe}");
    assert!(
        probe.ends_with("\nno zone of a backend can be answered\n"),
        "{probe}"
    );
}

#[test]
fn lists_and_pages_show_the_rest_when_a_database_is_down() {
    let setup = Setup::new();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("good.test", "192.0.2.10"));
    database.run("INSERT INTO domains (name, type) VALUES ('empty.test', 'NATIVE')");
    let missing = setup.dir().join("missing.db");
    let config = format!(
        "[[backend]]\ntype = \"sqlite\"\npath = \"{}\"\n{}",
        missing.display(),
        database.backend("live")
    );
    let server = setup
        .config(&config)
        .zone("file.test", &zone("file.test", "192.0.2.23").file_text())
        .start();
    wait_for(&server, "www.good.test.", (0, 10));
    let output = server.command(&["zone", "list"]);
    assert!(!output.status.success(), "{output:?}");
    let listed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        listed,
        "empty.test. native 2 - no-SOA no\nfile.test. file 3 1 current no\ngood.test. native 2 1 live no\n"
    );
    let error = String::from_utf8(output.stderr).unwrap();
    let failed = format!("backend 1 (sqlite:{}) failed: ", missing.display());
    assert!(error.contains(&failed), "{error}");
    let shown = server.command(&["zone", "show", "good.test"]);
    assert!(
        String::from_utf8_lossy(&shown.stdout).contains("\nserial 1\n"),
        "{shown:?}"
    );
    let page = get(&server, "/?zones=good");
    assert!(
        page.contains("<td class=\"zone-state fine\">live</td><td class=\"serial\">1</td>"),
        "{page}"
    );
}

#[test]
fn a_zone_whose_database_fails_is_shown_as_far_as_it_is_known() {
    let setup = Setup::new();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("good.test", "192.0.2.10"));
    let server = setup.config(&database.backend("resident")).start();
    wait_for(&server, "www.good.test.", (0, 10));
    let away = database.path.with_extension("away");
    std::fs::rename(&database.path, away).unwrap();
    for end in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", database.path.display()));
    }
    let listed = server.command(&["zone", "list"]);
    assert!(!listed.status.success());
    let rows = String::from_utf8(listed.stdout).unwrap();
    assert_eq!(rows, "good.test. native 1 1 current no\n");
    let shown = server.command(&["zone", "show", "good.test"]);
    let (said, warned) = (
        String::from_utf8(shown.stdout),
        String::from_utf8(shown.stderr),
    );
    let (said, warned) = (said.unwrap(), warned.unwrap());
    assert!(
        said.contains("\nserial 1\n") && !said.contains("\nrecords"),
        "{said}"
    );
    assert!(
        warned.contains("warning: ") && warned.contains("zones.db"),
        "{warned}"
    );
}

#[test]
fn a_resident_database_whose_file_is_missing_is_a_fault_until_it_is_back() {
    let setup = Setup::new();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("good.test", "192.0.2.10"));
    let server = setup.config(&database.backend("resident")).start();
    wait_for(&server, "www.good.test.", (0, 10));
    let away = database.path.with_extension("away");
    std::fs::rename(&database.path, &away).unwrap();
    wait_for_status(&server, "the file is missing", true);
    assert!(
        status(&server).contains("  backend_down: "),
        "{}",
        status(&server)
    );
    wait_for(&server, "www.good.test.", (0, 10));
    std::fs::rename(&away, &database.path).unwrap();
    wait_for_status(&server, "  backend_down: ", false);
    database.run("UPDATE records SET content = '192.0.2.11' WHERE name = 'www.good.test'");
    wait_for(&server, "www.good.test.", (0, 11));
}

#[test]
fn a_resident_database_replaced_by_an_empty_file_is_a_fault_until_it_is_back() {
    let setup = Setup::new();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("good.test", "192.0.2.10"));
    let server = setup.config(&database.backend("resident")).start();
    wait_for(&server, "www.good.test.", (0, 10));
    let away = database.path.with_extension("away");
    std::fs::rename(&database.path, &away).unwrap();
    std::fs::write(&database.path, "").unwrap();
    wait_for_status(&server, "the file has no zones", true);
    wait_for(&server, "www.good.test.", (0, 10));
    std::fs::rename(&away, &database.path).unwrap();
    wait_for_status(&server, "  backend_down: ", false);
    database.run("UPDATE records SET content = '192.0.2.11' WHERE name = 'www.good.test'");
    wait_for(&server, "www.good.test.", (0, 11));
}

#[test]
fn a_zone_of_one_database_is_shown_while_another_database_is_down() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("good.test", "192.0.2.10"));
    let missing = setup.dir().join("missing.db");
    let config = setup.dir().join("alone.toml");
    let text = format!(
        "[server]\nstate_directory = {:?}\n[[backend]]\ntype = \"sqlite\"\npath = {missing:?}\n{}",
        setup.dir().join("state"),
        database.backend("live")
    );
    std::fs::write(&config, text).unwrap();
    let shown = std::process::Command::new(nameward_testkit::server::binary())
        .args(["zone", "show", "good.test", "--config"])
        .arg(&config)
        .env("RUNTIME_DIRECTORY", setup.dir())
        .output()
        .unwrap();
    let said = String::from_utf8(shown.stdout).unwrap();
    let warned = String::from_utf8(shown.stderr).unwrap();
    assert!(
        shown.status.success() && said.contains("\nserial 1\n") && said.contains("\nbackend 2 "),
        "{said}{warned}"
    );
    assert!(
        warned.contains("warning: ") && warned.contains("missing.db"),
        "{warned}"
    );
}

#[test]
fn zone_show_has_the_served_serial_and_the_stored_one_where_they_differ() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.10"));
    let server = setup.config(&database.backend("live")).start();
    wait_for(&server, "www.one.test.", (0, 10));
    let show = || String::from_utf8(server.command(&["zone", "show", "one.test"]).stdout).unwrap();
    assert!(show().contains("\nserial 1\nrecords"), "{}", show());
    let secured = server.command(&[
        "zone",
        "secure",
        "one.test",
        "--soa-edit",
        "inception-increment",
    ]);
    assert!(secured.status.success(), "{secured:?}");
    let shown = show();
    assert!(
        shown.contains("\nserial 20") && shown.contains("\nstored-serial "),
        "{shown}"
    );
    let serial = shown
        .lines()
        .find_map(|line| line.strip_prefix("serial "))
        .unwrap();
    let listed = String::from_utf8(server.command(&["zone", "list"]).stdout).unwrap();
    assert_eq!(
        listed,
        format!("one.test. native 1 {serial} live database\n")
    );
}
