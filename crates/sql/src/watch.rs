//! Change detection in a database: which zones changed, regardless of who changed them.
//!
//! SQLite: its commit counter, polled often because that is cheap, then the table of changes maintained by triggers;
//! and its file, because it may be replaced. MySQL and PostgreSQL: that table, polled twice a second where reads go, without
//! relying on any clock ([`versions`], [`transactions`]); PostgreSQL also sends notifications from the primary, which
//! save the wait. Without triggers, SQLite still shows that something changed, and by its log whether this server alone did
//! it; the others show nothing, and the caller's TTLs apply.

mod listen;
mod notices;
mod sqlite;
mod transactions;
mod versions;

use super::connection::ConnectTarget;
use super::error::SqlError;
use super::schema::NO_ZONE_CHANGED;
use super::{DatabaseAddress, Driver, Health, SqlBackend};
use listen::listen;
use notices::{SeenRows, TableNotices};
use sqlite::watch_sqlite;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use transactions::SeenTransactions;
use versions::ZoneVersions;

/// A change in a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The zone with this ID may have been created, changed or deleted. The second value is its current version in the
    /// table of changes, if there is one.
    Zone(i64, Option<i64>),
    /// A commit of this server changed this zone; the code that made it knows what it changed.
    Own(i64),
    /// The list of zones, or data that belongs to no zone: TSIG keys.
    List,
    /// Unknown: after a loss of contact, or if there are no triggers.
    All,
}

impl Change {
    /// Returns the change that a row of the table of changes shows.
    fn from_row(zone: i64, version: Option<i64>) -> Self {
        match zone {
            NO_ZONE_CHANGED => Change::List,
            zone => Change::Zone(zone, version),
        }
    }

    /// Returns the changes of a first look: unknown ones, if some were possible before it.
    fn before_first(has_missed: bool) -> Vec<Self> {
        if has_missed {
            vec![Change::All]
        } else {
            Vec::new()
        }
    }
}

/// Maximum number of queued changes; when it is exceeded, they become one [`Change::All`].
const QUEUE: usize = 1024;
/// Intervals after which a change is sent again if reads go to a replica.
const REPEATS: [Duration; 5] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(25),
    Duration::from_secs(125),
];
/// Polling interval for a table of changes over a network.
const TABLE_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum pause before a database that is down is tried again.
const MAX_BACK_OFF: Duration = Duration::from_secs(2);
/// How long a change is repeated if another server is read: contents may have been read there before it had the change.
const REPEATED: Duration = Duration::from_secs(60);
/// Pause before a database without a table of changes is tried again.
const NO_TABLE: Duration = Duration::from_secs(15);

impl SqlBackend {
    /// Returns whether changes by others are detected. A database without a notification mechanism does not count as
    /// failed.
    pub fn watch_health(&self) -> Health {
        self.inner.watched.health()
    }

    /// Records the outcome of an attempt to detect changes.
    fn note_watch(&self, result: Result<(), SqlError>) {
        let result = match result {
            Err(SqlError::Refused(_)) => Ok(()),
            result => result,
        };
        let inner = &self.inner;
        inner.watched.note(&result, &inner.options.address);
    }

    /// Checks whether the database has a table of changes, as far as is known. Without one, changes of others may never be detected.
    pub fn has_change_table(&self) -> bool {
        !self.inner.lacks_change_table.load(Ordering::Relaxed)
    }

    fn note_change_table<T>(&self, polled: &Result<T, SqlError>) {
        let is_missing = match polled {
            Ok(_) => false,
            Err(SqlError::Refused(_)) => true,
            Err(_) => return,
        };
        let lacks = &self.inner.lacks_change_table;
        lacks.store(is_missing, Ordering::Relaxed);
    }

