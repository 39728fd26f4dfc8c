//! Changes in a SQLite database: its commit counter, then the table of changes, or its log where there is none; and its file.

use super::super::dialect::Statement;
use super::super::error::SqlError;
use super::super::log_index::LogHead;
use super::super::write::OwnCommits;
use super::super::{Concurrency, Driver, SqlOptions, Sqlite};
use super::{Change, ChangeSender, MAX_BACK_OFF};
use nameward_base::worker::{self, panic_guard};
use nameward_state::sqlite_file::{DatabaseFile, FileChange};
use std::collections::HashMap;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const SQLITE_INTERVAL: Duration = Duration::from_millis(250);
/// After how many looks a file that is not there counts as missing.
const MISSING_CHECKS: u32 = 4;
/// How far before the newest counter rows are read again: the triggers of an older `db init` write seconds, not counters.
const WINDOW: i64 = 60;
/// A zone ID that no database uses.
const NO_ZONE: i64 = -1;

/// Watches SQLite on its own thread, because SQLite blocks: a file that hangs delays nothing else.
pub(super) fn watch_sqlite(notices: ChangeSender, path: &Path) {
    // The commit counter is per connection, so this needs its own.
    let options = SqlOptions {
        concurrency: Concurrency {
            connections: 1,
            batches: 1,
        },
        page_cache_kib: 0,
        ..notices.backend.inner.options.clone()
    };
    let own = Sqlite::new(path, &options);
    let file = DatabaseFile::new(path);
    let watching = move || {
        let (mut notices, own, mut file) = (notices, Driver::Sqlite(own), file);
        let mut seen = Seen::default();
        while !panic_guard("watching a SQLite database", || {
            poll_sqlite(&mut notices, &own, &mut file, &mut seen);
        }) {
            seen = Seen::after_gap();
        }
    };
    if let Err(error) = worker::start("watch-sqlite", watching) {
        tracing::error!(database = %options.address, %error, "change detection failed to start");
    }
}

fn poll_sqlite(notices: &mut ChangeSender, own: &Driver, file: &mut DatabaseFile, seen: &mut Seen) {
    let backend = notices.backend.clone();
    let reopen = |driver: &Driver| {
        if let Driver::Sqlite(sqlite) = driver {
            sqlite.reopen();
        }
    };
    let mut wait = SQLITE_INTERVAL;
    let mut missing = 0_u32;
    while !notices.sender.is_closed() {
        notices.resend_lost();
        let change = file.check();
        if change == FileChange::Missing {
            // A file that is being replaced may be away for a moment.
            missing += 1;
            if missing >= MISSING_CHECKS {
                backend.hold_down(Some("the file is missing"));
            }
            notices.send_begun();
            std::thread::sleep(SQLITE_INTERVAL);
            continue;
        }
        missing = 0;
        match change {
            FileChange::None | FileChange::Missing => {}
            // The data cached by connections is obsolete, and their counter may belong to a different file.
            FileChange::Written => reopen(&backend.inner.reads),
            FileChange::Replaced => {
                tracing::info!(database = %backend.inner.options.address, "database file replaced, reopening");
                // Writers first: the last of all connections would copy its log into the file.
                backend.inner.writer.close();
                reopen(own);
                reopen(&backend.inner.reads);
                *seen = Seen::after_gap();
            }
        }
        // SQLite statements never wait for another task.
        let looked = {
            let looking = pin!(seen.poll(own, &backend.inner.own_commits));
            looking.poll(&mut Context::from_waker(Waker::noop()))
        };
        match looked {
            Poll::Ready(Ok(changes)) => {
                wait = SQLITE_INTERVAL;
                backend.hold_down(None);
                backend.note_watch(Ok(()));
                changes.into_iter().for_each(|change| notices.send(change));
            }
            Poll::Ready(Err(error)) => {
                match &error {
                    SqlError::Refused(reason) => {
                        backend.hold_down(Some(&format!("the file has no zones ({reason})")));
                    }
                    _ => backend.hold_down(None),
                }
                backend.note_watch(Err(error));
                *seen = Seen::after_gap();
                wait = (wait * 2).min(MAX_BACK_OFF);
            }
            Poll::Pending => {}
        }
        notices.send_begun();
        std::thread::sleep(wait);
    }
}

