//! Leases: one server has each, another takes over what has ended, and a database without the table has none.

use crate::common::block_on;
use nameward_sql::write::{LeaseHolder, LeaseRenewal, LeaseTask, SeenLeases};
use nameward_sql::{DatabaseAddress, SqlBackend, SqlOptions, db};
use nameward_testkit::databases::{Database, DatabaseKind};
use std::time::Instant;

const TASKS: [LeaseTask; 2] = [LeaseTask::Notify, LeaseTask::Keys];

/// A server on a database, and the leases that it has seen.
struct Server(SqlBackend, &'static str, SeenLeases);

impl Server {
    async fn held(&mut self) -> Vec<LeaseTask> {
        let Server(backend, name, seen) = self;
        let latest = Instant::now() + backend.lease_time();
        match backend.renew_leases(name, &TASKS, seen).await.unwrap() {
            LeaseRenewal::Held(held) => {
                assert!(held.iter().all(|(_, until)| *until < latest), "{held:?}");
                held.into_iter().map(|(task, _)| task).collect()
            }
            LeaseRenewal::Unavailable(reason) => panic!("{reason}"),
        }
    }

    async fn holder(&self) -> LeaseHolder {
        self.0.lease_holder(LeaseTask::Keys).await.unwrap()
    }
}

/// `run` runs SQL beside the servers.
fn check(address: DatabaseAddress, run: &dyn Fn(&str)) {
    block_on(async {
        let backend = || SqlBackend::new(SqlOptions::for_tests(address.clone())).unwrap();
        let server = |name| Server(backend(), name, SeenLeases::default());
        let (mut one, mut two) = (server("one"), server("two"));
        let missing = one.0.renew_leases("one", &TASKS, &mut one.2).await.unwrap();
        assert!(matches!(missing, LeaseRenewal::Unavailable(_)));
        assert_eq!(one.holder().await, LeaseHolder::NoTable);
        assert_eq!(db::init(&address).await.unwrap(), Vec::<String>::new());

        assert_eq!(one.held().await, TASKS);
        assert_eq!(two.held().await, []);
        assert_eq!(one.held().await, TASKS, "renewed");
        assert_eq!(two.holder().await, LeaseHolder::Server("one".into()));

        // Clocks that are far apart end nothing: neither that of a promoted standby, nor that of another node of a cluster.
        for clock in [-300, 600, -300] {
            run(&format!(
                "UPDATE nameward_leases SET valid_until = valid_until + {clock}"
            ));
            assert_eq!(two.held().await, []);
            one.2 = SeenLeases::default();
            assert_eq!(one.held().await, TASKS, "renewed after a restart");
        }

        one.0.release_leases("one").await.unwrap();
        assert_eq!(two.holder().await, LeaseHolder::Free);
        assert_eq!(two.held().await, TASKS);
        assert_eq!(one.held().await, []);

        // Many at once: one of them gets it.
        run("DELETE FROM nameward_leases");
        let servers: Vec<_> = (0..8).map(|number| (number, backend())).collect();
        let mut tries = tokio::task::JoinSet::new();
        for (number, backend) in servers {
            tries.spawn(async move {
                let name = format!("server{number}");
                // A conflict is tried again by the next renewal.
                let seen = &mut SeenLeases::default();
                match backend.renew_leases(&name, &TASKS, seen).await {
                    Ok(LeaseRenewal::Held(held)) => held.len(),
                    _ => 0,
                }
            });
        }
        assert_eq!(tries.join_all().await.iter().sum::<usize>(), TASKS.len());
    });
}

#[test]
fn sqlite_has_leases() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    let time_limit = std::time::Duration::from_secs(30);
    connection.busy_timeout(time_limit).unwrap();
    // The file exists from the first statement on.
    connection.execute_batch("VACUUM").unwrap();
    check(DatabaseAddress::Sqlite(path), &|sql| {
        connection.execute_batch(sql).unwrap();
    });
}

fn check_server(kind: DatabaseKind) {
    let Some(database) = Database::start(kind) else {
        return;
    };
    let database = database.unwrap();
    let address = DatabaseAddress::parse(&database.url()).unwrap();
    check(address, &|sql| drop(database.run(sql).unwrap()));
}

#[test]
fn postgres_has_leases() {
    check_server(DatabaseKind::Postgres);
}

#[test]
fn mariadb_has_leases() {
    check_server(DatabaseKind::Mariadb);
}
