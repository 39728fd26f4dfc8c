//! The minimum rate of an incoming transfer: otherwise a primary that sends a small message every
//! second would occupy its slot, and the memory of what it sent, for hours.

use std::time::{Duration, Instant};

use super::failure::QueryFailure;

/// Counts octets in consecutive time windows.
pub(super) struct RateCheck {
    octets_per_second: u64,
    window: Duration,
    started: Instant,
    octets: u64,
}

impl RateCheck {
    /// Starts the first window; 0 octets per second accepts any rate.
    pub(super) fn new(octets_per_second: u64, window: Duration, now: Instant) -> Self {
        RateCheck {
            octets_per_second,
            window,
            started: now,
            octets: 0,
        }
    }

    /// Starts a new window because this server did not read for a while.
    pub(super) fn restart(&mut self, now: Instant) {
        (self.started, self.octets) = (now, 0);
    }

    /// Counts a message, and checks the rate at the end of a window.
    pub(super) fn add(&mut self, octets: usize, now: Instant) -> Result<(), QueryFailure> {
        self.octets += octets as u64;
        let elapsed = now.saturating_duration_since(self.started);
        if elapsed < self.window {
            return Ok(());
        }
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let minimum = self.octets_per_second.saturating_mul(millis) / 1000;
        if self.octets < minimum {
            return Err(QueryFailure::TooSlow {
                octets: self.octets,
                seconds: elapsed.as_secs_f64(),
                least: self.octets_per_second,
            });
        }
        self.restart(now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_checked_at_the_end_of_each_window() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut rate = RateCheck::new(1024, Duration::from_secs(30), start);
        // Bursts are accepted: 64 KiB in a window of 30 seconds.
        for window in 0..10 {
            rate.add(64 << 10, at(window * 30 + 29)).unwrap();
            rate.add(100, at(window * 30 + 30)).unwrap();
        }
        for second in 1..=30 {
            let is_cut = rate.add(100, at(300 + second)).is_err();
            assert_eq!(is_cut, second == 30, "{second}");
        }
        let mut any = RateCheck::new(0, Duration::from_secs(30), start);
        any.add(1, at(3000)).unwrap();
    }
}
