//! Zone files whose zones were updated: written by `nameward zone sync`, edited manually in the meantime, frozen and
//! thawed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use nameward_testkit::{Setup, TestServer};

use super::ask::{answered_address, eventually, rcode, serial};
use super::update::{ZONE, nsupdate, setup};

const ALLOWED: &str = "allow_update = [\"key:ddns.example.\"]";

fn file(server: &TestServer) -> PathBuf {
    server.dir().join("zones/dyn.example.zone")
}

/// Runs a command; returns its output, and whether it succeeded.
fn command(server: &TestServer, arguments: &[&str]) -> (bool, String) {
    let output = server.command(arguments);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.into_owned())
}

fn updated(server: &TestServer, lines: &str) {
    assert_eq!(
        nsupdate(server, lines),
        (true, String::new()),
        "{}",
        server.log()
    );
}

#[test]
fn zone_sync_writes_missing_changes_and_keeps_comments_and_layout() {
    let server = setup(ALLOWED).start();
    updated(
        &server,
        "update add new.dyn.example. 60 A 192.0.2.77\nupdate delete www.dyn.example. A 192.0.2.11",
    );
    assert_eq!(fs::read_to_string(file(&server)).unwrap(), ZONE);
    let (is_good, text) = command(&server, &["zone", "sync", "dyn.example"]);
    assert!(
        is_good && text.contains("wrote the zone file, serial 11"),
        "{text}"
    );
    let expected = ZONE
        .replace("\t10 ; serial", "\t11 ; serial")
        .replace("    A 192.0.2.11\n", "")
        + "new.dyn.example.\t60\tIN\tA\t192.0.2.77\n";
    assert_eq!(fs::read_to_string(file(&server)).unwrap(), expected);
    let (is_good, text) = command(&server, &["zone", "sync", "dyn.example", "--json"]);
    assert!(is_good && text.contains("\"serial\":11"), "{text}");
    // The file is the zone again.
    let (is_good, text) = command(&server, &["reload"]);
    assert!(is_good, "{text}");
    assert_eq!(serial(server.address(), "dyn.example"), 11);
    updated(&server, "update delete new.dyn.example.");
    assert_eq!(serial(server.address(), "dyn.example"), 12);
    let (is_good, text) = command(&server, &["zone", "sync", "other.example"]);
    assert!(!is_good && text.contains("not found"), "{text}");
}

#[test]
fn zone_files_are_written_on_a_schedule() {
    let server = setup(&format!("{ALLOWED}\n[journal]\nfile_sync_seconds = 1")).start();
    updated(&server, "update add new.dyn.example. 60 A 192.0.2.77");
    let has_it = |text: &String| text.contains("new.dyn.example.");
    let text = eventually(|| fs::read_to_string(file(&server)).unwrap(), has_it);
    assert!(has_it(&text), "{}", server.log());
}

#[test]
fn a_file_edited_without_journalled_changes_is_merged_and_the_journal_continues() {
    let server = setup(&format!("{ALLOWED}\nallow_transfer = [\"127.0.0.1\"]")).start();
    let at = server.address();
    updated(&server, "update add new.dyn.example. 60 A 192.0.2.77");
    fs::write(file(&server), format!("{ZONE}hand A 192.0.2.66\n")).unwrap();
    assert!(command(&server, &["reload"]).0);
    let found = eventually(|| rcode(at, "hand.dyn.example"), |code| *code == 0);
    assert_eq!(found, 0, "{}", server.log());
    assert_eq!(
        answered_address(at, "new.dyn.example"),
        Some([192, 0, 2, 77])
    );
    assert_eq!(serial(at, "dyn.example"), 12);
    // A secondary that has the version before the edit gets the difference, not the whole zone.
    let (ip, port) = (at.ip().to_string(), at.port().to_string());
    let ixfr = |serial: u32| {
        let query =
            format!("dyn.example IXFR={serial} @{ip} -p {port} +tcp +noall +answer +time=30");
        let output = Command::new("dig").args(query.split(' ')).output();
        let output = output.expect("dig is installed: run scripts/install-deps");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = text.lines().map(words).collect();
        lines
    };
    let soa = |serial: u32| {
        format!(
            "dyn.example. 300 IN SOA ns1.dyn.example. host.dyn.example. {serial} 3600 600 86400 300"
        )
    };
    let new = "new.dyn.example. 60 IN A 192.0.2.77".to_owned();
    let hand = "hand.dyn.example. 300 IN A 192.0.2.66".to_owned();
    assert_eq!(ixfr(11), [soa(12), soa(11), soa(12), hand.clone(), soa(12)]);
    assert_eq!(
        ixfr(10),
        [
            soa(12),
            soa(10),
            soa(11),
            new,
            soa(11),
            soa(12),
            hand,
            soa(12)
        ]
    );
    let (is_good, text) = command(&server, &["zone", "sync", "dyn.example"]);
    assert!(is_good, "{text}");
    let text = fs::read_to_string(file(&server)).unwrap();
    assert!(
        text.contains("hand A 192.0.2.66\n") && text.contains("new.dyn.example."),
        "{text}"
    );
}

