//! Leases: which of the servers on a database does the work that only one of them may do.
//!
//! A row of `nameward_leases` has the task, the server that does it, and until when, by the clock of the database. A server
//! renews its leases before they end; whatever has ended is taken over by the server that finds it first. Work that is itself
//! a change of the database takes its lease in its own transaction: a server that has lost the lease without noticing
//! cannot finish it.

use super::super::SqlBackend;
use super::super::dialect::{SqlEngine, int, text};
use super::super::error::SqlError;
use super::super::row::Cells;
use super::WriteError;
use super::session::{Failure, Session, Value};
use std::time::Duration;

/// How long a lease lasts at most without being renewed.
pub const LEASE_TIME: Duration = Duration::from_secs(50);

/// Returns for how many seconds a lease is taken, and with how many left it is renewed. Each write of a SQLite file locks out other
/// programs for a moment, so there are few.
fn lease_times(engine: SqlEngine) -> (i64, i64) {
    match engine {
        SqlEngine::Sqlite => (LEASE_TIME.as_secs() as i64, 15),
        SqlEngine::Postgres | SqlEngine::Mysql => (30, 20),
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
    /// The tasks that the server does, and for how long.
    Held(Vec<(LeaseTask, Duration)>),
    /// The database has no leases for this server: the table is missing, or cannot be written.
    Unavailable(String),
}

/// The server that does a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseHolder {
    /// The database has no table of leases.
    NoTable,
    /// No server, or one whose lease has ended.
    Free,
    /// The server with this name.
    Server(String),
}

struct LeaseRow {
    task: String,
    server: String,
    /// Seconds until it ends; negative if it has ended.
    left: i64,
}

impl LeaseRow {
    fn is_valid(&self) -> bool {
        self.left >= 0
    }
}

impl SqlBackend {
    /// Renews the leases of a server for some tasks, and takes those that have ended.
    pub async fn renew_leases(
        &self,
        server: &str,
        tasks: &[LeaseTask],
    ) -> Result<LeaseRenewal, WriteError> {
        let mut session = self.reader().await?;
        let renewed = renew(&mut session, server, tasks).await;
        self.end_lease_statement(session, &renewed).await;
        match renewed {
            Err(Failure::Sql(SqlError::Refused(reason))) => Ok(LeaseRenewal::Unavailable(reason)),
            renewed => Ok(renewed?),
        }
    }

    /// Ends all leases of a server, so that another takes over at once.
    pub async fn release_leases(&self, server: &str) -> Result<(), WriteError> {
        let mut session = self.reader().await?;
        let sql = "DELETE FROM nameward_leases WHERE server = ?";
        let released = session.run(sql, &[Value::Text(server)]).await;
        self.end_lease_statement(session, &released).await;
        Ok(released?)
    }

    /// Returns the server that does a task.
    pub async fn lease_holder(&self, task: LeaseTask) -> Result<LeaseHolder, WriteError> {
        let mut session = self.reader().await?;
        let rows = read(&mut session).await;
        self.end_lease_statement(session, &rows).await;
        let rows = match rows {
            Err(Failure::Sql(SqlError::Refused(_))) => return Ok(LeaseHolder::NoTable),
            rows => rows?,
        };
        let held = rows.into_iter().find(|row| row.task == task.name());
        Ok(held
            .filter(LeaseRow::is_valid)
            .map_or(LeaseHolder::Free, |row| LeaseHolder::Server(row.server)))
    }

    async fn end_lease_statement<T>(&self, mut session: Session, result: &Result<T, Failure>) {
        let (writer, primary) = (&self.inner.writer, &self.inner.primary);
        match result {
            Err(Failure::Sql(error)) if error.is_of_server() => writer.leave(session, primary),
            // There is no transaction to undo, but the session has to forget the conflict.
            Err(Failure::Conflict(_)) if session.rollback().await.is_err() => {}
            _ => writer.give_back(session),
        }
    }
}

