//! The history of a zone contains the author of each change, and the reason.

use std::{fs, process::Command};

use nameward_testkit::{Setup, TestServer};
use serde_json::Value;

use super::apply::{done, failed};
use super::ask::{eventually, serial};
use super::update::{nsupdate, setup};

/// The versions of a zone, oldest first.
fn history(server: &TestServer, zone: &str) -> Vec<Value> {
    let (said, _) = done(server, &["zone", "history", zone, "--json"]);
    said.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The name of the user who runs the tests, as shown by commands.
fn user() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    format!("user {}", String::from_utf8_lossy(&output.stdout).trim())
}

#[test]
fn commands_updates_and_file_edits_are_distinguished_and_reasons_are_stored() {
    let server = setup("allow_update = [\"key:ddns.example.\"]").start();
    let set = ["record", "set", "dyn.example", "www", "A", "60"];
    let hostile = "ticket 7\u{1b}[2J\nSERIAL";
    done(
        &server,
        &[&set[..], &["192.0.2.77", "--message", hostile]].concat(),
    );
    done(&server, &[&set[..], &["192.0.2.78"]].concat());
    let batch = server.dir().join("batch");
    fs::write(&batch, "zone dyn.example\n+more 60 A 192.0.2.1\n").unwrap();
    let apply = ["apply", batch.to_str().unwrap(), "--message", "by batch"];
    done(&server, &apply);
    let (is_taken, said) = nsupdate(&server, "update add new.dyn.example. 60 A 192.0.2.2");
    assert!(is_taken, "{said}");
    let versions = history(&server, "dyn.example");
    assert_eq!(versions.len(), 4, "{versions:?}");
    let user = user();
    assert_eq!(versions[0]["who"], *user);
    assert_eq!(versions[0]["message"], hostile);
    assert_eq!(versions[1]["who"], *user);
    assert!(versions[1].get("message").is_none(), "{versions:?}");
    assert_eq!(versions[2]["message"], "by batch");
    assert_eq!(versions[3]["who"], "update 127.0.0.1 key ddns.example.");
    let (said, _) = done(&server, &["zone", "history", "dyn.example"]);
    assert_eq!(said.lines().count(), 5, "{said}");
    assert!(said.contains("ticket 7\\027[2J\\010SERIAL\n"), "{said}");
    let long = "x".repeat(1001);
    let (code, said) = failed(
        &server,
        &[&set[..], &["192.0.2.79", "--message", &long]].concat(),
    );
    assert!(code == 6 && said.contains("1000 octets"), "{said}");
    // The zone file has all changes, and then an edit.
    done(&server, &["zone", "sync", "dyn.example"]);
    let file = server.dir().join("zones/dyn.example.zone");
    let text = fs::read_to_string(&file).unwrap();
    let now = serial(server.address(), "dyn.example");
    let text = text.replacen(&now.to_string(), &(now + 1).to_string(), 1);
    server.write_zone("dyn.example", &format!("{text}\nedited 60 A 192.0.2.3\n"));
    done(&server, &["reload"]);
    let versions = history(&server, "dyn.example");
    assert_eq!(versions.last().unwrap()["who"], "file", "{versions:?}");
}

#[test]
fn a_transfer_names_its_primary() {
    let text = "$TTL 300\n@ SOA ns h 1 7200 3600 1209600 300\n@ NS ns\nns A 192.0.2.1\n\
                a A 192.0.2.1\nb A 192.0.2.1\nc A 192.0.2.1\nd A 192.0.2.1\ne A 192.0.2.1\n";
    let state = "[server]\nstate_directory = \"state\"\n";
    let open = "[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]\n";
    let primary = Setup::new().without_web().config(state).config(open);
    let primary = primary.zone("one.test", text).start();
    let terms = format!(
        "[[zone]]\nname = \"one.test\"\nkind = \"secondary\"\nprimaries = [{{ address = \"{}\" }}]\n",
        primary.address()
    );
    let secondary = Setup::new().without_web().config(state).config(&terms);
    let secondary = secondary.start();
    let have = || super::ask::serial_if_served(secondary.address(), "one.test");
    eventually(have, |serial| *serial == Some(1));
    done(
        &primary,
        &["record", "set", "one.test", "a", "A", "60", "192.0.2.7"],
    );
    done(&secondary, &["zone", "retrieve", "one.test"]);
    eventually(have, |serial| serial.is_some_and(|serial| serial != 1));
    let versions = history(&secondary, "one.test");
    let who = format!("primary {}", primary.address());
    assert_eq!(versions.last().unwrap()["who"], *who, "{versions:?}");
}
