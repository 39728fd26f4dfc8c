//! Digests over whole zones (ZONEMD): versions of files and of primaries that do not match theirs are refused, and the
//! version before stays. Those that are made here are found right by ldns and by a secondary, after every change.

use std::{fs, net::SocketAddr, path::Path, process::Command};

use nameward_testkit::{Setup, TestServer};

use super::ask::{eventually, serial_if_served};
use super::secure::{check_transfer, delv, dig, done, write_anchor};
use super::update::{nsupdate, setup};

const ZONE: &str = "digest.test";

fn text_of(output: &std::process::Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    text.into_owned()
}

fn run(directory: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}: run scripts/install-deps"));
    let text = text_of(&output);
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    text
}

/// A version of the zone with digests computed by ldns: signed with a key, or not.
fn version(serial: u32, key: Option<&str>, directory: &Path) -> String {
    let hosts: String = (0..serial % 10)
        .map(|host| format!("Host{host} 300 A 192.0.2.{host}\n"))
        .collect();
    let text = format!(
        "$ORIGIN {ZONE}.\n@ 3600 SOA ns1 hostmaster {serial} 3600 600 86400 60\n@ 7200 NS ns1\nns1 600 A 192.0.2.1\n\
         *.wild 60 MX 10 Mail\nsub 60 NS ns.sub\nns.sub 60 A 192.0.2.9\nbelow.sub 60 TXT \"occluded\"\n{hosts}"
    );
    fs::write(directory.join("plain"), text).unwrap();
    let digests = ["-f", "made", "-o", ZONE, "-z", "1:1", "-z", "1:2"];
    let mut arguments: Vec<&str> = digests.to_vec();
    match key {
        Some(_) => arguments.push("-n"),
        None => arguments.push("-Z"),
    }
    arguments.push("plain");
    arguments.extend(key);
    run(directory, "ldns-signzone", &arguments);
    fs::read_to_string(directory.join("made")).unwrap()
}

/// One digit of each digest is another one.
fn spoilt(text: &str) -> String {
    let lines = text.lines().map(|line| {
        if line.contains("\tZONEMD\t") {
            let (head, last) = line.split_at(line.len() - 1);
            format!("{head}{}\n", if last == "0" { "1" } else { "0" })
        } else {
            format!("{line}\n")
        }
    });
    lines.collect()
}

/// Without digests.
fn stripped(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.contains("\tZONEMD"));
    lines.map(|line| format!("{line}\n")).collect()
}

fn served(server: SocketAddr, expected: u32) -> bool {
    let serial = || serial_if_served(server, ZONE);
    eventually(serial, |found| *found == Some(expected)) == Some(expected)
}

#[test]
fn a_zone_file_that_does_not_match_its_digest_is_refused_and_the_old_version_stays() {
    let directory = tempfile::tempdir().unwrap();
    let made = |serial| version(serial, None, directory.path());
    let config = format!("[[zone]]\nname = \"{ZONE}\"\nzonemd = \"verify\"\n");
    let server = Setup::new().config(&config).zone(ZONE, &made(1)).start();
    let at = server.address();
    assert!(served(at, 1), "{}", server.log());
    server.write_zone(ZONE, &spoilt(&made(2)));
    let reload = server.command(&["reload"]);
    assert!(!reload.status.success());
    let fault = "serial 2: the ZONEMD digest does not match";
    assert!(text_of(&reload).contains(fault), "{reload:?}");
    assert!(
        server
            .log()
            .contains("the previous version is still being served")
    );
    assert!(served(at, 1));
    let config = server.dir().join("nameward.toml");
    let check = server.command(&["check", "--config", config.to_str().unwrap()]);
    assert!(!check.status.success() && text_of(&check).contains(fault));
    // A digest of another version does not count.
    server.write_zone(
        ZONE,
        &made(3).replace("hostmaster.digest.test. 3 ", "hostmaster.digest.test. 4 "),
    );
    let reload = server.command(&["reload"]);
    let fault = "serial 4: the ZONEMD record is for serial 3";
    assert!(text_of(&reload).contains(fault), "{reload:?}");
    // Without a digest there is nothing to compare.
    server.write_zone(ZONE, &stripped(&made(5)));
    assert!(server.command(&["reload"]).status.success());
    assert!(served(at, 5));
    server.write_zone(ZONE, &made(6));
    assert!(server.command(&["reload"]).status.success());
    assert!(served(at, 6));
}

fn secondary(primary: &TestServer, rule: &str) -> TestServer {
    secondary_of(ZONE, primary, rule)
}

fn secondary_of(zone: &str, primary: &TestServer, rule: &str) -> TestServer {
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    fs::create_dir(&state).unwrap();
    let there = primary.address();
    let config = format!(
        "[server]\nstate_directory = {state:?}\n[[zone]]\nname = \"{zone}\"\nkind = \"secondary\"\n\
         zonemd = \"{rule}\"\nprimaries = [{{ address = \"{there}\" }}]\n"
    );
    setup.config(&config).start()
}

