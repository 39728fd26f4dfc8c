//! A connection to the primary for one change at a time: begin, statements with values, commit.
//!
//! Every transaction serialises itself by what it locks first: the row of its zone, or in SQLite the whole file. A row
//! lock only applies to one node. If several nodes accept writes (Galera, MySQL group replication in multi-primary
//! mode), the transaction first writes a row that every change to the zone writes, so that of two changes on two nodes
//! one fails certification and is retried ([`ZoneClaim`]).

mod transaction;

pub(super) use super::super::connection::Value;
use super::super::connection::{ClientError, ConnectTarget, Each, SqlConnection, Terms};
use super::super::dialect::{SqlEngine, int};
use super::super::error::SqlError;
use super::super::hosts::{SILENCE_MAX, Server};
use super::super::row::Cells;
use super::super::schema::COUNTER;
use super::insert::RowWrites;
use super::local_changes::CommitMark;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Timeout for a change that waits for others, and for a statement.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for a lock.
const LOCK_SECONDS: u64 = TIMEOUT.as_secs() / 2;

/// Maximum number of servers that may turn out to be unusable after connecting.
const OPEN_TRIES: usize = 4;

/// The reason why a statement failed, as far as it matters for retrying.
#[derive(Debug)]
pub(super) enum Failure {
    /// Another transaction conflicted; the database rolled this one back.
    Conflict(String),
    Sql(SqlError),
}

/// How a transaction keeps out other changes to its zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ZoneClaim {
    /// By locking the zone's row: one server accepts all writes.
    RowLock,
    /// By writing the zone's row in the table of changes. Triggers write that row too, so that changes by other
    /// programs conflict as well.
    ChangesRow,
    /// By writing the zone's `domains` row, if there is no table of changes.
    DomainRow,
}

pub(super) struct Session {
    connection: SqlConnection,
    claim: ZoneClaim,
    /// Zones whose version in the table of changes the current transaction increased when it claimed them.
    claimed: HashSet<i64>,
    /// Writes outside the transaction that was started are refused ([`Session::begin`]).
    is_guarded: bool,
    /// The conflict for which the database rolled back the current transaction. Further statements would be separate
    /// transactions, each committed on its own.
    undone: Option<String>,
    /// The SQLite file and its inode number when it was opened.
    file: Option<(PathBuf, u64)>,
    /// Whether the writer itself can notify others, for databases without triggers.
    can_notify: bool,
    /// Whether PostgreSQL has a table of changes with its function, for the same databases.
    has_changes_table: bool,
    /// The session number, if notifications carry it.
    process: Option<i32>,
    /// The number of the current transaction, once it has a row in the table of changes of PostgreSQL.
    transaction: Option<i64>,
    /// The log index will show who committed the current transaction.
    pub(super) is_logged: bool,
    pub(super) history: HistoryTable,
}

/// The table of the history, as a connection has found it.
#[derive(Default)]
pub(super) struct HistoryTable {
    pub(super) is_there: bool,
    pub(super) sought: Option<Instant>,
}

impl Session {
    /// Connects to a server of the primary that accepts statements.
    pub(super) async fn open(target: &ConnectTarget) -> Result<Self, SqlError> {
        let mut tries = OPEN_TRIES;
        loop {
            let mut session = Self::connect(target).await?;
            match session.prepare().await {
                Ok(()) => return Ok(session),
                Err(error) => {
                    tries -= 1;
                    let Some(server) = session
                        .server()
                        .filter(|_| error.is_of_server() && tries > 0)
                    else {
                        return Err(error);
                    };
                    target.avoid(server);
                }
            }
        }
    }

    async fn connect(target: &ConnectTarget) -> Result<Self, SqlError> {
        let file = match target {
            // Before it is opened: if it is replaced in the meantime, the number is outdated and it is opened again.
            ConnectTarget::Sqlite(path) => Some((path.clone(), file_number(path))),
            _ => None,
        };
        let terms = Terms {
            // An empty file in place of a missing one would hide the mistake.
            creates_file: false,
            timeout: TIMEOUT,
            statement_time: Some(TIMEOUT),
        };
        let mut connection = SqlConnection::open(target, terms).await?;
        if connection.engine() == SqlEngine::Sqlite {
            // Acknowledged data survives a power failure, whatever the journal mode.
            connection.command("PRAGMA synchronous = FULL").await?;
        }
        Ok(Session {
            connection,
            claim: ZoneClaim::RowLock,
            claimed: HashSet::new(),
            is_guarded: false,
            undone: None,
            file,
            can_notify: false,
            has_changes_table: false,
            process: None,
            transaction: None,
            is_logged: false,
            history: HistoryTable::default(),
        })
    }

