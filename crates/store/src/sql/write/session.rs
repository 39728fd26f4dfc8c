//! A connection to the primary for one change at a time: begin, statements with values, commit.
//!
//! Statements are written once with `?` for each value; what an engine wants in its place is told here. Every
//! transaction serialises itself by what it locks first: the row of its zone, or in SQLite the whole file.

use super::super::dialect::Engine;
use super::super::error::SqlError;
use super::super::row::Cells;
use super::super::url::Address;
use super::super::{mysql, postgres};
use mysql_async::prelude::Queryable;
use rusqlite::{ErrorCode, OpenFlags};
use std::error::Error;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

/// How long a change waits for others, and a statement for its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A value of a statement.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'v> {
    Int(i64),
    Bool(bool),
    Text(&'v str),
    Null,
}

impl<'v> From<Option<&'v str>> for Value<'v> {
    fn from(text: Option<&'v str>) -> Self {
        text.map_or(Value::Null, Value::Text)
    }
}

/// Why a statement failed, as far as it bears on trying again.
#[derive(Debug)]
pub(super) enum Failure {
    /// Another transaction was in the way; the database undid this one.
    Conflict(String),
    Sql(SqlError),
}

enum Connection {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
    Mysql(Box<mysql_async::Conn>),
}

pub(super) struct Session {
    connection: Connection,
    /// The file of SQLite and its number in its file system when it was opened.
    file: Option<(PathBuf, u64)>,
    /// Whether the writer can tell others by itself, for databases without triggers.
    can_tell: bool,
}

type Each<'e> = &'e mut (dyn FnMut(&dyn Cells) + Send);
type EachUntil<'e> = &'e mut (dyn FnMut(&dyn Cells) -> ControlFlow<()> + Send);

impl Session {
    pub(super) async fn open(address: &Address) -> Result<Self, SqlError> {
        let file = match address {
            // Before it is opened: if it is replaced meanwhile, the number is too old and it is opened again.
            Address::Sqlite(path) => Some((path.clone(), file_number(path))),
            _ => None,
        };
        let connection = match address {
            Address::Sqlite(path) => {
                let unreachable =
                    |error| SqlError::Unavailable(format!("{}: {error}", path.display()));
                // Never made: an empty file in place of a missing one would hide the mistake.
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                let file =
                    rusqlite::Connection::open_with_flags(path, flags).map_err(unreachable)?;
                file.busy_timeout(PATIENCE).map_err(unreachable)?;
                // What was acknowledged survives a power failure, whatever the journal is.
                file.pragma_update(None, "synchronous", "FULL")
                    .map_err(unreachable)?;
                Connection::Sqlite(file)
            }
            Address::Postgres(url) => {
                let config = postgres::config(url, PATIENCE)?;
                Connection::Postgres(postgres::connect(&config, PATIENCE).await?)
            }
            Address::Mysql(url) => {
                let connect = mysql_async::Conn::new(mysql::options(url)?);
                let connection = within(connect)
                    .await?
                    .map_err(|error| mysql::failure(&error))?;
                Connection::Mysql(Box::new(connection))
            }
        };
        let mut session = Session {
            connection,
            file,
            can_tell: false,
        };
        session.prepare().await?;
        Ok(session)
    }

    /// Bounds how long a lock is waited for, and looks whether changes can be told.
    async fn prepare(&mut self) -> Result<(), SqlError> {
        let plain = |failure| match failure {
            Failure::Conflict(text) => SqlError::Refused(text),
            Failure::Sql(error) => error,
        };
        let seconds = PATIENCE.as_secs() / 2;
        let bound = match self.engine() {
            Engine::Sqlite => None,
            Engine::Postgres => Some(format!("SET lock_timeout = '{seconds}s'")),
            Engine::Mysql => Some(format!("SET innodb_lock_wait_timeout = {seconds}")),
        };
        if let Some(bound) = bound {
            self.run(&bound, &[]).await.map_err(plain)?;
        }
        let probe = match self.engine() {
            // A database that only speaks the protocol may have no notices.
            Engine::Postgres => "SELECT oid FROM pg_proc WHERE proname = 'pg_notify' LIMIT 1",
            _ => "SELECT domain_id FROM nameward_changes LIMIT 0",
        };
        let mut rows = 0;
        let found = self.rows(probe, &[], &mut |_| rows += 1).await;
        self.can_tell = found.is_ok() && (rows > 0 || self.engine() != Engine::Postgres);
        Ok(())
    }