/// Whole and incremental transfers of versions with and without valid digests.
fn check_transfers(key: Option<&str>, directory: &Path) {
    let made = |serial| version(serial, key, directory);
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    fs::create_dir(&state).unwrap();
    let config = format!(
        "[server]\nstate_directory = {state:?}\n[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]\n"
    );
    let primary = setup.config(&config).zone(ZONE, &made(1)).start();
    let (verifying, requiring) = (
        secondary(&primary, "verify"),
        secondary(&primary, "require"),
    );
    let both = [&verifying, &requiring];
    for server in both {
        assert!(served(server.address(), 1), "{}", server.log());
    }
    let offer = |serial: u32, text: &str| {
        primary.write_zone(ZONE, text);
        done(&primary, &["reload"]);
        // A version may be served before its difference is journalled; until then it is transferred as a whole.
        let history = || done(&primary, &["zone", "history", ZONE]);
        let serials = [serial, serial - 1].map(|serial| serial.to_string());
        let is_entry = |line: &str| line.split_whitespace().take(2).eq(serials.iter());
        let is_there = |text: &String| text.lines().any(is_entry);
        assert!(is_there(&eventually(history, is_there)), "{}", history());
        for server in both {
            done(server, &["zone", "retrieve", ZONE]);
        }
    };
    offer(2, &made(2));
    for server in both {
        assert!(served(server.address(), 2), "{}", server.log());
        assert!(
            server.wait_for_log("completed: serial 2, "),
            "{}",
            server.log()
        );
    }
    offer(3, &spoilt(&made(3)));
    let fault = "serial 3: the ZONEMD digest does not match";
    for server in both {
        let whole = format!("IXFR rejected: {fault}; retrying with AXFR");
        assert!(server.wait_for_log(&whole), "{}", server.log());
        let refused = format!(
            "refresh failed (1 in a row): {}: {fault}",
            primary.address()
        );
        assert!(server.wait_for_log(&refused), "{}", server.log());
        assert!(served(server.address(), 2));
    }
    offer(4, &stripped(&made(4)));
    assert!(served(verifying.address(), 4), "{}", verifying.log());
    let fault = "serial 4: no ZONEMD record, but zonemd is \"require\"";
    assert!(requiring.wait_for_log(fault), "{}", requiring.log());
    assert!(served(requiring.address(), 2));
    offer(5, &made(5));
    for server in both {
        assert!(served(server.address(), 5), "{}", server.log());
    }
}

#[test]
fn a_transferred_version_that_does_not_match_its_digest_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    check_transfers(None, directory.path());
}

#[test]
fn the_digest_of_a_signed_zone_is_over_its_signatures_and_its_chain() {
    let directory = tempfile::tempdir().unwrap();
    let key = run(directory.path(), "ldns-keygen", &["-a", "ED25519", ZONE]);
    check_transfers(Some(key.trim()), directory.path());
}

/// Transfers the zone and has ldns compare it with its digest; returns the digest.
fn check_made(server: &TestServer, is_signed: bool, directory: &Path) -> String {
    let at = server.address();
    let (ip, port) = (format!("@{}", at.ip()), at.port().to_string());
    let question = [
        &ip,
        "-p",
        &port,
        "+onesoa",
        "+nocomments",
        "dyn.example",
        "AXFR",
    ];
    let text = run(directory, "dig", &question);
    fs::write(directory.join("axfr"), &text).unwrap();
    let wanted = if is_signed { "-ZZ" } else { "-Z" };
    run(directory, "ldns-verify-zone", &[wanted, "axfr"]);
    let line = text.lines().find(|line| line.contains("\tZONEMD\t"));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    line.split("\tZONEMD\t").nth(1).unwrap().to_string()
}

/// The digest that answers have becomes that of the transfer.
fn check_answered(server: &TestServer, expected: &str) {
    let digest = || dig(server.address(), &["+short", "dyn.example", "ZONEMD"]);
    let squeezed = |text: &str| text.replace(' ', "");
    let found = eventually(digest, |text| squeezed(text).contains(&squeezed(expected)));
    assert!(
        squeezed(&found).contains(&squeezed(expected)),
        "{found} is not {expected}: {}",
        server.log()
    );
}

