//! A dedicated connection to a database of any engine, for zone changes and administration. Lookups use connection
//! pools with prepared statements instead.
//!
//! Statements are written once with `?` for each value; the syntax required by each engine is generated here.

use super::dialect::SqlEngine;
use super::error::SqlError;
use super::hosts::{Hosts, Server};
use super::row::Cells;
use super::url::DatabaseAddress;
use super::{mysql, postgres, postgres_error};
use mysql_async::prelude::Queryable;
use rusqlite::{ErrorCode, OpenFlags};
use std::error::Error;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;
use tokio_postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

/// Prepared statements of a SQLite connection: more than a change runs.
const STATEMENTS: usize = 64;

/// A statement parameter.
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

/// Settings of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// A missing SQLite file is created.
    pub(super) creates_file: bool,
    /// Timeout for a connection attempt, and for SQLite locks.
    pub(super) timeout: Duration,
    /// Timeout for a statement; `None`: unlimited.
    pub(super) statement_time: Option<Duration>,
}

/// A database that connections can be opened to. Clones share what is known about its servers.
#[derive(Clone)]
pub(super) enum ConnectTarget {
    Sqlite(PathBuf),
    Postgres(Box<postgres::PostgresTarget>),
    Mysql(mysql::MysqlTarget),
}

impl ConnectTarget {
    pub(super) fn new(address: &DatabaseAddress) -> Result<Self, SqlError> {
        Ok(match address {
            DatabaseAddress::Sqlite(path) => ConnectTarget::Sqlite(path.clone()),
            DatabaseAddress::Postgres(url) => {
                ConnectTarget::Postgres(Box::new(postgres::target(url.reveal())?))
            }
            DatabaseAddress::Mysql(url) => ConnectTarget::Mysql(mysql::target(url.reveal())?),
        })
    }

    /// Prefers the first server that is in step, whether it accepts changes or not.
    pub(super) fn for_reads(self, lag_max: Duration) -> Self {
        match self {
            ConnectTarget::Sqlite(path) => ConnectTarget::Sqlite(path),
            ConnectTarget::Postgres(target) => {
                ConnectTarget::Postgres(Box::new(target.for_reads(lag_max)))
            }
            ConnectTarget::Mysql(target) => ConnectTarget::Mysql(target.for_reads()),
        }
    }

    pub(super) fn hosts(&self) -> Option<&Hosts> {
        match self {
            ConnectTarget::Sqlite(_) => None,
            ConnectTarget::Postgres(target) => Some(&target.hosts),
            ConnectTarget::Mysql(target) => Some(&target.hosts),
        }
    }

    /// Returns its servers in the order of the address; none for a file, or if they cannot be resolved.
    pub(super) async fn listed_servers(&self) -> Vec<Server> {
        match self.hosts() {
            Some(hosts) => hosts.listed().await.unwrap_or_default(),
            None => Vec::new(),
        }
    }

    /// Checks whether there is more than one server to choose from.
    pub(super) fn has_several_servers(&self) -> bool {
        self.hosts().is_some_and(Hosts::are_several)
    }

    /// Records that a server failed or accepts no changes: it is tried last.
    pub(super) fn avoid(&self, server: &Server) {
        if let Some(hosts) = self.hosts() {
            hosts.avoid(server);
        }
    }

    /// Checks whether a connection to this server should still be used.
    pub(super) fn prefers(&self, server: &Server) -> bool {
        self.hosts().is_none_or(|hosts| hosts.prefers(server))
    }
}

enum Client {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
    Mysql(Box<mysql_async::Conn>),
}

/// An exclusively used connection.
pub(super) struct SqlConnection {
    client: Client,
    /// The server it is connected to; none for a file.
    server: Option<Server>,
    is_pooled: bool,
    terms: Terms,
}

/// The failure of a statement, as reported by the engine's client library.
#[derive(Debug)]
pub(super) enum ClientError {
    Sqlite(rusqlite::Error),
    Postgres(tokio_postgres::Error),
    Mysql(mysql_async::Error),
    Timeout(Duration),
}

impl From<ClientError> for SqlError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Sqlite(error) => from_sqlite_error(&error),
            ClientError::Postgres(error) => postgres_error::failure(&error),
            ClientError::Mysql(error) => mysql::failure(&error),
            ClientError::Timeout(time) => SqlError::Timeout(time.as_millis()),
        }
    }
}

fn from_sqlite_error(error: &rusqlite::Error) -> SqlError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => SqlError::Timeout(0),
        Some(ErrorCode::Unknown | ErrorCode::ConstraintViolation) => {
            SqlError::Refused(error.to_string())
        }
        _ => SqlError::Unavailable(error.to_string()),
    }
}

/// Receives the rows of a statement.
pub(super) type Each<'e> = &'e mut (dyn FnMut(&dyn Cells) + Send);
/// Receives the rows of a statement until it breaks.
pub(super) type EachUntil<'e> = &'e mut (dyn FnMut(&dyn Cells) -> ControlFlow<()> + Send);

