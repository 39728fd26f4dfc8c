//! The threads that sign zones for transfers, and their queue of copies.
//!
//! Copies take turns piece by piece, so a small zone does not wait for a large one. The threads run at low priority
//! and together use no more CPU than signing may (`signing_cpu_percent`). They start with the first copy and end with
//! the queue. A copy without readers leaves the queue at once.

use nameward_base::sync::{Condvar, Mutex};
use nameward_serve::give_way;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread;

use super::copy_job::{CopyJob, CopyStep};
use nameward_serve::signing::SigningPacer;

/// The copies that have pending work, each once.
#[derive(Default)]
pub(super) struct SignerQueue {
    state: Mutex<QueueState>,
    more: Condvar,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Arc<CopyJob>>,
    is_started: bool,
    is_closed: bool,
}

impl SignerQueue {
    /// Starts the threads, unless they are running. Each calls `work` for one step after another, with a function
    /// that throttles it to its share of the CPU, until `work` returns false.
    pub(super) fn start(
        self: &Arc<Self>,
        (threads, share): (usize, f64),
        work: impl Fn(&Arc<CopyJob>, CopyStep, &mut dyn FnMut()) -> bool + Clone + Send + 'static,
    ) -> io::Result<()> {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_started, true) {
            return Ok(());
        }
        for index in 0..threads {
            let (queue, work) = (Arc::clone(self), work.clone());
            let run = move || {
                give_way();
                let mut pacer = SigningPacer::new(share);
                while let Some((job, step)) = queue.next_step() {
                    if !work(&job, step, &mut || pacer.pause()) {
                        return;
                    }
                }
            };
            let thread = thread::Builder::new().name(format!("sign-copy-{index}"));
            if let Err(error) = thread.spawn(run) {
                // Fewer threads suffice, but one is required.
                if index == 0 {
                    state.is_started = false;
                    return Err(error);
                }
                break;
            }
        }
        Ok(())
    }

    /// Lets the threads end.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.more.notify_all();
    }

    /// Queues a copy that has work to do, unless it is queued.
    pub(super) fn push(&self, job: &Arc<CopyJob>) {
        let mut state = self.state.lock();
        let is_queued = state.jobs.iter().any(|other| Arc::ptr_eq(other, job));
        if job.has_work() && !is_queued {
            if job.is_new() {
                // Its client has received nothing yet, and preparing a copy signs nothing.
                state.jobs.push_front(Arc::clone(job))
            } else {
                state.jobs.push_back(Arc::clone(job))
            }
            drop(state);
            self.more.notify_one();
        }
    }

    /// Removes a copy that has no readers left.
    pub(super) fn remove(&self, job: &Arc<CopyJob>) {
        self.state
            .lock()
            .jobs
            .retain(|other| !Arc::ptr_eq(other, job));
    }

    /// Waits for work; `None` when the queue is closed.
    fn next_step(&self) -> Option<(Arc<CopyJob>, CopyStep)> {
        let mut state = self.state.lock();
        loop {
            if state.is_closed {
                return None;
            }
            let Some(job) = state.jobs.pop_front() else {
                let woken = self.more.wait(state);
                state = woken;
                continue;
            };
            let Some(step) = job.take_step() else {
                continue;
            };
            if job.has_work() {
                state.jobs.push_back(Arc::clone(&job));
                self.more.notify_one();
            }
            return Some((job, step));
        }
    }
}
