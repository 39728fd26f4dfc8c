//! Commands on whole zones: export, comparison, import, editing, history and rollback.

use std::{
    fs,
    io::Write,
    process::{Command, Output, Stdio},
};

use nameward_testkit::{TestServer, server::binary};

use super::apply::{done, failed, written};
use super::ask::{answered_address, rcode, serial};
use super::update::{ZONE, setup};

#[test]
fn the_history_of_a_zone_is_listed_compared_and_rolled_back() {
    let server = setup("").start();
    let at = server.address();
    let set = [
        "record",
        "set",
        "dyn.example",
        "www",
        "A",
        "60",
        "192.0.2.77",
    ];
    done(&server, &set);
    done(&server, &["record", "delete", "dyn.example", "www"]);
    let (said, _) = done(&server, &["zone", "history", "dyn.example"]);
    let lines: Vec<Vec<&str>> = said
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        [
            "SERIAL", "BEFORE", "TIME", "REMOVED", "ADDED", "ORIGIN", "WHO", "MESSAGE"
        ]
    );
    assert_eq!(
        (&lines[1][..2], &lines[1][3..6]),
        (&["11", "10"][..], &["2", "1", "change"][..])
    );
    assert_eq!(
        (&lines[2][..2], &lines[2][3..6]),
        (&["12", "11"][..], &["1", "0", "change"][..])
    );
    let diff = ["zone", "diff", "dyn.example", "--from", "10", "--to", "11"];
    let output = server.command(&diff);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("-www.dyn.example. 300 IN A 192.0.2.10\n"),
        "{said}"
    );
    assert!(
        said.contains("+www.dyn.example. 60 IN A 192.0.2.77\n"),
        "{said}"
    );
    // Nothing but the serial is new.
    let back = ["zone", "rollback", "dyn.example", "--to", "10"];
    let (said, _) = done(&server, &[&back[..], &["--dry-run"]].concat());
    assert!(
        said.contains("+www.dyn.example. 300 IN A 192.0.2.10\n"),
        "{said}"
    );
    assert_eq!(
        (serial(at, "dyn.example"), rcode(at, "www.dyn.example")),
        (12, 3)
    );
    let (said, _) = done(&server, &back);
    assert!(
        said.ends_with("zone dyn.example: changed, serial 13\n"),
        "{said}"
    );
    let file = server
        .dir()
        .join("zones/dyn.example.zone")
        .display()
        .to_string();
    let output = server.command(&["zone", "diff", "dyn.example", &file]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let soa = "dyn.example. 300 IN SOA ns1.dyn.example. host.dyn.example.";
    assert_eq!(
        said,
        format!("-{soa} 13 3600 600 86400 300\n+{soa} 10 3600 600 86400 300\n")
    );
    let (code, error) = failed(&server, &["zone", "rollback", "dyn.example", "--to", "7"]);
    assert!(code == 4 && error.contains("it has 10 to 13"), "{error}");
    let (code, error) = failed(&server, &["zone", "history", "none.example"]);
    assert!(code == 4 && error.contains("not found"), "{error}");
}

