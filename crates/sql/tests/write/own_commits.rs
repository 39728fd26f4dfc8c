//! Own commits to a SQLite database without a table of changes: they are told apart from those of others, of which none is missed.

use super::{change, rrset};
use crate::common::{SqliteFixture, name, row};
use nameward_sql::{Change, DatabaseAddress, SqlBackend};
use nameward_testkit::wait_until;
use nameward_zone::change::{
    ChangeRefused, ConditionalChange, Edit, RecordsAt, SignedBy, ZoneChange,
};
use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// A database as PowerDNS makes it, with a write-ahead log and without triggers.
fn plain_database() -> SqliteFixture {
    let soa = "ns1.example.org host.example.org 1 2 3 4 5";
    let rows = [
        row("example.org", "SOA", soa),
        row("foreign.example.org", "A", "192.0.2.1"),
    ];
    let fixture = SqliteFixture::new("example.org", &rows);
    let connection = fixture.connection();
    let sql = "SELECT name FROM sqlite_master WHERE type = 'trigger'";
    let mut statement = connection.prepare(sql).unwrap();
    let triggers = statement.query_map([], |row| row.get(0)).unwrap();
    let triggers: Vec<String> = triggers.map(Result::unwrap).collect();
    for trigger in triggers {
        let drop = format!("DROP TRIGGER {trigger}");
        connection.execute_batch(&drop).unwrap();
    }
    let sql = "PRAGMA journal_mode = WAL; DROP TABLE nameward_changes";
    connection.execute_batch(sql).unwrap();
    fixture
}

/// Sets an address, whatever the zone contains.
struct SetAddress(ZoneChange);

impl ConditionalChange for SetAddress {
    fn names(&self) -> Vec<nameward_wire::NameBuf> {
        self.0.edits.iter().map(|edit| *edit.name()).collect()
    }

    fn decide(&self, records: &dyn RecordsAt) -> Result<ZoneChange, ChangeRefused> {
        assert_eq!(records.signed_by(), SignedBy::NoSigner);
        Ok(self.0.clone())
    }
}

async fn commit(backend: &SqlBackend, client: usize, number: u32) {
    let [_, b, c, d] = number.to_be_bytes();
    let owner = format!("own{client}.example.org");
    let address = format!("10.{b}.{c}.{d}");
    let edits = vec![Edit::Replace(rrset(&owner, "A", &[&address]))];
    let change = Arc::new(SetAddress(change(edits)));
    let committed = backend.commit_queued(name("example.org"), change).await;
    let committed = committed.unwrap();
    assert!(committed.is_changed);
    assert!(committed.mark.is_some(), "its notice is recognised");
    backend.note_followed(committed.zone);
}

/// Waits for the first change that the watch reports, which shows that it has begun.
async fn watch_begun(backend: &SqlBackend) -> tokio::sync::mpsc::Receiver<Change> {
    let (changes, has_begun) = backend.watch();
    has_begun.await.unwrap();
    changes
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn commits_of_this_server_are_reported_as_such_without_a_table_of_changes() {
    let fixture = plain_database();
    let backend = fixture.backend();
    runtime().block_on(async {
        let mut changes = watch_begun(&backend).await;
        // More than a log holds before SQLite starts it again.
        for number in 0..600 {
            commit(&backend, 0, number).await;
        }
        let mut reported = HashSet::new();
        let time_limit = Duration::from_secs(2);
        while let Ok(Some(change)) = tokio::time::timeout(time_limit, changes.recv()).await {
            reported.insert(format!("{change:?}"));
        }
        assert_eq!(reported, HashSet::from(["Own(1)".to_owned()]));
    });
}

#[test]
fn a_commit_of_others_between_own_ones_is_always_seen() {
    let fixture = plain_database();
    let backend = fixture.backend();
    let DatabaseAddress::Sqlite(path) = fixture.address.clone() else {
        unreachable!()
    };
    let (is_over, read) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU32::new(0)),
    );
    let runtime = runtime();
    let mut changes = runtime.block_on(watch_begun(&backend));
    let writers: Vec<_> = (0..4)
        .map(|client| {
            let (backend, is_over) = (backend.clone(), Arc::clone(&is_over));
            runtime.spawn(async move {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return number;
                    }
                    commit(&backend, client, number).await;
                }
                0
            })
        })
        .collect();
    // A follower reads what others write when a change of others is reported, and only then.
    let follower = {
        let (path, read) = (path.clone(), Arc::clone(&read));
        runtime.spawn_blocking(move || {
            while let Some(change) = changes.blocking_recv() {
                if !matches!(change, Change::Own(_)) {
                    read.store(foreign_ttl(&path), Ordering::Relaxed);
                }
            }
        })
    };
    for ttl in 1..=15 {
        let sql = format!("UPDATE records SET ttl = {ttl} WHERE name = 'foreign.example.org'");
        let written = Command::new("sqlite3")
            .args(["-cmd", ".timeout 20000"])
            .arg(&path)
            .arg(sql)
            .output()
            .expect("sqlite3 is installed");
        assert!(written.status.success(), "{written:?}");
        wait_until("the change of others is read", || {
            read.load(Ordering::Relaxed) == ttl
        });
    }
    is_over.store(true, Ordering::Relaxed);
    let own: u32 = writers
        .into_iter()
        .map(|writer| runtime.block_on(writer).unwrap())
        .sum();
    assert!(own > 15, "{own} own commits beside them");
    drop(backend);
    drop(follower);
    runtime.shutdown_background();
}

fn foreign_ttl(path: &Path) -> u32 {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(20)).unwrap();
    let sql = "SELECT ttl FROM records WHERE name = 'foreign.example.org'";
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}
