//! RRsets that fit into no message and are transferred into a database: they are logged, as for other secondaries.

use nameward_testkit::Setup;

use super::operation::wait_for;
use super::rows::Sqlite;

/// A zone with RRsets of 80 KB at these names; the serial is the last octet of an address.
fn zone(version: u8, names: &[&str]) -> String {
    let mut text = format!(
        "$TTL 60\n@ SOA ns h {version} 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.{version}\n"
    );
    for name in names {
        for number in 0..300 {
            text += &format!("{name} TXT \"{number:0>250}\"\n");
        }
    }
    text
}

#[test]
fn rrsets_that_fit_into_no_message_are_logged_when_a_database_gets_them() {
    for mode in ["live", "resident"] {
        let setup = Setup::new().without_web();
        let state = setup.dir().join("state");
        let primary = setup
            .zone("example", &zone(1, &["first"]))
            .config(&format!(
                "[server]\nstate_directory = {state:?}\n[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]\n"
            ))
            .start();
        let setup = Setup::new().without_web();
        let database = Sqlite::new(setup.dir());
        database.run(&format!(
            "INSERT INTO domains (name, type, master) VALUES ('example', 'SLAVE', '{}')",
            primary.address()
        ));
        let secondary = setup.config(&database.backend(mode)).start();
        wait_for(&secondary, "www.example.", (0, 1));
        let warning = |name: &str| format!("zone example.: {name}.example. TXT has 78900 octets");
        assert!(
            secondary.wait_for_log(&warning("first")),
            "{mode}\n{}",
            secondary.log()
        );
        // An incremental transfer: only the RRset that is new is named.
        primary.write_zone("example", &zone(2, &["first", "second"]));
        assert!(primary.command(&["reload"]).status.success());
        let retrieve = secondary.command(&["zone", "retrieve", "example"]);
        assert!(retrieve.status.success(), "{retrieve:?}");
        wait_for(&secondary, "www.example.", (0, 2));
        assert!(
            secondary.wait_for_log(&warning("second")),
            "{mode}\n{}",
            secondary.log()
        );
        let log = secondary.log();
        assert_eq!(log.matches(&warning("first")).count(), 1, "{mode}\n{log}");
        assert_eq!(log.matches(&warning("second")).count(), 1, "{mode}\n{log}");
    }
}
