//! The clock of threads that wait for days: wall clock times, measured by the monotonic clock.
//!
//! Refresh, retry, expire and key rollovers are wall clock times, since they are kept over a restart. A wall clock
//! that is set back by a year would stop them for a year, and one that is set forward would expire every zone. So
//! time advances by the monotonic clock, and [`SteadyClock::step`] reports by how much the wall clock was set: the
//! owner then shifts its times by as much.

use crate::schedule::Moment;
use nameward_base::time::now_milliseconds;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Deviations below this many milliseconds are followed silently: leap seconds, NTP slewing.
const TOLERATED: u64 = 10_000;

/// A clock; clones share it.
#[derive(Debug, Clone)]
pub struct SteadyClock {
    start: Instant,
    /// Wall clock time at the start, in milliseconds since 1970, shifted by all steps since.
    wall_at_start: Arc<AtomicU64>,
}

impl Default for SteadyClock {
    fn default() -> Self {
        SteadyClock {
            start: Instant::now(),
            wall_at_start: Arc::new(AtomicU64::new(now_milliseconds())),
        }
    }
}

impl SteadyClock {
    /// Returns the wall clock time as of the last [step](SteadyClock::step).
    pub fn now(&self) -> Moment {
        Moment(
            self.wall_at_start
                .load(Ordering::Relaxed)
                .saturating_add(self.elapsed()),
        )
    }

    /// Compares with the wall clock and follows it. Returns the milliseconds by which it was set, if it was. Only the
    /// owner of the times calls this.
    pub fn step(&self) -> Option<i64> {
        self.follow(now_milliseconds())
    }

    fn follow(&self, wall: u64) -> Option<i64> {
        let now = self.now().0;
        let step = i64::try_from(i128::from(wall) - i128::from(now)).unwrap_or(i64::MAX);
        let at_start = wall.saturating_sub(self.elapsed());
        self.wall_at_start.store(at_start, Ordering::Relaxed);
        (step.unsigned_abs() >= TOLERATED).then_some(step)
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Describes a step for the log: `back by 730 d 12 h`.
pub fn step_text(milliseconds: i64) -> String {
    let seconds = milliseconds.unsigned_abs() / 1000;
    let direction = if milliseconds < 0 { "back" } else { "forward" };
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{direction} by {seconds} s"),
        (0, 0, _) => format!("{direction} by {minutes} min {} s", seconds % 60),
        (0, ..) => format!("{direction} by {hours} h {minutes} min"),
        _ => format!("{direction} by {days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_is_noticed_once_and_small_deviations_are_not() {
        let clock = SteadyClock::default();
        let other = clock.clone();
        let wall = clock.now().0;
        assert_eq!(clock.follow(wall + 3000), None);
        let two_years = 2 * 365 * 86_400_000;
        let step = clock.follow(wall - two_years).unwrap();
        assert!((step + two_years as i64).abs() < 10_000, "{step}");
        assert_eq!(clock.follow(wall - two_years), None);
        assert!(other.now().0 < wall - two_years + 10_000);
        let step = clock.follow(wall).unwrap();
        assert!((step - two_years as i64).abs() < 10_000, "{step}");
    }

    #[test]
    fn a_step_is_described_in_words() {
        assert_eq!(step_text(-63_115_187_000), "back by 730 d 11 h");
        assert_eq!(step_text(5_460_000), "forward by 1 h 31 min");
        assert_eq!(step_text(-61_000), "back by 1 min 1 s");
        assert_eq!(step_text(15_000), "forward by 15 s");
    }
}
