//! The switch of all UDP workers of a server: whether they read their sockets.
//!
//! ```text
//! resting -> reading -> closing -> resting -> reading ...
//!                \---------\---------\-> stopped
//! ```
//!
//! While it is *closing*, workers read as before but wait for a millisecond at most: an idle worker would otherwise keep the
//! others, whose sockets fill in the meantime, waiting for its idle interval.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use nameward_base::sync::{Condvar, Mutex};

const RESTING: u8 = 0;
const READING: u8 = 1;
const CLOSING: u8 = 2;
const STOPPED: u8 = 3;

/// How long [`WorkerSwitch::rest`] waits for workers: one may be writing to a terminal that does not scroll.
const REST_PATIENCE: Duration = Duration::from_secs(5);

/// How long a worker waits for datagrams before it calls [`super::BatchHandler::idle`]. Also how late an idle worker notices
/// that it must stop.
pub(crate) const IDLE_INTERVAL: Duration = Duration::from_millis(100);
/// The same while the worker is about to rest.
const BRIEF_INTERVAL: Duration = Duration::from_millis(1);

/// A worker that reads when the switch allows it.
pub(crate) trait SwitchedWorker {
    /// Called before it reads for the first time, and again after each rest.
    fn start(&mut self) {}

    /// Sets how long it waits for datagrams.
    fn set_interval(&mut self, interval: Duration);

    /// Serves each source that has datagrams. `is_busy` means that more are likely; returns the same for the next round.
    fn round(&mut self, is_busy: bool) -> bool;

    /// Answers the queries received before it stops reading.
    fn finish(&mut self);

    /// Checks whether it must end for a reason of its own.
    fn is_closing(&self) -> bool {
        false
    }
}

/// Lets workers read their sockets, rest, or end.
#[derive(Debug)]
pub struct WorkerSwitch {
    state: AtomicU8,
    present: Mutex<Present>,
    changed: Condvar,
}

/// How many workers are reading, and how many of these wait only briefly.
#[derive(Debug, Default)]
struct Present {
    reading: usize,
    hurried: usize,
}

impl Default for WorkerSwitch {
    fn default() -> Self {
        Self::with(READING)
    }
}

impl WorkerSwitch {
    /// A switch of workers that rest until [`WorkerSwitch::read`].
    pub fn resting() -> Self {
        Self::with(RESTING)
    }

    fn with(state: u8) -> Self {
        Self {
            state: AtomicU8::new(state),
            present: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn set(&self, state: u8) {
        // Under the lock: a worker that is about to wait for a change does not miss it.
        let _present = self.present.lock();
        if self.state.load(Ordering::Relaxed) != STOPPED {
            self.state.store(state, Ordering::Relaxed);
        }
        self.changed.notify_all();
    }

    /// Lets workers read their sockets.
    pub fn read(&self) {
        self.set(READING);
    }

    /// Lets workers end, for good, after what has arrived is answered.
    pub fn stop(&self) {
        self.set(STOPPED);
    }

    /// Lets workers answer what has arrived and rest, and waits for that. Returns false if one still reads after five seconds.
    pub fn rest(&self) -> bool {
        let deadline = Instant::now() + REST_PATIENCE;
        self.set(CLOSING);
        self.wait(deadline, |present| present.hurried >= present.reading);
        self.set(RESTING);
        self.wait(deadline, |present| present.reading == 0)
    }

    fn wait(&self, deadline: Instant, is_reached: impl Fn(&Present) -> bool) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let waiting = |present: &mut Present| !is_reached(present);
        let present = self
            .changed
            .wait_timeout_while(self.present.lock(), left, waiting);
        is_reached(&present)
    }

    /// Runs a worker until it must end.
    pub(crate) fn run(&self, worker: &mut impl SwitchedWorker) {
        while !worker.is_closing() && self.enter() {
            worker.start();
            let was_hurried = self.read_until_leave(worker);
            worker.finish();
            self.leave(was_hurried);
        }
    }

    /// Lets a worker read until it must leave. Returns whether it was counted as one that waits only briefly.
    fn read_until_leave(&self, worker: &mut impl SwitchedWorker) -> bool {
        let (mut is_busy, mut is_hurried) = (false, false);
        worker.set_interval(IDLE_INTERVAL);
        while !worker.is_closing() {
            match self.state.load(Ordering::Relaxed) {
                READING => {}
                CLOSING if is_hurried => {}
                CLOSING => {
                    worker.set_interval(BRIEF_INTERVAL);
                    is_hurried = true;
                    self.hurry();
                }
                _ => break,
            }
            is_busy = worker.round(is_busy);
        }
        is_hurried
    }

    /// Waits until a worker may read; false if it must end.
    fn enter(&self) -> bool {
        let mut present = self.present.lock();
        loop {
            match self.state.load(Ordering::Relaxed) {
                STOPPED => return false,
                RESTING => present = self.changed.wait(present),
                _ => {
                    present.reading += 1;
                    return true;
                }
            }
        }
    }

    /// Ends the reading of a worker.
    fn leave(&self, was_hurried: bool) {
        let mut present = self.present.lock();
        present.reading -= 1;
        present.hurried -= usize::from(was_hurried);
        self.changed.notify_all();
    }

    /// Notes that a worker waits only briefly from now on.
    fn hurry(&self) {
        self.present.lock().hurried += 1;
        self.changed.notify_all();
    }
}
