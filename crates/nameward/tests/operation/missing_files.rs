//! Zone files that vanish: temporarily, permanently, one by one and all at once.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
};

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
fn a_zone_file_that_is_briefly_missing_changes_nothing_that_is_served() {
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
    assert!(
        server
            .log()
            .contains("zone dyn.example: zone file found again")
    );
    update(&server, &add(3));
    for number in 1..=3 {
        assert_host(&server, number);
    }
    assert_eq!(serial(server.address(), "dyn.example"), 13);
    assert!(!server.log().contains(": removed"), "{}", server.log());
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
    // Two of five are restored: the others are still the majority.
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

#[test]
fn a_directory_that_is_empty_at_the_start_is_a_fault_and_its_zones_are_served_from_their_copies() {
    let home = tempfile::tempdir().unwrap();
    let (zones, away) = (home.path().join("zones"), home.path().join("away"));
    fs::create_dir(&zones).unwrap();
    for name in ["one.example", "two.example", "dyn.example"] {
        fs::write(zones.join(format!("{name}.zone")), ZONE).unwrap();
    }
    let start = || {
        let state = home.path().join("state");
        Setup::new()
            .config(&format!(
                "[server]\nstate_directory = {state:?}\n[[backend]]\ntype = \"file\"\ndirectory = {zones:?}\n"
            ))
            .start()
    };
    let server = start();
    let change = [
        "record",
        "set",
        "dyn.example",
        "host1",
        "A",
        "60",
        "192.0.2.1",
    ];
    assert!(server.command(&change).status.success());
    let copies = || {
        let path = home.path().join("state/state.db");
        let store = rusqlite::Connection::open(path).unwrap();
        let sql = "SELECT count(*) FROM file_copy";
        store
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    server.wait_until("copies of all zone files", || copies() == 3);
    assert!(server.stop().success());
    // As if the file system were not mounted.
    fs::rename(&zones, &away).unwrap();
    fs::create_dir(&zones).unwrap();
    for _ in 0..2 {
        let server = start();
        for name in ["www.one.example", "www.two.example"] {
            assert_eq!(rcode(server.address(), name), 0, "{}", server.log());
        }
        assert_host(&server, 1);
        let text = status(&server);
        assert!(
            text.contains("3 of 3 zone files are missing") && text.contains("zone_file_missing"),
            "{text}"
        );
        assert!(server.stop().success());
    }
    let server = start();
    for name in ["one.example", "two.example", "dyn.example"] {
        let file = format!("{name}.zone");
        fs::copy(away.join(&file), zones.join(&file)).unwrap();
    }
    assert!(server.command(&["reload"]).status.success());
    server.wait_until("no fault", || status(&server).contains("faults: none"));
    assert_host(&server, 1);
    assert!(server.stop().success());
    // An operator confirms the loss.
    fs::remove_dir_all(&zones).unwrap();
    fs::create_dir(&zones).unwrap();
    let server = start();
    let reload = server.command(&["reload", "--withdraw-missing"]);
    assert!(reload.status.success(), "{reload:?}");
    assert_eq!(rcode(server.address(), "www.one.example"), REFUSED);
    assert!(server.stop().success());
    let server = start();
    assert_eq!(rcode(server.address(), "www.one.example"), REFUSED);
    assert!(status(&server).contains("faults: none"));
}

/// Another address for www.
const CHANGE: &str =
    "update delete www.dyn.example. A\nupdate add www.dyn.example. 60 A 192.0.2.61";

#[test]
fn a_returning_file_that_contradicts_the_journal_is_a_fault_until_the_file_settles_it() {
    let server = setup(0).zone("other.example", &zone("www")).start();
    update(&server, CHANGE);
    server.remove_zone("dyn.example");
    becomes(&server, "www.dyn.example", REFUSED);
    let edited = ZONE.replace("192.0.2.10 ;", "192.0.2.62 ;");
    server.write_zone("dyn.example", &edited);
    becomes(&server, "www.dyn.example", 0);
    server.wait_until("the fault", || {
        let text = status(&server);
        text.contains(
            "file_conflict: Zone dyn.example: its file and changes made through this server contradict each other: \
             both change www.dyn.example. A.",
        ) && text.contains("nameward zone history ZONE")
    });
    let metrics = get(&server, "/metrics");
    assert!(
        metrics.contains("nameward_faults{kind=\"file_conflict\"} 1"),
        "{metrics}"
    );
    assert!(get(&server, "/").contains("contradict each other"));
    // The remedy in the fault.
    let settled = edited.replace("\t10 ;", "\t20 ;");
    assert_ne!(settled, edited);
    server.write_zone("dyn.example", &settled);
    assert!(server.command(&["reload"]).status.success());
    server.wait_until("no fault", || status(&server).contains("faults: none"));
    update(&server, &add(1));
    assert_host(&server, 1);
    let www = answered_address(server.address(), "www.dyn.example");
    assert_ne!(www, Some([192, 0, 2, 61]));
}

#[test]
fn an_edited_file_that_contradicts_served_changes_is_a_fault_until_it_is_overwritten() {
    let server = setup(LONG).start();
    update(&server, CHANGE);
    server.write_zone("dyn.example", &ZONE.replace("192.0.2.10 ;", "192.0.2.62 ;"));
    server.wait_until("the fault", || {
        status(&server).contains("The version with the changes is served; the edited file is not.")
    });
    assert_eq!(
        answered_address(server.address(), "www.dyn.example"),
        Some([192, 0, 2, 61])
    );
    let sync = server.command(&["zone", "sync", "--rewrite", "dyn.example"]);
    assert!(sync.status.success(), "{sync:?}");
    server.wait_until("no fault", || status(&server).contains("faults: none"));
}

fn get(server: &TestServer, path: &str) -> String {
    let mut stream = TcpStream::connect(server.web()).unwrap();
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}
