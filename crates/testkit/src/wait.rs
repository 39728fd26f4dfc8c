//! Waiting for a condition, with a timeout that only a hang exceeds.

use std::thread;
use std::time::{Duration, Instant};

/// Only a hang takes this long.
const PATIENCE: Duration = Duration::from_secs(120);
/// Pause between two checks.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until a condition holds; otherwise panics with its description.
pub fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    wait_with_log(what, String::new, is_so);
}

/// Waits until a condition holds; otherwise panics with its description and the end of a log.
pub fn wait_with_log(what: &str, log: impl Fn() -> String, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(
            start.elapsed() < PATIENCE,
            "{what} did not come about\n{}",
            log()
        );
        thread::sleep(PAUSE);
    }
}
