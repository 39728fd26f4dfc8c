//! Zone files whose zones were updated: written by `nameward zone sync`, edited by hand meanwhile, frozen and thawed.

use std::{fs, path::PathBuf};

use nameward_testkit::{Setup, TestServer};

use super::ask::{answered_address, eventually, rcode, serial};
use super::update::{ZONE, nsupdate, setup};

const ALLOWED: &str = "allow_update = [\"key:ddns.example.\"]";

fn file(server: &TestServer) -> PathBuf {
    server.dir().join("zones/dyn.example.zone")
}

/// The words of a command, and whether it succeeded.
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
fn zone_sync_writes_what_the_file_lacks_and_keeps_its_comments_and_layout() {
    let server = setup(ALLOWED).start();
    updated(
        &server,
        "update add new.dyn.example. 60 A 192.0.2.77\nupdate delete www.dyn.example. A 192.0.2.11",
    );
    assert_eq!(fs::read_to_string(file(&server)).unwrap(), ZONE);
    let (is_good, text) = command(&server, &["zone", "sync", "dyn.example"]);
    assert!(
        is_good && text.contains("file written, serial 11"),
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
fn a_file_that_was_edited_while_it_lacked_changes_is_merged() {
    let server = setup(ALLOWED).start();
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
        server.wait_for_log("both change www.dyn.example. A"),
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
fn a_file_that_was_edited_while_the_server_was_down_is_merged_at_its_start() {
    let home = tempfile::tempdir().unwrap();
    let (zone, state) = (home.path().join("dyn.zone"), home.path().join("state"));
    fs::create_dir(&state).unwrap();
    fs::write(&zone, ZONE).unwrap();
    let start = || {
        let config = format!(
            "[server]\nstate_directory = {state:?}\n[[key]]\nname = \"ddns.example.\"\nalgorithm = \"hmac-sha256\"\n\
             secret = \"MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=\"\n\
             [[zone]]\nname = \"dyn.example\"\nfile = {zone:?}\n{ALLOWED}\n"
        );
        Setup::new().without_web().config(&config).start()
    };
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
