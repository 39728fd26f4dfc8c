//! A test whose real dependency is missing fails, or is skipped and counted where that is allowed.

use std::fs;
use std::process::{Command, Output};

use nameward_testkit::require;

const ALLOW: &str = "NAMEWARD_ALLOW_MISSING";
const SKIPPED: &str = "NAMEWARD_SKIPPED";
/// Set for the processes that the test below starts.
const CHILD: &str = "NAMEWARD_TESTKIT_MISSING";

/// Run by the test below in a separate process.
#[test]
#[ignore = "only a part of another test"]
fn needs_a_missing_part() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    assert_eq!(require(Some(1), "a number"), Some(1));
    if require(None::<()>, "a unicorn").is_some() {
        panic!("there are none");
    }
}

fn run(environment: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "missing::needs_a_missing_part"])
        .env_remove(ALLOW)
        .env_remove(SKIPPED)
        .env(CHILD, "yes")
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

#[test]
fn a_missing_part_fails_the_test_unless_that_is_allowed_and_then_it_is_counted() {
    let alone = run(&[]);
    let said = String::from_utf8_lossy(&alone.stdout).into_owned()
        + &String::from_utf8_lossy(&alone.stderr);
    assert!(!alone.status.success());
    assert!(
        said.contains("a unicorn is missing: run scripts/install-deps"),
        "{said}"
    );
    assert!(!run(&[(ALLOW, "0")]).status.success());

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("skipped");
    let path_text = path.to_str().unwrap();
    for _ in 0..2 {
        assert!(run(&[(ALLOW, "1"), (SKIPPED, path_text)]).status.success());
    }
    let lines = fs::read_to_string(path).unwrap();
    assert_eq!(lines.lines().count(), 2, "{lines}");
    for line in lines.lines() {
        assert!(
            line.ends_with(" missing::needs_a_missing_part: a unicorn"),
            "{line}"
        );
    }
}
