//! Tells which zones changed in a database, whoever changed them.
//!
//! SQLite: its own counter of commits, asked often because that is cheap, then the table of changes that triggers
//! keep. MySQL: that table, asked twice a second. PostgreSQL: notices. Without triggers SQLite can still tell that
//! something changed; others tell nothing and the caller's TTLs apply.

use super::dialect::Statement;
use super::error::SqlError;
use super::{Address, Driver, SqlBackend, Sqlite};
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::mpsc;

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Something of the zone with this id: it may be new, changed or gone.
    Zone(i64),
    /// Nobody knows what: after a time without contact, or where there are no triggers.
    All,
}

/// Changes that wait for the receiver; when there are more, they become one [`Change::All`].
const QUEUE: usize = 1024;
/// How often SQLite is asked.
const SQLITE_INTERVAL: Duration = Duration::from_millis(250);
/// How often a table of changes is asked over a network.
const TABLE_INTERVAL: Duration = Duration::from_millis(500);
/// How long a database that is down, or has no table of changes, is left alone at the most.
const MAX_BACK_OFF: Duration = Duration::from_secs(15);

impl SqlBackend {
    /// Starts to watch for changes, on the current tokio runtime, until the receiver is dropped. What this backend
    /// keeps about a zone is dropped before its change is told.
    pub fn watch(&self) -> mpsc::Receiver<Change> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let teller = Teller {
            backend: self.clone(),
            sender,
            owes_all: false,
        };
        tokio::spawn(watch(teller));
        receiver
    }
}

/// Hands changes over without ever waiting.
struct Teller {
    backend: SqlBackend,
    sender: mpsc::Sender<Change>,
    /// Changes were lost because the receiver is slow.
    owes_all: bool,
}

impl Teller {
    fn tell(&mut self, change: Change) {
        match change {
            Change::Zone(id) => self.backend.forget(Some(id)),
            Change::All => self.backend.forget(None),
        }
        let change = if self.owes_all { Change::All } else { change };
        self.owes_all = self.sender.try_send(change).is_err();
    }

    fn retry_owed(&mut self) {
        if self.owes_all {
            self.tell(Change::All);
        }
    }
}

async fn watch(mut teller: Teller) {
    let backend = teller.backend.clone();
    match &backend.inner.options.address {
        Address::Sqlite(path) => {
            // The counter of commits is one of each connection, so this needs its own.
            let own = Driver::Sqlite(Sqlite::new(path, 1, backend.inner.options.timeout));
            poll(&mut teller, &own, SQLITE_INTERVAL, Counter::Commits).await;
        }
        _ => {
            poll(
                &mut teller,
                &backend.inner.reads,
                TABLE_INTERVAL,
                Counter::None,
            )
            .await
        }
    }
}

/// Whether something cheaper than the table of changes tells that there is nothing new.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counter {
    Commits,
    None,
}

async fn poll(teller: &mut Teller, driver: &Driver, interval: Duration, counter: Counter) {
    let mut seen = Seen::default();
    let mut wait = interval;
    while !teller.sender.is_closed() {
        teller.retry_owed();
        match seen.look(driver, counter).await {
            Ok(changes) => {
                wait = interval;
                changes.into_iter().for_each(|change| teller.tell(change));
            }
            Err(error) => {
                tracing::debug!(%error, "cannot ask for changes");
                // What happens meanwhile is not seen.
                seen = Seen {
                    missed: true,
                    ..Seen::default()
                };
                wait = (wait * 2).min(MAX_BACK_OFF);
            }
        }
        tokio::time::sleep(wait).await;
    }
}

#[derive(Default)]
struct Seen {
    commits: Option<i64>,
    /// The last version of each zone that changed of late; `None` before the first look.
    versions: Option<HashMap<i64, i64>>,
    missed: bool,
}

impl Seen {
    async fn look(&mut self, driver: &Driver, counter: Counter) -> Result<Vec<Change>, SqlError> {
        let mut has_commits = true;
        if counter == Counter::Commits {
            let mut commits = None;
            driver
                .query(Statement::DataVersion, None, &[], &mut |row| {
                    commits = row.int(0);
                    Ok(())
                })
                .await?;
            has_commits = commits != self.commits;
            self.commits = commits;
        }
        if !has_commits {
            return Ok(Vec::new());
        }
        let is_first = self.versions.is_none();
        let mut versions = HashMap::new();
        let table = driver
            .query(Statement::Changes, None, &[], &mut |row| {
                if let (Some(zone), Some(version)) = (row.int(0), row.int(1)) {
                    versions.insert(zone, version);
                }
                Ok(())
            })
            .await;
        if let Err(error) = table {
            // SQLite without the table can still tell that there was a commit.
            if counter == Counter::None || !matches!(error, SqlError::Refused(_)) {
                return Err(error);
            }
            self.versions = Some(HashMap::new());
            return Ok(if is_first && !self.missed {
                Vec::new()
            } else {
                vec![Change::All]
            });
        }
        let old = self.versions.replace(versions);
        let (Some(old), Some(new)) = (old, &self.versions) else {
            let missed = std::mem::take(&mut self.missed);
            return Ok(if missed {
                vec![Change::All]
            } else {
                Vec::new()
            });
        };
        let changed = new
            .iter()
            .filter(|(zone, version)| old.get(zone) != Some(version));
        Ok(changed.map(|(zone, _)| Change::Zone(*zone)).collect())
    }
}
