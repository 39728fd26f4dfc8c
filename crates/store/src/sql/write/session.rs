//! A connection to the primary for one change at a time: begin, statements with values, commit.
//!
//! Every transaction serialises itself by what it locks first: the row of its zone, or in SQLite the whole file.

pub(super) use super::super::connection::Value;
use super::super::connection::{ClientError, Each, EachUntil, SqlConnection, Terms};
use super::super::dialect::{SqlEngine, int};
use super::super::error::SqlError;
use super::super::row::Cells;
use super::super::url::DatabaseAddress;
use super::own::CommitMark;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a change waits for others, and a statement for its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a statement failed, as far as it bears on trying again.
#[derive(Debug)]
pub(super) enum Failure {
    /// Another transaction was in the way; the database undid this one.
    Conflict(String),
    Sql(SqlError),
}

pub(super) struct Session {
    connection: SqlConnection,
    /// The file of SQLite and its number in its file system when it was opened.
    file: Option<(PathBuf, u64)>,
    /// Whether the writer can notify others by itself, for databases without triggers.
    can_notify: bool,
    /// The number of the session, where notices carry it.
    process: Option<i32>,
}

/// Writes of rows of a zone, as triggers count them: an update is one for the row before and one for the row after.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowWrites {
    pub(super) inserts: usize,
    pub(super) updates: usize,
    pub(super) deletes: usize,
}

impl RowWrites {
    /// Versions that a change raises its zone by: one for each, and one that the writer adds itself.
    fn versions(self) -> i64 {
        (self.inserts + self.deletes + 2 * self.updates + 1) as i64
    }
}

impl Session {
    pub(super) async fn open(address: &DatabaseAddress) -> Result<Self, SqlError> {
        let file = match address {
            // Before it is opened: if it is replaced meanwhile, the number is too old and it is opened again.
            DatabaseAddress::Sqlite(path) => Some((path.clone(), file_number(path))),
            _ => None,
        };
        let terms = Terms {
            // An empty file in place of a missing one would hide the mistake.
            creates_file: false,
            patience: PATIENCE,
            statement_time: Some(PATIENCE),
        };
        let mut connection = SqlConnection::open(address, terms).await?;
        if connection.engine() == SqlEngine::Sqlite {
            // What was acknowledged survives a power failure, whatever the journal is.
            connection.command("PRAGMA synchronous = FULL").await?;
        }
        let mut session = Session {
            connection,
            file,
            can_notify: false,
            process: None,
        };
        session.prepare().await?;
        Ok(session)
    }

    /// Bounds how long a lock is waited for, and looks whether changes can be announced.
    async fn prepare(&mut self) -> Result<(), SqlError> {
        let plain = |failure| match failure {
            Failure::Conflict(text) => SqlError::Refused(text),
            Failure::Sql(error) => error,
        };
        let seconds = PATIENCE.as_secs() / 2;
        let bound = match self.engine() {
            SqlEngine::Sqlite => None,
            SqlEngine::Postgres => Some(format!("SET lock_timeout = '{seconds}s'")),
            SqlEngine::Mysql => Some(format!("SET innodb_lock_wait_timeout = {seconds}")),
        };
        if let Some(bound) = bound {
            self.run(&bound, &[]).await.map_err(plain)?;
        }
        let probe = match self.engine() {
            // A database that only speaks the protocol may have no notices.
            SqlEngine::Postgres => "SELECT oid FROM pg_proc WHERE proname = 'pg_notify' LIMIT 1",
            _ => "SELECT domain_id FROM nameward_changes LIMIT 0",
        };
        let mut rows = 0;
        let found = self.rows(probe, &[], &mut |_| rows += 1).await;
        self.can_notify = found.is_ok() && (rows > 0 || self.engine() != SqlEngine::Postgres);
        if self.can_notify && self.engine() == SqlEngine::Postgres {
            let sql = "SELECT CAST(pg_backend_pid() AS BIGINT)";
            let mut process = None;
            let each = &mut |row: &dyn Cells| process = row.int(0);
            self.rows(sql, &[], each).await.map_err(plain)?;
            self.process = process.and_then(|process| i32::try_from(process).ok());
        }
        Ok(())
    }

    /// Whether another file has taken the place of the one that is open: what were written to it would be lost.
    pub(super) fn is_replaced(&self) -> bool {
        let file = self.file.as_ref();
        file.is_some_and(|(path, number)| file_number(path) != *number)
    }