#[test]
fn a_zone_is_exported_compared_imported_and_checked() {
    let server = setup("").start();
    let at = server.address();
    let (text, _) = done(&server, &["zone", "export", "dyn.example"]);
    assert_eq!(text.lines().count(), 5, "{text}");
    let file = written(&server, "exported", &text);
    let (said, _) = done(&server, &["zone", "diff", "dyn.example", &file]);
    assert_eq!(said, "");
    let (said, _) = done(&server, &["zone", "import", "dyn.example", &file]);
    assert_eq!(said, "zone dyn.example: no change\n");
    let (said, _) = done(&server, &["zone", "check", "dyn.example"]);
    assert_eq!(said, "zone dyn.example.: 0 errors, 0 warnings\n");
    // Another TTL, one record less, one more; the serial is that of before.
    let text = text
        .replace("192.0.2.11\n", "192.0.2.12\n")
        .replace("ns1.dyn.example.\t300", "ns1.dyn.example.\t90");
    let file = written(&server, "changed", &text);
    let (said, _) = done(
        &server,
        &["zone", "import", "dyn.example", &file, "--dry-run"],
    );
    assert!(
        said.contains("+ns1.dyn.example. 90 IN A 192.0.2.1\n"),
        "{said}"
    );
    assert_eq!(serial(at, "dyn.example"), 10);
    let (said, _) = done(&server, &["zone", "import", "dyn.example", &file]);
    assert_eq!(said, "zone dyn.example: changed, serial 11\n");
    let output = server.command(&["zone", "diff", "dyn.example", &file]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said.lines().count(), 2, "only the serial differs: {said}");
    // A serial of the file that is newer counts.
    let file = written(
        &server,
        "newer",
        &text.replace(" 10 3600", " 2026010101 3600"),
    );
    done(&server, &["zone", "import", "dyn.example", &file]);
    assert_eq!(serial(at, "dyn.example"), 2_026_010_101);
    let wrong = written(&server, "wrong", &ZONE.replace("192.0.2.10", "192.0.2"));
    for command in [
        &["zone", "import", "dyn.example", &wrong][..],
        &["zone", "diff", "dyn.example", &wrong],
    ] {
        let (code, error) = failed(&server, command);
        assert!(code == 6 && error.contains("wrong:8:7: error"), "{error}");
    }
    let output = server.command(&["zone", "check", "dyn.example", &wrong]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("wrong:8:7: error") && said.contains("1 error,"),
        "{said}"
    );
}

/// Runs `zone edit` with a script as the editor, and an answer to its prompts.
fn edit(server: &TestServer, script: &str, answer: &str) -> Output {
    let editor = written(server, "editor", &format!("#!/bin/sh\n{script}\n"));
    let edited = server.dir().join("edited");
    fs::create_dir_all(&edited).unwrap();
    let mut child = Command::new(binary())
        .args(["zone", "edit", "dyn.example"])
        .env("RUNTIME_DIRECTORY", server.dir())
        .env("TMPDIR", &edited)
        .env_remove("VISUAL")
        .env("EDITOR", format!("sh {editor}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It may not prompt.
    let _ = stdin.write_all(answer.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
}

#[test]
fn an_edited_zone_is_shown_confirmed_and_refused_if_it_changed_in_the_meantime() {
    let server = setup("").start();
    let at = server.address();
    let change = "sed -i s/192.0.2.10/192.0.2.66/ \"$1\"";
    let output = edit(&server, change, "n\n");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(
        said.contains("+www.dyn.example. 300 IN A 192.0.2.66\n"),
        "{said}"
    );
    assert_eq!(serial(at, "dyn.example"), 10);
    let output = edit(&server, "true", "");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said, "zone dyn.example: no change\n");
    let output = edit(&server, "echo 'broken A nothing' >> \"$1\"", "n\n");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(6) && said.contains("error"),
        "{said}"
    );
    // Another client changes the zone while the editor is open.
    let set = "record set dyn.example other A 60 192.0.2.5";
    let other = format!(
        "{change}
{} {set}",
        binary().display()
    );
    let output = edit(&server, &other, "y\n");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(
        said.contains("was changed in the meantime: its serial is 11, not 10"),
        "{said}"
    );
    let output = edit(&server, change, "y\n");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(serial(at, "dyn.example"), 12);
    let (said, _) = done(&server, &["record", "list", "dyn.example", "www"]);
    assert!(said.contains("192.0.2.66"), "{said}");
    assert_eq!(
        answered_address(at, "other.dyn.example"),
        Some([192, 0, 2, 5])
    );
    let left = fs::read_dir(server.dir().join("edited")).unwrap();
    assert_eq!(left.count(), 0, "an editor's file was left");
}