#[test]
fn an_edit_that_clashes_with_an_update_is_refused_and_never_overwritten_silently() {
    let server = setup(ALLOWED).start();
    let at = server.address();
    updated(
        &server,
        "update delete www.dyn.example. A\nupdate add www.dyn.example. 60 A 192.0.2.77",
    );
    let edited = ZONE.replace("192.0.2.10", "192.0.2.66");
    fs::write(file(&server), &edited).unwrap();
    command(&server, &["reload"]);
    assert!(
        server.wait_for_log("conflicts with updates in the journal at www.dyn.example. A"),
        "{}",
        server.log()
    );
    assert_eq!(
        answered_address(at, "www.dyn.example"),
        Some([192, 0, 2, 77])
    );
    let (is_good, text) = command(&server, &["zone", "sync", "dyn.example"]);
    assert!(!is_good && text.contains("was edited"), "{text}");
    assert_eq!(fs::read_to_string(file(&server)).unwrap(), edited);
    let (is_good, text) = command(&server, &["zone", "sync", "dyn.example", "--rewrite"]);
    assert!(is_good, "{text}");
    assert!(
        fs::read_to_string(file(&server))
            .unwrap()
            .contains("192.0.2.77")
    );
    updated(&server, "update add new.dyn.example. 60 A 192.0.2.1");
}

#[test]
fn a_zone_whose_file_cannot_be_written_is_not_frozen() {
    let server = setup(ALLOWED).start();
    updated(&server, "update add new.dyn.example. 60 A 192.0.2.77");
    // At the path of the new file, which is written next to the old one.
    let blocked = server.dir().join("zones/.dyn.example.zone.nameward-new");
    fs::create_dir(&blocked).unwrap();
    let (is_good, text) = command(&server, &["zone", "freeze", "dyn.example"]);
    assert!(
        !is_good && text.contains("zone dyn.example.: cannot freeze: "),
        "{text}"
    );
    updated(&server, "update add more.dyn.example. 60 A 192.0.2.78");
    fs::remove_dir(&blocked).unwrap();
    assert!(command(&server, &["zone", "freeze", "dyn.example"]).0);
}

#[test]
fn a_frozen_zone_takes_no_updates_until_it_is_thawed() {
    let server = setup(ALLOWED).start();
    let at = server.address();
    updated(&server, "update add new.dyn.example. 60 A 192.0.2.77");
    let (is_good, text) = command(&server, &["zone", "freeze", "dyn.example"]);
    assert!(is_good && text == "zone dyn.example: frozen\n", "{text}");
    assert!(
        fs::read_to_string(file(&server))
            .unwrap()
            .contains("new.dyn.example.")
    );
    let add = "update add more.dyn.example. 60 A 192.0.2.78";
    assert!(nsupdate(&server, add).1.contains("REFUSED"));
    let text = fs::read_to_string(file(&server))
        .unwrap()
        .replace("11 ; serial", "20 ; serial");
    fs::write(file(&server), text + "hand A 192.0.2.66\n").unwrap();
    let (is_good, text) = command(&server, &["zone", "thaw", "dyn.example"]);
    assert!(is_good, "{text}");
    assert_eq!(
        eventually(|| rcode(at, "hand.dyn.example"), |code| *code == 0),
        0
    );
    updated(&server, add);
    assert_eq!(serial(at, "dyn.example"), 21);
    assert!(!command(&server, &["zone", "thaw", "dyn.example"]).0);
}

#[test]
fn a_thaw_loads_its_own_zone_alone_and_only_if_it_can_be_served() {
    let server = setup(ALLOWED).zone("other.example", ZONE).start();
    let at = server.address();
    let edited = ZONE.replace("10 ; serial", "20 ; serial") + "hand A 192.0.2.66\n";
    assert!(command(&server, &["zone", "freeze", "dyn.example"]).0);
    server.write_zone("other.example", &edited);
    server.write_zone("dyn.example", &format!("{edited}broken A nonsense\n"));
    let (is_good, text) = command(&server, &["zone", "thaw", "dyn.example"]);
    assert!(!is_good && text.contains("still frozen"), "{text}");
    let add = "update add more.dyn.example. 60 A 192.0.2.78";
    assert!(nsupdate(&server, add).1.contains("REFUSED"));
    server.write_zone("dyn.example", &edited);
    let (is_good, text) = command(&server, &["zone", "thaw", "dyn.example"]);
    assert!(is_good, "{text}");
    assert_eq!(serial(at, "dyn.example"), 20);
    assert_eq!(serial(at, "other.example"), 10, "not asked for");
    updated(&server, add);
}

