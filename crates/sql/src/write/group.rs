//! Group commit: changes that arrive while another is written wait together, and the next transaction writes all of them.
//!
//! A transaction costs a flush to disk, whatever it contains. With one transaction for each change, clients that change zones at
//! the same time would wait for one flush after another.
//!
//! The queue needs no limit of its own: each entry belongs to an operation that waits for it, and the listeners bound those.

use super::super::{SqlBackend, SqlError};
use super::{Committed, WriteError};
use crate::SqlFuture;
use nameward_base::sync::Mutex;
use nameward_wire::NameBuf;
use nameward_zone::change::ConditionalChange;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Changes of one transaction.
const GROUP_MAX: usize = 64;

/// The changes that wait, and whether a thread writes them.
#[derive(Default)]
pub(crate) struct CommitQueue {
    state: Mutex<QueuedChanges>,
}

#[derive(Default)]
struct QueuedChanges {
    waiting: VecDeque<WaitingChange>,
    is_written: bool,
}

struct WaitingChange {
    zone: NameBuf,
    change: Arc<dyn ConditionalChange>,
    done: oneshot::Sender<Result<Committed, WriteError>>,
}

/// Ends the turn of a thread that writes, even if it panics: the changes it had taken lose their senders, and the next one that
/// arrives starts another thread.
struct WriterTurn<'q> {
    queue: &'q CommitQueue,
    has_ended: bool,
}

impl WriterTurn<'_> {
    /// Returns the next changes; `None` ends the turn.
    fn next_group(&mut self) -> Option<Vec<WaitingChange>> {
        let mut state = self.queue.state.lock();
        let count = state.waiting.len().min(GROUP_MAX);
        if count == 0 {
            state.is_written = false;
            self.has_ended = true;
            return None;
        }
        Some(state.waiting.drain(..count).collect())
    }
}

impl Drop for WriterTurn<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            let mut state = self.queue.state.lock();
            state.is_written = false;
            // Nothing would write them before the next change arrives.
            state.waiting.clear();
        }
    }
}

impl SqlBackend {
    /// Commits a change, in one transaction with others that wait at the same time. Each has its own result. Call within the
    /// runtime of the database.
    pub fn commit_queued(
        &self,
        zone: NameBuf,
        change: Arc<dyn ConditionalChange>,
    ) -> SqlFuture<'_, Result<Committed, WriteError>> {
        Box::pin(async move {
            let (done, result) = oneshot::channel();
            let is_first = {
                let mut state = self.inner.commits.state.lock();
                let waiting = WaitingChange { zone, change, done };
                state.waiting.push_back(waiting);
                !std::mem::replace(&mut state.is_written, true)
            };
            if is_first {
                let (backend, runtime) = (self.clone(), Handle::current());
                // A thread that may block: SQLite waits for the disk.
                tokio::task::spawn_blocking(move || runtime.block_on(backend.write_queued()));
            }
            result.await.unwrap_or_else(|_| {
                let text = "the change ended without a result".to_owned();
                Err(WriteError::Unknown(SqlError::Unavailable(text)))
            })
        })
    }

    /// Writes the changes that wait, until there are none.
    async fn write_queued(&self) {
        let mut turn = WriterTurn {
            queue: &self.inner.commits,
            has_ended: false,
        };
        while let Some(group) = turn.next_group() {
            let changes: Vec<(NameBuf, &dyn ConditionalChange)> =
                group.iter().map(|one| (one.zone, &*one.change)).collect();
            let results = self.commit_group(&changes).await;
            for (one, result) in group.into_iter().zip(results) {
                // One that no longer waits for its result has none to take.
                let _ = one.done.send(result);
            }
        }
    }
}
