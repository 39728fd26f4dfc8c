//! Every command and every mistake on the command line: what is printed, and the exit code.

use std::{
    fs,
    io::Write,
    process::{Command, Output, Stdio},
};

use nameward_testkit::{require, server::binary};

fn nameward(arguments: &[&str]) -> Output {
    Command::new(binary())
        .args(arguments)
        .env("RUNTIME_DIRECTORY", "/nonexistent")
        .stdin(Stdio::null())
        .output()
        .expect("nameward can be run")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The one line of an error; the exit code is 1.
fn error_line(arguments: &[&str]) -> String {
    let output = nameward(arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = stderr(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_string()
}

#[test]
fn help_names_every_command() {
    let output = nameward(&["--help"]);
    assert!(output.status.success());
    for command in [
        "serve",
        "check",
        "status",
        "reload",
        "stats",
        "stop",
        "version",
        "config",
        "completions",
        "manual",
    ] {
        assert!(
            stdout(&output).contains(&format!("\n  {command}")),
            "{command}"
        );
    }
}

#[test]
fn the_version_is_printed() {
    let expected = concat!("nameward ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(stdout(&nameward(&["version"])), expected);
    assert_eq!(stdout(&nameward(&["--version"])), expected);
}

#[test]
fn an_invalid_argument_exits_with_code_2_and_names_the_expected_value() {
    for (arguments, expected) in [
        (
            &["serve", "--listen", "localhost"][..],
            "expected an address with a port",
        ),
        (&["serve", "--zone", "example.org"], "expected NAME=FILE"),
        (&["serve", "--wrkers", "1"], "--workers"),
        (&["srve"], "serve"),
    ] {
        let output = nameward(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

#[test]
fn a_missing_configuration_is_one_line() {
    for command in ["serve", "check"] {
        assert_eq!(
            error_line(&[command, "--config", "/nonexistent.toml"]),
            "nameward: cannot read /nonexistent.toml: No such file or directory"
        );
    }
}

#[test]
fn an_unknown_key_is_one_line_with_its_position() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nameward.toml");
    fs::write(&path, "[server]\nlisten = []\nworker = 2\n").unwrap();
    let path = path.to_str().unwrap();
    let expected = format!(
        "nameward: {path}:3:1: unknown key \"worker\" in [server]; did you mean \"workers\"?"
    );
    assert_eq!(error_line(&["serve", "--config", path]), expected);
    assert_eq!(error_line(&["check", "--config", path]), expected);
}

#[test]
fn an_unknown_user_and_a_wrong_zone_name_are_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nameward.toml");
    fs::write(
        &path,
        "[server]\nlisten = [\"127.0.0.1:0\"]\nuser = \"no-such-user\"\n",
    )
    .unwrap();
    assert_eq!(
        error_line(&["serve", "--config", path.to_str().unwrap()]),
        "nameward: server.user: no such user \"no-such-user\""
    );
    assert_eq!(
        error_line(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--zone",
            "a..b=/dev/null"
        ]),
        "nameward: invalid zone name \"a..b\": empty label in the name"
    );
}

#[test]
fn a_command_for_a_server_that_is_not_there_is_one_line() {
    for command in ["reload", "stats", "status", "stop"] {
        let output = nameward(&[command]);
        // As init scripts have it: not running.
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert_eq!(
            stderr(&output),
            "nameward: cannot connect to the control socket /nonexistent/control.sock: \
             No such file or directory\n"
        );
    }
}

#[test]
fn check_accepts_valid_zones_and_counts_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("good");
    fs::write(&path, super::ask::zone("www")).unwrap();
    let output = nameward(&[
        "check",
        "--zone",
        &format!("example.org={}", path.display()),
    ]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stdout(&output), "1 zone good, 0 with errors, 0 warnings\n");
    assert!(
        nameward(&["check"]).status.success(),
        "the built-in example is good"
    );
}

#[test]
fn check_names_file_line_and_column_of_every_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bad");
    fs::write(
        &path,
        "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.300\nx AAAA zz\n",
    )
    .unwrap();
    let output = nameward(&[
        "check",
        "--zone",
        &format!("example.org={}", path.display()),
    ]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    for place in ["bad:4:6: error: ", "bad:5:8: error: "] {
        assert!(text.contains(place), "{text}");
    }
    assert!(
        text.ends_with("0 zones good, 1 with errors, 0 warnings\n"),
        "{text}"
    );
}

#[test]
fn the_printed_configuration_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nameward.toml");
    fs::write(&path, nameward(&["config"]).stdout).unwrap();
    let output = nameward(&["check", "--config", path.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = nameward(&["completions", shell]);
        assert!(output.status.success());
        assert!(stdout(&output).contains("completions"), "{shell}");
    }
}

#[test]
fn the_manual_page_is_a_manual_page() {
    let page = nameward(&["manual"]);
    assert!(page.status.success());
    let text = stdout(&page);
    assert!(text.contains(".TH nameward 1"), "{text}");
    for command in ["SERVE", "CHECK", "RELOAD", "ZONE CREATE", "RECORD SET"] {
        assert!(text.contains(&format!("NAMEWARD {command}")), "{command}");
    }
    // The formatter must find nothing to complain about.
    let man = Command::new("man")
        .args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-"])
        .env("MANWIDTH", "100")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    if let Some(mut man) = require(man.ok(), "man") {
        man.stdin.take().unwrap().write_all(&page.stdout).unwrap();
        let output = man.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(stderr(&output), "");
        assert!(stdout(&output).contains("Listen on this address"));
    }
}

#[test]
fn a_reader_that_disconnects_is_not_an_error() {
    let mut child = Command::new(binary())
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_password_from_stdin_is_hashed_and_never_printed() {
    for words in [&["hash-password"][..], &["pdnsutil", "hash-password"]] {
        let mut child = Command::new(binary())
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"se cret\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let (said, error) = (stdout(&output), stderr(&output));
        assert!(output.status.success(), "{error}");
        assert!(said.starts_with("$scrypt$ln=10,p=1,r=8$"), "{said}");
        assert!(!said.contains("cret") && error.is_empty(), "{said}{error}");
    }
    assert_eq!(nameward(&["hash-password"]).status.code(), Some(6));
}
