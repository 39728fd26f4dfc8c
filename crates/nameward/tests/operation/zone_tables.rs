//! Zones that the configuration declares by `[[zone]]`: served from their files, watched, changed by a reload.

use std::fs;

use nameward_testkit::Setup;

use super::ask::{eventually, rcode, zone};

const SERVFAIL: u16 = 2;
const REFUSED: u16 = 5;

#[test]
fn a_declared_zone_is_served_from_its_file_watched_and_removed_by_a_reload() {
    let setup = Setup::new().config(
        "[[zone]]\nname = \"one.example\"\nkind = \"primary\"\nfile = \"elsewhere/one.db\"\n\
         allow_transfer = [\"192.0.2.1\"]\n",
    );
    let file = setup.dir().join("elsewhere/one.db");
    fs::create_dir(file.parent().unwrap()).unwrap();
    fs::write(&file, format!("$ORIGIN one.example.\n{}", zone("www"))).unwrap();
    let server = setup.start();
    assert_eq!(rcode(server.address(), "www.one.example"), 0);
    let text = format!("$ORIGIN one.example.\n{}new A 192.0.2.3\n", zone("www"));
    fs::write(&file, text).unwrap();
    let becomes = |name: &str, wanted| {
        let found = eventually(|| rcode(server.address(), name), |code| *code == wanted);
        assert_eq!(found, wanted, "{name}: {}", server.log());
    };
    becomes("new.one.example", 0);
    let config = server.dir().join("nameward.toml");
    let text = fs::read_to_string(&config).unwrap();
    let backend = text.find("[[backend]]").unwrap();
    fs::write(&config, &text[backend..]).unwrap();
    assert!(server.command(&["reload"]).status.success());
    becomes("www.one.example", REFUSED);
}

#[test]
fn a_reload_with_an_invalid_zone_reports_its_position_and_changes_nothing() {
    let server = Setup::new().zone("one.example", &zone("www")).start();
    let config = server.dir().join("nameward.toml");
    let text = fs::read_to_string(&config).unwrap();
    let wrong = "[[zone]]\nname = \"two.example\"\nkind = \"secondary\"\n";
    fs::write(&config, format!("{wrong}{text}")).unwrap();
    let output = server.command(&["reload"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(
        stderr.contains("nameward.toml:3:8: a secondary zone needs primaries"),
        "{stderr}"
    );
    assert_eq!(rcode(server.address(), "www.one.example"), 0);
}

#[test]
fn the_copy_of_a_secondary_is_no_zone_of_the_directory_it_lies_in() {
    let setup = Setup::new().watched();
    let (state, copy) = (
        setup.dir().join("state"),
        setup.dir().join("zones/two.example.zone"),
    );
    let secondary = format!(
        "[server]\nstate_directory = {state:?}\n[[zone]]\nname = \"two.example\"\nkind = \"secondary\"\n\
         primaries = [{{ address = \"127.0.0.1:9\" }}]\nfile = {copy:?}\n"
    );
    fs::write(&copy, zone("www")).unwrap();
    let server = setup
        .config(&secondary)
        .zone("one.example", &zone("www"))
        .start();
    assert_eq!(rcode(server.address(), "www.one.example"), 0);
    // Never transferred: not the copy that lies there.
    assert_eq!(rcode(server.address(), "www.two.example"), SERVFAIL);
    fs::write(&copy, zone("other")).unwrap();
    server.write_zone("three.example", &zone("www"));
    let found = eventually(
        || rcode(server.address(), "www.three.example"),
        |code| *code == 0,
    );
    assert_eq!(found, 0, "{}", server.log());
    assert_eq!(rcode(server.address(), "other.two.example"), SERVFAIL);
    let log = server.log();
    assert!(!log.contains("zone two.example.: loaded"), "{log}");
}

#[test]
fn an_unknown_key_is_reported() {
    let setup = Setup::new().zone("one.example", &zone("www"));
    let state = setup.dir().join("state");
    let server = setup
        .config(&format!(
            "[server]\nstate_directory = {state:?}\n[[zone]]\nname = \"one.example\"\n\
             allow_transfer = [\"key:nosuch.\"]\nallow_notify = [\"key:nosuch.\"]\n"
        ))
        .start();
    let text = "zone one.example.: unknown TSIG key nosuch.";
    assert!(server.wait_for_log(text));
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(
        server.log().matches(text).count(),
        2,
        "at the start and at the reload"
    );
    let config = server.dir().join("nameward.toml");
    let output = server.command(&["check", "--config", config.to_str().unwrap()]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(
        stdout.contains("TSIG key nosuch. is not in the configuration"),
        "{stdout}"
    );
}
