//! Group commit: changes that arrive while another is written wait together, and the next transaction writes all of them.
//!
//! A transaction costs a flush to disk, whatever it contains. With one transaction for each change, clients that change zones at
//! the same time would wait for one flush after another.
//!
//! The queue needs no limit of its own: each entry belongs to an operation that waits for it, and the listeners bound those.

use super::super::{SqlBackend, SqlError};
use super::{Committed, WriteError};
use nameward_base::sync::Mutex;
use nameward_wire::NameBuf;
use nameward_zone::change::ConditionalChange;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Changes of one transaction.
const GROUP_MAX: usize = 64;

/// The changes that wait, and the turn of the one that writes.
#[derive(Default)]
pub(in crate::sql) struct CommitQueue {
    waiting: Mutex<VecDeque<WaitingChange>>,
    turn: tokio::sync::Mutex<()>,
}

struct WaitingChange {
    zone: NameBuf,
    change: Arc<dyn ConditionalChange>,
    done: oneshot::Sender<Result<Committed, WriteError>>,
}

impl SqlBackend {
    /// Commits a change, in one transaction with others that wait at the same time. Each has its own result.
    pub async fn commit_queued(
        &self,
        zone: NameBuf,
        change: Arc<dyn ConditionalChange>,
    ) -> Result<Committed, WriteError> {
        let queue = &self.inner.commits;
        let (done, mut result) = oneshot::channel();
        queue
            .waiting
            .lock()
            .push_back(WaitingChange { zone, change, done });
        let _turn = queue.turn.lock().await;
        loop {
            match result.try_recv() {
                Ok(result) => return result,
                Err(oneshot::error::TryRecvError::Empty) => {}
                Err(oneshot::error::TryRecvError::Closed) => {
                    let text = "the change ended without a result".to_owned();
                    return Err(WriteError::Unknown(SqlError::Unavailable(text)));
                }
            }
            let group: Vec<WaitingChange> = {
                let mut waiting = queue.waiting.lock();
                let count = waiting.len().min(GROUP_MAX);
                waiting.drain(..count).collect()
            };
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
