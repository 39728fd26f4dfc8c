//! Keeps a thread alive when a piece of its work panics: without the thread, zones would stay as they are forever,
//! unnoticed. Unfinished work is found again by the next check.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
    time::Duration,
};

/// Pause after a bug, so that one that recurs at once does not fill log and processor.
const REST: Duration = Duration::from_secs(1);

/// Performs a piece of a thread's work; returns whether it was completed. `what` ends the sentence "a bug while ...".
pub fn spare_thread(what: &str, work: impl FnOnce()) -> bool {
    // The panic itself is already in the process log, with its location.
    let is_done = catch_unwind(AssertUnwindSafe(work)).is_ok();
    if !is_done {
        tracing::error!("a bug while {what}: gone on with");
        thread::sleep(REST);
    }
    is_done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_costs_the_work_that_met_it_and_the_thread_goes_on() {
        let mut done = Vec::new();
        for piece in 0..3 {
            let is_done = spare_thread("it is tried", || {
                assert_ne!(piece, 1, "a bug on purpose");
                done.push(piece);
            });
            assert_eq!(is_done, piece != 1);
        }
        assert_eq!(done, [0, 2]);
    }
}
