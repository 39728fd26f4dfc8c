//! Look-ups that wait for the threads of one blocking source. No other source uses these threads, so one that hangs
//! keeps nobody else waiting.
//!
//! Threads are started when look-ups wait and none of them is free, and end when they had nothing to do for a while: a
//! server with a hundred databases has as many threads as are in use.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Lookup;

/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(60);

/// Look-ups that wait, in the order they came; bounded as in [`super::batch_queue`].
#[derive(Default)]
pub(crate) struct ThreadQueue {
    inner: Mutex<ThreadQueueState>,
    more: Condvar,
}

#[derive(Default)]
struct ThreadQueueState {
    lookups: VecDeque<Arc<Lookup>>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl ThreadQueue {
    fn lock(&self) -> MutexGuard<'_, ThreadQueueState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a look-up; true if one more thread has to be started for it.
    pub(crate) fn push(&self, lookup: Arc<Lookup>, max_threads: usize) -> bool {
        let mut waiting = self.lock();
        waiting.lookups.push_back(lookup);
        // Waking is a system call, so it is done only where a thread sleeps.
        if waiting.idle > 0 {
            drop(waiting);
            self.more.notify_one();
            return false;
        }
        let starts = waiting.threads < max_threads && !waiting.is_closed;
        waiting.threads += usize::from(starts);
        starts
    }

    /// Takes a batch of those that wait, a share of them if other threads are idle; false if the thread has to end.
    pub(crate) fn pop(&self, into: &mut Vec<Arc<Lookup>>, most: usize) -> bool {
        let mut waiting = self.lock();
        while waiting.lookups.is_empty() && !waiting.is_closed {
            waiting.idle += 1;
            let (woken, time) = self
                .more
                .wait_timeout(waiting, IDLE)
                .unwrap_or_else(PoisonError::into_inner);
            waiting = woken;
            waiting.idle -= 1;
            if time.timed_out() && waiting.lookups.is_empty() {
                break;
            }
        }
        if waiting.lookups.is_empty() || waiting.is_closed {
            waiting.threads -= 1;
            return false;
        }
        let share = waiting.lookups.len().div_ceil(waiting.idle + 1).min(most);
        into.extend(waiting.lookups.drain(..share));
        // One notice may have been for several look-ups.
        if !waiting.lookups.is_empty() && waiting.idle > 0 {
            self.more.notify_one();
        }
        true
    }

    /// Notes that a thread could not be started; the next look-up tries again.
    pub(crate) fn note_not_started(&self) {
        self.lock().threads -= 1;
    }

    /// Lets all threads end.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.more.notify_all();
    }
}
