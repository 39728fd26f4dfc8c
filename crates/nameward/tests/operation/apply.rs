//! Changes of zones from files by commands: single records, batches, trials, and what is refused.

use std::fs;

use nameward_testkit::TestServer;

use super::ask::{answered_address, rcode, serial};
use super::update::{ZONE, setup};

/// Runs a command that succeeds; returns its stdout and stderr.
pub fn done(server: &TestServer, arguments: &[&str]) -> (String, String) {
    let output = server.command(arguments);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let warned = String::from_utf8_lossy(&output.stderr).into_owned();
    let log = server.log();
    assert!(
        output.status.success(),
        "{arguments:?}: {said}{warned}\n{log}"
    );
    (said, warned)
}

/// Runs a command that fails; returns its exit code and output.
pub fn failed(server: &TestServer, arguments: &[&str]) -> (i32, String) {
    let output = server.command(arguments);
    let code = output.status.code().unwrap_or(-1);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(code > 0, "{arguments:?}: {code}: {said}");
    (code, said)
}

/// Writes a file of the test, and returns its path.
pub fn written(server: &TestServer, name: &str, text: &str) -> String {
    let path = server.dir().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn records_of_a_zone_file_are_set_added_deleted_and_written_into_it_on_request() {
    let server = setup("").start();
    let at = server.address();
    let (said, warned) = done(
        &server,
        &[
            "record",
            "set",
            "dyn.example",
            "www",
            "A",
            "60",
            "192.0.2.77",
        ],
    );
    assert_eq!(
        (said.as_str(), warned.as_str()),
        ("zone dyn.example: changed, serial 11\n", "")
    );
    assert_eq!(
        answered_address(at, "www.dyn.example"),
        Some([192, 0, 2, 77])
    );
    done(
        &server,
        &["record", "add", "dyn.example", "new", "TXT", "60", "a b"],
    );
    let (said, _) = done(&server, &["record", "list", "dyn.example", "new"]);
    assert_eq!(said, "new.dyn.example. 60 IN TXT \"a b\"\n");
    let (said, _) = done(&server, &["record", "delete", "dyn.example", "none"]);
    assert_eq!(said, "zone dyn.example: no change\n");
    let (said, _) = done(&server, &["zone", "show", "dyn.example", "--json"]);
    let expected = "\"serial\":12,\"records\":5,\"disabled\":0";
    assert!(said.contains(expected), "{said}");
    // The file is unchanged until it is written.
    let file = server.dir().join("zones/dyn.example.zone");
    assert_eq!(fs::read_to_string(&file).unwrap(), ZONE);
    done(&server, &["zone", "sync", "dyn.example"]);
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("192.0.2.77") && text.contains("; our zone"),
        "{text}"
    );
    let (said, _) = done(&server, &["record", "list", "dyn.example"]);
    let soa = "dyn.example. 300 IN SOA ns1.dyn.example. host.dyn.example. 12 3600 600 86400 300\n";
    assert!(said.starts_with(soa), "{said}");
    assert_eq!(said.lines().count(), 5, "{said}");
}

