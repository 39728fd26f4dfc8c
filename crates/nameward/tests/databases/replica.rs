//! Reads use a replica, notifications of changes come from the primary.

use super::operation::{SERVFAIL, ask, wait_for, wait_for_code, zone};
use super::servers::{backend, fill, run, started};
use nameward_testkit::Setup;
use nameward_testkit::databases::DatabaseKind;

/// Without caches, so that each answer shows which server was read.
const NO_CACHE: &str =
    "[cache]\nquery_ttl = 0\npacket_ttl = 0\nnegative_ttl = 0\nstale_while_down = 0\n";

#[test]
fn postgres_is_read_from_a_streaming_replica_and_the_primary_sends_notices_of_changes() {
    let kind = DatabaseKind::Postgres;
    let Some(mut primary) = started(kind) else {
        return;
    };
    run(&primary, kind, &fill(&[zone("one.test", "192.0.2.10")]));
    let mut replica = primary.replica().unwrap();
    let config = |mode: &str| {
        let backend = backend(kind, &primary.url(), mode);
        format!("{backend}replica_url = \"{}\"\n", replica.url())
    };
    let start = |text: String| Setup::new().without_web().config(&text).start();
    let uncached = start(NO_CACHE.to_string() + &config("live"));
    let servers = [start(config("live")), start(config("resident"))];
    for server in servers.iter().chain([&uncached]) {
        wait_for(server, "www.one.test.", (0, 10));
    }
    run(
        &primary,
        kind,
        "UPDATE records SET content = '192.0.2.11' WHERE name = 'www.one.test'",
    );
    for server in servers.iter().chain([&uncached]) {
        wait_for(server, "www.one.test.", (0, 11));
    }
    // A lagging replica shows the change after its notification.
    replica.run("SELECT pg_wal_replay_pause()").unwrap();
    run(
        &primary,
        kind,
        "UPDATE records SET content = '192.0.2.12' WHERE name = 'www.one.test'",
    );
    assert_eq!(ask(&uncached, "www.one.test."), Some((0, 11)));
    replica.run("SELECT pg_wal_replay_resume()").unwrap();
    for server in &servers {
        wait_for(server, "www.one.test.", (0, 12));
    }
    primary.kill();
    assert_eq!(
        ask(&uncached, "www.one.test."),
        Some((0, 12)),
        "read from the replica"
    );
    primary.restart().unwrap();
    replica.kill();
    wait_for_code(&uncached, "www.one.test.", SERVFAIL);
    assert_eq!(
        ask(&servers[1], "www.one.test."),
        Some((0, 12)),
        "in memory"
    );
    replica.restart().unwrap();
    for server in servers.iter().chain([&uncached]) {
        wait_for(server, "www.one.test.", (0, 12));
    }
}

#[test]
fn mariadb_is_read_from_the_replica_that_the_configuration_names() {
    let kind = DatabaseKind::Mariadb;
    let Some(database) = started(kind) else {
        return;
    };
    // A second database acts as the replica; its different contents show which server is read.
    run(&database, kind, &fill(&[zone("one.test", "192.0.2.10")]));
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
    let set = |octet: u8| {
        let sql = format!(
            "UPDATE replica.records SET content = '192.0.2.{octet}' WHERE name = 'www.one.test';
             UPDATE replica.nameward_changes SET version = version + 1, changed_at = UNIX_TIMESTAMP()"
        );
        database.run(&sql).unwrap();
    };
    set(20);
    let url = database.url().replace("/pdns", "/replica");
    for mode in ["live", "resident"] {
        let backend = backend(kind, &database.url(), mode);
        let server = Setup::new()
            .without_web()
            .config(&format!("{backend}replica_url = \"{url}\"\n"))
            .start();
        wait_for(&server, "www.one.test.", (0, 20));
        set(21);
        wait_for(&server, "www.one.test.", (0, 21));
        set(20);
    }
}

#[test]
fn a_standby_as_the_only_address_shows_changes() {
    let kind = DatabaseKind::Postgres;
    let Some(primary) = started(kind) else {
        return;
    };
    let zones = [
        zone("one.test", "192.0.2.10"),
        zone("two.test", "192.0.2.10"),
    ];
    run(&primary, kind, &fill(&zones));
    let replica = primary.replica().unwrap();
    let servers = ["live", "resident"].map(|mode| {
        let backend = backend(kind, &replica.url(), mode);
        Setup::new().without_web().config(&backend).start()
    });
    for server in &servers {
        wait_for(server, "www.one.test.", (0, 10));
    }
    let set = |octet: u8| {
        let sql =
            format!("UPDATE records SET content = '192.0.2.{octet}' WHERE name = 'www.one.test'");
        run(&primary, kind, &sql);
    };
    set(11);
    for server in &servers {
        wait_for(server, "www.one.test.", (0, 11));
    }
    // A long transaction ends after younger ones were seen.
    let late = "BEGIN; UPDATE records SET content = '192.0.2.99' WHERE name = 'www.two.test'; \
                SELECT pg_sleep(3); COMMIT";
    std::thread::scope(|scope| {
        scope.spawn(|| primary.run(late).unwrap());
        set(12);
        for server in &servers {
            wait_for(server, "www.one.test.", (0, 12));
        }
    });
    for server in &servers {
        wait_for(server, "www.two.test.", (0, 99));
        let status = server.command(&["status"]).stdout;
        assert!(!String::from_utf8_lossy(&status).contains("changes_unseen"));
    }
}

#[test]
fn changes_of_a_server_whose_clock_is_behind_are_seen() {
    let kind = DatabaseKind::Mariadb;
    let Some(database) = started(kind) else {
        return;
    };
    let zones = [
        zone("one.test", "192.0.2.10"),
        zone("two.test", "192.0.2.10"),
    ];
    run(&database, kind, &fill(&zones));
    let servers = ["live", "resident"].map(|mode| {
        let backend = backend(kind, &database.url(), mode);
        Setup::new().without_web().config(&backend).start()
    });
    for server in &servers {
        wait_for(server, "www.one.test.", (0, 10));
        wait_for(server, "www.two.test.", (0, 10));
    }
    for (step, behind) in [(11_u8, 0), (12, 300), (13, 100_000), (14, -300), (15, 0)] {
        for (name, octet) in [("one", step), ("two", step + 100)] {
            // The triggers write this time.
            let sql = format!(
                "SET timestamp = UNIX_TIMESTAMP() - {behind}; \
                 UPDATE records SET content = '192.0.2.{octet}' WHERE name = 'www.{name}.test'"
            );
            run(&database, kind, &sql);
        }
        for server in &servers {
            wait_for(server, "www.one.test.", (0, step));
            wait_for(server, "www.two.test.", (0, step + 100));
        }
    }
}
