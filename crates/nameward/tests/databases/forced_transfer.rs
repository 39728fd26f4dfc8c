//! A forced transfer into a database: the version of the primary is accepted although its serial is lower or the
//! same.

use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::{Setup, TestServer};

use super::operation::wait_for;
use super::secondary::TestDatabase;

fn zone(serial: u32, address: u8) -> String {
    format!(
        "$TTL 60\n@ SOA ns h {serial} 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.{address}\n"
    )
}

fn run(server: &TestServer, arguments: &[&str]) -> String {
    let output = server.command(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn check_forced_transfer(kind: Option<DatabaseKind>) {
    for mode in ["live", "resident"] {
        let primary = Setup::new()
            .without_web()
            .zone("one.test", &zone(5, 15))
            .config("[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]\n")
            .start();
        let setup = Setup::new().without_web();
        let Some(database) = TestDatabase::new(kind, setup.dir()) else {
            return;
        };
        database.run(&format!(
            "INSERT INTO domains (name, type, master) VALUES ('one.test', 'SLAVE', '{}')",
            primary.address()
        ));
        let state = setup.dir().join("state");
        let server = setup
            .config(&format!(
                "[server]\nstate_directory = {state:?}\n{}",
                database.settings(mode)
            ))
            .start();
        wait_for(&server, "www.one.test.", (0, 15));
        let offer = |serial, address| {
            primary.write_zone("one.test", &zone(serial, address));
            assert!(primary.command(&["reload"]).status.success());
        };
        offer(3, 13);
        run(&server, &["zone", "retrieve", "one.test"]);
        server.wait_until("the lower serial to be reported", || {
            let status = run(&server, &["zone", "status", "one.test"]);
            status.contains("the primary has serial 3, lower than 5 on this server")
        });
        wait_for(&server, "www.one.test.", (0, 15));
        run(&server, &["zone", "retrieve", "--force", "one.test"]);
        wait_for(&server, "www.one.test.", (0, 13));
        // The same serial with other contents.
        offer(3, 14);
        run(&server, &["zone", "retrieve", "--force", "one.test"]);
        wait_for(&server, "www.one.test.", (0, 14));
        let count = |content: &str| {
            let sql = format!("SELECT count(*) FROM records WHERE content LIKE '{content}'");
            database.number(&sql)
        };
        assert_eq!(count("192.0.2.14"), Some(1), "{mode}");
        assert_eq!(count("192.0.2.1_"), Some(1), "{mode}");
        assert_eq!(count("ns.one.test% 3 3600 600 86400 60"), Some(1), "{mode}");
    }
}

#[test]
fn a_forced_transfer_replaces_the_rows_by_a_version_with_a_lower_serial() {
    check_forced_transfer(None);
}

#[test]
fn a_forced_transfer_replaces_the_rows_in_postgresql() {
    check_forced_transfer(Some(DatabaseKind::Postgres));
}

#[test]
fn a_forced_transfer_replaces_the_rows_in_mariadb() {
    check_forced_transfer(Some(DatabaseKind::Mariadb));
}
