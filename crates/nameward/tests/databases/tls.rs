//! Databases over TLS: encrypted and verified, or not at all.

use super::operation::{wait_for, zone};
use super::servers::{backend, fill, run, started};
use nameward_testkit::Setup;
use nameward_testkit::databases::DatabaseKind;
use std::process::Command;

/// Checks a database; returns whether that succeeded, and the errors.
fn db_check(url: &str) -> (bool, String) {
    let mut command = Command::new(nameward_testkit::server::binary());
    let output = command.args(["db", "check", url]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), text)
}

fn check(kind: DatabaseKind, encrypted: &str) {
    let Some(mut database) = started(kind) else {
        return;
    };
    run(&database, kind, &fill(&[zone("one.test", "192.0.2.10")]));
    let url = format!("{}?sslmode=require", database.url());
    let (is_well, text) = db_check(&url);
    assert!(!is_well, "the database has no TLS yet: {text}");

    let authority = database.enable_tls().unwrap();
    let trusted = format!("{url}&sslrootcert={}", authority.display());
    let (is_well, text) = db_check(&trusted);
    assert!(is_well, "{text}");
    let (is_well, text) = db_check(&url);
    assert!(
        !is_well && text.contains("certificate"),
        "a stranger is not trusted: {text}"
    );
    let other_name = trusted.replace("127.0.0.1", "localhost");
    let (is_well, text) = db_check(&other_name);
    assert!(
        !is_well,
        "the name has to be that of the certificate: {text}"
    );
    let missing = format!("{url}&sslrootcert=/nonexistent.pem");
    let (is_well, text) = db_check(&missing);
    assert!(!is_well && text.contains("/nonexistent.pem"), "{text}");

    for mode in ["live", "resident"] {
        let server = Setup::new()
            .without_web()
            .config(&backend(kind, &trusted, mode))
            .start();
        wait_for(&server, "www.one.test.", (0, 10));
        assert_ne!(database.run(encrypted).unwrap().trim(), "0", "{mode}");
        run(
            &database,
            kind,
            "UPDATE records SET content = '192.0.2.11' WHERE name = 'www.one.test'",
        );
        wait_for(&server, "www.one.test.", (0, 11));
        run(
            &database,
            kind,
            "UPDATE records SET content = '192.0.2.10' WHERE name = 'www.one.test'",
        );
    }
}

#[test]
fn postgres_is_looked_up_and_followed_over_tls() {
    check(
        DatabaseKind::Postgres,
        "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND application_name = 'nameward'",
    );
}

#[test]
fn mariadb_is_looked_up_and_followed_over_tls() {
    check(
        DatabaseKind::Mariadb,
        "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'ssl_finished_accepts'",
    );
}

/// A database that requires a client certificate.
fn check_client_certificate(kind: DatabaseKind) {
    let Some(mut database) = started(kind) else {
        return;
    };
    run(&database, kind, &fill(&[zone("one.test", "192.0.2.10")]));
    let authority = database.enable_tls().unwrap();
    let url = database.demand_certificates().unwrap();
    let url = format!("{url}?sslmode=require&sslrootcert={}", authority.display());
    let with_certificate = |is_signed| {
        let (certificate, key) = database.client_certificate(is_signed).unwrap();
        let (certificate, key) = (certificate.display(), key.display());
        format!("{url}&sslcert={certificate}&sslkey={key}")
    };
    let (is_well, text) = db_check(&url);
    assert!(!is_well, "without a certificate: {text}");
    let (is_well, text) = db_check(&with_certificate(false));
    assert!(!is_well, "one that the authority did not sign: {text}");
    let url = with_certificate(true);
    let (is_well, text) = db_check(&url);
    assert!(is_well, "{text}");

    for (mode, octet) in [("live", 20), ("resident", 30)] {
        let server = Setup::new()
            .without_web()
            .config(&backend(kind, &url, mode))
            .start();
        wait_for(&server, "ns1.one.test.", (0, 1));
        let address = format!("192.0.2.{octet}");
        let change = ["record", "set", "one.test", "www", "A", "60", &address];
        let changed = server.command(&change);
        assert!(changed.status.success(), "{changed:?}");
        wait_for(&server, "www.one.test.", (0, octet));
        let next = octet + 1;
        run(
            &database,
            kind,
            &format!("UPDATE records SET content = '192.0.2.{next}' WHERE name = 'www.one.test'"),
        );
        wait_for(&server, "www.one.test.", (0, next));
    }
}

#[test]
fn postgres_that_demands_a_client_certificate_is_read_changed_and_followed() {
    check_client_certificate(DatabaseKind::Postgres);
}

#[test]
fn mariadb_that_demands_a_client_certificate_is_read_changed_and_followed() {
    check_client_certificate(DatabaseKind::Mariadb);
}
