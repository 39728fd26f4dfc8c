//! How far reads are behind the server that accepts changes, in changes and in seconds.
//!
//! Both servers have the table of changes. The one that is read says which change it has seen last, the other one how many
//! came after that and how old the first of them is. A PostgreSQL standby that is the only address knows how far it has replayed
//! what it received. MySQL counts changes without a time for each: there the time is how long this server has known of a change that
//! reads do not show.

use super::connection::{ConnectTarget, Value};
use super::dialect::{SqlEngine, Statement};
use super::hosts::Hosts;
use super::write::WriteError;
use super::{Driver, SqlBackend};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

const MEASURE_INTERVAL: Duration = Duration::from_secs(2);
/// Measurements that are kept to find out for how long a change has been missing: at this interval, an hour.
const KEPT: usize = 1800;

/// How far reads are behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lag {
    /// Changes that reads do not show.
    pub changes: u64,
    /// Age of the oldest of them, in seconds.
    pub seconds: u64,
}

/// The counters of the primary, and when each was first seen (MySQL).
#[derive(Default)]
struct SeenCounters(VecDeque<(i64, Instant)>);

impl SeenCounters {
    /// Records the counter of the primary; returns how far another one is behind it.
    fn compare(&mut self, primary: i64, shown: i64, now: Instant) -> Lag {
        if self.0.back().is_none_or(|(last, _)| *last != primary) {
            // A smaller one is of another database.
            if self.0.back().is_some_and(|(last, _)| *last > primary) {
                self.0.clear();
            }
            self.0.push_back((primary, now));
        }
        while self.0.front().is_some_and(|(counter, _)| *counter <= shown) || self.0.len() > KEPT {
            self.0.pop_front();
        }
        Lag {
            changes: primary.saturating_sub(shown).max(0).unsigned_abs(),
            seconds: self
                .0
                .front()
                .map_or(0, |(_, since)| (now - *since).as_secs()),
        }
    }
}

impl SqlBackend {
    /// Returns how far reads are behind the server that accepts changes, as of some seconds ago. While changes are not
    /// detected at all, the time counts.
    pub fn lag(&self) -> Lag {
        let lag = *self.inner.lag.lock();
        let watch = self.watch_health();
        let unseen = watch.since.elapsed().unwrap_or_default().as_secs();
        Lag {
            seconds: if watch.is_up {
                lag.seconds
            } else {
                lag.seconds.max(unseen)
            },
            ..lag
        }
    }

    /// Counts how often another server was read than before. Contents read after a move may be older than versions read before it.
    pub fn read_moves(&self) -> u64 {
        self.inner.reads.moves()
    }

    /// Measures until the future is dropped.
    pub(super) async fn measure_lag(&self) {
        let mut counters = SeenCounters::default();
        // A MySQL server that is written and read is not behind itself, and does not say whether it replicates another.
        if !self.has_replica() && !matches!(self.inner.reads, Driver::Postgres(_)) {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(MEASURE_INTERVAL).await;
            // A server that does not respond is another fault; the last measurement stays.
            if let Ok(lag) = self.measure(&mut counters).await {
                *self.inner.lag.lock() = lag;
                if lag.seconds > self.inner.options.lag_max.as_secs() {
                    self.inner.reads.leave_late_server();
                }
            }
        }
    }

    async fn measure(&self, counters: &mut SeenCounters) -> Result<Lag, WriteError> {
        let (mut shown, mut delay) = (0, 0);
        let each = &mut |row: &dyn super::row::Cells| {
            shown = row.int(0).unwrap_or(0);
            delay = row.int(1).unwrap_or(0);
            Ok(())
        };
        let reads = &self.inner.reads;
        reads.query(Statement::LastChange, None, &[], each).await?;
        let delay = delay.max(0).unsigned_abs();
        if !self.has_replica() {
            let changes = u64::from(delay > 0);
            return Ok(Lag {
                changes,
                seconds: delay,
            });
        }
        let (engine, mut after) = (self.engine(), (0, 0));
        let sql = match engine {
            SqlEngine::Postgres => {
                "SELECT CAST(count(*) AS BIGINT), \
                 CAST(coalesce(extract(epoch FROM clock_timestamp() - min(changed_at)), 0) AS BIGINT) \
                 FROM nameward_changes WHERE transaction > ?"
            }
            _ => {
                "SELECT CAST(coalesce(SUM(version), 0) AS SIGNED), CAST(0 AS SIGNED) FROM nameward_changes \
                 WHERE domain_id < 0 AND ? IS NOT NULL"
            }
        };
        self.read_primary(sql, &[Value::Int(shown)], &mut |row| {
            after = (row.int(0).unwrap_or(0), row.int(1).unwrap_or(0));
        })
        .await?;
        Ok(match engine {
            SqlEngine::Postgres => Lag {
                changes: after.0.max(0).unsigned_abs(),
                seconds: after.1.max(0).unsigned_abs(),
            },
            _ => counters.compare(after.0, shown, Instant::now()),
        })
    }

    /// Returns the engine of the primary.
    pub(super) fn engine(&self) -> SqlEngine {
        match &self.inner.primary {
            ConnectTarget::Sqlite(_) => SqlEngine::Sqlite,
            ConnectTarget::Postgres(_) => SqlEngine::Postgres,
            ConnectTarget::Mysql(_) => SqlEngine::Mysql,
        }
    }
}

impl Driver {
    /// Returns its servers; none for a file.
    pub(super) fn hosts(&self) -> Option<&Hosts> {
        match self {
            Driver::Sqlite(_) => None,
            Driver::Postgres(postgres) => Some(&postgres.target.hosts),
            Driver::Mysql(mysql) => Some(&mysql.target.hosts),
        }
    }

    /// Counts how often another server was read than before: it may lack what the last one had.
    pub(super) fn moves(&self) -> u64 {
        self.hosts().map_or(0, Hosts::moves)
    }

    /// Moves to another server, if there is one: this one is too far behind.
    fn leave_late_server(&self) {
        match self {
            Driver::Sqlite(_) => {}
            Driver::Postgres(postgres) => drop(postgres.target.hosts.avoid_preferred()),
            Driver::Mysql(mysql) => mysql.leave_late_server(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_change_that_is_not_shown_determines_the_time() {
        let (mut seen, start) = (SeenCounters::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let lag = |changes, seconds| Lag { changes, seconds };
        assert_eq!(seen.compare(10, 10, at(0)), lag(0, 0));
        assert_eq!(seen.compare(12, 10, at(2)), lag(2, 0));
        assert_eq!(seen.compare(15, 10, at(7)), lag(5, 5));
        assert_eq!(seen.compare(15, 13, at(8)), lag(2, 1), "of the second one");
        assert_eq!(seen.compare(15, 15, at(9)), lag(0, 0));
        // Another database.
        assert_eq!(seen.compare(3, 1, at(10)), lag(2, 0));
        assert_eq!(seen.compare(3, 4, at(11)), lag(0, 0), "read later");
    }
}
