//! PostgreSQL behind a connection pooler in transaction mode.

use super::operation::{ask, wait_for, zone};
use super::servers::{backend, fill, run, started};
use nameward_testkit::Setup;
use nameward_testkit::databases::DatabaseKind;

/// Without caches: every query is a look-up.
const NO_CACHE: &str = "[cache]\nquery_ttl = 0\npacket_ttl = 0\nnegative_ttl = 0\n";

#[test]
fn two_servers_behind_pgbouncer_in_transaction_mode_answer_and_change_zones() {
    let kind = DatabaseKind::Postgres;
    let Some(database) = started(kind) else {
        return;
    };
    let zones: Vec<_> = (1..=20)
        .map(|number| zone(&format!("z{number}.test"), &format!("192.0.2.{number}")))
        .collect();
    run(&database, kind, &fill(&zones));
    let pooler = database.pooler().unwrap();
    let servers = ["live", "resident"].map(|mode| {
        let backend = backend(kind, &pooler.url(), mode);
        let server = Setup::new()
            .without_web()
            .config(&format!("{NO_CACHE}{backend}"))
            .start();
        wait_for(&server, "www.z1.test.", (0, 1));
        server
    });
    // Equal names of prepared statements in two processes would cause wrong answers.
    std::thread::scope(|scope| {
        for server in &servers {
            for _ in 0..4 {
                scope.spawn(move || {
                    for number in (1..=20_u8).cycle().take(200) {
                        let name = format!("www.z{number}.test.");
                        assert_eq!(ask(server, &name), Some((0, number)), "{name}");
                    }
                });
            }
        }
    });
    let change = ["record", "set", "z1.test", "www", "A", "60", "192.0.2.101"];
    let changed = servers[0].command(&change);
    assert!(changed.status.success(), "{changed:?}");
    assert_eq!(ask(&servers[0], "www.z1.test."), Some((0, 101)));
    wait_for(&servers[1], "www.z1.test.", (0, 101));
    let sql = "UPDATE records SET content = '192.0.2.102' WHERE name = 'www.z2.test'";
    run(&database, kind, sql);
    for server in &servers {
        wait_for(server, "www.z2.test.", (0, 102));
        let status = server.command(&["status"]).stdout;
        assert!(!String::from_utf8_lossy(&status).contains("changes_unseen"));
        assert!(server.wait_for_log("pooler in transaction mode"));
    }
}

/// Like CockroachDB and YugabyteDB: no LISTEN, and no transaction numbers for the triggers of the change table.
#[test]
fn without_notifications_and_a_table_of_changes_zones_are_read_again_in_time() {
    let kind = DatabaseKind::Postgres;
    let Some(database) = started(kind) else {
        return;
    };
    run(&database, kind, &fill(&[zone("one.test", "192.0.2.1")]));
    // The triggers are dropped with the functions.
    let drop = "DROP FUNCTION nameward_changed CASCADE; DROP FUNCTION nameward_note_change CASCADE; \
                DROP TABLE nameward_changes";
    run(&database, kind, drop);
    let pooler = database.pooler().unwrap();
    let settings = "[cache]\nquery_ttl = 1\npacket_ttl = 1\nnegative_ttl = 1\nzone_refresh = 1\n";
    for mode in ["live", "resident"] {
        let backend = backend(kind, &pooler.url(), mode);
        let server = Setup::new().without_web();
        let server = server.config(&format!("{settings}{backend}")).start();
        wait_for(&server, "www.one.test.", (0, 1));
        let set = |octet: u8| {
            let sql = format!(
                "UPDATE records SET content = '192.0.2.{octet}' WHERE name = 'www.one.test'"
            );
            run(&database, kind, &sql);
            wait_for(&server, "www.one.test.", (0, octet));
        };
        set(2);
        let status = server.command(&["status"]).stdout;
        let status = String::from_utf8_lossy(&status);
        assert!(status.contains("changes_unseen"), "{mode}: {status}");
        // Its own changes are visible at once.
        let change = ["record", "set", "one.test", "www", "A", "60", "192.0.2.3"];
        let changed = server.command(&change);
        assert!(changed.status.success(), "{mode}: {changed:?}");
        assert_eq!(ask(&server, "www.one.test."), Some((0, 3)), "{mode}");
        set(1);
    }
}