    /// Whether another file has taken the place of the one that is open: what were written to it would be lost.
    pub(super) fn is_replaced(&self) -> bool {
        let file = self.file.as_ref();
        file.is_some_and(|(path, number)| file_number(path) != *number)
    }

    pub(super) fn engine(&self) -> Engine {
        match self.connection {
            Connection::Sqlite(_) => Engine::Sqlite,
            Connection::Postgres(_) => Engine::Postgres,
            Connection::Mysql(_) => Engine::Mysql,
        }
    }

    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        let sql = match self.engine() {
            // Takes the lock at once: a reader that becomes a writer could not wait for another.
            Engine::Sqlite => "BEGIN IMMEDIATE",
            Engine::Postgres => "BEGIN",
            Engine::Mysql => "START TRANSACTION",
        };
        self.command(sql).await
    }

    pub(super) async fn commit(&mut self) -> Result<(), Failure> {
        self.command("COMMIT").await
    }

    pub(super) async fn rollback(&mut self) -> Result<(), Failure> {
        self.command("ROLLBACK").await
    }

    /// Tells other servers that a zone changed, where no trigger may do it.
    pub(super) async fn tell(&mut self, zone: i64) -> Result<(), Failure> {
        if !self.can_tell {
            return Ok(());
        }
        let sql = match self.engine() {
            Engine::Sqlite => {
                "INSERT INTO nameward_changes VALUES (?, 1, CAST(strftime('%s', 'now') AS INTEGER)) \
                 ON CONFLICT (domain_id) DO UPDATE \
                 SET version = version + 1, changed_at = excluded.changed_at"
            }
            Engine::Mysql => {
                "INSERT INTO nameward_changes VALUES (?, 1, UNIX_TIMESTAMP()) \
                 ON DUPLICATE KEY UPDATE version = version + 1, changed_at = VALUES(changed_at)"
            }
            Engine::Postgres => {
                let payload = zone.to_string();
                let sql = "SELECT pg_notify('nameward', ?)";
                return self.rows(sql, &[Value::Text(&payload)], &mut |_| {}).await;
            }
        };
        self.run(sql, &[Value::Int(zone)]).await
    }

    /// A statement without values that the protocol for prepared ones may not take.
    async fn command(&mut self, sql: &str) -> Result<(), Failure> {
        match &mut self.connection {
            Connection::Sqlite(file) => file.execute_batch(sql).map_err(of_sqlite),
            Connection::Postgres(client) => within(client.batch_execute(sql))
                .await?
                .map_err(of_postgres),
            Connection::Mysql(connection) => {
                within(connection.query_drop(sql)).await?.map_err(of_mysql)
            }
        }
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
        let mut all = |row: &dyn Cells| {
            each(row);
            ControlFlow::Continue(())
        };
        self.rows_until(sql, values, &mut all).await
    }

    /// Runs a statement and hands its rows over until `each` breaks off. The connection is of no more use then: rows
    /// may still be on their way.
    pub(super) async fn rows_until(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        each: EachUntil<'_>,
    ) -> Result<(), Failure> {
        match &mut self.connection {
            Connection::Sqlite(file) => sqlite_rows(file, sql, values, each).map_err(of_sqlite),
            Connection::Postgres(client) => {
                let (sql, values) = numbered(sql, values);
                let start = client.query_raw(&sql, values.iter());
                let rows = within(start).await?.map_err(of_postgres)?;
                let mut rows = pin!(rows);
                loop {
                    let next = poll_fn(|context| postgres::next_row(rows.as_mut(), context));
                    match within(next).await?.map_err(of_postgres)? {
                        Some(row) if each(&row).is_continue() => {}
                        _ => return Ok(()),
                    }
                }
            }
            Connection::Mysql(connection) => {
                let values: Vec<mysql_async::Value> = values.iter().map(Value::for_mysql).collect();
                let parameters = match values.len() {
                    0 => mysql_async::Params::Empty,
                    _ => mysql_async::Params::Positional(values),
                };
                let start = connection.exec_iter(sql, parameters);
                let mut rows = within(start).await?.map_err(of_mysql)?;
                while let Some(row) = within(rows.next()).await?.map_err(of_mysql)? {
                    if each(&row).is_break() {
                        break;
                    }
                }
                Ok(())
            }
        }
    }
}