#[test]
fn a_batch_is_tried_and_applied_all_or_nothing() {
    let server = setup("").start();
    let at = server.address();
    let batch =
        "zone dyn.example\n$TTL 60\n-www A 192.0.2.10\n+www A 192.0.2.12\n+mail MX 10 www\n";
    let file = written(&server, "batch", batch);
    let (said, _) = done(&server, &["apply", &file, "--dry-run"]);
    let soa = "dyn.example. 300 IN SOA ns1.dyn.example. host.dyn.example.";
    let expected = [
        format!("-{soa} 10 3600 600 86400 300"),
        "-www.dyn.example. 300 IN A 192.0.2.10".into(),
        "-www.dyn.example. 300 IN A 192.0.2.11".into(),
        format!("+{soa} 11 3600 600 86400 300"),
        "+mail.dyn.example. 60 IN MX 10 www.dyn.example.".into(),
        "+www.dyn.example. 60 IN A 192.0.2.11".into(),
        "+www.dyn.example. 60 IN A 192.0.2.12".into(),
        "zone dyn.example: would be changed, serial 11".into(),
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    assert_eq!(serial(at, "dyn.example"), 10);
    assert_eq!(rcode(at, "mail.dyn.example"), 3);
    let (said, _) = done(&server, &["apply", &file]);
    assert_eq!(said, "zone dyn.example: changed, serial 11\n");
    assert_eq!(rcode(at, "mail.dyn.example"), 0);
    // What it deletes is not there any more, so nothing of it happens again.
    let again = written(&server, "again", &format!("{batch}+more A 192.0.2.1\n"));
    let (code, error) = failed(&server, &["apply", &again]);
    assert_eq!(code, 5, "{error}");
    assert!(error.contains("cannot delete www.dyn.example. A 192.0.2.10: no such record"));
    assert_eq!(
        (serial(at, "dyn.example"), rcode(at, "more.dyn.example")),
        (11, 3)
    );
    // A rule of zones that only the whole would break.
    let wrong = written(
        &server,
        "wrong",
        "zone dyn.example\n+more 60 A 192.0.2.1\n+www 60 CNAME more\n",
    );
    for arguments in [&["apply", &wrong][..], &["apply", &wrong, "--dry-run"]] {
        let (code, error) = failed(&server, arguments);
        assert!(
            code == 6 && error.contains("a CNAME cannot coexist with other records"),
            "{error}"
        );
    }
    assert_eq!(
        (serial(at, "dyn.example"), rcode(at, "more.dyn.example")),
        (11, 3)
    );
    let json = r#"{"zone":"dyn.example","serial":11,"steps":[{"set":{"name":"www","type":"A","ttl":60,"content":["192.0.2.99"]}}]}"#;
    let json = written(&server, "batch.json", json);
    let (said, _) = done(&server, &["apply", &json, "--json"]);
    let last = said.lines().last().unwrap();
    assert_eq!(
        last,
        r#"{"is_changed":true,"zone":"dyn.example.","backend":1,"engine":"file","serial":12,"previous_serial":11}"#
    );
    assert_eq!(
        answered_address(at, "www.dyn.example"),
        Some([192, 0, 2, 99])
    );
    // Another change was faster.
    let (code, error) = failed(&server, &["apply", &json]);
    assert!(
        code == 5 && error.contains("serial is 12, not 11"),
        "{error}"
    );
}

#[test]
fn probably_unintended_changes_are_warned_of_on_stderr() {
    let server = setup("").zone("sub.dyn.example", ZONE).start();
    for (arguments, warning) in [
        (
            ["www.dyn.example.com", "A", "60", "192.0.2.1"],
            "repeats the zone name",
        ),
        (["lua", "LUA", "60", "A \"x\""], "is a script"),
        (
            ["a.sub", "TXT", "60", "x"],
            "sub.dyn.example. is a separate zone on this server",
        ),
    ] {
        let command = [&["record", "add", "dyn.example"][..], &arguments].concat();
        let (said, warned) = done(&server, &command);
        assert!(said.starts_with("zone dyn.example: changed"), "{said}");
        assert!(warned.starts_with("nameward: warning: "), "{warned}");
        assert!(warned.contains(warning), "{warned}");
    }
    let (said, warned) = done(
        &server,
        &[
            "record",
            "set",
            "dyn.example",
            "lua",
            "LUA",
            "60",
            "A \"y\"",
            "--json",
        ],
    );
    assert!(
        said.contains("\"warnings\":[\"") && warned.is_empty(),
        "{said}{warned}"
    );
}

#[test]
fn zones_that_cannot_be_changed_here_are_refused_with_the_reason() {
    let set = |zone| ["record", "set", zone, "www", "A", "60", "192.0.2.1"];
    let server = setup("").start();
    done(&server, &["zone", "freeze", "dyn.example"]);
    let (code, error) = failed(&server, &set("dyn.example"));
    assert!(code == 7 && error.contains("zone thaw"), "{error}");
    done(&server, &["zone", "thaw", "dyn.example"]);
    done(&server, &set("dyn.example"));
    let soa = "host.dyn.example. 5 3600 600 86400 300";
    let soa = format!("ns1.dyn.example. {soa}");
    let back = ["record", "set", "dyn.example", "@", "SOA", "300", &soa];
    let (code, error) = failed(&server, &back);
    assert!(
        code == 6 && error.contains("serial 5 is not greater than 11"),
        "{error}"
    );
    let without_state = TestServer::start("", &[("dyn.example", ZONE)]);
    let (code, error) = failed(&without_state, &set("dyn.example"));
    assert!(code == 7 && error.contains("state_directory"), "{error}");
    // Reading needs no state.
    let (said, _) = done(&without_state, &["record", "list", "dyn.example", "ns1"]);
    assert_eq!(said, "ns1.dyn.example. 300 IN A 192.0.2.1\n");
}
