//! Whether a database responds, and the log messages about it.

use super::SqlBackend;
use super::error::SqlError;
use super::url::DatabaseAddress;
use nameward_base::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// How long the log sticks to its last statement: a recovering database answers some statements while others still
/// fail.
const STEADY: Duration = Duration::from_secs(2);

/// Whether a database responds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The last statement succeeded, or none was tried yet.
    pub is_up: bool,
    /// The last failure; empty if it is up.
    pub reason: String,
    /// When it came up or went down; the server start if it has been up ever since.
    pub since: SystemTime,
    /// The last failure and its time, even if it is up again.
    pub last_error: Option<(String, SystemTime)>,
}

/// The health of a database as derived from its statements.
pub(super) struct Condition {
    /// The log messages for going down and for coming back.
    down: &'static str,
    up: &'static str,
    is_up: AtomicBool,
    /// Statements that succeed mean nothing: they read a file that is not at its path any more.
    is_held_down: AtomicBool,
    /// The log does not reflect the current state yet.
    is_unlogged: AtomicBool,
    notes: Mutex<HealthNotes>,
}

struct HealthNotes {
    /// Why it is down.
    reason: String,
    since: SystemTime,
    last_error: Option<(String, SystemTime)>,
    /// The last log message about it, and when it was written.
    logged_up: bool,
    logged_at: Option<Instant>,
}

impl Condition {
    /// Creates the state before any attempt. The texts are the log messages for going down and for coming back.
    pub(super) fn new(down: &'static str, up: &'static str) -> Self {
        Condition {
            down,
            up,
            is_up: AtomicBool::new(true),
            is_held_down: AtomicBool::new(false),
            is_unlogged: AtomicBool::new(false),
            notes: Mutex::new(HealthNotes {
                reason: String::new(),
                since: SystemTime::now(),
                last_error: None,
                logged_up: true,
                logged_at: None,
            }),
        }
    }

    /// Checks whether the last statement succeeded, or none was tried yet.
    pub(super) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    pub(super) fn health(&self) -> Health {
        let notes = self.notes.lock();
        Health {
            is_up: self.is_up.load(Ordering::Relaxed),
            reason: notes.reason.clone(),
            since: notes.since,
            last_error: notes.last_error.clone(),
        }
    }

    /// Keeps the database down for a reason that statements do not show, or lets them decide again.
    pub(super) fn hold_down(&self, reason: Option<&str>, database: &DatabaseAddress) {
        let was_held = self.is_held_down.swap(reason.is_some(), Ordering::Relaxed);
        match reason {
            Some(reason) => self.note(&Err(SqlError::Unavailable(reason.into())), database),
            None if was_held => self.note(&Ok(()), database),
            None => {}
        }
    }

    /// Records the outcome of a statement. The log reports when the database goes down and comes back, not every
    /// statement.
    pub(super) fn note(&self, result: &Result<(), SqlError>, database: &DatabaseAddress) {
        if result.is_ok() && self.is_held_down.load(Ordering::Relaxed) {
            return;
        }
        let reason = match result {
            // All but those of a row and of an address are about the database.
            Err(error) if !matches!(error, SqlError::Row(_) | SqlError::Address(_)) => {
                error.to_string()
            }
            _ if self.is_up.load(Ordering::Relaxed)
                && !self.is_unlogged.load(Ordering::Relaxed) =>
            {
                return;
            }
            _ => String::new(),
        };
        let is_up = reason.is_empty();
        let mut notes = self.notes.lock();
        notes.reason.clone_from(&reason);
        let now = SystemTime::now();
        if !is_up {
            notes.last_error = Some((reason.clone(), now));
        }
        // Under the lock, like its time.
        if self.is_up.swap(is_up, Ordering::Relaxed) != is_up {
            notes.since = now;
        }
        if !notes.is_due(is_up, Instant::now()) {
            let is_unlogged = notes.logged_up != is_up;
            return self.is_unlogged.store(is_unlogged, Ordering::Relaxed);
        }
        self.is_unlogged.store(false, Ordering::Relaxed);
        drop(notes);
        if is_up {
            tracing::info!(%database, "{}", self.up);
        } else {
            tracing::error!(%database, reason, "{}", self.down);
        }
    }
}

impl SqlBackend {
    /// Marks a SQLite database as down while its file is missing or is not a zone database: open connections still
    /// read the old file, but no change reaches them.
    pub(super) fn hold_down(&self, reason: Option<&str>) {
        let reason = reason
            .map(|reason| format!("{reason}: put it back; contents read before are still served"));
        let inner = &self.inner;
        for condition in [&inner.condition, &inner.watched] {
            condition.hold_down(reason.as_deref(), &inner.options.address);
        }
    }
}

impl HealthNotes {
    /// Checks whether the log should report this now.
    fn is_due(&mut self, is_up: bool, now: Instant) -> bool {
        let is_steady = self
            .logged_at
            .is_none_or(|logged_at| now - logged_at >= STEADY);
        let is_due = self.logged_up != is_up && is_steady;
        if is_due {
            self.logged_up = is_up;
            self.logged_at = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_comes_and_goes_is_logged_now_and_then() {
        let mut notes = Condition::new("down", "up").notes.into_inner();
        let start = Instant::now();
        assert!(!notes.is_due(true, start));
        assert!(notes.is_due(false, start), "the first time at once");
        for ms in 0..1999 {
            assert!(!notes.is_due(ms % 2 == 0, start + Duration::from_millis(ms)));
        }
        assert!(notes.is_due(true, start + STEADY));
        assert!(!notes.is_due(false, start + STEADY));
    }

    #[test]
    fn a_later_statement_logs_what_was_not_logged() {
        let (condition, address) = (
            Condition::new("down", "up"),
            DatabaseAddress::parse("x.db").unwrap(),
        );
        condition.note(&Err(SqlError::Timeout(1)), &address);
        condition.note(&Ok(()), &address);
        let health = condition.health();
        assert!(health.is_up && health.reason.is_empty());
        let (text, at) = health.last_error.expect("the failure is remembered");
        assert!(text.contains("1") && at <= health.since, "{text}");
        assert!(condition.is_unlogged.load(Ordering::Relaxed));
        condition.notes.lock().logged_at = None;
        condition.note(&Ok(()), &address);
        assert!(!condition.is_unlogged.load(Ordering::Relaxed));
        assert!(condition.notes.lock().logged_up);
    }
}