    /// Checks whether the server responds to a session that was idle. If there are others, it has little time: a change would
    /// wait for a machine that has vanished.
    pub(super) async fn responds(&mut self, has_others: bool) -> bool {
        let limit = if has_others { SILENCE_MAX } else { TIMEOUT };
        // A node that has left its cluster only refuses statements about tables.
        let probe = self.run("SELECT id FROM domains LIMIT 0", &[]);
        match tokio::time::timeout(limit, probe).await {
            Err(_) => false,
            Ok(Err(Failure::Sql(error))) => !error.is_of_server(),
            Ok(_) => true,
        }
    }

    /// Returns the server it is connected to; none for a file.
    pub(super) fn server(&self) -> Option<&Server> {
        self.connection.server()
    }

    /// Sets the lock timeout, and checks whether changes can be announced.
    async fn prepare(&mut self) -> Result<(), SqlError> {
        let plain = |failure| match failure {
            Failure::Conflict(text) => SqlError::Refused(text),
            Failure::Sql(error) => error,
        };
        if self.engine() == SqlEngine::Mysql {
            let bound = format!("SET innodb_lock_wait_timeout = {LOCK_SECONDS}");
            self.run(&bound, &[]).await.map_err(plain)?;
        }
        let probe = match self.engine() {
            // A compatible database may have no notifications.
            SqlEngine::Postgres => "SELECT oid FROM pg_proc WHERE proname = 'pg_notify' LIMIT 1",
            _ => "SELECT domain_id FROM nameward_changes LIMIT 0",
        };
        self.can_notify = match self.finds(probe, &[]).await {
            Ok(is_found) => is_found || self.engine() != SqlEngine::Postgres,
            Err(Failure::Sql(error)) if error.is_of_server() => return Err(error),
            // There is no such table.
            Err(_) => false,
        };
        if self.can_notify && self.engine() == SqlEngine::Postgres {
            let sql = "SELECT CAST(pg_backend_pid() AS BIGINT)";
            let process = self.number(sql, &[]).await.map_err(plain)?;
            self.process = process
                .filter(|_| !self.connection.is_pooled())
                .and_then(|process| i32::try_from(process).ok());
            let sql = "SELECT oid FROM pg_proc WHERE proname = 'nameward_note_change' LIMIT 1";
            self.has_changes_table = self.finds(sql, &[]).await.map_err(plain)?;
        }
        if self.engine() == SqlEngine::Mysql && self.has_other_writers().await {
            self.claim = if self.can_notify {
                ZoneClaim::ChangesRow
            } else {
                ZoneClaim::DomainRow
            };
            // Rows that changed since this transaction first read are then refused (1020) and not overwritten. Servers
            // without the setting continue without it.
            let _ = self.run("SET innodb_snapshot_isolation = ON", &[]).await;
            self.is_guarded = self.is_in_transaction().await.is_ok();
        }
        Ok(())
    }

    /// Checks whether other nodes of a cluster accept writes at the same time.
    async fn has_other_writers(&mut self) -> bool {
        // A server without this variable refuses the statement.
        for (variable, value) in [
            ("@@wsrep_on", 1),
            ("@@group_replication_single_primary_mode", 0),
        ] {
            let found = self.number(&format!("SELECT {variable}"), &[]).await;
            if matches!(found, Ok(Some(found)) if found == value) {
                return true;
            }
        }
        false
    }

    /// Keeps out changes to a zone made on other nodes. Must be called before anything of the zone is read: data read
    /// from then on is not older than the claim.
    pub(super) async fn claim_zone(&mut self, zone: i64) -> Result<(), Failure> {
        match self.claim {
            ZoneClaim::RowLock => Ok(()),
            ZoneClaim::ChangesRow => {
                self.raise_version(zone).await?;
                self.claimed.insert(zone);
                Ok(())
            }
            ZoneClaim::DomainRow => {
                // Only a write that changes the row takes part in certification. `last_check` is never negative, so
                // that the second statement restores the original value.
                for sql in [
                    "UPDATE domains SET last_check = CASE WHEN last_check IS NULL THEN -1 \
                     ELSE -last_check - 2 END WHERE id = ?",
                    "UPDATE domains SET last_check = CASE WHEN last_check = -1 THEN NULL \
                     ELSE -last_check - 2 END WHERE id = ?",
                ] {
                    self.run(sql, &[Value::Int(zone)]).await?;
                }
                Ok(())
            }
        }
    }

