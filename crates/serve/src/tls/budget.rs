//! The CPU time that TLS handshakes may take.
//!
//! A handshake costs as much as a hundred queries, and anyone can request one. They are computed one at a time, and
//! all together within a share of the cores, so that a flood leaves the rest to queries. Handshakes beyond the share
//! wait in a queue until their timeout.

use std::time::{Duration, Instant};

use nameward_base::sync::Mutex;
use tokio::sync::Semaphore;

/// Limit of the unused share that is saved up.
const BURST: Duration = Duration::from_millis(50);
/// The share of the cores for handshakes, never more than one core: the runtime's other threads serve connections.
const SHARE: f64 = 0.25;
const SHARE_MIN: f64 = 0.5;

/// The budget of all handshakes.
pub struct HandshakeBudget {
    turn: Semaphore,
    /// The time at which the CPU time used so far is paid for.
    paid_at: Mutex<Instant>,
    /// Seconds to wait for each second used.
    price: f64,
}

impl HandshakeBudget {
    /// Creates the budget for a machine with this many cores.
    pub fn new(cores: usize) -> Self {
        let share = (cores as f64 * SHARE).clamp(SHARE_MIN, 1.0);
        HandshakeBudget {
            turn: Semaphore::new(1),
            paid_at: Mutex::new(Instant::now()),
            price: 1.0 / share,
        }
    }

    /// Runs a step of a handshake when it is its turn.
    pub async fn run<T>(&self, step: impl FnOnce() -> T) -> T {
        // The semaphore is never closed.
        let _turn = self.turn.acquire().await;
        let debt = self.debt(Instant::now());
        if !debt.is_zero() {
            tokio::time::sleep(debt).await;
        }
        let started = Instant::now();
        let result = step();
        self.charge(started, Instant::now());
        result
    }

    /// Returns the time until the next step may start.
    fn debt(&self, now: Instant) -> Duration {
        let paid_at = *self.paid_at.lock();
        paid_at.saturating_duration_since(now).saturating_sub(BURST)
    }

    fn charge(&self, started: Instant, ended: Instant) {
        let mut paid_at = self.paid_at.lock();
        let cost = (ended - started).mul_f64(self.price);
        *paid_at = (*paid_at).max(started) + cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_beyond_a_burst_has_to_wait() {
        let budget = HandshakeBudget::new(2);
        let start = *budget.paid_at.lock();
        budget.charge(start, start + Duration::from_millis(25));
        assert_eq!(budget.debt(start), Duration::ZERO);
        budget.charge(start, start + Duration::from_millis(25));
        // Half a core: 50 ms used cost 100 ms.
        assert_eq!(budget.debt(start), Duration::from_millis(50));
        assert_eq!(
            budget.debt(start + Duration::from_millis(60)),
            Duration::ZERO
        );
    }

    #[test]
    fn unused_time_is_not_saved_up() {
        let budget = HandshakeBudget::new(64);
        let later = *budget.paid_at.lock() + Duration::from_secs(3600);
        budget.charge(later, later + Duration::from_millis(80));
        assert_eq!(budget.debt(later), Duration::from_millis(30));
    }
}
