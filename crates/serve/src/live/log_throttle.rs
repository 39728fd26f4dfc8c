//! A log throttle for the failures of a source: a database that is down fails every question, and a row that cannot be
//! read every question for its name, but nobody reads a line a question.

use std::time::{Duration, Instant};

use nameward_answer::BackendFailure;

/// How often the log says that a source does not answer.
const INTERVAL: Duration = Duration::from_secs(5);
/// How often the log says that the same data cannot be used.
const SAME_DATA: Duration = Duration::from_secs(60);
/// Different data that the log names within that time.
const MOST: usize = 32;

/// The failures of one source that were logged of late.
#[derive(Default)]
pub(super) struct LogThrottle {
    last: Option<Instant>,
    /// Failures since then that were not logged.
    unlogged: u64,
    /// Reasons of data that cannot be used, and when each was logged.
    data: Vec<(Instant, String)>,
    unlogged_data: u64,
}

impl LogThrottle {
    /// Returns whether to log this failure; if so, how many of its kind were passed over before it.
    pub(super) fn admit(
        &mut self,
        kind: BackendFailure,
        reason: &str,
        now: Instant,
    ) -> Option<u64> {
        let (is_logged, unlogged) = match kind {
            BackendFailure::BadData => (self.admit_data(reason, now), &mut self.unlogged_data),
            BackendFailure::Unreachable | BackendFailure::NotReady => {
                let is_due = self.last.is_none_or(|last| now - last >= INTERVAL);
                if is_due {
                    self.last = Some(now);
                }
                (is_due, &mut self.unlogged)
            }
        };
        if is_logged {
            return Some(std::mem::take(unlogged));
        }
        *unlogged += 1;
        None
    }

    fn admit_data(&mut self, reason: &str, now: Instant) -> bool {
        self.data.retain(|(logged, _)| now - *logged < SAME_DATA);
        if self.data.len() >= MOST || self.data.iter().any(|(_, logged)| logged == reason) {
            return false;
        }
        self.data.push((now, reason.into()));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_is_down_does_not_hide_data_that_cannot_be_used() {
        let (mut throttle, now) = (LogThrottle::default(), Instant::now());
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
        let (mut throttle, now) = (LogThrottle::default(), Instant::now());
        let bad = BackendFailure::BadData;
        let is_logged = |n: &usize| throttle.admit(bad, &format!("id {n}"), now).is_some();
        assert_eq!((0..1000).filter(is_logged).count(), MOST);
        assert_eq!(throttle.data.len(), MOST);
        assert_eq!(throttle.admit(bad, "id 1", now + SAME_DATA), Some(968));
    }
}
