//! The single thread that writes to the state store: pending changes are grouped into one transaction.
//!
//! A disk takes the same time to make one change durable as a hundred, so whatever arrived while the last transaction
//! was being written goes into the next. Each caller's changes are guarded by a savepoint: a rejected one does not
//! affect the others. Callers get their results after the transaction is on disk, never before. If the transaction as
//! a whole fails, as on a full disk, each caller's changes are tried separately, so that a small one may still fit.

use super::change::{StateChange, Written};
use super::condition::{StoreCondition, StoreFile};
use super::error::LossCause;
use super::error::StateError;
use super::journal_rows::{JournalBounds, run};
use super::key_register::KeyRegister;
use super::zone_rows::ZoneRows;
use nameward_base::worker::{self, Popped, Queue, panic_guard_item};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Maximum number of callers per transaction, and its size limit in octets.
const GROUP: usize = 512;
const GROUP_OCTETS: usize = 16 << 20;

/// Requests that may wait; then they are refused. A sender never waits: a callback on the writing thread may hand in more,
/// and a commit holds its zone's lock, which callbacks take. Commits have a lower bound of their own (`maintain::commit`);
/// this one has room for the timers of a million zones.
pub(super) const WAITING: usize = 1 << 20;
/// The thread's work, for the log.
const WRITING: &str = "writing to the state store";

/// Called with the result when it is on disk, or was rejected.
pub type WrittenDone = Box<dyn FnOnce(Result<Written, StateError>) + Send>;

/// The changes of one caller.
pub(super) struct WriteRequest {
    pub(super) changes: Vec<StateChange>,
    pub(super) done: WrittenDone,
}

pub(super) enum WriterMessage {
    Write(WriteRequest),
    /// Everything before it is written, and the file completed.
    Close(SyncSender<()>),
    /// Everything before it is written; the rest waits while another process writes to the store.
    Pause {
        begun: SyncSender<()>,
        /// Ends the pause; without a sender the store is given away.
        end: Receiver<()>,
    },
}

/// Interval at which the file is inspected while nothing is written.
const INSPECT_INTERVAL: Duration = Duration::from_secs(1);
/// Octets written by a disk probe, while the store accepts no changes.
const PROBE_OCTETS: i64 = 64 << 10;
/// Interval between such probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// The item kind that such a probe writes.
const PROBE: &str = "probe";

/// Handle of the writer thread, which ends when this is dropped, after everything submitted is written.
pub(super) struct StateWriter {
    pub(super) requests: Queue<WriterMessage>,
    thread: Option<JoinHandle<()>>,
}

impl StateWriter {
    /// Starts the thread for the file of a connection.
    pub(super) fn start(
        connection: Connection,
        keys: KeyRegister,
        condition: Arc<StoreCondition>,
        path: &Path,
        bounds: JournalBounds,
    ) -> Result<Self, StateError> {
        let requests = Queue::new("state", WAITING);
        let queue = requests.clone();
        let failed = |error: std::io::Error| StateError::from_io(path, &error);
        let scribe = StateWriterThread {
            connection,
            file: StoreFile::new(path),
            keys,
            condition,
            path: path.into(),
            zones: ZoneRows::new(bounds),
            has_barrier: true,
            probed: Instant::now(),
        };
        let thread = worker::start("state", move || scribe.run(&queue)).map_err(failed)?;
        Ok(StateWriter {
            requests,
            thread: Some(thread),
        })
    }

    /// Lets the thread write everything submitted, complete the file and end; waits for that.
    pub(super) fn close(&self) {
        let (sender, closed) = sync_channel(1);
        if self.requests.push(WriterMessage::Close(sender)).is_ok() {
            let _ = closed.recv();
        }
    }

    /// Lets the thread write everything submitted and then wait for the returned sender; `None` if it has ended. Without
    /// that sender everything else is refused.
    pub(super) fn pause(&self) -> Option<SyncSender<()>> {
        let (begun, has_begun) = sync_channel(1);
        let (resume, end) = sync_channel(1);
        self.requests
            .push(WriterMessage::Pause { begun, end })
            .ok()?;
        has_begun.recv().ok()?;
        Some(resume)
    }
}

impl Drop for StateWriter {
    fn drop(&mut self) {
        self.requests.close();
        let own = thread::current().id();
        // A callback on the writer thread may have held the last reference to the store: that thread cannot wait for
        // itself.
        if let Some(thread) = self
            .thread
            .take()
            .filter(|thread| thread.thread().id() != own)
        {
            // The result of a panicked thread is of no interest.
            let _ = thread.join();
        }
    }
}

struct StateWriterThread {
    /// Before the file: closed first, while the locks of the process are still held.
    connection: Connection,
    file: StoreFile,
    keys: KeyRegister,
    condition: Arc<StoreCondition>,
    path: PathBuf,
    zones: ZoneRows,
    /// Commits wait for the disk.
    has_barrier: bool,
    /// When the disk was last probed.
    probed: Instant,
}

