//! Which failures of a source go to the log: a database that is down fails every question, and a row that cannot be read
//! every question for its name, but nobody reads a line a question.

use std::time::{Duration, Instant};

use nameward_answer::BackendFailure;

/// How often it is told that a source does not answer.
const INTERVAL: Duration = Duration::from_secs(5);
/// How often it is told that the same data cannot be used.
const SAME_DATA: Duration = Duration::from_secs(60);
/// Different data that is told of within that time.
const MOST: usize = 32;

/// What was told of one source.
#[derive(Default)]
pub(super) struct Told {
    last: Option<Instant>,
    /// Failures since then that were not told.
    unsaid: u64,
    /// Reasons of data that cannot be used, and when each was told.
    data: Vec<(Instant, String)>,
    unsaid_data: u64,
}

impl Told {
    /// Whether to tell this one; if so, how many of its kind were not told before it.
    pub(super) fn take(&mut self, kind: BackendFailure, reason: &str, now: Instant) -> Option<u64> {
        let (is_told, unsaid) = match kind {
            BackendFailure::BadData => (self.take_data(reason, now), &mut self.unsaid_data),
            BackendFailure::Unreachable | BackendFailure::NotReady => {
                let is_due = self.last.is_none_or(|last| now - last >= INTERVAL);
                if is_due {
                    self.last = Some(now);
                }
                (is_due, &mut self.unsaid)
            }
        };
        if is_told {
            return Some(std::mem::take(unsaid));
        }
        *unsaid += 1;
        None
    }

    fn take_data(&mut self, reason: &str, now: Instant) -> bool {
        self.data.retain(|(told, _)| now - *told < SAME_DATA);
        if self.data.len() >= MOST || self.data.iter().any(|(_, told)| told == reason) {
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
        let (mut told, now) = (Told::default(), Instant::now());
        let (down, bad) = (BackendFailure::Unreachable, BackendFailure::BadData);
        assert_eq!(told.take(down, "no route", now), Some(0));
        assert_eq!(told.take(down, "no route", now), None);
        assert_eq!(told.take(bad, "id 1", now), Some(0));
        assert_eq!(told.take(bad, "id 1", now), None);
        assert_eq!(told.take(bad, "id 2", now), Some(1));
        assert_eq!(told.take(down, "no route", now + INTERVAL), Some(1));
        assert_eq!(told.take(bad, "id 1", now + SAME_DATA), Some(0));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut told, now) = (Told::default(), Instant::now());
        let bad = BackendFailure::BadData;
        let is_told = |n: &usize| told.take(bad, &format!("id {n}"), now).is_some();
        assert_eq!((0..1000).filter(is_told).count(), MOST);
        assert_eq!(told.data.len(), MOST);
        assert_eq!(told.take(bad, "id 1", now + SAME_DATA), Some(968));
    }
}
