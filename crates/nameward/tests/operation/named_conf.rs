//! Zones of a BIND configuration: served unchanged, followed by a reload, checked with file and line.

use std::{fs, path::Path};

use nameward_testkit::{Setup, TestServer};

use super::ask::{rcode, zone};

const NAMED: &str = r#"
options { directory "db"; };
include "local.conf";
zone "." { type hint; file "root.hints"; };
zone "copy.example" { type slave; masters { 192.0.2.1; }; file "copy"; };
zone "later.example" { type secondary; primaries { 192.0.2.1; }; file "later"; };
"#;

fn write(directory: &Path, files: &[(&str, &str)]) {
    for (file, text) in files {
        let path = directory.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn setup() -> Setup {
    let setup =
        Setup::new().config("[[backend]]\nnamed_conf = \"bind/named.conf\"\nwatch = false\n");
    write(
        &setup.dir().join("bind"),
        &[
            ("named.conf", NAMED),
            ("db/local.conf", ONE),
            ("db/one", &zone("www")),
            ("db/copy", &zone("www")),
            ("db/copy.jnl", ""),
        ],
    );
    setup
}

const ONE: &str = "zone \"one.example\" IN { type master; file \"one\"; };\n";
const TWO: &str = "zone \"two.example\" { type primary; file \"two\"; };\n";

fn reload(server: &TestServer) -> (bool, String) {
    let output = server.command(&["reload"]);
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn its_zones_are_served_and_a_reload_follows_it() {
    let server = setup().start();
    let at = server.address();
    assert_eq!(rcode(at, "www.one.example"), 0);
    assert_eq!(rcode(at, "www.copy.example"), 0);
    // Ours, but its copy was never transferred.
    assert_eq!(rcode(at, "www.later.example"), 2);
    // The hints are no zone.
    assert_eq!(rcode(at, "www.example"), 5);
    assert!(server.wait_for_log("zone . ignored: type hint"));
    assert!(server.wait_for_log("1 not transferred yet"));
    let named = "zone later.example.: secondary zone without data: ";
    assert!(server.wait_for_log(named));
    assert!(server.wait_for_log("zone copy.example.: the journal is not read"));

    let directory = server.dir().join("bind/db");
    write(&directory, &[("local.conf", TWO), ("two", &zone("www"))]);
    let (good, said) = reload(&server);
    assert!(good && said.contains("1 removed"), "{said}");
    assert_eq!(rcode(at, "www.one.example"), 5);
    assert_eq!(rcode(at, "www.two.example"), 0);
}

#[test]
fn an_invalid_configuration_changes_nothing_and_is_reported_with_its_position() {
    let server = setup().start();
    let directory = server.dir().join("bind/db");
    write(
        &directory,
        &[("local.conf", "\nzone \"two.example\" { type primary }")],
    );
    write(
        &directory,
        &[("one", &format!("{}new A 192.0.2.1\n", zone("www")))],
    );
    let (good, said) = reload(&server);
    assert!(!good);
    assert!(
        said.contains("db/local.conf:2:35: error: expected ';' before '}'"),
        "{said}"
    );
    // Known zones are still served, and their files are still followed.
    assert_eq!(rcode(server.address(), "new.one.example"), 0);
}

#[test]
fn a_mistake_in_it_is_one_line_at_start_and_one_of_the_check() {
    let setup = setup();
    let directory = setup.dir().join("bind/db");
    write(
        &directory,
        &[("local.conf", "zone \"one.example\" { type owner; };")],
    );
    let place = "bind/db/local.conf:1:27: error: expected primary, secondary or another type";
    let config = setup.dir().join("nameward.toml");
    fs::write(&config, "[[backend]]\nnamed_conf = \"bind/named.conf\"\n").unwrap();
    let check = std::process::Command::new(nameward_testkit::server::binary())
        .args(["check", "--config"])
        .arg(&config)
        .output()
        .unwrap();
    assert!(!check.status.success());
    let said = String::from_utf8(check.stdout).unwrap();
    assert!(said.contains(place), "{said}");
    let Err(failure) = setup.try_start() else {
        panic!("it started");
    };
    assert_eq!(failure.status.unwrap().code(), Some(1));
    let last = failure.stderr.lines().last().unwrap();
    assert!(
        last.starts_with("nameward: ") && last.contains(place),
        "{last}"
    );
}

#[test]
fn the_check_lists_unsupported_settings_and_secondaries_without_a_copy() {
    let setup = setup();
    let config = setup.dir().join("nameward.toml");
    fs::write(&config, "[[backend]]\nnamed_conf = \"bind/named.conf\"\n").unwrap();
    let check = std::process::Command::new(nameward_testkit::server::binary())
        .args(["check", "--config"])
        .arg(&config)
        .output()
        .unwrap();
    let said = String::from_utf8(check.stdout).unwrap();
    assert!(check.status.success(), "{said}");
    for line in [
        "bind/named.conf:4:6: warning: zone . ignored: type hint",
        "bind/named.conf:5:35: warning: masters in a zone ignored",
        "bind/named.conf:6:40: warning: primaries in a zone ignored",
        "zone later.example.: secondary zone without data: ",
        "bind/db/later does not exist; answered SERVFAIL",
    ] {
        assert!(said.contains(line), "{line} in {said}");
    }
    // The hints, two lists of servers, the journal and the missing copy.
    assert!(
        said.ends_with("2 zones good, 0 with errors, 5 warnings\n"),
        "{said}"
    );
}
