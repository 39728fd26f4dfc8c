//! Several addresses of one database: which server is read, which is written, and what happens when one is promoted
//! or lags behind.

use super::operation::{SERVFAIL, ask, counter, wait_for, wait_for_code, zone};
use super::servers::{backend, fill, run, started};
use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_testkit::{Setup, TestServer, wait_until};
use std::time::Instant;

const KIND: DatabaseKind = DatabaseKind::Postgres;

/// A backend with several addresses.
fn several(urls: &[String], mode: &str, more: &str) -> String {
    let one = backend(KIND, "URL", mode);
    format!("{}{more}\n", one.replace("\"URL\"", &format!("{urls:?}")))
}

fn start(config: &str) -> TestServer {
    let server = Setup::new().without_web().config(config).start();
    wait_for(&server, "www.one.test.", (0, 10));
    server
}

fn set(server: &TestServer, octet: u8) -> bool {
    let address = format!("192.0.2.{octet}");
    let change = ["record", "set", "one.test", "www", "A", "60", &address];
    server.command(&change).status.success()
}

/// Counts the connections of Nameward to a database.
fn connections(database: &Database) -> usize {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'nameward'";
    database.run(sql).unwrap().trim().parse().unwrap()
}

#[test]
fn a_promoted_standby_takes_changes_and_both_roles_are_found_out() {
    let Some(mut primary) = started(KIND) else {
        return;
    };
    run(&primary, KIND, &fill(&[zone("one.test", "192.0.2.10")]));
    let standby = primary.replica().unwrap();
    // The standby is listed first.
    let urls = [standby.url(), primary.url()];
    let servers = [
        start(&several(&urls, "live", "")),
        start(&several(&urls, "resident", "")),
        start(&several(&urls, "live", "reads = \"nearest\"")),
    ];
    assert!(set(&servers[0], 11) && set(&servers[2], 12));
    for server in &servers {
        wait_for(server, "www.one.test.", (0, 12));
    }
    primary.kill();
    standby.run("SELECT pg_promote(true, 60)").unwrap();
    let promoted = Instant::now();
    for (server, octet) in servers.iter().zip(13..) {
        wait_until("a change after the promotion", || set(server, octet));
        for server in &servers {
            wait_for(server, "www.one.test.", (0, octet));
        }
    }
    eprintln!(
        "three changes were made {:?} after the promotion",
        promoted.elapsed()
    );
}

#[test]
fn the_nearest_current_server_is_read_and_a_lagging_one_is_not() {
    let Some(primary) = started(KIND) else {
        return;
    };
    run(&primary, KIND, &fill(&[zone("one.test", "192.0.2.10")]));
    let standby = primary.replica().unwrap();
    let urls = [standby.url(), primary.url()];
    let uncached = "[cache]\nquery_ttl = 0\npacket_ttl = 0\nstale_while_down = 0\n";
    let nearest = several(&urls, "live", "reads = \"nearest\"\nlag_max = 2");
    let server = start(&format!("{uncached}{nearest}"));
    assert!(
        connections(&standby) > 1,
        "the first in the list is read, and not only probed"
    );
    // A single replica has no alternative: the fault reports how far it is behind, and the probe follows its
    // configuration.
    let lone = format!(
        "{uncached}{}replica_url = \"{}\"\nlag_max = 2\n",
        backend(KIND, &primary.url(), "live"),
        standby.url()
    );
    let lone = start(&lone);
    standby.run("SELECT pg_wal_replay_pause()").unwrap();
    run(
        &primary,
        KIND,
        "UPDATE records SET content = '192.0.2.11' WHERE name = 'www.one.test'",
    );
    assert_eq!(ask(&lone, "www.one.test."), Some((0, 10)));
    wait_for(&server, "www.one.test.", (0, 11));
    let status = || String::from_utf8_lossy(&lone.command(&["status"]).stdout).into_owned();
    wait_until("the fault", || {
        status().contains("behind the one that accepts changes")
    });
    assert!(counter(&lone, "database-lag-seconds") > 2);
    assert_eq!(counter(&lone, "database-lag-changes"), 1);
    standby.run("SELECT pg_wal_replay_resume()").unwrap();
    wait_for(&lone, "www.one.test.", (0, 11));
    wait_until("the end of the fault", || {
        !status().contains("behind the one")
    });
    wait_until("no lag", || counter(&lone, "database-lag-seconds") == 0);
}

#[test]
fn the_lag_of_a_mariadb_replica_is_measured_by_its_counters() {
    let kind = DatabaseKind::Mariadb;
    let Some(database) = started(kind) else {
        return;
    };
    run(&database, kind, &fill(&[zone("one.test", "192.0.2.10")]));
    // A second database acts as the replica, without replication.
    database.run("CREATE DATABASE replica").unwrap();
    for table in [
        "domains",
        "records",
        "cryptokeys",
        "domainmetadata",
        "nameward_changes",
    ] {
        let sql = format!(
            "CREATE TABLE replica.{table} LIKE pdns.{table}; INSERT INTO replica.{table} SELECT * FROM pdns.{table}"
        );
        database.run(&sql).unwrap();
    }
    let url = database.url().replace("/pdns", "/replica");
    let config = format!(
        "{}replica_url = \"{url}\"\nlag_max = 1\n",
        backend(kind, &database.url(), "resident")
    );
    let server = start(&config);
    let sql = "UPDATE records SET content = '192.0.2.11' WHERE name = 'www.one.test'";
    run(&database, kind, sql);
    wait_until("a lag of some seconds", || {
        counter(&server, "database-lag-seconds") > 1
    });
    assert!(counter(&server, "database-lag-changes") > 0);
    let status = server.command(&["status"]).stdout;
    assert!(String::from_utf8_lossy(&status).contains("behind the one that accepts changes"));
}

#[test]
fn a_database_that_was_never_read_is_servfail_for_everything_and_not_refused() {
    let Some(mut database) = started(KIND) else {
        return;
    };
    run(&database, KIND, &fill(&[zone("one.test", "192.0.2.10")]));
    database.kill();
    let server = Setup::new()
        .without_web()
        .zone("file.test", &zone("file.test", "192.0.2.23").file_text())
        .config(&backend(KIND, &database.url(), "live"))
        .start();
    assert_eq!(ask(&server, "www.file.test."), Some((0, 23)));
    for name in ["www.one.test.", "www.other.test."] {
        assert_eq!(
            ask(&server, name).map(|answer| answer.0),
            Some(SERVFAIL),
            "{name}"
        );
    }
    let list = server.command(&["zone", "list"]).stdout;
    let list = String::from_utf8_lossy(&list);
    assert!(
        list.contains("file.test") && !list.lines().any(|line| line.starts_with(". ")),
        "{list}"
    );
    database.restart().unwrap();
    wait_for(&server, "www.one.test.", (0, 10));
    wait_for_code(&server, "www.other.test.", super::operation::REFUSED);
}

#[test]
fn addresses_that_are_not_of_one_database_are_rejected() {
    let urls = [
        "postgres://a@one/pdns".to_owned(),
        "postgres://b@two/pdns".to_owned(),
    ];
    let failure = Setup::new().config(&several(&urls, "live", "")).try_start();
    let text = failure.err().unwrap().to_string();
    assert!(text.contains("may differ only in host and port"), "{text}");
}
