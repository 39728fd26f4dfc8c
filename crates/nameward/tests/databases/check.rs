//! `nameward check` with databases: reports everything that cannot be served, in whichever database it is.

use super::operation::{SERVFAIL, wait_for, wait_for_code, zone};
use super::rows::Sqlite;
use nameward_testkit::Setup;
use std::process::Command;

/// Runs the check; returns whether it succeeded, and its output.
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
fn check_reports_invalid_rows_schemas_and_databases() {
    let directory = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let (good, bad) = (Sqlite::new(directory.path()), Sqlite::new(other.path()));
    good.add(&zone("one.test", "192.0.2.1"));
    bad.add(&zone("two.test", "192.0.2.2"));
    let (is_well, text) = check(directory.path(), &backend(&good.path));
    assert!(is_well, "{text}");
    assert!(text.contains("rows read, 0 problems"), "{text}");

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
        format!(
            "{path}: zone two.test.: table records, id 777: a.two.test.: invalid A record data"
        ),
        format!(
            "{path}: zone two.test.: table records, id 778: name 'Upper.two.test' has upper-case letters"
        ),
        format!("{path}: table records, id 779: no zone has this domain_id"),
        format!("{path}: 8 rows read, 3 problems"),
        format!("{}: no such file", missing.display()),
    ] {
        assert!(text.contains(&expected), "{expected}\n{text}");
    }
    assert!(!missing.exists());

    bad.run("DROP TABLE tsigkeys");
    let (is_well, text) = check(directory.path(), &backend(&bad.path));
    assert!(
        !is_well && text.contains(&format!("{path}: table tsigkeys is missing")),
        "{text}"
    );
}

#[test]
fn primaries_without_a_kind_are_a_warning_where_a_database_may_have_the_zone() {
    let directory = tempfile::tempdir().unwrap();
    let database = Sqlite::new(directory.path());
    let zone = "[[zone]]\nname = \"a.test\"\nprimaries = [{ address = \"192.0.2.1\" }]\n";
    let (is_well, text) = check(directory.path(), &(backend(&database.path) + zone));
    assert!(is_well, "{text}");
    let warning = "zone a.test.: primaries are set but kind is not: it is transferred only if a database or catalog makes it a secondary";
    assert!(text.contains(warning), "{text}");
}

/// Content that PowerDNS serves in its own way.
const FOREIGN: &str = "INSERT INTO domains (name, type, master) VALUES \
     ('s1.test', 'SLAVE', '192.0.2.1'), ('s2.test', 'SLAVE', '192.0.2.1'), ('s3.test', 'slave', '192.0.2.1'), \
     ('s4.test', 'SLAVE', '192.0.2.1'), ('producer.test', 'PRODUCER', NULL); \
     UPDATE domains SET catalog = 'producer.test' WHERE name = 'one.test'; \
     INSERT INTO records (domain_id, name, type, content, ttl) \
     SELECT id, name, 'SOA', 'ns.test host.test 1 2 3 4 5', 60 FROM domains WHERE name <> 'one.test'; \
     INSERT INTO records (domain_id, name, type, content, ttl) \
     SELECT id, name, 'NS', 'ns.test', 60 FROM domains WHERE name <> 'one.test'; \
     INSERT INTO records (domain_id, name, type, content, ttl) VALUES \
     (1, 'lua.one.test', 'LUA', 'A \"ifportup(443, {''192.0.2.1''})\"', 60); \
     INSERT INTO domainmetadata (domain_id, kind, content) VALUES (1, 'PRESIGNED', '1')";

const WARNINGS: [&str; 2] = [
    "1 LUA record, run only with lua.records or ENABLE-LUA-RECORDS: lua.one.test",
    "1 presigned zone without NSEC or NSEC3 rows, answered without signatures and denial of existence: validation \
     fails: one.test",
];

