//! Look-ups that wait for the threads of one blocking source. No other source uses these threads, so one that hangs
//! does not delay the others.
//!
//! Threads are started when look-ups wait and no thread is free, and end after some time without work: a server with
//! a hundred databases has only as many threads as it uses.

use nameward_base::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

/// How long an idle thread is kept.
const IDLE: Duration = Duration::from_secs(60);

/// Waiting look-ups in order of arrival; bounded as in [`super::batch_queue`].
pub(crate) struct ThreadQueue<L> {
    inner: Mutex<ThreadQueueState<L>>,
    more: Condvar,
}

struct ThreadQueueState<L> {
    lookups: VecDeque<L>,
    threads: usize,
    /// Threads that wait for work, including those that were notified and do not run yet.
    idle: usize,
    /// An idle thread was notified and is about to run. A thread that wakes by timeout clears this too: at worst the
    /// next look-up sends a superfluous notification.
    is_one_woken: bool,
    is_closed: bool,
}

impl<L> ThreadQueue<L> {
    /// Creates a queue without look-ups and threads.
    pub(crate) fn new() -> Self {
        let state = ThreadQueueState {
            lookups: VecDeque::new(),
            threads: 0,
            idle: 0,
            is_one_woken: false,
            is_closed: false,
        };
        ThreadQueue {
            inner: Mutex::new(state),
            more: Condvar::new(),
        }
    }

    /// Adds a look-up; true if another thread must be started for it.
    ///
    /// Waking is a system call, and on a busy core the thread runs only when the caller has pushed its whole batch:
    /// so one notification covers all look-ups pushed before the thread runs, which wakes others if it leaves some.
    pub(crate) fn push(&self, lookup: L, max_threads: usize) -> bool {
        let mut waiting = self.inner.lock();
        waiting.lookups.push_back(lookup);
        if waiting.idle > 0 {
            if !mem::replace(&mut waiting.is_one_woken, true) {
                drop(waiting);
                self.more.notify_one();
            }
            return false;
        }
        let starts = waiting.threads < max_threads && !waiting.is_closed;
        waiting.threads += usize::from(starts);
        starts
    }

    /// Takes a batch of the waiting look-ups, a share of them if other threads are idle; false if the thread must
    /// end.
    pub(crate) fn pop(&self, into: &mut Vec<L>, most: usize) -> bool {
        let mut waiting = self.inner.lock();
        while waiting.lookups.is_empty() && !waiting.is_closed {
            waiting.idle += 1;
            let (woken, is_over) = self.more.wait_timeout(waiting, IDLE);
            waiting = woken;
            waiting.idle -= 1;
            waiting.is_one_woken = false;
            if is_over && waiting.lookups.is_empty() {
                break;
            }
        }
        if waiting.lookups.is_empty() || waiting.is_closed {
            waiting.threads -= 1;
            return false;
        }
        let share = waiting.lookups.len().div_ceil(waiting.idle + 1).min(most);
        into.extend(waiting.lookups.drain(..share));
        if !waiting.lookups.is_empty() && waiting.idle > 0 && !waiting.is_one_woken {
            waiting.is_one_woken = true;
            self.more.notify_one();
        }
        true
    }

    /// Records that a thread could not be started; the next look-up tries again.
    pub(crate) fn note_not_started(&self) {
        self.inner.lock().threads -= 1;
    }

    /// Lets all threads end.
    pub(crate) fn close(&self) {
        self.inner.lock().is_closed = true;
        self.more.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Barrier};
    use std::thread;

    const THREADS: usize = 3;

    /// Starts threads that take look-ups and wait for each other at the barrier with what they took.
    fn threads(
        queue: &Arc<ThreadQueue<u32>>,
        barrier: &Arc<Barrier>,
    ) -> Vec<thread::JoinHandle<Vec<u32>>> {
        queue.inner.lock().threads = THREADS;
        let work = || {
            let (queue, barrier) = (Arc::clone(queue), Arc::clone(barrier));
            thread::spawn(move || {
                let (mut taken, mut batch) = (Vec::new(), Vec::new());
                while queue.pop(&mut batch, 64) {
                    taken.append(&mut batch);
                    barrier.wait();
                }
                taken
            })
        };
        (0..THREADS).map(|_| work()).collect()
    }

    fn wait_until_idle(queue: &ThreadQueue<u32>) {
        loop {
            let waiting = queue.inner.lock();
            if waiting.idle == THREADS && waiting.lookups.is_empty() {
                return;
            }
            drop(waiting);
            thread::yield_now();
        }
    }

    #[test]
    fn a_thread_that_leaves_some_wakes_the_next() {
        let queue = Arc::new(ThreadQueue::new());
        let barrier = Arc::new(Barrier::new(THREADS));
        let threads = threads(&queue, &barrier);
        for round in 0..200 {
            wait_until_idle(&queue);
            // Like a batch of queries: one notification, and work for all, each of which waits for the others.
            let mut waiting = queue.inner.lock();
            waiting.lookups.extend([3 * round, 3 * round + 1]);
            drop(waiting);
            assert!(!queue.push(3 * round + 2, THREADS));
        }
        wait_until_idle(&queue);
        queue.close();
        let taken = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap());
        let mut taken: Vec<u32> = taken.collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..600).collect::<Vec<_>>());
    }

    #[test]
    fn one_notice_is_for_all_look_ups_that_come_before_the_thread_runs() {
        let queue = ThreadQueue::new();
        // A thread that was notified and does not run yet.
        (queue.inner.lock().threads, queue.inner.lock().idle) = (1, 1);
        for lookup in 0..5 {
            assert!(!queue.push(lookup, 8));
            assert!(queue.inner.lock().is_one_woken);
        }
        (queue.inner.lock().idle, queue.inner.lock().is_one_woken) = (0, false);
        let mut batch = Vec::new();
        assert!(queue.pop(&mut batch, 64));
        assert_eq!(batch, [0, 1, 2, 3, 4]);
        assert!(queue.push(5, 8), "no thread is idle: one more starts");
    }
}