    pub(super) fn engine(&self) -> SqlEngine {
        self.connection.engine()
    }

    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        let sql = match self.engine() {
            // Takes the lock at once: a reader that becomes a writer could not wait for another.
            SqlEngine::Sqlite => "BEGIN IMMEDIATE",
            SqlEngine::Postgres => "BEGIN",
            SqlEngine::Mysql => "START TRANSACTION",
        };
        self.command(sql).await
    }

    pub(super) async fn commit(&mut self) -> Result<(), Failure> {
        self.command("COMMIT").await
    }

    pub(super) async fn rollback(&mut self) -> Result<(), Failure> {
        self.command("ROLLBACK").await
    }

    /// Reads the version that a zone has in the table of changes.
    pub(super) async fn version(&mut self, zone: i64) -> Result<i64, Failure> {
        let mut version = 0;
        if self.can_notify && self.engine() != SqlEngine::Postgres {
            let column = int(self.engine(), "version");
            let sql = format!("SELECT {column} FROM nameward_changes WHERE domain_id = ?");
            let each = &mut |row: &dyn Cells| version = row.int(0).unwrap_or(0);
            self.rows(&sql, &[Value::Int(zone)], each).await?;
        }
        Ok(version)
    }

    /// Returns the sign by which the notice of this transaction is known, if all that happened to the zone since
    /// `before` is its own work.
    pub(super) async fn mark(
        &mut self,
        zone: i64,
        before: i64,
        written: RowWrites,
    ) -> Result<Option<CommitMark>, Failure> {
        if !self.can_notify {
            return Ok(None);
        }
        let after = match self.engine() {
            SqlEngine::Postgres => return Ok(self.process.map(CommitMark::Session)),
            SqlEngine::Sqlite | SqlEngine::Mysql => self.version(zone).await?,
        };
        // SQLite has one writer. In MySQL others may have changed rows of the zone after the version was read.
        let is_alone = self.engine() == SqlEngine::Sqlite || after - before == written.versions();
        Ok(is_alone.then_some(CommitMark::Versions { before, after }))
    }

    /// Notifies other servers that a zone changed, where no trigger may do it.
    pub(super) async fn notify_change(&mut self, zone: i64) -> Result<(), Failure> {
        if !self.can_notify {
            return Ok(());
        }
        let sql = match self.engine() {
            SqlEngine::Sqlite => {
                "INSERT INTO nameward_changes VALUES (?, 1, CAST(strftime('%s', 'now') AS INTEGER)) \
                 ON CONFLICT (domain_id) DO UPDATE \
                 SET version = version + 1, changed_at = excluded.changed_at"
            }
            SqlEngine::Mysql => {
                "INSERT INTO nameward_changes VALUES (?, 1, UNIX_TIMESTAMP()) \
                 ON DUPLICATE KEY UPDATE version = version + 1, changed_at = VALUES(changed_at)"
            }
            SqlEngine::Postgres => {
                let payload = zone.to_string();
                let sql = "SELECT pg_notify('nameward', ?)";
                return self.rows(sql, &[Value::Text(&payload)], &mut |_| {}).await;
            }
        };
        self.run(sql, &[Value::Int(zone)]).await
    }

    async fn command(&mut self, sql: &str) -> Result<(), Failure> {
        Ok(self.connection.command(sql).await?)
    }

    /// Runs a statement that brings no rows.
    pub(super) async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<(), Failure> {
        self.rows(sql, values, &mut |_| {}).await
    }

    /// Runs a statement and hands its rows over.
    pub(super) async fn rows(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        each: Each<'_>,
    ) -> Result<(), Failure> {
        Ok(self.connection.rows(sql, values, each).await?)
    }

    /// Runs a statement and hands its rows over until `each` breaks off. The connection is of no more use then: rows
    /// may still be on their way.
    pub(super) async fn rows_until(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        each: EachUntil<'_>,
    ) -> Result<(), Failure> {
        Ok(self.connection.rows_until(sql, values, each).await?)
    }
}

fn file_number(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.ino())
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Failure::Sql(error)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::Postgres(refusal) => match refusal.code().map(|code| code.code()) {
                // Serialisation failure and deadlock.
                Some("40001" | "40P01") => return Failure::Conflict(refusal.to_string()),
                Some("55P03") => return Failure::Sql(SqlError::Timeout(PATIENCE.as_millis())),
                _ => {}
            },
            // Deadlock, and the row changed since it was read.
            ClientError::Mysql(mysql_async::Error::Server(refusal))
                if matches!(refusal.code, 1213 | 1020) =>
            {
                return Failure::Conflict(refusal.message.clone());
            }
            _ => {}
        }
        Failure::Sql(match SqlError::from(error) {
            // SQLite waited for a lock.
            SqlError::Timeout(0) => SqlError::Timeout(PATIENCE.as_millis()),
            error => error,
        })
    }
}
