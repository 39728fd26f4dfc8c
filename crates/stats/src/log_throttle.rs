//! A log throttle: errors that occur with every query are logged only occasionally, with the number of suppressed
//! messages.

use std::time::{Duration, Instant};

/// Admits a message once per interval, and only a few different ones.
#[derive(Debug)]
pub struct LogThrottle {
    interval: Duration,
    /// Maximum number of different messages per interval.
    most: usize,
    /// Messages logged within the interval.
    logged: Vec<(Instant, String)>,
    passed_over: u64,
}

impl LogThrottle {
    /// Creates a throttle for messages of one kind, whatever their text.
    pub const fn new(interval: Duration) -> Self {
        LogThrottle::by_text(interval, 1)
    }

    /// Creates a throttle that admits up to `most` different messages per interval, each once.
    pub const fn by_text(interval: Duration, most: usize) -> Self {
        LogThrottle {
            interval,
            most,
            logged: Vec::new(),
            passed_over: 0,
        }
    }

    /// Decides whether to log this message now; if so, returns how many were suppressed since the last one.
    pub fn admit(&mut self, text: &str, now: Instant) -> Option<u64> {
        let interval = self.interval;
        self.logged
            .retain(|(at, _)| now.saturating_duration_since(*at) < interval);
        if self.logged.len() >= self.most || self.logged.iter().any(|(_, logged)| logged == text) {
            self.passed_over += 1;
            return None;
        }
        self.logged.push((now, text.to_owned()));
        Some(std::mem::take(&mut self.passed_over))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn one_kind_of_message_is_logged_once_per_interval_whatever_its_text() {
        let (mut throttle, now) = (LogThrottle::new(MINUTE), Instant::now());
        assert_eq!(throttle.admit("no route", now), Some(0));
        assert_eq!(throttle.admit("no route", now), None);
        assert_eq!(throttle.admit("refused", now), None);
        assert_eq!(throttle.admit("refused", now + MINUTE), Some(2));
        assert_eq!(throttle.admit("refused", now + MINUTE), None);
    }

    #[test]
    fn each_text_is_logged_once_in_an_interval_and_few_of_them() {
        let (mut throttle, now) = (LogThrottle::by_text(MINUTE, 3), Instant::now());
        assert_eq!(throttle.admit("id 1", now), Some(0));
        assert_eq!(throttle.admit("id 1", now), None);
        assert_eq!(throttle.admit("id 2", now), Some(1));
        let admitted = (0..1000).filter(|n| throttle.admit(&format!("{n}"), now).is_some());
        assert_eq!(admitted.count(), 1);
        assert_eq!(throttle.logged.len(), 3);
        assert_eq!(throttle.admit("id 1", now + MINUTE), Some(999));
    }

    #[test]
    fn a_clock_that_goes_back_lets_nothing_through_twice() {
        let (mut throttle, now) = (LogThrottle::new(MINUTE), Instant::now() + MINUTE);
        assert_eq!(throttle.admit("down", now), Some(0));
        assert_eq!(throttle.admit("down", now - MINUTE), None);
    }
}
