//! `nameward zone show` on a running server, for zones that it does not serve or that have no contents.

use nameward_testkit::Setup;

use super::operation::zone;
use super::rows::Sqlite;

#[test]
fn zone_show_shows_the_state_of_zones_without_contents() {
    for (mode, expected) in [
        ("live", ["live", "no SOA"]),
        ("resident", ["current", "not ready"]),
    ] {
        let setup = Setup::new().without_web();
        let database = Sqlite::new(setup.dir());
        database.add(&zone("one.test", "192.0.2.1"));
        database.run(
            "INSERT INTO domains (name, type) VALUES ('empty.test', 'NATIVE');
             INSERT INTO domains (name, type, master) VALUES ('never.test', 'SLAVE', '127.0.0.1:1')",
        );
        let state = setup.dir().join("state");
        let server = setup
            .zone("good.test", &zone("good.test", "192.0.2.2").file_text())
            .zone("broken.test", "@ 60 SOA ns h 1 2 3 4 5\n@ 60 NS ns\nwww 60 A 192.0.2.400\n")
            .config(&format!(
                "[server]\nstate_directory = {state:?}\n{}[[zone]]\nname = \"sec.test\"\nkind = \"secondary\"\n\
                 primaries = [{{ address = \"127.0.0.1:1\" }}]\n",
                database.backend(mode)
            ))
            .start();
        let [answered, without_soa] = expected;
        for (name, state, has_serial) in [
            ("one.test", answered, true),
            ("good.test", "current", true),
            ("empty.test", without_soa, false),
            ("never.test", "empty", false),
            ("broken.test", "not ready", false),
            ("sec.test", "empty", false),
        ] {
            let output = server.command(&["zone", "show", name, "--json"]);
            assert!(output.status.success(), "{mode} {name}: {output:?}");
            let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(shown["state"], state, "{mode} {name}: {shown}");
            assert_eq!(
                shown["serial"].is_number(),
                has_serial,
                "{mode} {name}: {shown}"
            );
        }
        let output = server.command(&["zone", "show", "none.test"]);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
    }
}
