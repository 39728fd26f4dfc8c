//! Back-off for a database that is down: retried soon at first, then rarely, and never by every query.

use super::error::SqlError;
use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// The attempts to reach one database.
#[derive(Default)]
pub(crate) struct BackOff {
    failed: Option<(Instant, Duration, SqlError)>,
}

impl BackOff {
    /// Checks whether a connection may be tried now; otherwise returns the error of the last attempt.
    pub(crate) fn check(&self) -> Result<(), SqlError> {
        match &self.failed {
            Some((at, wait, error)) if at.elapsed() < *wait => Err(error.clone()),
            _ => Ok(()),
        }
    }

    pub(crate) fn succeed(&mut self) {
        self.failed = None;
    }

    /// Records a failure and returns it.
    pub(crate) fn fail(&mut self, error: SqlError) -> SqlError {
        let wait = self
            .failed
            .as_ref()
            .map_or(FIRST, |(_, wait, _)| (*wait * 2).min(LONGEST));
        self.failed = Some((Instant::now(), wait, error.clone()));
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_become_rarer_up_to_a_bound_and_restart_after_success() {
        let mut back_off = BackOff::default();
        assert!(back_off.check().is_ok());
        for _ in 0..20 {
            back_off.fail(SqlError::Unavailable("down".into()));
        }
        assert!(back_off.check().is_err());
        assert_eq!(
            back_off.failed.as_ref().map(|failed| failed.1),
            Some(LONGEST)
        );
        back_off.succeed();
        assert!(back_off.check().is_ok());
    }
}
