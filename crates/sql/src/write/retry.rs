//! How long and how often a change that lost a conflict is retried.
//!
//! Two servers that change one zone on two nodes of a cluster conflict; one of them wins. Pauses are random, so that
//! they do not collide repeatedly, and grow, so that many writers give each other time.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// How long a change is retried after its first conflict.
const WINDOW: Duration = Duration::from_secs(2);
/// Upper limit of the first pause, and of all pauses.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(160);

/// The conflicts of one change.
#[derive(Default)]
pub(super) struct ConflictRetries {
    first: Option<Instant>,
    count: u32,
}

impl ConflictRetries {
    /// Returns how long to wait before the next attempt; `None` if the change must be given up.
    pub(super) fn next_pause(&mut self, now: Instant) -> Option<Duration> {
        let first = *self.first.get_or_insert(now);
        if now.duration_since(first) >= WINDOW {
            return None;
        }
        let longest = FIRST_PAUSE * 2u32.pow(self.count.min(8));
        self.count += 1;
        // Each hasher state has its own keys.
        let random = RandomState::new().hash_one(self.count);
        let nanos = longest.min(LONGEST_PAUSE).as_nanos() as u64;
        Some(Duration::from_nanos(random % nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_are_retried_with_random_pauses_for_a_bounded_time() {
        let (mut retries, start) = (ConflictRetries::default(), Instant::now());
        let (mut now, mut pauses) = (start, Vec::new());
        while let Some(pause) = retries.next_pause(now) {
            assert!(pause < LONGEST_PAUSE);
            pauses.push(pause);
            // Each attempt takes a moment.
            now += pause + Duration::from_millis(1);
        }
        assert!((12..2000).contains(&pauses.len()), "{}", pauses.len());
        assert!(now - start < WINDOW + LONGEST_PAUSE + Duration::from_millis(1));
        pauses.dedup();
        assert!(pauses.len() > 5, "pauses are not all alike");
    }
}
