//! The one thread that writes to the state store: changes that wait are grouped into one transaction.
//!
//! A disk takes the same time to make one change durable as a hundred, so whatever has come while the last transaction
//! was being written goes into the next. Each caller's changes stand behind a savepoint: one that is refused takes
//! nothing else with it. Callers get their results after the transaction is on the disk, never before. If the transaction as a
//! whole fails, as on a disk that is full, each caller's changes are tried alone, so that a small one may still fit.

use super::change::{StateChange, Written};
use super::error::StateError;
use super::journal::JournalBounds;
use super::zone_rows::ZoneRows;
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};

/// Callers whose changes go into one transaction, and octets at which it is full.
const GROUP: usize = 512;
const GROUP_OCTETS: usize = 16 << 20;

/// Called with the result when it is durable.
type Done = Box<dyn FnOnce(Result<Written, StateError>) + Send>;

struct WriteRequest {
    changes: Vec<StateChange>,
    done: Done,
}

/// The way to the writing thread; it ends when this is dropped, after all that was handed in.
pub(super) struct StateWriter {
    /// Not bounded here: a callback on the writing thread may hand in more, and must not wait for that very thread.
    /// Callers that wait for a result are their own bound, commits have one (`maintain::commit`).
    requests: Option<Sender<WriteRequest>>,
    thread: Option<JoinHandle<()>>,
}

impl StateWriter {
    pub(super) fn start(
        connection: Connection,
        path: PathBuf,
        bounds: JournalBounds,
    ) -> Result<Self, StateError> {
        let (requests, queue) = channel();
        let failed = |error: std::io::Error| StateError::of_io(&path, &error);
        let mut scribe = Scribe {
            connection,
            path: path.clone(),
            zones: ZoneRows::new(bounds),
            has_barrier: true,
        };
        let thread = thread::Builder::new()
            .name("state".into())
            .spawn(move || scribe.run(&queue))
            .map_err(failed)?;
        Ok(StateWriter {
            requests: Some(requests),
            thread: Some(thread),
        })
    }

    pub(super) fn submit(&self, changes: Vec<StateChange>, done: Done) {
        let request = WriteRequest { changes, done };
        let sent = match &self.requests {
            Some(requests) => requests.send(request).map_err(|error| error.0),
            None => Err(request),
        };
        if let Err(request) = sent {
            (request.done)(Err(StateError::Closed));
        }
    }

    pub(super) fn write(&self, changes: Vec<StateChange>) -> Result<Written, StateError> {
        let (sender, receiver) = sync_channel(1);
        let done = move |result| {
            let _ = sender.send(result);
        };
        self.submit(changes, Box::new(done));
        receiver.recv().unwrap_or(Err(StateError::Closed))
    }
}

impl Drop for StateWriter {
    fn drop(&mut self) {
        self.requests = None;
        let own = thread::current().id();
        // A callback on the writing thread may have been the last to hold the store: that thread cannot wait for itself.
        if let Some(thread) = self
            .thread
            .take()
            .filter(|thread| thread.thread().id() != own)
        {
            // A thread that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

/// The writing thread's own.
struct Scribe {
    connection: Connection,
    path: PathBuf,
    zones: ZoneRows,
    /// A commit waits for the disk.
    has_barrier: bool,
}

impl Scribe {
    fn run(&mut self, queue: &Receiver<WriteRequest>) {
        while let Ok(first) = queue.recv() {
            let mut octets = size(&first);
            let mut group = vec![first];
            while group.len() < GROUP
                && octets < GROUP_OCTETS
                && let Ok(next) = queue.try_recv()
            {
                octets += size(&next);
                group.push(next);
            }
            self.write(group);
        }
    }

    fn write(&mut self, group: Vec<WriteRequest>) {
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
        for (request, result) in group.into_iter().zip(results) {
            (request.done)(result.map_err(|error| error.of(&self.path)));
        }
    }

    /// Writes the changes of some callers in one transaction; each has a result of its own.
    fn transact(
        &mut self,
        callers: &[&[StateChange]],
    ) -> Result<Vec<Result<Written, StateError>>, StateError> {
        let result = self.try_transact(callers);
        if result.is_err() {
            self.zones.forget();
            if !self.connection.is_autocommit() {
                // If this fails too, the next transaction says so.
                let _ = self.connection.execute_batch("ROLLBACK");
            }
        }
        result
    }

    fn try_transact(
        &mut self,
        callers: &[&[StateChange]],
    ) -> Result<Vec<Result<Written, StateError>>, StateError> {
        self.set_barrier(callers)?;
        self.run_sql("BEGIN IMMEDIATE")?;
        let mut results = Vec::with_capacity(callers.len());
        for changes in callers {
            let result = match callers.len() {
                // Whatever is refused is all that the transaction has.
                1 => Ok(self.apply(changes)?),
                _ => self.apply_apart(changes)?,
            };
            results.push(result);
        }
        self.zones.write_back(&self.connection)?;
        self.run_sql("COMMIT")?;
        Ok(results)
    }

    /// Makes the changes of a caller behind a savepoint. The outer error is that of the whole transaction.
    fn apply_apart(
        &mut self,
        changes: &[StateChange],
    ) -> Result<Result<Written, StateError>, StateError> {
        self.run_sql("SAVEPOINT caller")?;
        self.zones.begin_caller();
        let result = self.apply(changes);
        if self.connection.is_autocommit() {
            // SQLite gave the whole transaction up.
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

    /// Has the commit wait for the disk, unless all that it has is durable elsewhere: then it follows the next one that
    /// waits, and after a power failure the journals of databases begin anew.
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

    /// Runs a statement that is kept prepared.
    fn run_sql(&self, sql: &str) -> Result<(), StateError> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
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
        _ => 100,
    };
    request.changes.iter().map(octets).sum()
}