async fn renew(
    session: &mut Session,
    server: &str,
    tasks: &[LeaseTask],
) -> Result<LeaseRenewal, Failure> {
    let mut rows = read(session).await?;
    let (_, renewed_at) = lease_times(session.engine());
    let is_due = |task: &&LeaseTask| {
        let row = rows.iter().find(|row| row.task == task.name());
        row.is_none_or(|row| !row.is_valid() || row.server == server && row.left <= renewed_at)
    };
    let due: Vec<LeaseTask> = tasks.iter().filter(is_due).copied().collect();
    for task in &due {
        match take(session, *task, server).await {
            Err(Failure::Sql(SqlError::ReadOnly(reason))) => {
                // A fleet on standbys alone has no leases: each of its servers works for itself.
                let is_free = |task: &LeaseTask| {
                    let mut valid = rows.iter().filter(|row| row.is_valid());
                    !valid.any(|row| row.task == task.name())
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
        rows = read(session).await?;
    }
    let held = tasks.iter().filter_map(|task| {
        let row = rows.iter().find(|row| row.task == task.name())?;
        let is_ours = row.is_valid() && row.server == server;
        is_ours.then(|| (*task, Duration::from_secs(row.left.unsigned_abs())))
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
            1,
        ),
        _ => ("SELECT task FROM nameward_leases LIMIT 0", 0),
    };
    let mut rows = 0;
    match session.rows(probe, &[], &mut |_| rows += 1).await {
        Ok(()) if rows == found => {}
        Ok(()) | Err(Failure::Sql(SqlError::Refused(_))) => return Ok(LeaseHolder::NoTable),
        Err(failure) => return Err(failure),
    }
    take(session, task, server).await?;
    let rows = read(session).await?;
    let row = rows.into_iter().find(|row| row.task == task.name());
    Ok(row.map_or(LeaseHolder::Free, |row| LeaseHolder::Server(row.server)))
}

/// Takes or renews a lease, unless another server has it.
async fn take(session: &mut Session, task: LeaseTask, server: &str) -> Result<(), Failure> {
    let (now, (seconds, _)) = (now(session.engine()), lease_times(session.engine()));
    let insert = format!(
        "INSERT INTO nameward_leases (task, server, valid_until) VALUES (?, ?, {now} + {seconds})"
    );
    let sql = match session.engine() {
        SqlEngine::Sqlite | SqlEngine::Postgres => format!(
            "{insert} ON CONFLICT (task) DO UPDATE SET server = excluded.server, valid_until = excluded.valid_until \
             WHERE nameward_leases.server = excluded.server OR nameward_leases.valid_until < {now}"
        ),
        // Assignments are made from left to right: the second one sees the new server.
        SqlEngine::Mysql => format!(
            "{insert} ON DUPLICATE KEY UPDATE \
             server = IF(server = VALUES(server) OR valid_until < {now}, VALUES(server), server), \
             valid_until = IF(server = VALUES(server), VALUES(valid_until), valid_until)"
        ),
    };
    let values = [Value::Text(task.name()), Value::Text(server)];
    session.run(&sql, &values).await
}

async fn read(session: &mut Session) -> Result<Vec<LeaseRow>, Failure> {
    let engine = session.engine();
    let left = int(engine, &format!("valid_until - {}", now(engine)));
    let sql = format!(
        "SELECT {}, {}, {left} FROM nameward_leases",
        text(engine, "task"),
        text(engine, "server")
    );
    let mut rows = Vec::new();
    let each = &mut |row: &dyn Cells| {
        let text = |column| String::from_utf8_lossy(row.text(column).unwrap_or_default());
        rows.push(LeaseRow {
            task: text(0).into_owned(),
            server: text(1).into_owned(),
            left: row.int(2).unwrap_or(-1),
        });
    };
    session.rows(&sql, &[], each).await?;
    Ok(rows)
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