impl StateWriterThread {
    fn run(mut self, queue: &Queue<WriterMessage>) {
        loop {
            let (group, then) = match queue.pop(Some(Instant::now() + INSPECT_INTERVAL)) {
                Popped::Item(WriterMessage::Write(first)) => gather(first, queue),
                Popped::Item(other) => (Vec::new(), Some(other)),
                Popped::TimedOut => {
                    self.inspect();
                    self.probe();
                    continue;
                }
                Popped::Closed => return,
            };
            self.condition.begin_write();
            if !group.is_empty() && !panic_guard_item(WRITING, || self.write(group)) {
                self.undo();
            }
            self.condition.end_write();
            match then {
                Some(WriterMessage::Close(closed)) => {
                    self.complete();
                    drop(self);
                    queue.close();
                    refuse_rest(queue);
                    let _ = closed.send(());
                    return;
                }
                Some(WriterMessage::Pause { begun, end }) if !self.pause(&begun, &end) => {
                    queue.close();
                    refuse_rest(queue);
                    return;
                }
                _ => {}
            }
        }
    }

    /// Leaves the store to another process; returns whether it was given back.
    fn pause(&mut self, begun: &SyncSender<()>, end: &Receiver<()>) -> bool {
        let before = self.data_version();
        let _ = begun.send(());
        if end.recv().is_err() {
            return false;
        }
        self.undo();
        // What this server has in memory no longer continues what the store has.
        if before.is_none() || self.data_version() != before {
            self.condition.fail(StateError::Lost {
                path: self.path.clone(),
                how: LossCause::TakenOver,
                rescued: None,
            });
        }
        true
    }

    /// Returns a number that changes when another connection has changed the store.
    fn data_version(&self) -> Option<i64> {
        let read = |row: &rusqlite::Row<'_>| row.get(0);
        let version = self.connection.query_row("PRAGMA data_version", [], read);
        version.ok()
    }

    /// Refuses everything from now on if the file is no longer the store.
    fn inspect(&mut self) {
        if self.condition.lost().is_some() {
            return;
        }
        if let Some(how) = self.file.inspect() {
            let is_whole = matches!(how, LossCause::Deleted | LossCause::Replaced);
            let rescued = is_whole.then(|| self.file.rescue(&self.connection));
            self.file.set_log_aside();
            // SQLite would write the log into whatever the file is now.
            let no_checkpoint = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            let _ = self.connection.set_db_config(no_checkpoint, true);
            self.condition.fail(StateError::Lost {
                path: self.path.clone(),
                how,
                rescued: rescued.flatten(),
            });
        }
    }

    /// Tests whether a failing store accepts changes again: otherwise only the next change would show it.
    fn probe(&mut self) {
        if !self.condition.is_failing() || self.probed.elapsed() < PROBE_INTERVAL {
            return;
        }
        self.probed = Instant::now();
        let write = || -> rusqlite::Result<()> {
            let sql =
                "INSERT OR REPLACE INTO item (kind, name, value) VALUES (?1, x'', zeroblob(?2))";
            self.connection.execute(sql, params![PROBE, PROBE_OCTETS])?;
            let sql = "DELETE FROM item WHERE kind = ?1";
            self.connection.execute(sql, [PROBE]).map(|_| ())
        };
        if write().is_ok() {
            self.condition.recover();
        }
    }

    /// Checkpoints the write-ahead log into the file.
    fn complete(&mut self) {
        self.inspect();
        if self.condition.lost().is_some() {
            return;
        }
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        let is_busy = self
            .connection
            .query_row(sql, [], |row| row.get::<_, bool>(0));
        match is_busy {
            Ok(false) => {}
            Ok(true) => tracing::warn!(
                "state store {}: another process is reading it; the write-ahead log is not truncated",
                self.path.display()
            ),
            Err(error) => tracing::warn!(
                "state store {}: cannot truncate the write-ahead log: {error}",
                self.path.display()
            ),
        }
    }

    fn write(&mut self, group: Vec<WriteRequest>) {
        self.inspect();
        if let Some(error) = self.condition.lost() {
            for request in group {
                (request.done)(Err(error.clone()));
            }
            return;
        }
        let changes: Vec<&[StateChange]> = group.iter().map(|one| &one.changes[..]).collect();
        let results = match self.transact(&changes) {
            Ok(results) => results,
            Err(error) if group.len() == 1 => vec![Err(error)],
            Err(_) => {
                let alone = |one: &&[StateChange]| {
                    let results = self.transact(&[one]);
                    results.and_then(|mut results| results.pop().unwrap_or(Err(StateError::Closed)))
                };
                changes.iter().map(alone).collect()
            }
        };
        let mut results: Vec<_> = results
            .into_iter()
            .map(|result| result.map_err(|error| error.with_path(&self.path)))
            .collect();
        if group.iter().any(|one| !one.changes.is_empty()) {
            self.record_results(&results);
        }
        for (request, result) in group.into_iter().zip(results.drain(..)) {
            // One by one: the others must hear that their changes are durable.
            panic_guard_item(WRITING, || (request.done)(result));
        }
    }

