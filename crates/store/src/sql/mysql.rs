//! MySQL and MariaDB: a pool of connections, each taking one statement at a time.

use super::back_off::BackOff;
use super::dialect::{NAME_COUNTS, STATEMENTS, SqlEngine, Statement};
use super::error::SqlError;
use super::row::Cells;
use super::tls::{Tls, Wish};
use mysql_async::prelude::Queryable;
use mysql_async::{
    Conn, Error, Opts, OptsBuilder, Params, Pool, PoolConstraints, PoolOpts, Row, SslOpts, Value,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub(crate) struct Mysql {
    pool: Pool,
    /// For connections beside the pool, which may be full of statements that hang.
    options: Opts,
    timeout: Duration,
    back_off: Mutex<BackOff>,
    statements: [String; STATEMENTS],
    /// The statements that take a list, for each of [`NAME_COUNTS`].
    lists: [[String; NAME_COUNTS.len()]; Statement::LISTED.len()],
}

/// Reads an address, and from its `sslmode` whether the connection is encrypted.
pub(crate) fn options(url: &str) -> Result<Opts, SqlError> {
    let wish = Wish::read(url)?;
    // The message of the parser may quote the address, with the password.
    let options = Opts::from_url(&wish.url)
        .map_err(|_| SqlError::Address("expected mysql://user@host:port/database".into()))?;
    let Some(path) = wish.authorities else {
        return Ok(options);
    };
    // A file that cannot be read is an error now, not when the first connection fails.
    Tls::new(Some(&path))?;
    let tls = SslOpts::default()
        .with_disable_built_in_roots(true)
        .with_root_certs(vec![path.into()]);
    Ok(OptsBuilder::from_opts(options).ssl_opts(tls).into())
}

impl Mysql {
    pub(crate) fn new(url: &str, connections: usize, timeout: Duration) -> Result<Self, SqlError> {
        // One more, so that reading a whole zone takes nothing away from look-ups.
        let most = connections.max(1) + 1;
        let pool = PoolOpts::default()
            .with_constraints(PoolConstraints::new(1, most).unwrap_or_default())
            // A reset would throw the prepared statements away, and cost a round trip.
            .with_reset_connection(false);
        let own = OptsBuilder::from_opts(options(url)?).prefer_socket(false);
        let options = own
            .clone()
            .pool_opts(pool)
            .stmt_cache_size(32usize)
            // A table that is being altered fails its statements before clients give up. In seconds, 1 is the least.
            .init(vec!["SET SESSION lock_wait_timeout = 1"]);
        Ok(Mysql {
            pool: Pool::new(options),
            options: own.into(),
            timeout,
            back_off: Mutex::default(),
            statements: Statement::ALL.map(|statement| statement.sql(SqlEngine::Mysql, 1)),
            lists: Statement::lists(SqlEngine::Mysql),
        })
    }

    /// Runs a statement and hands each row over.
    pub(crate) async fn query(
        &self,
        statement: Statement,
        zone: Option<i64>,
        names: &[&str],
        each: &mut (dyn FnMut(&dyn Cells) -> Result<(), SqlError> + Send),
    ) -> Result<(), SqlError> {
        let has_rows = AtomicBool::new(false);
        let mut each = |row: &dyn Cells| {
            has_rows.store(true, Ordering::Relaxed);
            each(row)
        };
        let mut connection = self.connection().await?;
        let mut result = self
            .run(&mut connection, statement, zone, names, &mut each)
            .await;
        if matches!(result, Err(SqlError::Unavailable(_))) && !has_rows.load(Ordering::Relaxed) {
            // It may have been idle while the server restarted: one more try.
            drop(connection);
            connection = self.connection().await?;
            result = self
                .run(&mut connection, statement, zone, names, &mut each)
                .await;
        }
        if result.is_err() {
            if matches!(result, Err(SqlError::Timeout(_))) {
                self.kill(connection.id());
            }
            // Rows that nobody reads any more may still be on their way.
            tokio::spawn(connection.disconnect());
        }
        result
    }

    /// Has the server end a connection whose statement nobody waits for any more: it would work on it to its end.
    fn kill(&self, connection: u32) {
        let (options, timeout) = (self.options.clone(), self.timeout);
        tokio::spawn(async move {
            let killing = async {
                let mut own = Conn::new(options).await?;
                own.query_drop(format!("KILL {connection}")).await?;
                own.disconnect().await
            };
            // A server that does not answer does not take this either; and one that has ended it says that it is not there.
            let _ = tokio::time::timeout(timeout, killing).await;
        });
    }

    async fn connection(&self) -> Result<Conn, SqlError> {
        self.back_off().check()?;
        match self.within(self.pool.get_conn()).await {
            Ok(connection) => {
                self.back_off().succeed();
                Ok(connection)
            }
            // A full pool is no reason to stay away from the database.
            Err(SqlError::Timeout(ms)) => Err(SqlError::Timeout(ms)),
            Err(error) => Err(self.back_off().fail(error)),
        }
    }

    fn back_off(&self) -> std::sync::MutexGuard<'_, BackOff> {
        self.back_off.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(
        &self,
        connection: &mut Conn,
        statement: Statement,
        zone: Option<i64>,
        names: &[&str],
        each: &mut (dyn FnMut(&dyn Cells) -> Result<(), SqlError> + Send),
    ) -> Result<(), SqlError> {
        let (sql, filled) = if let Some(list) = statement.list_index() {
            let size = NAME_COUNTS.partition_point(|&count| count < names.len());
            (&self.lists[list][size], NAME_COUNTS[size])
        } else {
            (&self.statements[statement as usize], 0)
        };
        let mut values: Vec<Value> = zone.map(Value::Int).into_iter().collect();
        // Places that are left over repeat the last name.
        values.extend((0..filled).map(|i| {
            let name = names.get(i).or(names.last()).copied().unwrap_or_default();
            Value::Bytes(name.into())
        }));
        let parameters = match values.len() {
            0 => Params::Empty,
            _ => Params::Positional(values),
        };
        let mut rows = self
            .within(connection.exec_iter(sql.as_str(), parameters))
            .await?;
        while let Some(row) = self.within(rows.next()).await? {
            each(&row)?;
        }
        Ok(())
    }

    async fn within<T>(&self, step: impl Future<Output = Result<T, Error>>) -> Result<T, SqlError> {
        match tokio::time::timeout(self.timeout, step).await {
            Ok(result) => result.map_err(|error| failure(&error)),
            Err(_) => Err(SqlError::Timeout(self.timeout.as_millis())),
        }
    }
}

/// Returns the meaning of a failure.
pub(crate) fn failure(error: &Error) -> SqlError {
    match error {
        Error::Server(refusal) => match refusal.code {
            // A time limit of the server.
            1969 | 3024 => SqlError::Timeout(0),
            // Lock wait, deadlock, the table changed meanwhile, serialisation failure.
            1205 | 1213 | 1412 | 1020 => SqlError::Busy(refusal.message.clone()),
            // Too many connections, login, no such database, shutting down, killed.
            1040 | 1044 | 1045 | 1049 | 1053 | 1129 | 1130 | 1203 | 1226 | 1317 | 1927 | 3169 => {
                SqlError::Unavailable(refusal.message.clone())
            }
            _ => SqlError::Refused(refusal.message.clone()),
        },
        Error::Io(error) => SqlError::Unavailable(error.to_string()),
        other => SqlError::Unavailable(other.to_string()),
    }
}

impl Cells for Row {
    fn int(&self, column: usize) -> Option<i64> {
        match self.as_ref(column)? {
            Value::Int(value) => Some(*value),
            Value::UInt(value) => i64::try_from(*value).ok(),
            Value::Bytes(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    }

    fn text(&self, column: usize) -> Option<&[u8]> {
        match self.as_ref(column)? {
            Value::Bytes(text) => Some(text),
            _ => None,
        }
    }
}