    /// Starts to watch for changes, on the current tokio runtime, until the receiver is dropped. Cached data about a
    /// zone is dropped before its change is reported. Data read after the second receiver was notified is not older
    /// than the watch: it has started by then, or could not start yet and will send [`Change::All`] when it does.
    pub fn watch(&self) -> (mpsc::Receiver<Change>, oneshot::Receiver<()>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (started, has_begun) = oneshot::channel();
        self.inner.own_commits.begin_watch();
        let notices = ChangeSender {
            backend: self.clone(),
            sender,
            started: Some(started),
            has_lost_changes: false,
            repeats: VecDeque::new(),
        };
        match &self.inner.options.address {
            DatabaseAddress::Sqlite(path) => watch_sqlite(notices, path),
            _ => drop(tokio::spawn(watch(notices))),
        }
        (receiver, has_begun)
    }
}

/// Passes changes on without ever waiting.
struct ChangeSender {
    backend: SqlBackend,
    sender: mpsc::Sender<Change>,
    started: Option<oneshot::Sender<()>>,
    /// Changes were lost because the receiver is slow.
    has_lost_changes: bool,
    /// Changes to send again, the next one first, and how often they were sent.
    repeats: VecDeque<(Instant, Change, usize)>,
}

impl ChangeSender {
    /// Returns another sender of the same watch.
    fn clone_for_table(&self) -> Self {
        ChangeSender {
            backend: self.backend.clone(),
            sender: self.sender.clone(),
            started: None,
            has_lost_changes: false,
            repeats: VecDeque::new(),
        }
    }

    fn send_begun(&mut self) {
        if let Some(started) = self.started.take() {
            // A caller that only waits for changes does not listen.
            let _ = started.send(());
        }
    }

    fn send(&mut self, change: Change) {
        match change {
            Change::Zone(id, _) | Change::Own(id) => self.backend.forget(Some(id)),
            Change::All => self.backend.forget(None),
            Change::List => 0,
        };
        let change = if self.has_lost_changes {
            Change::All
        } else {
            change
        };
        self.has_lost_changes = self.sender.try_send(change).is_err();
    }

    /// Sends a change from the primary. A replica shows it later, at an unknown time: it is sent again at increasing
    /// intervals, so that data read from the replica too early does not persist.
    fn send_of_primary(&mut self, change: Change) {
        self.send(change);
        if self.backend.has_replica() {
            self.schedule(change, 0);
        }
    }

    fn schedule(&mut self, change: Change, sent: usize) {
        let Some(pause) = REPEATS.get(sent) else {
            return;
        };
        let is_full = self.repeats.len() >= QUEUE;
        let change = if is_full { Change::All } else { change };
        if is_full {
            self.repeats.clear();
        }
        let entry = (Instant::now() + *pause, change, sent);
        let at = self.repeats.partition_point(|(due, ..)| *due <= entry.0);
        self.repeats.insert(at, entry);
    }

    /// Sends repeats that are due, and returns the time until the next one.
    fn send_repeats(&mut self) -> Duration {
        let now = Instant::now();
        while let Some(&(due, change, sent)) = self.repeats.front() {
            if due > now {
                return due - now;
            }
            self.repeats.pop_front();
            self.send(change);
            self.schedule(change, sent + 1);
        }
        TABLE_INTERVAL
    }

    fn resend_lost(&mut self) {
        if self.has_lost_changes {
            self.send(Change::All);
        }
    }
}

async fn watch(mut notices: ChangeSender) {
    let backend = notices.backend.clone();
    match &backend.inner.primary {
        ConnectTarget::Sqlite(_) => {}
        ConnectTarget::Postgres(target) => {
            let table = TableNotices::default();
            let mut polled = notices.clone_for_table();
            let mut seen = SeenTransactions::default();
            // Before the notifications, so that no change is between the two. A failure is noted, and the poll repeats it.
            let _ = send_unannounced(&mut polled, &mut seen, &table).await;
            let following = async {
                tokio::join!(
                    listen(&mut notices, target, &table),
                    poll_transactions(&mut polled, &mut seen, &table)
                )
            };
            tokio::select! {
                _ = following => {}
                () = backend.measure_lag() => {}
                () = backend.check_servers() => {}
            }
        }
        ConnectTarget::Mysql(_) => tokio::select! {
            () = poll_versions(&mut notices, &backend.inner.reads) => {}
            () = backend.measure_lag() => {}
            () = backend.check_servers() => {}
        },
    }
}

