//! Waiting for a condition, with a limit that only a hang reaches.

use std::thread;
use std::time::{Duration, Instant};

/// Only a hang takes so long.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until a condition holds; a panic names it if it never does.
pub fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    wait_with_log(what, String::new, is_so);
}

/// Waits until a condition holds; a panic names it, with the end of a log, if it never does.
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