fn file_number(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.ino())
}

async fn within<T>(step: impl Future<Output = T>) -> Result<T, SqlError> {
    timeout(PATIENCE, step)
        .await
        .map_err(|_| SqlError::Timeout(PATIENCE.as_millis()))
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Failure::Sql(error)
    }
}

fn sqlite_rows(
    file: &rusqlite::Connection,
    sql: &str,
    values: &[Value<'_>],
    each: EachUntil<'_>,
) -> rusqlite::Result<()> {
    let mut statement = file.prepare_cached(sql)?;
    for (i, value) in values.iter().enumerate() {
        match value {
            Value::Int(value) => statement.raw_bind_parameter(i + 1, value)?,
            Value::Bool(value) => statement.raw_bind_parameter(i + 1, value)?,
            Value::Text(text) => statement.raw_bind_parameter(i + 1, text)?,
            Value::Null => statement.raw_bind_parameter(i + 1, None::<i64>)?,
        }
    }
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        if each(row).is_break() {
            break;
        }
    }
    Ok(())
}

fn of_sqlite(error: rusqlite::Error) -> Failure {
    Failure::Sql(match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            SqlError::Timeout(PATIENCE.as_millis())
        }
        Some(ErrorCode::Unknown | ErrorCode::ConstraintViolation) => {
            SqlError::Refused(error.to_string())
        }
        _ => SqlError::Unavailable(error.to_string()),
    })
}

fn of_postgres(error: tokio_postgres::Error) -> Failure {
    match error.code().map(|code| code.code()) {
        // Serialisation failure and deadlock.
        Some("40001" | "40P01") => Failure::Conflict(error.to_string()),
        Some("55P03") => Failure::Sql(SqlError::Timeout(PATIENCE.as_millis())),
        _ => Failure::Sql(postgres::failure(&error)),
    }
}

fn of_mysql(error: mysql_async::Error) -> Failure {
    match &error {
        // Deadlock, and the row changed since it was read.
        mysql_async::Error::Server(refusal) if matches!(refusal.code, 1213 | 1020) => {
            Failure::Conflict(refusal.message.clone())
        }
        _ => Failure::Sql(mysql::failure(&error)),
    }
}

/// PostgreSQL numbers its values and wants to know what they are, whatever integers a schema has. NULL is written out.
fn numbered<'v>(sql: &str, values: &'v [Value<'v>]) -> (String, Vec<&'v Value<'v>>) {
    let (mut text, mut bound) = (String::with_capacity(sql.len() + 24 * values.len()), vec![]);
    let mut values = values.iter();
    for (i, part) in sql.split('?').enumerate() {
        if i > 0 {
            let value = values.next().unwrap_or(&Value::Null);
            let kind = match value {
                Value::Int(_) => "BIGINT",
                Value::Bool(_) => "BOOLEAN",
                Value::Text(_) => "VARCHAR",
                Value::Null => "",
            };
            if kind.is_empty() {
                text.push_str("NULL");
            } else {
                bound.push(value);
                text.push_str(&format!("CAST(${} AS {kind})", bound.len()));
            }
        }
        text.push_str(part);
    }
    (text, bound)
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Value::Int(value) => value.to_sql(kind, out),
            Value::Bool(value) => value.to_sql(kind, out),
            Value::Text(text) => text.to_sql(kind, out),
            Value::Null => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl Value<'_> {
    fn for_mysql(&self) -> mysql_async::Value {
        match self {
            Value::Int(value) => mysql_async::Value::Int(*value),
            Value::Bool(value) => mysql_async::Value::Int((*value).into()),
            Value::Text(text) => mysql_async::Value::Bytes(text.as_bytes().into()),
            Value::Null => mysql_async::Value::NULL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postgres_gets_numbers_with_types_and_nulls_written_out() {
        let values = [
            Value::Int(1),
            Value::Null,
            Value::Text("a"),
            Value::Bool(true),
        ];
        let (sql, bound) = numbered("INSERT INTO t VALUES (?, ?, ?, ?)", &values);
        assert_eq!(
            sql,
            "INSERT INTO t VALUES (CAST($1 AS BIGINT), NULL, CAST($2 AS VARCHAR), CAST($3 AS BOOLEAN))"
        );
        assert_eq!(bound.len(), 3);
    }
}
