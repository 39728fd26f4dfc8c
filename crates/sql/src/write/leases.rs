//! Leases: which of the servers on a database does the work that only one of them may do.
//!
//! A row of `nameward_leases` has the task, the server that does it, and a number that rises with each renewal: until when, by the
//! clock of the database server that was queried, or one more than before. No decision depends on that clock, since the nodes of a
//! cluster may differ and a promoted standby has its own: a lease has ended when another server has seen the same
//! number for the time of a lease, by a clock that cannot be set, and the holder stops before that. The row is taken over only
//! if it is still the one that was seen. Work that is itself a change of the database takes its lease in its own
//! transaction: a server that has lost the lease without noticing cannot finish it.

use super::super::SqlBackend;
use super::super::dialect::{SqlEngine, int, text};
use super::super::error::SqlError;
use super::super::row::Cells;
use super::WriteError;
use super::session::{Failure, Session, Value};
use crate::SqlFuture;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How much earlier the holder of a lease stops than another server may take it over.
const MARGIN: Duration = Duration::from_secs(1);

/// Returns for how many seconds a lease is taken, and after how many it is renewed. Each write of a SQLite file locks out other
/// programs for a moment, so there are few.
fn lease_times(engine: SqlEngine) -> (u64, u64) {
    match engine {
        SqlEngine::Sqlite => (50, 35),
        SqlEngine::Postgres | SqlEngine::Mysql => (30, 10),
    }
}

/// Work that one server does for all on a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeaseTask {
    /// Steps for DNSSEC keys managed by a policy.
    Keys,
    /// NOTIFY to secondaries.
    Notify,
    /// Checks of secondary zones at their primaries.
    Secondaries,
    /// Produced catalogs, and the members of consumed ones.
    Catalogs,
}

impl LeaseTask {
    /// All tasks.
    pub const ALL: [LeaseTask; 4] = [
        LeaseTask::Keys,
        LeaseTask::Notify,
        LeaseTask::Secondaries,
        LeaseTask::Catalogs,
    ];

    /// Returns its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            LeaseTask::Keys => "keys",
            LeaseTask::Notify => "notify",
            LeaseTask::Secondaries => "secondaries",
            LeaseTask::Catalogs => "catalogs",
        }
    }
}

/// The result of renewing the leases of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseRenewal {
    /// The tasks that the server does, and until when.
    Held(Vec<(LeaseTask, Instant)>),
    /// The database has no leases for this server: the table is missing, or cannot be written.
    Unavailable(String),
}

/// The server that does a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseHolder {
    /// The database has no table of leases.
    NoTable,
    /// No server.
    Free,
    /// The server with this name.
    Server(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct LeaseRow {
    server: String,
    /// Rises with each renewal.
    number: i64,
}

/// The leases as one server has seen them.
#[derive(Default)]
pub struct SeenLeases {
    /// The row of each task, and when it was first seen.
    rows: HashMap<String, (LeaseRow, Instant)>,
    /// When this server requested the last renewal that succeeded.
    renewed: HashMap<LeaseTask, Instant>,
}

impl SeenLeases {
    fn note(&mut self, rows: HashMap<String, LeaseRow>, now: Instant) {
        let mut before = std::mem::take(&mut self.rows);
        let since = |(task, row): (String, LeaseRow)| {
            let known = before.remove(&task).filter(|(known, _)| *known == row);
            let since = known.map_or(now, |(_, since)| since);
            (task, (row, since))
        };
        self.rows = rows.into_iter().map(since).collect();
    }

    /// Returns the row of a task that was not renewed for the time of a lease.
    fn ended(&self, task: LeaseTask, lease: Duration, now: Instant) -> Option<&LeaseRow> {
        let (row, since) = self.rows.get(task.name())?;
        (now - *since >= lease).then_some(row)
    }

    fn holder(&self, task: LeaseTask) -> Option<&str> {
        let (row, _) = self.rows.get(task.name())?;
        Some(&row.server)
    }

    /// Returns when the first of some tasks of other servers ends, if it is not renewed.
    pub fn next_end(&self, server: &str, tasks: &[LeaseTask], lease: Duration) -> Option<Instant> {
        let rows = tasks.iter().filter_map(|task| self.rows.get(task.name()));
        let others = rows.filter(|(row, _)| row.server != server);
        others.map(|(_, since)| *since + lease).min()
    }
}

impl SqlBackend {
    /// Renews the leases of a server for some tasks, and takes those that have ended.
    pub fn renew_leases<'a>(
        &'a self,
        server: &'a str,
        tasks: &'a [LeaseTask],
        seen: &'a mut SeenLeases,
    ) -> SqlFuture<'a, Result<LeaseRenewal, WriteError>> {
        Box::pin(async move {
            let mut session = self.reader().await?;
            let renewed = renew(&mut session, server, tasks, seen).await;
            self.end_use(session, &renewed).await;
            match renewed {
                Err(Failure::Sql(SqlError::Refused(reason))) => {
                    Ok(LeaseRenewal::Unavailable(reason))
                }
                renewed => Ok(renewed?),
            }
        })
    }

    /// Ends all leases of a server, so that another takes over at once.
    pub fn release_leases<'a>(&'a self, server: &'a str) -> SqlFuture<'a, Result<(), WriteError>> {
        Box::pin(async move {
            let mut session = self.reader().await?;
            let sql = "DELETE FROM nameward_leases WHERE server = ?";
            let released = session.run(sql, &[Value::Text(server)]).await;
            self.end_use(session, &released).await;
            Ok(released?)
        })
    }

    /// Returns the server that does a task.
    pub fn lease_holder(&self, task: LeaseTask) -> SqlFuture<'_, Result<LeaseHolder, WriteError>> {
        Box::pin(async move {
            let mut session = self.reader().await?;
            let rows = read(&mut session).await;
            self.end_use(session, &rows).await;
            let mut rows = match rows {
                Err(Failure::Sql(SqlError::Refused(_))) => return Ok(LeaseHolder::NoTable),
                rows => rows?,
            };
            let held = rows.remove(task.name());
            Ok(held.map_or(LeaseHolder::Free, |row| LeaseHolder::Server(row.server)))
        })
    }

    /// Returns how long a lease lasts without being renewed.
    pub fn lease_time(&self) -> Duration {
        Duration::from_secs(lease_times(self.engine()).0)
    }
}

