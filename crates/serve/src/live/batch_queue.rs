//! Look-ups that wait for a source whose batches are tasks, and how many of its tasks are at work.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Lookup;

/// Look-ups that wait, in the order they came. Bounded by the questions that may wait for the source: each look-up
/// has had one at least, and those of one zone are counted until they have ended.
#[derive(Default)]
pub(crate) struct BatchQueue {
    inner: Mutex<BatchQueueState>,
}

#[derive(Default)]
struct BatchQueueState {
    lookups: VecDeque<Arc<Lookup>>,
    tasks: usize,
}

impl BatchQueue {
    fn lock(&self) -> MutexGuard<'_, BatchQueueState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a look-up; true if one more task has to be started for it.
    pub(crate) fn push(&self, lookup: Arc<Lookup>, max_tasks: usize) -> bool {
        let mut waiting = self.lock();
        waiting.lookups.push_back(lookup);
        let starts = waiting.tasks < max_tasks;
        waiting.tasks += usize::from(starts);
        starts
    }

    /// Takes the next batch for a task, which has ended if the batch is empty.
    pub(crate) fn take(&self, most: usize) -> Vec<Arc<Lookup>> {
        let mut waiting = self.lock();
        let count = waiting.lookups.len().min(most);
        if count == 0 {
            waiting.tasks -= 1;
        }
        waiting.lookups.drain(..count).collect()
    }
}
