//! Digests over whole zones (ZONEMD): versions of files and of primaries that do not match theirs are refused, and the
//! version before stays.

use std::{fs, net::SocketAddr, path::Path, process::Command};

use nameward_testkit::{Setup, TestServer};

use super::ask::{eventually, serial_if_served};
use super::secure::done;

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

/// A version of the zone with digests that ldns has made: signed with a key, or not.
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
    let lines = text.lines().map(|line| match line.contains("\tZONEMD\t") {
        true => {
            let (head, last) = line.split_at(line.len() - 1);
            format!("{head}{}\n", if last == "0" { "1" } else { "0" })
        }
        false => format!("{line}\n"),
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
    let told = "serial 2: its ZONEMD record does not match its contents";
    assert!(text_of(&reload).contains(told), "{reload:?}");
    assert!(server.log().contains("the old version stays in service"));
    assert!(served(at, 1));
    let config = server.dir().join("nameward.toml");
    let check = server.command(&["check", "--config", config.to_str().unwrap()]);
    assert!(!check.status.success() && text_of(&check).contains(told));
    // A digest of another version is none.
    server.write_zone(
        ZONE,
        &made(3).replace("hostmaster.digest.test. 3 ", "hostmaster.digest.test. 4 "),
    );
    let reload = server.command(&["reload"]);
    let told = "serial 4: its ZONEMD record is of serial 3";
    assert!(text_of(&reload).contains(told), "{reload:?}");
    // Without a digest there is nothing to compare.
    server.write_zone(ZONE, &stripped(&made(5)));
    assert!(server.command(&["reload"]).status.success());
    assert!(served(at, 5));
    server.write_zone(ZONE, &made(6));
    assert!(server.command(&["reload"]).status.success());
    assert!(served(at, 6));
}

fn secondary(primary: &TestServer, rule: &str) -> TestServer {
    let setup = Setup::new().without_web();
    let state = setup.dir().join("state");
    fs::create_dir(&state).unwrap();
    let there = primary.address();
    let config = format!(
        "[server]\nstate_directory = {state:?}\n[[zone]]\nname = \"{ZONE}\"\nkind = \"secondary\"\n\
         zonemd = \"{rule}\"\nprimaries = [{{ address = \"{there}\" }}]\n"
    );
    setup.config(&config).start()
}

/// Whole and incremental transfers of versions with and without good digests.
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
    let offer = |text: &str| {
        primary.write_zone(ZONE, text);
        done(&primary, &["reload"]);
        for server in both {
            done(server, &["zone", "retrieve", ZONE]);
        }
    };
    offer(&made(2));
    for server in both {
        assert!(served(server.address(), 2), "{}", server.log());
        assert!(server.log().contains("IXFR"), "{}", server.log());
    }
    offer(&spoilt(&made(3)));
    let told = "serial 3: its ZONEMD record does not match its contents";
    for server in both {
        assert!(server.wait_for_log("asking for the whole zone"));
        let refused = format!("refresh failed (1 in a row): {}: {told}", primary.address());
        assert!(server.wait_for_log(&refused), "{}", server.log());
        assert!(served(server.address(), 2));
    }
    offer(&stripped(&made(4)));
    assert!(served(verifying.address(), 4), "{}", verifying.log());
    let told = "serial 4: it has no ZONEMD record, and zonemd is \"require\"";
    assert!(requiring.wait_for_log(told), "{}", requiring.log());
    assert!(served(requiring.address(), 2));
    offer(&made(5));
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
