//! Addresses with several servers: one is silent, becomes read-only, vanishes or is promoted.

use crate::common::{block_on, name, until_noticed};
use nameward_sql::write::{AttributeChange, MetadataEdit, NewZone, WriteError};
use nameward_sql::{Change, DatabaseAddress, SqlBackend, SqlError, SqlOptions, db};
use nameward_testkit::databases::{Database, DatabaseKind};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

/// A host that takes connections and never says a word.
struct SilentHost {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl SilentHost {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, connections) = (listener.local_addr().unwrap(), Arc::default());
        let counted = Arc::clone(&connections);
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for connection in listener.incoming() {
                AtomicUsize::fetch_add(&counted, 1, Ordering::SeqCst);
                held.push(connection);
            }
        });
        SilentHost {
            address,
            connections,
        }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn started(kind: DatabaseKind) -> Option<Database> {
    let database = Database::start(kind)?.unwrap();
    let address = DatabaseAddress::parse(&database.url()).unwrap();
    assert_eq!(block_on(db::init(&address)).unwrap(), Vec::<String>::new());
    Some(database)
}

/// The address of a database with another host before its own, or behind it.
fn with_host(database: &Database, before: Option<SocketAddr>, after: Option<SocketAddr>) -> String {
    let own = database.address().to_string();
    let list = [before, Some(database.address()), after];
    let list: Vec<String> = list.iter().flatten().map(ToString::to_string).collect();
    database.url().replace(&own, &list.join(","))
}

fn backend(url: &str) -> SqlBackend {
    let mut options = SqlOptions::for_tests(DatabaseAddress::parse(url).unwrap());
    options.timeout = Duration::from_secs(10);
    SqlBackend::new(options).unwrap()
}

fn zone(apex: &str) -> NewZone {
    NewZone {
        attributes: Vec::new(),
        name: name(apex),
        kind: nameward_zone::ZoneKind::Native,
        primaries: None,
        account: String::new(),
        key: None,
        rrsets: Vec::new(),
        now: SystemTime::UNIX_EPOCH,
    }
}

fn count(database: &Database) -> String {
    let rows = database.run("SELECT COUNT(*) FROM domains").unwrap();
    rows.trim().to_string()
}

/// Reads, changes and notices get past a silent host, which is asked once.
fn check_silent(kind: DatabaseKind) {
    let Some(database) = started(kind) else {
        return;
    };
    let silent = SilentHost::start();
    let url = with_host(&database, Some(silent.address), None);
    block_on(async {
        let backend = backend(&url);
        assert_eq!(backend.zones().await.unwrap().len(), 0);
        assert_eq!(silent.connections(), 1);
        backend.create_zone(&zone("one.test")).await.unwrap();
        assert_eq!(backend.zones().await.unwrap().len(), 1);
        assert_eq!(silent.connections(), 1, "the good host is asked first");
        // From now on each host is probed, and the silent one is reported.
        let mut changes = backend.watch().0;
        until_noticed(&mut changes, Change::Zone(9, None), || {
            let sql = "INSERT INTO domains (id, name, type) VALUES (9, 'nine.test', 'NATIVE')";
            let again = "DELETE FROM domains WHERE id = 9";
            database.run(&format!("{again}; {sql};")).unwrap();
        })
        .await;
        assert_eq!(backend.zones().await.unwrap().len(), 2);
        let failed = || {
            let failed = backend.failed_servers().into_iter();
            failed.map(|one| one.server).collect::<Vec<_>>()
        };
        wait("the silent host is reported", || {
            failed() == [silent.address.to_string()]
        })
        .await;
    });
}

#[test]
fn postgres_behind_a_silent_host_is_reached_and_then_tried_first() {
    check_silent(DatabaseKind::Postgres);
}

#[test]
fn mariadb_behind_a_silent_host_is_reached_and_then_tried_first() {
    check_silent(DatabaseKind::Mariadb);
}

/// A database that does not answer any more, without closing connections, is noticed though nothing is asked of it.
#[test]
fn a_notice_connection_whose_peer_falls_silent_is_a_failure_and_is_replaced() {
    let Some(database) = started(DatabaseKind::Postgres) else {
        return;
    };
    block_on(async {
        let mut options = SqlOptions::for_tests(DatabaseAddress::parse(&database.url()).unwrap());
        options.timeout = Duration::from_millis(500);
        let backend = SqlBackend::new(options).unwrap();
        let (mut changes, begun) = backend.watch();
        begun.await.unwrap();
        assert!(backend.watch_health().is_up, "{:?}", backend.watch_health());
        database.pause();
        wait("the silence is noticed", || !backend.watch_health().is_up).await;
        assert!(backend.watch_health().reason.contains("500 ms"));
        database.resume();
        wait("the connection is replaced", || {
            backend.watch_health().is_up
        })
        .await;
        let sql = "INSERT INTO domains (id, name, type) VALUES (7, 'seven.test', 'NATIVE')";
        database.run(sql).unwrap();
        let change = changes.recv().await;
        assert_eq!(change, Some(Change::Zone(7, None)), "nothing else changed");
    });
}

