//! Keeps a thread to its share of a core.

use std::time::{Duration, Instant};

/// Seconds of unused CPU time that may be saved up: a zone queried for the first time is signed at
/// once.
const BURST: f64 = 0.1;

/// The CPU time that a thread may still use.
pub(super) struct Pace {
    /// Share of a core, above 0 and up to 1.
    share: f64,
    /// Seconds of CPU time; below 0 the thread has used more than its share.
    credit: f64,
    last: Instant,
}

impl Pace {
    pub(super) fn new(share: f64, now: Instant) -> Self {
        Pace {
            share,
            credit: BURST,
            last: now,
        }
    }

    /// Records CPU time used until `now`; returns how long to pause.
    pub(super) fn spend(&mut self, used: Duration, now: Instant) -> Option<Duration> {
        let earned = now.saturating_duration_since(self.last).as_secs_f64() * self.share;
        self.last = now;
        self.credit = (self.credit + earned).min(BURST) - used.as_secs_f64();
        (self.credit < 0.0).then(|| Duration::from_secs_f64(-self.credit / self.share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works without a break for a minute, on a clock that only pauses and work advance.
    fn used_in_a_minute(share: f64, piece: Duration) -> f64 {
        let start = Instant::now();
        let (mut now, mut used) = (start, Duration::ZERO);
        let mut pace = Pace::new(share, now);
        while now - start < Duration::from_secs(60) {
            now += piece;
            used += piece;
            now += pace.spend(piece, now).unwrap_or_default();
        }
        used.as_secs_f64() / 60.0
    }

    #[test]
    fn a_thread_that_never_rests_uses_its_share_and_no_more() {
        for share in [0.01, 0.25, 0.5, 0.75] {
            for piece in [Duration::from_micros(30), Duration::from_millis(2)] {
                let used = used_in_a_minute(share, piece);
                assert!((used - share).abs() < 0.01, "{share}: {used}");
            }
        }
        assert!(used_in_a_minute(1.0, Duration::from_millis(1)) > 0.99);
    }

    #[test]
    fn an_idle_thread_may_make_up_for_a_moment_only() {
        let start = Instant::now();
        let mut pace = Pace::new(0.5, start);
        let later = start + Duration::from_secs(3600);
        assert_eq!(pace.spend(Duration::from_millis(90), later), None);
        let pause = pace.spend(Duration::from_millis(60), later);
        assert_eq!(pause.map(|pause| pause.as_millis()), Some(100));
    }
}