impl SqlConnection {
    pub(super) async fn open(target: &ConnectTarget, terms: Terms) -> Result<Self, SqlError> {
        let (server, client) = match target {
            ConnectTarget::Sqlite(path) => {
                let unreachable =
                    |error| SqlError::Unavailable(format!("{}: {error}", path.display()));
                let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                flags.set(OpenFlags::SQLITE_OPEN_CREATE, terms.creates_file);
                let file =
                    rusqlite::Connection::open_with_flags(path, flags).map_err(unreachable)?;
                file.busy_timeout(terms.timeout).map_err(unreachable)?;
                file.set_prepared_statement_cache_capacity(STATEMENTS);
                keep_plans(&file).map_err(unreachable)?;
                (None, Client::Sqlite(file))
            }
            ConnectTarget::Postgres(target) => {
                let (server, client) = target.hosts.connect(terms.timeout, &**target).await?;
                (Some(server), Client::Postgres(client))
            }
            ConnectTarget::Mysql(target) => {
                let (server, connection) = target.hosts.connect(terms.timeout, target).await?;
                (Some(server), Client::Mysql(Box::new(connection)))
            }
        };
        let is_pooled = matches!(target, ConnectTarget::Postgres(target) if target.is_pooled());
        Ok(SqlConnection {
            client,
            server,
            is_pooled,
            terms,
        })
    }

    /// Checks whether a pooler may give the next transaction to another session of the database.
    pub(super) fn is_pooled(&self) -> bool {
        self.is_pooled
    }

    /// Returns the server it is connected to; none for a file.
    pub(super) fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    pub(super) fn engine(&self) -> SqlEngine {
        match self.client {
            Client::Sqlite(_) => SqlEngine::Sqlite,
            Client::Postgres(_) => SqlEngine::Postgres,
            Client::Mysql(_) => SqlEngine::Mysql,
        }
    }

    /// Runs a statement without parameters that the prepared-statement protocol may not support.
    pub(super) async fn command(&mut self, sql: &str) -> Result<(), ClientError> {
        let terms = self.terms;
        match &mut self.client {
            Client::Sqlite(file) => file.execute_batch(sql).map_err(ClientError::Sqlite),
            Client::Postgres(client) => within(terms, client.batch_execute(sql))
                .await?
                .map_err(ClientError::Postgres),
            Client::Mysql(connection) => within(terms, connection.query_drop(sql))
                .await?
                .map_err(ClientError::Mysql),
        }
    }

    /// Runs a statement and passes its rows on.
    pub(super) async fn rows(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        each: Each<'_>,
    ) -> Result<(), ClientError> {
        let mut all = |row: &dyn Cells| {
            each(row);
            ControlFlow::Continue(())
        };
        self.rows_until(sql, values, &mut all).await
    }

    /// Runs a statement and passes its rows on until `each` breaks. The connection is unusable afterwards: rows may
    /// still be in transit.
    pub(super) async fn rows_until(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        each: EachUntil<'_>,
    ) -> Result<(), ClientError> {
        let terms = self.terms;
        match &mut self.client {
            Client::Sqlite(file) => {
                sqlite_rows(file, sql, values, each).map_err(ClientError::Sqlite)
            }
            Client::Postgres(client) => {
                let (sql, values) = numbered(sql, values);
                let typed = values.iter().map(|value| (*value, value.postgres_type()));
                // One round trip, and nothing that stays in the session.
                let start = client.query_typed_raw(&sql, typed);
                let rows = within(terms, start).await?;
                let mut rows = pin!(rows.map_err(ClientError::Postgres)?);
                loop {
                    let next = poll_fn(|context| postgres::next_row(rows.as_mut(), context));
                    let row = within(terms, next).await?;
                    match row.map_err(ClientError::Postgres)? {
                        Some(row) if each(&row).is_continue() => {}
                        _ => return Ok(()),
                    }
                }
            }
            Client::Mysql(connection) => {
                let values: Vec<mysql_async::Value> = values.iter().map(Value::for_mysql).collect();
                let parameters = match values.len() {
                    0 => mysql_async::Params::Empty,
                    _ => mysql_async::Params::Positional(values),
                };
                let start = within(terms, connection.exec_iter(sql, parameters)).await?;
                let mut rows = start.map_err(ClientError::Mysql)?;
                loop {
                    let row = within(terms, rows.next()).await?;
                    match row.map_err(ClientError::Mysql)? {
                        Some(row) if each(&row).is_continue() => {}
                        _ => return Ok(()),
                    }
                }
            }
        }
    }
}

async fn within<T>(terms: Terms, step: impl Future<Output = T>) -> Result<T, ClientError> {
    match terms.statement_time {
        Some(time) => tokio::time::timeout(time, step)
            .await
            .map_err(|_| ClientError::Timeout(time)),
        None => Ok(step.await),
    }
}

/// Keeps a prepared statement as it is. SQLite would otherwise plan some again for each new value.
pub(super) fn keep_plans(file: &rusqlite::Connection) -> rusqlite::Result<()> {
    let guarantee = rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG;
    file.set_db_config(guarantee, true).map(drop)
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

/// Rewrites a statement for PostgreSQL, which numbers parameters and needs their types, whatever integers a schema has.
/// NULL is written out.
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
    fn postgres_type(&self) -> Type {
        match self {
            Value::Int(_) => Type::INT8,
            Value::Bool(_) => Type::BOOL,
            Value::Text(_) | Value::Null => Type::VARCHAR,
        }
    }

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