/// A zone with digests computed here, with updates and a secondary that requires them.
fn check_generated(denial: Option<&str>) {
    let directory = tempfile::tempdir().unwrap();
    let terms = "allow_update = [\"key:ddns.example.\"]\nallow_transfer = [\"127.0.0.1\"]\nzonemd = \"generate\"";
    let server = setup(terms).start();
    if let Some(denial) = denial {
        let secure = ["zone", "secure", "dyn.example", "--denial", denial];
        done(&server, &secure);
    }
    let follower = secondary_of("dyn.example", &server, "require");
    let mut last = String::new();
    for number in 0..4 {
        let update = format!("update add n{number}.dyn.example. 60 A 192.0.2.{number}");
        assert_eq!(nsupdate(&server, &update), (true, String::new()));
        let made = check_made(&server, denial.is_some(), directory.path());
        assert_ne!(made, last, "another version has another digest");
        check_answered(&server, &made);
        let serial = serial_if_served(server.address(), "dyn.example");
        done(&follower, &["zone", "retrieve", "dyn.example"]);
        let here = || serial_if_served(follower.address(), "dyn.example");
        let here = eventually(here, |found| *found == serial);
        assert_eq!(here, serial, "{}", follower.log());
        last = made;
    }
    assert!(follower.wait_for_log("IXFR"), "{}", follower.log());
    let Some(denial) = denial else {
        return;
    };
    if denial != "compact" {
        check_transfer(server.address(), "dyn.example", directory.path());
    }
    let anchor = directory.path().join("anchor");
    write_anchor(&server, "dyn.example", &anchor);
    for question in [["dyn.example", "ZONEMD"], ["dyn.example", "LOC"]] {
        let said = delv(server.address(), ("dyn.example", &anchor), &question);
        assert!(said.contains("fully validated"), "{question:?}: {said}");
    }
}

#[test]
fn a_zone_that_is_not_signed_gets_a_digest_with_every_version() {
    check_generated(None);
}

#[test]
fn a_digest_covers_the_signatures_generated_here() {
    for denial in ["nsec", "nsec3"] {
        check_generated(Some(denial));
    }
}

#[test]
fn a_digest_in_a_zone_file_is_replaced_by_a_computed_one_and_removed_when_the_zone_is_signed() {
    let directory = tempfile::tempdir().unwrap();
    let setup = Setup::new();
    let state = setup.dir().join("state");
    fs::create_dir(&state).unwrap();
    let config = format!("[server]\nstate_directory = {state:?}\n");
    let text = version(1, None, directory.path());
    let server = setup.config(&config).zone(ZONE, &text).start();
    let digests = || dig(server.address(), &["+short", ZONE, "ZONEMD"]);
    assert_eq!(digests().lines().count(), 2, "{}", digests());
    // They are not over the signatures.
    done(&server, &["zone", "secure", ZONE]);
    assert_eq!(digests(), "");
    // Nor of the serial that the zone has when signing ends, which is higher.
    done(&server, &["zone", "unsecure", ZONE, "--force"]);
    assert_eq!(digests(), "");
    let path = server.dir().join("nameward.toml");
    let before = fs::read_to_string(&path).unwrap();
    let rule = format!("{before}\n[zone_defaults]\nzonemd = \"generate\"\n");
    fs::write(&path, rule).unwrap();
    done(&server, &["reload"]);
    let one = eventually(digests, |text| text.lines().count() == 1);
    assert_eq!(one.lines().count(), 1, "{one}");
    fs::write(&path, before).unwrap();
    done(&server, &["reload"]);
    let none = eventually(digests, String::is_empty);
    assert_eq!(none, "");
}

#[test]
fn a_digest_of_another_version_is_not_served() {
    let directory = tempfile::tempdir().unwrap();
    let start = Setup::new();
    let state = start.dir().join("state");
    fs::create_dir(&state).unwrap();
    let config = format!(
        "[server]\nstate_directory = {state:?}\n[[zone]]\nname = \"{ZONE}\"\nallow_transfer = [\"127.0.0.1\"]\n"
    );
    let text = version(1, None, directory.path());
    let server = start.config(&config).zone(ZONE, &text).start();
    let ask = |rtype: &str| dig(server.address(), &["+short", "+tcp", ZONE, rtype]);
    assert_eq!(ask("ZONEMD").lines().count(), 2);
    done(
        &server,
        &["record", "set", ZONE, "new", "A", "60", "192.0.2.7"],
    );
    assert_eq!(ask("ZONEMD"), "");
    let transfer = ask("AXFR");
    assert!(
        transfer.contains("192.0.2.7") && !transfer.contains(" 1 1 1 "),
        "{transfer}"
    );
    // A digest computed here is that of the served version, or there is none.
    let terms = "allow_update = [\"key:ddns.example.\"]\nzonemd = \"generate\"";
    let busy = setup(terms).start();
    for number in 0..50 {
        let update = format!("update add n{number}.dyn.example. 60 A 192.0.2.{number}");
        assert_eq!(nsupdate(&busy, &update), (true, String::new()));
        let digest = dig(busy.address(), &["+short", "dyn.example", "ZONEMD"]);
        let serial = serial_if_served(busy.address(), "dyn.example").unwrap();
        let made = digest.split(' ').next().unwrap_or_default();
        assert!(
            made.is_empty() || made == serial.to_string(),
            "{serial}: {digest}"
        );
    }
    let answered = || dig(busy.address(), &["+short", "dyn.example", "ZONEMD"]);
    assert!(!eventually(answered, |text| !text.is_empty()).is_empty());
}