async fn renew(
    session: &mut Session,
    server: &str,
    tasks: &[LeaseTask],
    seen: &mut SeenLeases,
) -> Result<LeaseRenewal, Failure> {
    let (lease, renewal) = lease_times(session.engine());
    let (lease, renewal) = (Duration::from_secs(lease), Duration::from_secs(renewal));
    let rows = read(session).await?;
    // Its holder requested the lease seen now before this moment, so it counts from then.
    seen.note(rows, Instant::now());
    let requested_at = Instant::now();
    let is_due = |task: &&LeaseTask| match seen.holder(**task) {
        None => true,
        Some(holder) if holder == server => {
            let renewed = seen.renewed.get(task);
            renewed.is_none_or(|renewed| requested_at - *renewed >= renewal)
        }
        Some(_) => seen.ended(**task, lease, requested_at).is_some(),
    };
    let due: Vec<LeaseTask> = tasks.iter().filter(is_due).copied().collect();
    for task in &due {
        let ended = seen.ended(*task, lease, requested_at);
        match take(session, *task, server, ended).await {
            Err(Failure::Sql(SqlError::ReadOnly(reason))) => {
                // A fleet on standbys alone has no leases: each of its servers works for itself.
                let is_free = |task: &LeaseTask| {
                    seen.holder(*task).is_none() || seen.ended(*task, lease, requested_at).is_some()
                };
                return if tasks.iter().all(is_free) {
                    Ok(LeaseRenewal::Unavailable(reason))
                } else {
                    Err(Failure::Sql(SqlError::ReadOnly(reason)))
                };
            }
            taken => taken?,
        }
    }
    if !due.is_empty() {
        let rows = read(session).await?;
        seen.note(rows, Instant::now());
        seen.renewed
            .extend(due.iter().map(|task| (*task, requested_at)));
    }
    let held = tasks.iter().filter_map(|task| {
        let renewed = *seen.renewed.get(task)?;
        let is_ours = seen.holder(*task) == Some(server);
        is_ours.then_some((*task, renewed + lease - MARGIN))
    });
    Ok(LeaseRenewal::Held(held.collect()))
}

/// Takes a lease in the current transaction if the database has leases. Returns the server that has it now; the row stays
/// locked until the transaction ends.
pub(super) async fn take_in_transaction(
    session: &mut Session,
    task: LeaseTask,
    server: &str,
) -> Result<LeaseHolder, Failure> {
    let (probe, found) = match session.engine() {
        // A statement about a missing table would end the transaction.
        SqlEngine::Postgres => (
            "SELECT CAST(1 AS BIGINT) WHERE to_regclass('nameward_leases') IS NOT NULL",
            true,
        ),
        _ => ("SELECT task FROM nameward_leases LIMIT 0", false),
    };
    match session.finds(probe, &[]).await {
        Ok(is_found) if is_found == found => {}
        Ok(_) | Err(Failure::Sql(SqlError::Refused(_))) => return Ok(LeaseHolder::NoTable),
        Err(failure) => return Err(failure),
    }
    take(session, task, server, None).await?;
    let row = read(session).await?.remove(task.name());
    Ok(row.map_or(LeaseHolder::Free, |row| LeaseHolder::Server(row.server)))
}