#[test]
fn content_that_powerdns_serves_differently_is_reported_once_per_kind_by_check_and_at_start() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.1"));
    database.run(FOREIGN);
    let config = backend(&database.path);
    let directory = tempfile::tempdir().unwrap();
    let (is_well, text) = check(directory.path(), &config);
    assert!(is_well, "warnings only\n{text}");
    let server = setup.config(&config).start();
    for warning in WARNINGS {
        let line = format!("{}: warning: {warning}", database.path.display());
        assert_eq!(text.matches(&line).count(), 1, "{warning}\n{text}");
        assert!(server.wait_for_log(warning), "{warning}\n{}", server.log());
        assert_eq!(server.log().matches(warning).count(), 1, "{warning}");
    }
    assert!(text.ends_with("2 warnings\n"), "{text}");
}

#[test]
fn a_check_does_not_create_the_file_of_a_database() {
    let setup = Setup::new().without_web();
    let path = setup.dir().join("missing.db");
    let output = Command::new(nameward_testkit::server::binary())
        .args(["db", "check"])
        .arg(&path)
        .output()
        .unwrap();
    assert_ne!(output.status.code(), Some(0), "{output:?}");
    assert!(!path.exists());
    let backend = format!("[[backend]]\ntype = \"sqlite\"\npath = {path:?}\n");
    let (is_good, text) = check(setup.dir(), &backend);
    assert!(!is_good && !path.exists(), "{text}");
}

#[test]
fn db_check_finds_every_row_that_fails_an_answer() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.1"));
    database.add(&zone("two.test", "192.0.2.2"));
    let insert = "INSERT INTO records (id, domain_id, name, type, content, ttl) VALUES";
    database.run(&format!(
        "{insert} (501, 1, 'both.one.test', 'A', '192.0.2.9', 60), (502, 1, 'both.one.test', 'CNAME', 'www.one.test', 60); \
         {insert} (503, 1, 'twice.one.test', 'CNAME', 'a.test', 60), (504, 1, 'twice.one.test', 'CNAME', 'b.test', 60); \
         {insert} (505, 1, 'dot.one.test.', 'A', '192.0.2.9', 60); \
         {insert} (506, 1, 'below.one.test', 'SOA', 'a.test b.test 1 2 3 4 5', 60); \
         INSERT INTO domains (id, name, type) VALUES (30, 'nons.test', 'NATIVE'), (31, 'empty.test', 'NATIVE'); \
         {insert} (507, 30, 'nons.test', 'SOA', 'a.test b.test 1 2 3 4 5', 60); \
         INSERT INTO cryptokeys (id, domain_id, flags, active, published, content) VALUES (77, 2, 257, 1, 1, 'nonsense'); \
         INSERT INTO domainmetadata (id, domain_id, kind, content) VALUES (78, 2, 'NSEC3PARAM', 'odd')"
    ));
    let output = Command::new(nameward_testkit::server::binary())
        .args(["db", "check"])
        .arg(&database.path)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let path = database.path.display();
    for expected in [
        "zone one.test.: table records, id 502: both.one.test. has a CNAME and A",
        "zone one.test.: table records, id 504: more than one CNAME record at twice.one.test.",
        "zone one.test.: table records, id 505: name 'dot.one.test.' has a trailing dot",
        "zone one.test.: table records, id 506: expected the SOA record at one.test., found one at below.one.test.",
        "zone nons.test.: table domains, id 30: no NS record at the apex",
        "zone empty.test.: table domains, id 31: no SOA record",
        "zone two.test.: table cryptokeys, id 77: ",
        "zone two.test.: table domainmetadata, id 78: ",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    for line in text.lines() {
        assert!(line.starts_with(&format!("sqlite:{path}: ")), "{line}");
    }
    assert!(text.ends_with(", 8 problems\n"), "{text}");

    // And these are the ones that fail: names and answers agree with the check.
    for mode in ["live", "resident"] {
        let directory = Setup::new().without_web();
        let config = format!("{}mode = \"{mode}\"\n", backend(&database.path));
        let server = directory.config(&config).start();
        wait_for(&server, "www.one.test.", (0, 1));
        for name in [
            "both.one.test.",
            "twice.one.test.",
            "below.one.test.",
            "www.empty.test.",
        ] {
            wait_for_code(&server, name, SERVFAIL);
        }
    }
}
