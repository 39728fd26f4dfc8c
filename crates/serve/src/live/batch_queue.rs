//! Look-ups that wait for a source whose batches run as tasks, and the number of running tasks.

use nameward_base::sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

use super::Lookup;

/// Waiting look-ups in order of arrival. Bounded by the number of queries that may wait for the source: each
/// look-up has had at least one, and those of one zone are counted until they have ended.
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
    /// Adds a look-up; true if another task must be started for it.
    pub(crate) fn push(&self, lookup: Arc<Lookup>, max_tasks: usize) -> bool {
        let mut waiting = self.inner.lock();
        waiting.lookups.push_back(lookup);
        let starts = waiting.tasks < max_tasks;
        waiting.tasks += usize::from(starts);
        starts
    }

    /// Takes the next batch for a task. If the batch is empty, the task is counted as ended.
    pub(crate) fn take(&self, most: usize) -> Vec<Arc<Lookup>> {
        let mut waiting = self.inner.lock();
        let count = waiting.lookups.len().min(most);
        if count == 0 {
            waiting.tasks -= 1;
        }
        waiting.lookups.drain(..count).collect()
    }
}
