//! RRsets that fit into no message and are transferred: they are logged, as for zone files.

use nameward_testkit::Setup;

use super::serial;

/// A zone with RRsets of 80 KB at these names.
fn zone(version: u32, names: &[&str]) -> String {
    let mut text =
        format!("$TTL 60\n@ SOA ns h {version} 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\n");
    for name in names {
        for number in 0..300 {
            text += &format!("{name} TXT \"{number:0>250}\"\n");
        }
    }
    text
}

#[test]
fn rrsets_that_fit_into_no_message_are_logged_when_they_are_transferred() {
    let primary = Setup::new()
        .without_web()
        .zone("example", &zone(1, &["first"]))
        .config("[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]\n")
        .start();
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    let secondary = setup
        .config(&format!(
            "[server]\nstate_directory = {state:?}\n[[zone]]\nname = \"example\"\nkind = \"secondary\"\n\
             primaries = [{{ address = \"{}\" }}]\n",
            primary.address()
        ))
        .start();
    let becomes = |version| {
        secondary.wait_until("the version", || {
            serial(secondary.address(), "example") == Some(version)
        });
    };
    becomes(1);
    let warning = |name: &str| format!("zone example.: {name}.example. TXT has 78900 octets");
    assert!(
        secondary.wait_for_log(&warning("first")),
        "{}",
        secondary.log()
    );
    primary.write_zone("example", &zone(2, &["first", "second"]));
    assert!(primary.command(&["reload"]).status.success());
    let retrieve = secondary.command(&["zone", "retrieve", "example"]);
    assert!(retrieve.status.success(), "{retrieve:?}");
    becomes(2);
    assert!(
        secondary.wait_for_log(&warning("second")),
        "{}",
        secondary.log()
    );
    let log = secondary.log();
    assert_eq!(log.matches(&warning("first")).count(), 1, "{log}");
}