    /// Checks whether the current transaction has written nothing but claims, if no change was made in it.
    pub(super) fn has_claims(&self) -> bool {
        self.claim != ZoneClaim::RowLock
    }

    /// Checks whether commits have to be recognised in the log of SQLite, for lack of a table of changes.
    pub(super) fn can_follow_log(&self) -> bool {
        self.engine() == SqlEngine::Sqlite && !self.can_notify
    }

    /// Checks whether the open file has been replaced by another: data written to it would be lost.
    pub(super) fn is_replaced(&self) -> bool {
        let file = self.file.as_ref();
        file.is_some_and(|(path, number)| file_number(path) != *number)
    }

    pub(super) fn engine(&self) -> SqlEngine {
        self.connection.engine()
    }

    /// Reads the version of a zone in the table of changes.
    pub(super) async fn version(&mut self, zone: i64) -> Result<i64, Failure> {
        let mut version = 0;
        if self.can_notify && self.engine() != SqlEngine::Postgres {
            let column = int(self.engine(), "version");
            let sql = format!("SELECT {column} FROM nameward_changes WHERE domain_id = ?");
            let found = self.number(&sql, &[Value::Int(zone)]).await?;
            version = found.unwrap_or(0);
        }
        // The claim is part of the change that follows.
        Ok(version - i64::from(self.claimed.contains(&zone)))
    }

    /// Returns the mark that identifies the notification of this transaction, if everything that happened to the zone
    /// since `before` was its own work.
    pub(super) async fn mark(
        &mut self,
        zone: i64,
        before: i64,
        written: RowWrites,
    ) -> Result<Option<CommitMark>, Failure> {
        if !self.can_notify {
            return Ok(self.is_logged.then_some(CommitMark::Log));
        }
        let after = match self.engine() {
            SqlEngine::Postgres => {
                let transaction = self.transaction;
                let mark = |process| CommitMark::Session {
                    process,
                    transaction,
                };
                return Ok(self.process.map(mark));
            }
            SqlEngine::Sqlite | SqlEngine::Mysql => self.version(zone).await?,
        };
        // SQLite has one writer. In MySQL others may have changed rows of the zone after the version was read.
        let is_alone = self.engine() == SqlEngine::Sqlite || after - before == written.versions();
        Ok(is_alone.then_some(CommitMark::Versions { before, after }))
    }

    /// Notifies other servers that a zone changed, if there may be no trigger that does it.
    pub(super) async fn notify_change(&mut self, zone: i64) -> Result<(), Failure> {
        // A claim has already increased the version.
        if !self.can_notify || self.claimed.remove(&zone) {
            return Ok(());
        }
        self.raise_version(zone).await
    }

    async fn raise_version(&mut self, zone: i64) -> Result<(), Failure> {
        let sql = match self.engine() {
            SqlEngine::Sqlite => "INSERT INTO nameward_changes SELECT ?, 1, \
                 (SELECT coalesce(max(changed_at), 0) FROM nameward_changes) WHERE true \
                 ON CONFLICT (domain_id) DO UPDATE \
                 SET version = version + 1, changed_at = excluded.changed_at"
                .to_owned(),
            SqlEngine::Mysql => format!(
                "INSERT INTO nameward_changes VALUES (?, 1, UNIX_TIMESTAMP()), ({COUNTER}, 1, UNIX_TIMESTAMP()) \
                 ON DUPLICATE KEY UPDATE version = version + 1, changed_at = VALUES(changed_at)"
            ),
            SqlEngine::Postgres => {
                let payload = zone.to_string();
                let sql = if self.has_changes_table {
                    "SELECT CAST(nameward_note_change(?) AS TEXT), CAST(txid_current() AS BIGINT)"
                } else {
                    "SELECT pg_notify('nameward', ?), CAST(NULL AS BIGINT)"
                };
                let mut transaction = None;
                let each = &mut |row: &dyn Cells| transaction = row.int(1);
                self.rows(sql, &[Value::Text(&payload)], each).await?;
                self.transaction = transaction;
                return Ok(());
            }
        };
        self.run(&sql, &[Value::Int(zone)]).await
    }

