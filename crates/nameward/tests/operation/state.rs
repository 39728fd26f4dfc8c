//! `nameward state`: check, compact and backup.

use std::{path::Path, process::Command};

fn nameward(arguments: &[&str], directory: &Path) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_nameward"))
        .arg("state")
        .args(arguments)
        .arg("--directory")
        .arg(directory)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.into_owned())
}

#[test]
fn the_state_store_is_checked_compacted_and_copied() {
    let directory = tempfile::tempdir().unwrap();
    let (is_good, text) = nameward(&["check"], directory.path());
    assert!(!is_good && text.contains("does not exist"), "{text}");
    let bounds = nameward_state::JournalBounds {
        octets: 1 << 20,
        entries: 100,
    };
    drop(nameward_state::StateStore::open(directory.path(), bounds).unwrap());
    let (is_good, text) = nameward(&["check"], directory.path());
    assert!(is_good && text.contains("0 faults"), "{text}");
    let (is_good, text) = nameward(&["compact"], directory.path());
    assert!(is_good && text.contains("compacted"), "{text}");
    let copy = tempfile::tempdir().unwrap();
    let target = copy.path().join("state.db");
    let (is_good, text) = nameward(&["backup", target.to_str().unwrap()], directory.path());
    assert!(is_good && text.contains("copied"), "{text}");
    let (is_good, text) = nameward(&["check"], copy.path());
    assert!(is_good, "{text}");
    // Never over another file.
    let (is_good, text) = nameward(&["backup", target.to_str().unwrap()], directory.path());
    assert!(!is_good, "{text}");
}

#[test]
fn a_damaged_state_store_is_a_readable_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("state.db");
    std::fs::write(&file, [b'x'; 9000]).unwrap();
    let (is_good, text) = nameward(&["check"], directory.path());
    assert!(
        !is_good && text.contains("is corrupt") && text.contains("backup"),
        "{text}"
    );
}
