//! Leases: one server has each, another takes over what has ended, and a database without the table has none.

use crate::common::block_on;
use nameward_store::sql::write::{LEASE_TIME, LeaseHolder, LeaseRenewal, LeaseTask};
use nameward_store::sql::{DatabaseAddress, SqlBackend, SqlOptions, db};
use nameward_testkit::databases::{Database, DatabaseKind};

const TASKS: [LeaseTask; 2] = [LeaseTask::Notify, LeaseTask::Keys];

async fn held(backend: &SqlBackend, server: &str) -> Vec<LeaseTask> {
    match backend.renew_leases(server, &TASKS).await.unwrap() {
        LeaseRenewal::Held(held) => {
            assert!(held.iter().all(|(_, left)| *left <= LEASE_TIME), "{held:?}");
            held.into_iter().map(|(task, _)| task).collect()
        }
        LeaseRenewal::Unavailable(reason) => panic!("{reason}"),
    }
}

/// `run` runs SQL beside the servers.
fn check(address: DatabaseAddress, run: &dyn Fn(&str)) {
    block_on(async {
        let backend = || SqlBackend::new(SqlOptions::for_tests(address.clone())).unwrap();
        let (one, two) = (backend(), backend());
        let missing = one.renew_leases("one", &TASKS).await.unwrap();
        assert!(matches!(missing, LeaseRenewal::Unavailable(_)));
        let holder = one.lease_holder(LeaseTask::Keys).await.unwrap();
        assert_eq!(holder, LeaseHolder::NoTable);
        assert_eq!(db::init(&address).await.unwrap(), Vec::<String>::new());

        assert_eq!(held(&one, "one").await, TASKS);
        assert_eq!(held(&two, "two").await, []);
        assert_eq!(held(&one, "one").await, TASKS, "renewed");
        let holder = two.lease_holder(LeaseTask::Keys).await.unwrap();
        assert_eq!(holder, LeaseHolder::Server("one".into()));

        run("UPDATE nameward_leases SET valid_until = valid_until - 1000 WHERE task = 'keys'");
        assert_eq!(
            two.lease_holder(LeaseTask::Keys).await.unwrap(),
            LeaseHolder::Free
        );
        assert_eq!(held(&two, "two").await, [LeaseTask::Keys]);
        assert_eq!(held(&one, "one").await, [LeaseTask::Notify]);

        one.release_leases("one").await.unwrap();
        assert_eq!(held(&two, "two").await, TASKS);

        // Many at once: one of them gets it.
        run("DELETE FROM nameward_leases");
        let servers: Vec<_> = (0..8).map(|number| (number, backend())).collect();
        let mut tries = tokio::task::JoinSet::new();
        for (number, backend) in servers {
            tries.spawn(async move {
                let name = format!("server{number}");
                // A conflict is tried again by the next renewal.
                match backend.renew_leases(&name, &TASKS).await {
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
    let patience = std::time::Duration::from_secs(30);
    connection.busy_timeout(patience).unwrap();
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
