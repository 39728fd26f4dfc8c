//! Rate limit for logging source failures: a database that is down fails every query, and an invalid row every query
//! for its name, but one log line per query is useless.

use std::time::{Duration, Instant};

use nameward_answer::BackendFailure;
use nameward_stats::LogThrottle;

/// Interval between log lines about a source that does not answer.
const INTERVAL: Duration = Duration::from_secs(5);
/// Interval between log lines about the same unusable data.
const SAME_DATA: Duration = Duration::from_secs(60);
/// Maximum number of different log lines about data within that time.
const MOST: usize = 32;

/// The recently logged failures of one source, separately by kind, so that neither hides the other.
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
    /// Decides whether to log this failure; if so, returns how many of its kind were skipped before it.
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
