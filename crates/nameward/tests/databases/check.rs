//! `nameward check` with databases: what cannot be served is named, whichever database it is in.

use crate::operation::zone;
use crate::rows::Sqlite;
use std::process::Command;

/// Runs the check; returns whether all is well, and what it printed.
fn check(directory: &std::path::Path, backends: &str) -> (bool, String) {
    let config = directory.join("nameward.toml");
    std::fs::write(&config, backends).unwrap();
    let output = Command::new(nameward_testkit::server::binary())
        .args(["check", "--config"])
        .arg(&config)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), text)
}

fn backend(path: &std::path::Path) -> String {
    let path = path.display();
    format!("[[backend]]\ntype = \"sqlite\"\npath = \"{path}\"\n")
}

#[test]
fn check_names_rows_schemas_and_databases_that_are_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let (good, bad) = (Sqlite::new(directory.path()), Sqlite::new(other.path()));
    good.add(&zone("one.test", "192.0.2.1"));
    bad.add(&zone("two.test", "192.0.2.2"));
    let (is_well, text) = check(directory.path(), &backend(&good.path));
    assert!(is_well, "{text}");
    assert!(
        text.contains("rows read, 0 rows that cannot be served"),
        "{text}"
    );

    bad.run("PRAGMA foreign_keys = OFF; INSERT INTO records (id, domain_id, name, type, content) VALUES (777, 1, 'a.two.test', 'A', 'x'), \
             (778, 1, 'Upper.two.test', 'A', '192.0.2.3'), (779, 9, 'b.two.test', 'A', '192.0.2.4')");
    let missing = directory.path().join("missing.db");
    let all = [&good.path, &bad.path, &missing]
        .map(|path| backend(path))
        .concat();
    let (is_well, text) = check(directory.path(), &all);
    assert!(!is_well, "{text}");
    let path = bad.path.display();
    for expected in [
        format!("{path}: table records, id 777: a.two.test.: the content of A is not valid"),
        format!("{path}: table records, id 778: the name 'Upper.two.test' has upper-case letters"),
        format!("{path}: table records, id 779: domain_id names no zone"),
        format!("{path}: 8 rows read, 3 rows that cannot be served"),
        format!("{}: no such file", missing.display()),
    ] {
        assert!(text.contains(&expected), "{expected}\n{text}");
    }
    assert!(!missing.exists());

    bad.run("DROP TABLE tsigkeys");
    let (is_well, text) = check(directory.path(), &backend(&bad.path));
    assert!(
        !is_well && text.contains(&format!("{path}: the table tsigkeys is missing")),
        "{text}"
    );
}
