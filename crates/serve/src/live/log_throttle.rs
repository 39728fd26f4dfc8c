//! Failures of a source that go to the log: a database that is down fails every question, and a row that cannot be read
//! every question for its name, but nobody reads a line a question.

use std::time::{Duration, Instant};

use nameward_answer::BackendFailure;
use nameward_stats::LogThrottle;

/// How often the log says that a source does not answer.
const INTERVAL: Duration = Duration::from_secs(5);
/// How often the log says that the same data cannot be used.
const SAME_DATA: Duration = Duration::from_secs(60);
/// Different data that the log names within that time.
const MOST: usize = 32;

/// The failures of one source that were logged of late, apart by kind: neither hides the other.
pub(super) struct FailureThrottle {
    down: LogThrottle,
    data: LogThrottle,
}

impl Default for FailureThrottle {
    fn default() -> Self {
        FailureThrottle {
            down: LogThrottle::new(INTERVAL),
            data: LogThrottle::by_text(SAME_DATA, MOST),
        }
    }
}

impl FailureThrottle {
    /// Returns whether to log this failure; if so, how many of its kind were passed over before it.
    pub(super) fn admit(
        &mut self,
        kind: BackendFailure,
        reason: &str,
        now: Instant,
    ) -> Option<u64> {
        match kind {
            BackendFailure::BadData => self.data.admit(reason, now),
            BackendFailure::Unreachable | BackendFailure::NotReady => self.down.admit(reason, now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_is_down_does_not_hide_data_that_cannot_be_used() {
        let (mut throttle, now) = (FailureThrottle::default(), Instant::now());
        let (down, bad) = (BackendFailure::Unreachable, BackendFailure::BadData);
        assert_eq!(throttle.admit(down, "no route", now), Some(0));
        assert_eq!(throttle.admit(down, "no route", now), None);
        assert_eq!(throttle.admit(bad, "id 1", now), Some(0));
        assert_eq!(throttle.admit(bad, "id 1", now), None);
        assert_eq!(throttle.admit(bad, "id 2", now), Some(1));
        assert_eq!(throttle.admit(down, "no route", now + INTERVAL), Some(1));
        assert_eq!(throttle.admit(bad, "id 1", now + SAME_DATA), Some(0));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut throttle, now) = (FailureThrottle::default(), Instant::now());
        let bad = BackendFailure::BadData;
        let is_logged = |n: &usize| throttle.admit(bad, &format!("id {n}"), now).is_some();
        assert_eq!((0..1000).filter(is_logged).count(), MOST);
        assert_eq!(throttle.admit(bad, "id 1", now + SAME_DATA), Some(968));
    }
}