/// Polls the table of changes in MySQL.
async fn poll_versions(notices: &mut ChangeSender, driver: &Driver) {
    let mut seen = ZoneVersions::default();
    let mut wait = TABLE_INTERVAL;
    let mut has_warned = false;
    while !notices.sender.is_closed() {
        notices.resend_lost();
        let polled = seen.poll(driver).await;
        notices.backend.note_change_table(&polled);
        match polled {
            Ok(changes) => {
                wait = TABLE_INTERVAL;
                notices.backend.note_watch(Ok(()));
                changes.into_iter().for_each(|change| notices.send(change));
            }
            Err(error) => {
                seen.note_gap();
                wait = match error {
                    SqlError::Refused(_) => {
                        warn_of_missing_table(&notices.backend, &mut has_warned);
                        NO_TABLE
                    }
                    _ => (wait * 2).min(MAX_BACK_OFF),
                };
                notices.backend.note_watch(Err(error));
            }
        }
        notices.send_begun();
        tokio::time::sleep(wait).await;
    }
}

fn warn_of_missing_table(backend: &SqlBackend, has_warned: &mut bool) {
    if !std::mem::replace(has_warned, true) {
        let database = &backend.inner.options.address;
        tracing::warn!(%database, "no table of changes: those of other programs are noticed late or never; create it with `nameward db init`");
    }
}

/// Polls the table of changes in PostgreSQL, and when a notification arrives that reads may not show yet.
async fn poll_transactions(
    notices: &mut ChangeSender,
    seen: &mut SeenTransactions,
    table: &TableNotices,
) {
    let mut wait = TABLE_INTERVAL;
    let mut has_warned = false;
    while !notices.sender.is_closed() {
        // Without the table, a notification means nothing here.
        let bell = async {
            if table.is_there() {
                table.bell.notified().await;
            } else {
                std::future::pending().await
            }
        };
        let _ = tokio::time::timeout(wait, bell).await;
        notices.resend_lost();
        wait = match send_unannounced(notices, seen, table).await {
            Ok(()) => TABLE_INTERVAL,
            Err(SqlError::Refused(_)) => {
                warn_of_missing_table(&notices.backend, &mut has_warned);
                NO_TABLE
            }
            Err(_) => (wait * 2).min(MAX_BACK_OFF),
        };
    }
}

/// Sends the changes that the table of PostgreSQL shows and that no notification has announced.
async fn send_unannounced(
    notices: &mut ChangeSender,
    seen: &mut SeenTransactions,
    table: &TableNotices,
) -> Result<(), SqlError> {
    let backend = notices.backend.clone();
    let polled = seen.poll(&backend.inner.reads).await;
    backend.note_change_table(&polled);
    match polled {
        Ok(changed) => {
            table.set_there(true);
            backend.note_watch(Ok(()));
            let Some(changed) = changed else {
                table.forget();
                notices.send(Change::All);
                return Ok(());
            };
            let own = &backend.inner.own_commits;
            for (zone, transactions) in changed {
                let is_own = |transaction: &&i64| own.claim_transaction(zone, **transaction);
                let rows = SeenRows {
                    own: transactions.iter().filter(is_own).count(),
                    all: transactions.len(),
                };
                if let Some(change) = table.seen(zone, rows, backend.has_replica()) {
                    notices.send(change);
                }
            }
            let repeated = seen.take_repeated().into_iter();
            repeated.for_each(|zone| notices.send(Change::from_row(zone, None)));
            Ok(())
        }
        Err(error) => {
            seen.note_gap();
            // A database without the table has notifications only.
            if matches!(error, SqlError::Refused(_)) {
                table.set_there(false);
            } else if table.is_there() {
                backend.note_watch(Err(error.clone()));
            }
            Err(error)
        }
    }
}
