//! The administration of a database: makes the schema, checks schema and rows, and finds content of PowerDNS that is
//! served otherwise here.

mod check;
mod survey;

pub use check::{CheckReport, RowProblem, check};
pub use survey::{ForeignContent, ForeignKind, survey};

use super::dialect::Engine;
use super::error::SqlError;
use super::row::Cells;
use super::schema::{create, create_triggers};
use super::url::Address;
use super::{mysql, postgres};
use mysql_async::prelude::Queryable;
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

/// How long one statement of an administrator may wait for others.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection for administration.
pub(crate) enum Admin {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
    Mysql(Box<mysql_async::Conn>),
}

impl Admin {
    async fn open(address: &Address) -> Result<Self, SqlError> {
        match address {
            Address::Sqlite(path) => {
                let unreachable =
                    |error| SqlError::Unavailable(format!("{}: {error}", path.display()));
                let connection = rusqlite::Connection::open(path).map_err(unreachable)?;
                connection.busy_timeout(PATIENCE).map_err(unreachable)?;
                Ok(Admin::Sqlite(connection))
            }
            Address::Postgres(url) => {
                let config = postgres::config(url, PATIENCE)?;
                postgres::connect(&config, PATIENCE)
                    .await
                    .map(Admin::Postgres)
            }
            Address::Mysql(url) => {
                let connect = mysql_async::Conn::new(mysql::options(url)?);
                let connection = tokio::time::timeout(PATIENCE, connect)
                    .await
                    .map_err(|_| SqlError::Timeout(PATIENCE.as_millis()))?
                    .map_err(|error| mysql::failure(&error))?;
                Ok(Admin::Mysql(Box::new(connection)))
            }
        }
    }

    fn engine(&self) -> Engine {
        match self {
            Admin::Sqlite(_) => Engine::Sqlite,
            Admin::Postgres(_) => Engine::Postgres,
            Admin::Mysql(_) => Engine::Mysql,
        }
    }

    async fn execute(&mut self, sql: &str) -> Result<(), SqlError> {
        match self {
            Admin::Sqlite(connection) => connection
                .execute_batch(sql)
                .map_err(|error| SqlError::Refused(error.to_string())),
            Admin::Postgres(client) => client
                .batch_execute(sql)
                .await
                .map_err(|error| postgres::failure(&error)),
            Admin::Mysql(connection) => connection
                .query_drop(sql)
                .await
                .map_err(|error| mysql::failure(&error)),
        }
    }

    async fn select(
        &mut self,
        sql: &str,
        each: &mut (dyn FnMut(&dyn Cells) + Send),
    ) -> Result<(), SqlError> {
        match self {
            Admin::Sqlite(connection) => {
                let refused = |error: rusqlite::Error| SqlError::Refused(error.to_string());
                let mut statement = connection.prepare(sql).map_err(refused)?;
                let mut rows = statement.raw_query();
                while let Some(row) = rows.next().map_err(refused)? {
                    each(row);
                }
                Ok(())
            }
            Admin::Postgres(client) => {
                let refused = |error| postgres::failure(&error);
                let parameters: [&str; 0] = [];
                let rows = client.query_raw(sql, parameters).await.map_err(refused)?;
                let mut rows = pin!(rows);
                while let Some(row) = poll_fn(|context| postgres::next_row(rows.as_mut(), context))
                    .await
                    .map_err(refused)?
                {
                    each(&row);
                }
                Ok(())
            }
            Admin::Mysql(connection) => {
                let refused = |error| mysql::failure(&error);
                let mut rows = connection.exec_iter(sql, ()).await.map_err(refused)?;
                while let Some(row) = rows.next().await.map_err(refused)? {
                    each(&row);
                }
                Ok(())
            }
        }
    }
}

/// Makes what is missing of the schema. Returns warnings: without the triggers all works, but other servers see
/// changes later.
pub async fn init(address: &Address) -> Result<Vec<String>, SqlError> {
    let mut admin = Admin::open(address).await?;
    if admin.engine() == Engine::Sqlite {
        // Readers then never wait for a writer.
        admin.execute("PRAGMA journal_mode = WAL").await?;
    }
    for statement in create(admin.engine()) {
        admin.execute(&statement).await?;
    }
    for statement in create_triggers(admin.engine()) {
        if let Err(error) = admin.execute(&statement).await {
            return Ok(vec![format!(
                "changes are not told to running servers at once, because the triggers could not be made: {error}"
            )]);
        }
    }
    Ok(Vec::new())
}
