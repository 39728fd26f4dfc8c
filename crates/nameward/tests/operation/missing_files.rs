//! Zone files that vanish: for a moment, for good, one by one and all at once.

use std::{fs, path::PathBuf};

use nameward_testkit::{Setup, TestServer};

use super::ask::{answered_address, rcode, serial, zone};
use super::update::{ZONE, nsupdate};

const REFUSED: u16 = 5;
const SECRET: &str = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=";

/// A server that watches its zone files, with a grace period in seconds and a zone that may be updated.
fn setup(grace: u32) -> Setup {
    let setup = Setup::new().watched();
    let state = setup.dir().join("state");
    let config = format!(
        "[server]\nstate_directory = {state:?}\nzone_file_grace = {grace}\n\
         [[key]]\nname = \"ddns.example.\"\nalgorithm = \"hmac-sha256\"\nsecret = \"{SECRET}\"\n\
         [[zone]]\nname = \"dyn.example\"\nallow_update = [\"key:ddns.example.\"]\n"
    );
    setup.config(&config).zone("dyn.example", ZONE)
}

/// A grace period that no test outlasts.
const LONG: u32 = 3600;

fn status(server: &TestServer) -> String {
    let output = server.command(&["status"]);
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn update(server: &TestServer, lines: &str) {
    let result = nsupdate(server, lines);
    assert_eq!(result, (true, String::new()), "{}", server.log());
}

fn add(number: u8) -> String {
    format!("update add host{number}.dyn.example. 60 A 192.0.2.{number}")
}

#[track_caller]
fn assert_host(server: &TestServer, number: u8) {
    let name = format!("host{number}.dyn.example");
    let found = answered_address(server.address(), &name);
    assert_eq!(found, Some([192, 0, 2, number]), "{}", server.log());
}

fn becomes(server: &TestServer, name: &str, wanted: u16) {
    let what = format!("rcode {wanted} for {name}");
    server.wait_until(&what, || rcode(server.address(), name) == wanted);
}

#[test]
fn a_zone_file_that_is_away_for_a_moment_changes_nothing_that_is_served() {
    let server = setup(LONG).zone("other.example", &zone("www")).start();
    update(&server, &add(1));
    server.remove_zone("dyn.example");
    let is_fault = |text: &str| text.contains("1 zone file is missing (dyn.example)");
    server.wait_until("a fault about the missing file", || {
        is_fault(&status(&server))
    });
    assert_host(&server, 1);
    // Changes work while the file is away.
    update(&server, &add(2));
    server.write_zone("dyn.example", ZONE);
    server.wait_until("the end of the fault", || !is_fault(&status(&server)));
    assert!(server.log().contains("zone dyn.example: its file is back"));
    update(&server, &add(3));
    for number in 1..=3 {
        assert_host(&server, number);
    }
    assert_eq!(serial(server.address(), "dyn.example"), 13);
    assert!(!server.log().contains("removed zone"), "{}", server.log());
}

#[test]
fn a_zone_that_was_withdrawn_is_served_with_its_journal_when_its_file_is_back() {
    let server = setup(0).zone("other.example", &zone("www")).start();
    update(&server, &add(1));
    server.remove_zone("dyn.example");
    becomes(&server, "www.dyn.example", REFUSED);
    server.write_zone("dyn.example", ZONE);
    becomes(&server, "www.dyn.example", 0);
    assert_host(&server, 1);
    assert_eq!(serial(server.address(), "dyn.example"), 11);
    update(&server, &add(2));
    assert_eq!(serial(server.address(), "dyn.example"), 12);
    // Again, with an edit of the file in between.
    server.remove_zone("dyn.example");
    becomes(&server, "www.dyn.example", REFUSED);
    server.write_zone("dyn.example", &format!("{ZONE}hand A 192.0.2.66\n"));
    becomes(&server, "hand.dyn.example", 0);
    assert_host(&server, 1);
    assert_host(&server, 2);
    assert_eq!(serial(server.address(), "dyn.example"), 13);
    update(&server, &add(3));
    assert_eq!(serial(server.address(), "dyn.example"), 14);
    assert!(server.stop().success());
}

#[test]
fn a_zone_that_moves_to_another_backend_keeps_its_journal() {
    let server = setup(LONG).start();
    update(&server, &add(1));
    let path = server.dir().join("nameward.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::create_dir(server.dir().join("more")).unwrap();
    let more = "[[backend]]\ntype = \"file\"\ndirectory = \"more\"\n[[backend]]\n";
    fs::write(&path, text.replacen("[[backend]]\n", more, 1)).unwrap();
    let output = server.command(&["reload"]);
    assert!(output.status.success(), "{}", server.log());
    assert_host(&server, 1);
    update(&server, &add(2));
    assert_eq!(serial(server.address(), "dyn.example"), 12);
}

#[test]
fn a_vanished_file_is_withdrawn_when_its_grace_period_has_passed() {
    let server = setup(1).zone("other.example", &zone("www")).start();
    server.remove_zone("dyn.example");
    assert!(server.wait_for_log("1 zone file is missing (dyn.example): withdrawn after 1 s"));
    becomes(&server, "www.dyn.example", REFUSED);
    assert_eq!(rcode(server.address(), "www.other.example"), 0);
    server.wait_until("the end of the fault", || {
        status(&server).contains("faults: none")
    });
}

#[test]
fn a_reload_withdraws_a_vanished_file_without_a_grace_period() {
    let server = setup(LONG).zone("other.example", &zone("www")).start();
    server.remove_zone("other.example");
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(rcode(server.address(), "www.other.example"), REFUSED);
}

fn zone_path(server: &TestServer, name: &str) -> PathBuf {
    server.dir().join(format!("zones/{name}.zone"))
}

#[test]
fn a_directory_that_loses_most_of_its_files_is_served_until_an_operator_confirms_it() {
    let names = ["a.example", "b.example", "c.example", "d.example"];
    let setup = names
        .iter()
        .fold(setup(0), |setup, name| setup.zone(name, &zone("www")));
    let server = setup.start();
    update(&server, &add(1));
    let away = server.dir().join("away");
    fs::create_dir(&away).unwrap();
    // All at once, as by an unmount: no directory entry is seen to go alone.
    fs::rename(server.dir().join("zones"), away.join("zones")).unwrap();
    fs::create_dir(server.dir().join("zones")).unwrap();
    server.wait_until("a fault about the lost files", || {
        status(&server).contains("5 of 5 zone files are missing")
    });
    let reload = server.command(&["reload"]);
    assert!(!reload.status.success());
    for name in names {
        assert_eq!(rcode(server.address(), &format!("www.{name}")), 0);
    }
    update(&server, &add(2));
    // Two of five come back: the others are still most of them.
    for name in ["a.example", "dyn.example"] {
        let from = away.join(format!("zones/{name}.zone"));
        fs::copy(from, zone_path(&server, name)).unwrap();
    }
    server.wait_until("a fault about fewer files", || {
        status(&server).contains("3 of 5 zone files are missing")
    });
    assert_eq!(rcode(server.address(), "www.b.example"), 0);
    let confirmed = server.command(&["reload", "--withdraw-missing"]);
    assert!(confirmed.status.success(), "{}", server.log());
    assert_eq!(rcode(server.address(), "www.b.example"), REFUSED);
    assert_eq!(rcode(server.address(), "www.a.example"), 0);
    assert_host(&server, 1);
    assert_host(&server, 2);
}
