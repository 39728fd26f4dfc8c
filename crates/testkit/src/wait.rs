//! Waiting for a condition, with a timeout that only a hang exceeds.

use std::thread;
use std::time::{Duration, Instant};

/// Only a hang takes this long.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Minimum pause between two checks.
const PAUSE: Duration = Duration::from_millis(5);
/// The pause is this many times as long as the last check: a check that runs a program leaves the processor to what is
/// waited for, and to other tests.
const PAUSE_FACTOR: u32 = 3;

/// Waits until a condition holds; otherwise panics with its description.
pub fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    wait_with_log(what, String::new, is_so);
}

/// Waits until a condition holds; otherwise panics with its description and the end of a log.
pub fn wait_with_log(what: &str, log: impl Fn() -> String, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    let mut checked = start;
    while !is_so() {
        assert!(
            start.elapsed() < TIMEOUT,
            "{what} did not come about\n{}",
            log()
        );
        thread::sleep(PAUSE.max(checked.elapsed() * PAUSE_FACTOR));
        checked = Instant::now();
    }
}
