//! Makes signatures that are not in the cache, off the UDP workers, the TCP runtime and the look-up threads.
//!
//! ```text
//! worker, runtime, look-up:  engine with the signature cache alone -> all there: answered at once
//!                            one is missing: the query is queued, like those that wait for a look-up
//! signing thread:            engine again, making what is missing -> cache, answer
//! ```
//! An RSA signature takes as long as a thousand answers, and anyone can query names that were never queried before.
//! The signing threads together use a configurable share of the CPU, at low priority. Queries wait in a bounded queue
//! ([`queue`]), zones take turns, and equal queries wait together. Over UDP a query that finds the queue full is
//! answered with TC: clients with a genuine address return over TCP, which has its own share of the queue.

mod pace;
mod queue;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nameward_answer::Making;

use crate::live::Answerer;
use crate::pipeline::ServingState;
use crate::sys;
use pace::Pace;
pub(crate) use queue::{SigningLocation, SigningQueue};

/// Maximum number of different queries that a signing thread takes at once: their replies share system calls.
const BATCH: usize = 16;
/// Time that a batch should take: a query of another zone waits for all of it, and 16 RSA signatures take up to 80 ms.
const BATCH_TIME: Duration = Duration::from_millis(1);
/// How long a finished reply waits for the others of its batch: many signatures with ECDSA, one with RSA.
const REPLIES_HELD: Duration = Duration::from_micros(500);

/// Starts the signing threads. They end when the queue is closed.
pub(crate) fn start(shared: &Arc<ServingState>, cpu_percent: usize) -> io::Result<()> {
    let (threads, share) = threads_and_share(cpu_percent);
    for index in 0..threads {
        let shared = Arc::clone(shared);
        thread::Builder::new()
            .name(format!("sign-{index}"))
            .spawn(move || work(&shared, share))?;
    }
    shared.signing.open();
    Ok(())
}

/// Keeps a thread that signs many RRsets in a row to its share of the CPU.
pub struct SigningPacer {
    pace: Pace,
    since: Duration,
    calls: u32,
}

impl SigningPacer {
    /// Starts measuring for the calling thread.
    pub fn new(share: f64) -> Self {
        SigningPacer {
            pace: Pace::new(share, Instant::now()),
            since: sys::thread_cpu_time(),
            calls: 0,
        }
    }

    /// Sleeps if the thread has used more than its share. Reads the clock every 16 calls.
    pub fn pause(&mut self) {
        self.calls += 1;
        if !self.calls.is_multiple_of(16) {
            return;
        }
        let now = sys::thread_cpu_time();
        let used = now.saturating_sub(std::mem::replace(&mut self.since, now));
        if let Some(pause) = self.pace.spend(used, Instant::now()) {
            thread::sleep(pause);
        }
    }
}

/// Returns the number of signing threads on this machine, and the share of a core that each may use.
pub(crate) fn threads_and_share(cpu_percent: usize) -> (usize, f64) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    divide(cores, cpu_percent)
}

/// Returns the number of threads, and the share of a core that each may use.
fn divide(cores: usize, cpu_percent: usize) -> (usize, f64) {
    let hundredths = (cores * cpu_percent).max(1);
    let threads = hundredths.div_ceil(100);
    (threads, hundredths as f64 / (threads * 100) as f64)
}

fn work(shared: &Arc<ServingState>, share: f64) {
    sys::give_way();
    let mut answerer = Answerer::new(shared, Making::NOW);
    let mut pace = Pace::new(share, Instant::now());
    let mut used_before = sys::thread_cpu_time();
    let (mut jobs, mut batch) = (Vec::new(), BATCH);
    while shared.signing.pop(&mut jobs, batch) {
        let (started, count) = (Instant::now(), jobs.len());
        let mut sent = started;
        for job in jobs.drain(..) {
            let now = Instant::now();
            if now.saturating_duration_since(sent) >= REPLIES_HELD {
                answerer.flush();
                sent = now;
            }
            // A bug triggered by one query fails that query, not the thread.
            let run = AssertUnwindSafe(|| answerer.answer(shared, (job, None), now));
            if catch_unwind(run).is_err() {
                tracing::error!("internal error while signing");
            }
        }
        answerer.flush();
        batch = next_batch(count, started.elapsed());
        let used = sys::thread_cpu_time();
        let spent = used.saturating_sub(std::mem::replace(&mut used_before, used));
        if let Some(pause) = pace.spend(spent, Instant::now()) {
            thread::sleep(pause);
        }
    }
}

/// Returns how many queries to take after a batch of `count` that took this long.
fn next_batch(count: usize, took: Duration) -> usize {
    let each = took.as_nanos() / count.max(1) as u128;
    let fitting = BATCH_TIME.as_nanos() / each.max(1);
    usize::try_from(fitting).map_or(BATCH, |fitting| fitting.clamp(1, BATCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_signatures_are_made_one_at_a_time() {
        let micros = Duration::from_micros;
        assert_eq!(next_batch(16, micros(480)), 16);
        assert_eq!(next_batch(16, micros(3200)), 5);
        assert_eq!(next_batch(1, micros(5000)), 1);
        assert_eq!(next_batch(1, Duration::ZERO), 16);
    }

    #[test]
    fn the_share_is_divided_over_as_few_threads_as_can_take_it() {
        assert_eq!(divide(1, 100), (1, 1.0));
        assert_eq!(divide(2, 25), (1, 0.5));
        assert_eq!(divide(2, 50), (1, 1.0));
        assert_eq!(divide(32, 25), (8, 1.0));
        assert_eq!(divide(3, 50), (2, 0.75));
        assert_eq!(divide(1, 1), (1, 0.01));
    }
}