    async fn command(&mut self, sql: &str) -> Result<(), Failure> {
        self.check_undone()?;
        let result = self.connection.command(sql).await;
        self.note_conflict(result)
    }

    fn check_undone(&self) -> Result<(), Failure> {
        match &self.undone {
            Some(conflict) => Err(Failure::Conflict(conflict.clone())),
            None => Ok(()),
        }
    }

    fn note_conflict(&mut self, result: Result<(), ClientError>) -> Result<(), Failure> {
        let result = result.map_err(|error| match &error {
            // A write outside the transaction, which was rolled back.
            ClientError::Mysql(mysql_async::Error::Server(refusal))
                if self.is_guarded && refusal.code == 1792 =>
            {
                Failure::Conflict(refusal.message.clone())
            }
            _ => Failure::from(error),
        });
        if let Err(Failure::Conflict(text)) = &result {
            self.undone = Some(text.clone());
        }
        result
    }

    /// Runs a statement that returns no rows.
    pub(super) async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<(), Failure> {
        self.rows(sql, values, &mut |_| {}).await
    }

    /// Checks whether a statement returns a row.
    pub(super) async fn finds(&mut self, sql: &str, values: &[Value<'_>]) -> Result<bool, Failure> {
        let mut found = false;
        self.rows(sql, values, &mut |_| found = true).await?;
        Ok(found)
    }

    /// Returns the number that a statement returns.
    pub(super) async fn number(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Option<i64>, Failure> {
        let mut numbers = self.list(sql, values, |row| row.int(0)).await?;
        Ok(numbers.pop().flatten())
    }

    /// Reads the rows of a statement.
    pub(super) async fn list<T: Send>(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        mut read: impl FnMut(&dyn Cells) -> T + Send,
    ) -> Result<Vec<T>, Failure> {
        let mut found = Vec::new();
        let each = &mut |row: &dyn Cells| found.push(read(row));
        self.rows(sql, values, each).await?;
        Ok(found)
    }

    /// Runs a statement and passes its rows on.
    pub(super) async fn rows(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        each: Each<'_>,
    ) -> Result<(), Failure> {
        self.check_undone()?;
        let result = self.connection.rows(sql, values, each).await;
        self.note_conflict(result)
    }

    /// Runs a statement and passes its rows on until `each` returns false; then the connection is unusable: rows may
    /// still be in transit. Returns whether all rows were passed on.
    pub(super) async fn rows_while(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        each: &mut (dyn FnMut(&dyn Cells) -> bool + Send),
    ) -> Result<bool, Failure> {
        self.check_undone()?;
        let mut is_open = true;
        let each = &mut |row: &dyn Cells| {
            is_open = each(row);
            if is_open {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let result = self.connection.rows_until(sql, values, each).await;
        self.note_conflict(result).map(|()| is_open)
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
                // Serialisation failure, deadlock, and a row with that key that another transaction inserted first.
                Some("40001" | "40P01" | "23505") => {
                    let text = refusal.as_db_error().map(|refusal| refusal.message());
                    return Failure::Conflict(text.unwrap_or_default().to_owned());
                }
                Some("55P03") => return Failure::Sql(SqlError::Timeout(TIMEOUT.as_millis())),
                _ => {}
            },
            // Deadlock or failed certification, lock wait, the row changed since it was read, rolled back by group
            // replication, a row with that key that another transaction inserted first, and a statement that was interrupted:
            // by a change of another node of a Galera cluster that is applied.
            ClientError::Mysql(mysql_async::Error::Server(refusal))
                if matches!(refusal.code, 1213 | 1205 | 1020 | 3101 | 1062 | 1317) =>
            {
                return Failure::Conflict(refusal.message.clone());
            }
            _ => {}
        }
        Failure::Sql(match SqlError::from(error) {
            // SQLite waited for a lock.
            SqlError::Timeout(0) => SqlError::Timeout(TIMEOUT.as_millis()),
            error => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_lost_against_another_transaction_are_conflicts() {
        for (code, is_conflict) in [(1213, true), (1317, true), (1054, false), (1047, false)] {
            let refusal = mysql_async::ServerError {
                code,
                message: "refused".into(),
                state: "HY000".into(),
            };
            let failure = Failure::from(ClientError::Mysql(mysql_async::Error::Server(refusal)));
            assert_eq!(
                matches!(failure, Failure::Conflict(_)),
                is_conflict,
                "{code}"
            );
        }
    }
}