/// Without a table of changes, what happened while the connection was broken is unknown.
#[test]
fn everything_counts_as_changed_after_a_gap_in_notifications() {
    let Some(mut database) = started(DatabaseKind::Postgres) else {
        return;
    };
    database.run("DROP TABLE nameward_changes").unwrap();
    block_on(async {
        let backend = backend(&database.url());
        let (mut changes, begun) = backend.watch();
        begun.await.unwrap();
        database.kill();
        wait("the loss is noticed", || !backend.watch_health().is_up).await;
        database.restart().unwrap();
        assert_eq!(changes.recv().await, Some(Change::All), "what was missed");
    });
}

async fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: never");
}

#[test]
fn changes_and_notices_move_to_a_standby_that_is_promoted() {
    let Some(mut primary) = started(DatabaseKind::Postgres) else {
        return;
    };
    let standby = primary.replica().unwrap();
    // The standby comes first in the address.
    let url = with_host(&primary, Some(standby.address()), None);
    block_on(async {
        let backend = backend(&url);
        let mut changes = backend.watch().0;
        for number in 0..3 {
            let zone = zone(&format!("z{number}.test"));
            backend.create_zone(&zone).await.unwrap();
            // Reads go to the server that takes changes: they see each at once.
            let listed = backend.zones().await.unwrap();
            assert_eq!(listed.len(), number + 1);
        }
        wait("the standby has all", || count(&standby) == "3").await;
        primary.kill();
        let refused = backend.create_zone(&zone("early.test")).await.unwrap_err();
        assert!(
            matches!(refused, WriteError::Sql(SqlError::ReadOnly(_))),
            "{refused}"
        );
        assert_eq!(backend.zones().await.unwrap().len(), 3, "still read");
        standby.run("SELECT pg_promote()").unwrap();
        backend.create_zone(&zone("late.test")).await.unwrap();
        assert_eq!(count(&standby), "4");
        until_noticed(&mut changes, Change::Zone(99, None), || {
            let sql = "INSERT INTO domains (id, name, type) VALUES (99, 'n.test', 'NATIVE')";
            let again = "DELETE FROM domains WHERE id = 99";
            standby.run(&format!("{again}; {sql};")).unwrap();
        })
        .await;
        assert!(backend.watch_health().is_up);
    });
}

/// Sessions that are open when a server becomes read-only are given up.
#[test]
fn a_switch_over_of_mariadb_fails_no_change() {
    let kind = DatabaseKind::Mariadb;
    let (Some(first), Some(second)) = (started(kind), started(kind)) else {
        return;
    };
    for database in [&first, &second] {
        // The account of the tests may write to a read-only server.
        let account = "CREATE USER ns@'%'; GRANT ALL ON pdns.* TO ns@'%';";
        database.run(account).unwrap();
    }
    let plain = |url: String| url.replace("root@", "ns@");
    block_on(async {
        let both = backend(&plain(with_host(&first, None, Some(second.address()))));
        let one = backend(&plain(first.url()));
        both.create_zone(&zone("before.test")).await.unwrap();
        one.create_zone(&zone("one.test")).await.unwrap();
        assert_eq!(
            (count(&first).as_str(), count(&second).as_str()),
            ("2", "0")
        );
        first.run("SET GLOBAL read_only = ON").unwrap();
        for number in 0..10 {
            let zone = zone(&format!("z{number}.test"));
            both.create_zone(&zone).await.unwrap();
        }
        assert_eq!(
            (count(&first).as_str(), count(&second).as_str()),
            ("2", "10")
        );
        // Reads follow.
        assert_eq!(both.zones().await.unwrap().len(), 10);
        let refused = one.create_zone(&zone("two.test")).await.unwrap_err();
        assert!(
            matches!(refused, WriteError::Sql(SqlError::ReadOnly(_))),
            "{refused}"
        );
        first.run("SET GLOBAL read_only = OFF").unwrap();
        one.create_zone(&zone("two.test")).await.unwrap();
    });
}

/// The connection ends while the database works on COMMIT: whether it was done is unknown.
#[test]
fn a_commit_whose_outcome_is_unknown_is_reported_as_such_and_not_repeated() {
    let Some(database) = started(DatabaseKind::Postgres) else {
        return;
    };
    database
        .run(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); RETURN NULL; END $$; \
             CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON domainmetadata DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION slow();",
        )
        .unwrap();
    let backend = backend(&database.url());
    let zone = block_on(backend.create_zone(&zone("one.test")))
        .unwrap()
        .zone;
    let item = AttributeChange::Metadata("ALSO-NOTIFY".into(), MetadataEdit::Add, vec!["x".into()]);
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| block_on(backend.change_attributes(zone, &[item])));
        let commits = "FROM pg_stat_activity WHERE query = 'COMMIT' AND state = 'active'";
        nameward_testkit::wait_until("the commit is under way", || {
            let rows = database.run(&format!("SELECT COUNT(*) {commits}")).unwrap();
            rows.trim() == "1"
        });
        let end = format!("SELECT pg_terminate_backend(pid) {commits}");
        database.run(&end).unwrap();
        let error = changing.join().unwrap().unwrap_err();
        assert!(matches!(error, WriteError::Unknown(_)), "{error}");
        assert!(
            error.to_string().contains("may or may not have been made"),
            "{error}"
        );
        let commits = database.run(&format!("SELECT COUNT(*) {commits}")).unwrap();
        assert_eq!(commits.trim(), "0", "it is not repeated");
    });
}