    /// Records whether the store accepts changes.
    fn record_results(&self, results: &[Result<Written, StateError>]) {
        let mut errors = results.iter().filter_map(|result| result.as_ref().err());
        match errors.rfind(|error| error.is_of_store()) {
            Some(error) => self.condition.fail(error.clone()),
            None => self.condition.recover(),
        }
    }

    /// Writes the changes of several callers in one transaction; each has its own result.
    fn transact(
        &mut self,
        callers: &[&[StateChange]],
    ) -> Result<Vec<Result<Written, StateError>>, StateError> {
        let mut transact = || {
            self.set_barrier(callers)?;
            self.run_sql("BEGIN IMMEDIATE")?;
            let mut results = Vec::with_capacity(callers.len());
            for changes in callers {
                let result = match callers.len() {
                    // Nothing else is in the transaction, so a rejection may undo all of it.
                    1 => Ok(self.apply(changes)?),
                    _ => self.apply_apart(changes)?,
                };
                results.push(result);
            }
            self.zones.write_back(&self.connection)?;
            let changes = callers.iter().flat_map(|changes| changes.iter());
            let new_keys = self.keys.begin(&self.connection, changes)?;
            self.run_sql("COMMIT")?;
            self.keys.end(new_keys);
            Ok(results)
        };
        let result = transact();
        if result.is_err() {
            self.undo();
        }
        result
    }

    /// Gives a transaction up that was not committed.
    fn undo(&mut self) {
        self.zones.forget();
        self.keys.undo();
        if !self.connection.is_autocommit() {
            // If this fails too, the next transaction says so.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }

    /// Applies the changes of a caller within a savepoint. The outer error is that of the whole transaction.
    fn apply_apart(
        &mut self,
        changes: &[StateChange],
    ) -> Result<Result<Written, StateError>, StateError> {
        self.run_sql("SAVEPOINT caller")?;
        self.zones.begin_caller();
        let result = self.apply(changes);
        if self.connection.is_autocommit() {
            // SQLite rolled back the whole transaction.
            return Err(result.err().unwrap_or(StateError::Closed));
        }
        if result.is_err() {
            self.run_sql("ROLLBACK TO caller")?;
            self.zones.undo_caller();
        }
        self.run_sql("RELEASE caller")?;
        Ok(result)
    }

    fn apply(&mut self, changes: &[StateChange]) -> Result<Written, StateError> {
        let (connection, zones) = (&self.connection, &mut self.zones);
        let mut written = Written::default();
        let each = |change| zones.apply(connection, change, &mut written);
        changes.iter().try_for_each(each)?;
        Ok(written)
    }

    /// Lets the commit wait for the disk, unless all its changes are durable elsewhere: then they become durable with
    /// the next commit that waits, and after a power failure the journals of database zones restart.
    fn set_barrier(&mut self, callers: &[&[StateChange]]) -> Result<(), StateError> {
        let has_barrier = !callers
            .iter()
            .all(|changes| changes.iter().all(StateChange::is_durable_elsewhere));
        if has_barrier != self.has_barrier {
            let mode = if has_barrier { "full" } else { "normal" };
            self.connection.pragma_update(None, "synchronous", mode)?;
            self.has_barrier = has_barrier;
        }
        Ok(())
    }

    /// Runs a cached prepared statement.
    fn run_sql(&self, sql: &str) -> Result<(), StateError> {
        run(&self.connection, sql, [])
    }
}

/// Collects pending requests after the first into one group; also returns the message after it, if that is not a write.
fn gather(
    first: WriteRequest,
    queue: &Queue<WriterMessage>,
) -> (Vec<WriteRequest>, Option<WriterMessage>) {
    let mut octets = size(&first);
    let mut group = vec![first];
    while group.len() < GROUP && octets < GROUP_OCTETS {
        match queue.try_pop() {
            Some(WriterMessage::Write(next)) => {
                octets += size(&next);
                group.push(next);
            }
            Some(other) => return (group, Some(other)),
            None => break,
        }
    }
    (group, None)
}

/// Refuses changes submitted after the store was closed.
fn refuse_rest(queue: &Queue<WriterMessage>) {
    while let Some(message) = queue.try_pop() {
        if let WriterMessage::Write(request) = message {
            (request.done)(Err(StateError::Closed));
        }
    }
}

fn size(request: &WriteRequest) -> usize {
    let octets = |change: &StateChange| match change {
        StateChange::Append { difference, .. } => difference.octets(),
        StateChange::Rebase { version, .. } => version.forward.octets() + version.lacking.octets(),
        StateChange::SetContents { parts, .. } | StateChange::RefreshContents { parts, .. } => {
            parts.iter().map(|part| part.as_bytes().len()).sum()
        }
        StateChange::KeepCopy { rows, .. } => rows.len(),
        StateChange::KeepFileCopyPart { records, .. } => records.as_bytes().len(),
        _ => 100,
    };
    request.changes.iter().map(octets).sum()
}