/// Rows of the table of changes.
#[derive(Default)]
struct Recent {
    versions: HashMap<i64, i64>,
    newest: i64,
}

impl Recent {
    /// Reads the rows from a counter on, and in any case the newest.
    async fn read(driver: &Driver, since: i64) -> Result<Self, SqlError> {
        let mut recent = Recent::default();
        driver
            .query(Statement::Changes, Some(since), &[], &mut |row| {
                if let (Some(zone), Some(version)) = (row.int(0), row.int(1)) {
                    recent.versions.insert(zone, version);
                    recent.newest = recent.newest.max(row.int(2).unwrap_or(0));
                }
                Ok(())
            })
            .await?;
        Ok(recent)
    }
}

/// The state of the database at the last check.
#[derive(Default)]
struct Seen {
    commits: Option<i64>,
    /// The head of the log index when commits were last seen.
    head: Option<LogHead>,
    /// The last version of each zone that changed recently; `None` before the first poll.
    versions: Option<HashMap<i64, i64>>,
    /// The newest counter in the table of changes; `None` before the first poll.
    newest: Option<i64>,
    missed: bool,
}

impl Seen {
    /// Restarts after a period in which changes were not seen.
    fn after_gap() -> Self {
        Seen {
            missed: true,
            ..Seen::default()
        }
    }

    async fn poll(&mut self, driver: &Driver, own: &OwnCommits) -> Result<Vec<Change>, SqlError> {
        if !self.has_commits(driver).await? {
            return Ok(Vec::new());
        }
        // After the counter, so that no commit is in the counter only.
        let head = own.log_head();
        let seen = std::mem::replace(&mut self.head, head).zip(head);
        let own_zones = seen.and_then(|(seen, now)| own.changed_zones(&seen, &now));
        if self.missed {
            // A file that is being restored may have no zones yet: known zones stay as they are.
            driver
                .query(Statement::Zone, Some(NO_ZONE), &[], &mut |_| Ok(()))
                .await?;
        }
        let is_first = self.versions.is_none();
        let table = match self.newest {
            None => Recent::read(driver, i64::MAX).await,
            Some(_) => Ok(Recent::default()),
        };
        let table = match table {
            Ok(first) => {
                let newest = self.newest.unwrap_or(first.newest);
                Recent::read(driver, newest.saturating_sub(WINDOW)).await
            }
            error => error,
        };
        let versions = match table {
            Ok(recent) => {
                self.newest = Some(recent.newest);
                recent.versions
            }
            // Without the table there was a commit, and the log shows whether it was made here.
            Err(SqlError::Refused(_)) => {
                self.versions = Some(HashMap::new());
                let missed = std::mem::take(&mut self.missed);
                return Ok(match own_zones {
                    _ if is_first && !missed => Vec::new(),
                    Some(zones) if !missed => zones.into_iter().map(Change::Own).collect(),
                    _ => vec![Change::All],
                });
            }
            Err(error) => return Err(error),
        };
        Ok(self.compare(versions))
    }

    /// Checks whether anything was committed to a SQLite database since the last check.
    async fn has_commits(&mut self, driver: &Driver) -> Result<bool, SqlError> {
        let mut commits = None;
        driver
            .query(Statement::DataVersion, None, &[], &mut |row| {
                commits = row.int(0);
                Ok(())
            })
            .await?;
        let before = std::mem::replace(&mut self.commits, commits);
        Ok(before != commits)
    }

    /// Compares the versions of zones with those that were seen before.
    fn compare(&mut self, versions: HashMap<i64, i64>) -> Vec<Change> {
        let old = self.versions.replace(versions);
        let (Some(old), Some(new)) = (old, &self.versions) else {
            return Change::before_first(std::mem::take(&mut self.missed));
        };
        // Versions only grow, unless the database has been replaced by an older one.
        let is_older =
            |(zone, version): (&i64, &i64)| old.get(zone).is_some_and(|old| old > version);
        if new.iter().any(is_older) {
            return vec![Change::All];
        }
        let changed = new
            .iter()
            .filter(|(zone, version)| old.get(zone) != Some(version));
        changed
            .map(|(zone, version)| Change::from_row(*zone, Some(*version)))
            .collect()
    }
}
