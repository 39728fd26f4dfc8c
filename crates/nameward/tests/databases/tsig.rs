//! TSIG keys in a database: created by one server, known to all that use the database, PowerDNS included.

use super::operation::{wait_for, zone};
use super::rows::Sqlite;
use super::servers::{backend, fill, run, started};
use nameward_testkit::databases::DatabaseKind;
use nameward_testkit::{Setup, TestServer};
use std::process::Command;

fn output_of(server: &TestServer, arguments: &[&str]) -> (Option<i32>, String) {
    let output = server.command(arguments);
    let mut text = String::from_utf8(output.stdout).unwrap();
    text.push_str(&String::from_utf8(output.stderr).unwrap());
    (output.status.code(), text)
}

/// Generates a key and returns its secret.
fn generate(server: &TestServer, arguments: &[&str], place: &str) -> String {
    let words = [&["tsig", "generate"], arguments].concat();
    let (code, text) = output_of(server, &words);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(&format!("\nstored in {place}\n")), "{text}");
    let secret = text.lines().find_map(|line| line.strip_prefix("secret "));
    secret.unwrap().to_string()
}

/// Checks whether a transfer signed with a key succeeds.
fn transfers(server: &TestServer, key: &str, secret: &str) -> bool {
    let output = Command::new("dig")
        .args(["@127.0.0.1", "-p", &server.address().port().to_string()])
        .args(["+tries=1", "+noall", "+answer"])
        .args(["-y", &format!("hmac-sha256:{key}:{secret}")])
        .args(["one.test", "AXFR"])
        .output()
        .expect("dig is installed: run scripts/install-deps");
    String::from_utf8_lossy(&output.stdout).contains("SOA")
}

/// A key created on one server is in force on both at once; it is replaced and removed for both.
fn check_both(servers: &[TestServer]) {
    let [one, other] = servers else {
        panic!("two servers")
    };
    let secret = generate(one, &["Shared.key"], "backend 1");
    let granted = [
        "metadata",
        "set",
        "one.test",
        "TSIG-ALLOW-AXFR",
        "shared.key",
    ];
    assert_eq!(output_of(one, &granted).0, Some(0));
    for server in servers {
        server.wait_until("the key is in force", || {
            transfers(server, "shared.key", &secret)
        });
    }
    let again = output_of(other, &["tsig", "generate", "shared.key"]);
    assert_eq!(again.0, Some(5), "{}", again.1);
    let next = generate(other, &["shared.key", "--replace"], "backend 1");
    assert_ne!(next, secret);
    for server in servers {
        server.wait_until("the new secret is in force", || {
            transfers(server, "shared.key", &next) && !transfers(server, "shared.key", &secret)
        });
        let (_, listed) = output_of(server, &["tsig", "list", "--secrets"]);
        assert_eq!(
            listed,
            format!("shared.key. hmac-sha256 {next} (backend 1)\n")
        );
    }
    assert_eq!(
        output_of(one, &["tsig", "remove", "shared.key"]),
        (
            Some(0),
            "removed TSIG key shared.key. from backend 1\n".into()
        )
    );
    for server in servers {
        server.wait_until("the key is gone", || {
            !transfers(server, "shared.key", &next)
        });
        assert_eq!(
            output_of(server, &["tsig", "remove", "shared.key"]).0,
            Some(4)
        );
    }
}

fn check_shared(kind: DatabaseKind) {
    let Some(database) = started(kind) else {
        return;
    };
    run(&database, kind, &fill(&[zone("one.test", "192.0.2.10")]));
    let start = |mode: &str| {
        let source = backend(kind, &database.url(), mode);
        let server = Setup::new().without_web().config(&source).start();
        wait_for(&server, "www.one.test.", (0, 10));
        server
    };
    check_both(&[start("live"), start("resident")]);
}

#[test]
fn keys_in_postgres_are_shared_by_all_its_servers() {
    check_shared(DatabaseKind::Postgres);
}

#[test]
fn keys_in_mariadb_are_shared_by_all_its_servers() {
    check_shared(DatabaseKind::Mariadb);
}

#[test]
fn keys_are_stored_in_the_given_backend_and_powerdns_reads_them() {
    let setup = Setup::new().without_web();
    std::fs::create_dir(setup.dir().join("second")).unwrap();
    let (first, second) = (
        Sqlite::new(setup.dir()),
        Sqlite::new(&setup.dir().join("second")),
    );
    first.add(&zone("one.test", "192.0.2.10"));
    let config = format!("{}{}", first.backend("live"), second.backend("live"));
    let server = setup.config(&config).start();
    wait_for(&server, "www.one.test.", (0, 10));
    let secret = generate(&server, &["first.key"], "backend 1");
    generate(&server, &["second.key", "--backend", "2"], "backend 2");
    let (code, text) = output_of(
        &server,
        &["tsig", "generate", "third.key", "--backend", "3"],
    );
    assert_ne!(code, Some(0), "{text}");
    // Like with pdnsutil, an imported key replaces an existing one.
    let imported = [
        "pdnsutil",
        "import-tsig-key",
        "second.key",
        "hmac-sha512",
        "c2VjcmV0c2VjcmV0",
    ];
    assert_eq!(output_of(&server, &imported).0, Some(0));
    let (_, listed) = output_of(&server, &["tsig", "list"]);
    assert_eq!(
        listed,
        "first.key. hmac-sha256 (backend 1)\nsecond.key. hmac-sha512 (backend 2)\n"
    );
    let directory = server.dir().join("powerdns");
    std::fs::create_dir(&directory).unwrap();
    let config = format!(
        "launch=gsqlite3\ngsqlite3-database={}\n",
        first.path.display()
    );
    std::fs::write(directory.join("pdns.conf"), config).unwrap();
    let output = Command::new("pdnsutil")
        .arg(format!("--config-dir={}", directory.display()))
        .arg("list-tsig-keys")
        .output()
        .expect("pdnsutil is installed: run scripts/install-deps");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains(&format!("first.key. hmac-sha256. {secret}")),
        "{text}"
    );
    assert!(!text.contains("second.key"), "{text}");
}