/// Starts a server whose zone file and state outlive it.
fn start_in(home: &Path) -> TestServer {
    let (zone, state) = (home.join("dyn.zone"), home.join("state"));
    let config = format!(
        "[server]\nstate_directory = {state:?}\n[[key]]\nname = \"ddns.example.\"\nalgorithm = \"hmac-sha256\"\n\
         secret = \"MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=\"\n\
         [[zone]]\nname = \"dyn.example\"\nfile = {zone:?}\n{ALLOWED}\n"
    );
    Setup::new().without_web().config(&config).start()
}

#[test]
fn a_merged_version_outlives_the_server_and_so_do_the_updates_after_it() {
    let home = tempfile::tempdir().unwrap();
    let zone = home.path().join("dyn.zone");
    fs::write(&zone, ZONE).unwrap();
    let server = start_in(home.path());
    updated(&server, "update add new.dyn.example. 60 A 192.0.2.77");
    fs::write(&zone, format!("{ZONE}hand A 192.0.2.66\n")).unwrap();
    assert!(command(&server, &["reload"]).0);
    let at = server.address();
    let found = eventually(|| serial(at, "dyn.example"), |serial| *serial == 12);
    assert_eq!(found, 12, "{}", server.log());
    updated(&server, "update add later.dyn.example. 60 A 192.0.2.78");
    server.stop();
    // Edited again while the server is down: the changes that the file lacks are known.
    let edits = ["", "again A 192.0.2.67\n"];
    for (round, edit) in edits.into_iter().enumerate() {
        fs::write(&zone, format!("{ZONE}hand A 192.0.2.66\n{edit}")).unwrap();
        let server = start_in(home.path());
        let at = server.address();
        for (name, last) in [("new", 77), ("hand", 66), ("later", 78)] {
            let answer = answered_address(at, &format!("{name}.dyn.example"));
            assert_eq!(answer, Some([192, 0, 2, last]), "{round} {name}");
        }
        server.stop();
    }
    let server = start_in(home.path());
    let (is_good, text) = command(&server, &["zone", "sync", "dyn.example"]);
    assert!(is_good, "{text}");
    server.stop();
    let server = start_in(home.path());
    let answer = answered_address(server.address(), "later.dyn.example");
    assert_eq!(answer, Some([192, 0, 2, 78]));
}

#[test]
fn a_file_that_was_edited_while_the_server_was_down_is_merged_at_its_start() {
    let home = tempfile::tempdir().unwrap();
    let zone = home.path().join("dyn.zone");
    fs::write(&zone, ZONE).unwrap();
    let start = || start_in(home.path());
    let server = start();
    updated(&server, "update add new.dyn.example. 60 A 192.0.2.77");
    server.stop();
    fs::write(
        &zone,
        ZONE.replace("10 ; serial", "20 ; serial") + "hand A 192.0.2.66\n",
    )
    .unwrap();
    for round in 0..2 {
        let server = start();
        let at = server.address();
        assert_eq!(
            answered_address(at, "new.dyn.example"),
            Some([192, 0, 2, 77]),
            "{round}"
        );
        assert_eq!(
            answered_address(at, "hand.dyn.example"),
            Some([192, 0, 2, 66]),
            "{round}"
        );
        assert_eq!(serial(at, "dyn.example"), 21, "{round}");
        server.stop();
    }
}

#[test]
fn a_file_without_journalled_changes_is_reloaded_without_a_serial_warning() {
    let server = setup(ALLOWED).start();
    updated(&server, "update add new.dyn.example. 60 A 192.0.2.77");
    assert_eq!(serial(server.address(), "dyn.example"), 11);
    // As after `zone sync`, if further updates arrived while the file was written.
    fs::write(file(&server), format!("{ZONE}; touched\n")).unwrap();
    let (is_good, text) = command(&server, &["reload"]);
    assert!(is_good, "{text}");
    assert_eq!(serial(server.address(), "dyn.example"), 11);
    assert!(!server.log().contains("decreased"), "{}", server.log());
    // A serial that decreases is reported as a warning.
    fs::write(file(&server), ZONE.replace("\t10 ; serial", "\t9 ; serial")).unwrap();
    let (is_good, text) = command(&server, &["reload"]);
    assert!(is_good, "{text}");
    assert!(server.wait_for_log("the serial decreased from 10 to 9"));
}