/// Takes or renews a lease, unless another server has it. A row that has ended is taken over if it is still the same.
async fn take(
    session: &mut Session,
    task: LeaseTask,
    server: &str,
    ended: Option<&LeaseRow>,
) -> Result<(), Failure> {
    let (now, (seconds, _)) = (now(session.engine()), lease_times(session.engine()));
    let insert = format!(
        "INSERT INTO nameward_leases (task, server, valid_until) VALUES (?, ?, {now} + {seconds})"
    );
    let sql = match session.engine() {
        SqlEngine::Sqlite | SqlEngine::Postgres => format!(
            "{insert} ON CONFLICT (task) DO UPDATE SET server = excluded.server, \
             valid_until = CASE WHEN excluded.valid_until > nameward_leases.valid_until \
             THEN excluded.valid_until ELSE nameward_leases.valid_until + 1 END \
             WHERE nameward_leases.server = excluded.server \
             OR nameward_leases.server = ? AND nameward_leases.valid_until = ?"
        ),
        // Assignments are made from left to right: the second one sees the new server.
        SqlEngine::Mysql => format!(
            "{insert} ON DUPLICATE KEY UPDATE \
             server = IF(server = VALUES(server) OR server = ? AND valid_until = ?, VALUES(server), server), \
             valid_until = IF(server = VALUES(server), GREATEST(VALUES(valid_until), valid_until + 1), valid_until)"
        ),
    };
    // No server has an empty name.
    let (holder, number) = ended.map_or(("", 0), |row| (&*row.server, row.number));
    let values = [
        Value::Text(task.name()),
        Value::Text(server),
        Value::Text(holder),
        Value::Int(number),
    ];
    session.run(&sql, &values).await
}

/// Reads the row of each task.
async fn read(session: &mut Session) -> Result<HashMap<String, LeaseRow>, Failure> {
    let engine = session.engine();
    let sql = format!(
        "SELECT {}, {}, {} FROM nameward_leases",
        text(engine, "task"),
        text(engine, "server"),
        int(engine, "valid_until")
    );
    let read = |row: &dyn Cells| {
        let text = |column| row.string(column).unwrap_or_default();
        let (server, number) = (text(1), row.int(2).unwrap_or(0));
        (text(0), LeaseRow { server, number })
    };
    let rows = session.list(&sql, &[], read).await?;
    Ok(rows.into_iter().collect())
}

/// Returns the time of the database in seconds since 1970, as an expression.
fn now(engine: SqlEngine) -> &'static str {
    match engine {
        SqlEngine::Sqlite => "CAST(strftime('%s', 'now') AS INTEGER)",
        // Not that of the start of the transaction.
        SqlEngine::Postgres => "CAST(extract(epoch FROM clock_timestamp()) AS BIGINT)",
        SqlEngine::Mysql => "CAST(UNIX_TIMESTAMP() AS SIGNED)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_when_its_number_was_the_same_for_its_time() {
        let (mut seen, start) = (SeenLeases::default(), Instant::now());
        let (lease, task) = (Duration::from_secs(30), LeaseTask::Notify);
        let at = |seconds| start + Duration::from_secs(seconds);
        let rows = |server: &str, number| {
            let server = server.to_owned();
            HashMap::from([("notify".to_owned(), LeaseRow { server, number })])
        };
        // A number far in the future is that of a clock which is ahead.
        seen.note(rows("one", 4_000_000_000), at(0));
        seen.note(rows("one", 4_000_000_000), at(29));
        assert_eq!(seen.ended(task, lease, at(29)), None);
        assert_eq!(seen.next_end("two", &[task], lease), Some(at(30)));
        assert_eq!(seen.next_end("one", &[task], lease), None);
        seen.note(rows("one", 4_000_000_001), at(29));
        assert_eq!(seen.ended(task, lease, at(58)), None, "renewed");
        // One far in the past is that of a clock which is behind.
        seen.note(rows("one", 5), at(58));
        assert_eq!(seen.ended(task, lease, at(87)), None);
        let ended = seen.ended(task, lease, at(88)).cloned();
        assert_eq!(ended, rows("one", 5).remove("notify"));
        seen.note(rows("two", 6), at(88));
        assert_eq!(seen.ended(task, lease, at(89)), None);
        assert_eq!(seen.holder(task), Some("two"));
    }
}
