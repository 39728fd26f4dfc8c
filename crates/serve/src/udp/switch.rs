//! The switch of all UDP workers of a server: whether they read their sockets.
//!
//! ```text
//! paused -> reading -> closing -> paused -> reading ...
//!                \---------\---------\-> stopped
//! ```
//!
//! While it is *closing*, workers continue to read but wait for a millisecond at most: otherwise an idle worker would
//! delay the others for its idle interval, while their sockets fill.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use nameward_base::sync::{Condvar, Mutex};

const PAUSED: u8 = 0;
const READING: u8 = 1;
const CLOSING: u8 = 2;
const STOPPED: u8 = 3;

/// How long [`WorkerSwitch::pause`] waits for workers: one may be blocked writing to a terminal.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a worker waits for datagrams before it calls [`super::BatchHandler::idle`]; also the maximum delay before
/// an idle worker notices that it must stop.
pub(crate) const IDLE_INTERVAL: Duration = Duration::from_millis(100);
/// The same while the worker is about to pause.
const BRIEF_INTERVAL: Duration = Duration::from_millis(1);

/// A worker that reads when the switch allows it.
pub(crate) trait SwitchedWorker {
    /// Called before it reads for the first time, and again after each pause.
    fn start(&mut self) {}

    /// Sets how long it waits for datagrams.
    fn set_interval(&mut self, interval: Duration);

    /// Serves each source that has datagrams. `is_busy` means that more are likely; returns the same for the next
    /// round.
    fn round(&mut self, is_busy: bool) -> bool;

    /// Answers the queries received before it stops reading.
    fn finish(&mut self);

    /// Checks whether it must end independently of the switch.
    fn is_closing(&self) -> bool {
        false
    }
}

/// Lets workers read their sockets, pause, or end.
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
    brief: usize,
}

impl Default for WorkerSwitch {
    fn default() -> Self {
        Self::with(READING)
    }
}

impl WorkerSwitch {
    /// A switch whose workers are paused until [`WorkerSwitch::read`].
    pub fn paused() -> Self {
        Self::with(PAUSED)
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

    /// Ends the workers for good, after they have answered what has arrived.
    pub fn stop(&self) {
        self.set(STOPPED);
    }

    /// Lets workers answer what has arrived and pause, and waits for that. Returns false if one still reads after
    /// five seconds.
    pub fn pause(&self) -> bool {
        let deadline = Instant::now() + PAUSE_TIMEOUT;
        self.set(CLOSING);
        self.wait(deadline, |present| present.brief >= present.reading);
        self.set(PAUSED);
        self.wait(deadline, |present| present.reading == 0)
    }

    fn wait(&self, deadline: Instant, is_reached: impl Fn(&Present) -> bool) -> bool {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let waiting = |present: &mut Present| !is_reached(present);
        let present = self
            .changed
            .wait_timeout_while(self.present.lock(), remaining, waiting);
        is_reached(&present)
    }

    /// Runs a worker until it must end.
    pub(crate) fn run(&self, worker: &mut impl SwitchedWorker) {
        while !worker.is_closing() && self.enter() {
            worker.start();
            let was_brief = self.read_until_leave(worker);
            worker.finish();
            self.leave(was_brief);
        }
    }

    /// Lets a worker read until it must leave. Returns whether it was counted as waiting only briefly.
    fn read_until_leave(&self, worker: &mut impl SwitchedWorker) -> bool {
        let (mut is_busy, mut is_brief) = (false, false);
        worker.set_interval(IDLE_INTERVAL);
        while !worker.is_closing() {
            match self.state.load(Ordering::Relaxed) {
                READING => {}
                CLOSING if is_brief => {}
                CLOSING => {
                    worker.set_interval(BRIEF_INTERVAL);
                    is_brief = true;
                    self.wait_briefly();
                }
                _ => break,
            }
            is_busy = worker.round(is_busy);
        }
        is_brief
    }

    /// Waits until a worker may read; false if it must end.
    fn enter(&self) -> bool {
        let mut present = self.present.lock();
        loop {
            match self.state.load(Ordering::Relaxed) {
                STOPPED => return false,
                PAUSED => present = self.changed.wait(present),
                _ => {
                    present.reading += 1;
                    return true;
                }
            }
        }
    }

    /// Counts a worker that has stopped reading.
    fn leave(&self, was_brief: bool) {
        let mut present = self.present.lock();
        present.reading -= 1;
        present.brief -= usize::from(was_brief);
        self.changed.notify_all();
    }

    /// Records that a worker waits only briefly from now on.
    fn wait_briefly(&self) {
        self.present.lock().brief += 1;
        self.changed.notify_all();
    }
}
