//! PostgreSQL: a few connections, each taking many statements at once.
//!
//! Statements are sent without waiting for the answers to those before (pipelining), so a few connections carry
//! many look-ups. Statements that read a lot have a connection of their own, so that no look-up waits behind them.

use super::back_off::BackOff;
use super::dialect::{STATEMENTS, SqlEngine, Statement};
use super::error::SqlError;
use super::row::Cells;
use super::tls::{Encrypted, Tls, Wish};
use std::error::Error as _;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Client, Config, Row, RowStream, Socket, Statement as Prepared};

pub(crate) struct Postgres {
    target: Target,
    timeout: Duration,
    /// The last one is for statements that read a lot.
    slots: Box<[ConnectionSlot]>,
    next: AtomicUsize,
}

#[derive(Default)]
struct ConnectionSlot {
    session: Mutex<Option<Arc<PostgresSession>>>,
    connecting: tokio::sync::Mutex<BackOff>,
}

struct PostgresSession {
    client: Client,
    prepared: [OnceCell<Prepared>; STATEMENTS],
}

/// A database, and how to connect to it.
#[derive(Clone)]
pub(crate) struct Target {
    config: Config,
    tls: Tls,
}

impl Target {
    /// Opens a connection that has to be polled.
    pub(crate) async fn open(&self) -> Result<(Client, Connection), tokio_postgres::Error> {
        self.config.connect(self.tls.clone()).await
    }
}

/// A connection, encrypted or not.
pub(crate) type Connection = tokio_postgres::Connection<Socket, Encrypted<Socket>>;

/// Reads an address.
pub(crate) fn config(url: &str, timeout: Duration) -> Result<Target, SqlError> {
    let wish = Wish::read(url)?;
    // The message of the parser may quote the address, with the password.
    let mut config: Config = wish
        .url
        .parse()
        .map_err(|_| SqlError::Address("expected postgres://user@host:port/database".into()))?;
    config
        .connect_timeout(timeout)
        .keepalives_idle(Duration::from_secs(10))
        .application_name("nameward")
        // Nothing in between: who asks for encryption gets it or nothing.
        .ssl_mode(match wish.authorities {
            Some(_) => SslMode::Require,
            None => SslMode::Disable,
        });
    let tls = Tls::new(wish.authorities.as_deref())?;
    Ok(Target { config, tls })
}

/// Connects and lets the connection work on its own.
pub(crate) async fn connect(target: &Target, timeout: Duration) -> Result<Client, SqlError> {
    let (client, connection) = tokio::time::timeout(timeout, target.open())
        .await
        .map_err(|_| SqlError::Timeout(timeout.as_millis()))?
        .map_err(|error| failure(&error))?;
    // It ends when the client is dropped or the connection breaks; the client reports both.
    tokio::spawn(connection);
    // Planning a look-up anew for each list of names takes longer than the look-up. Older servers, and others that speak
    // the protocol, do not know the setting and go on without it.
    let _ = tokio::time::timeout(
        timeout,
        client.batch_execute("SET plan_cache_mode = force_generic_plan"),
    )
    .await;
    Ok(client)
}

impl Postgres {
    pub(crate) fn new(url: &str, connections: usize, timeout: Duration) -> Result<Self, SqlError> {
        Ok(Postgres {
            target: config(url, timeout)?,
            timeout,
            slots: (0..=connections.max(1))
                .map(|_| ConnectionSlot::default())
                .collect(),
            next: AtomicUsize::new(0),
        })
    }

    /// Runs a statement and hands each row over. A connection that turns out to be broken is replaced once.
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
        let slot = self.slot(statement);
        let (session, is_fresh) = self.session(slot).await?;
        match self.run(&session, statement, zone, names, &mut each).await {
            Err(SqlError::Unavailable(_)) if !is_fresh && !has_rows.load(Ordering::Relaxed) => {
                discard(slot, &session);
                let (session, _) = self.session(slot).await?;
                self.run(&session, statement, zone, names, &mut each).await
            }
            Err(error @ SqlError::Timeout(_)) => {
                discard(slot, &session);
                self.cancel(&session);
                Err(error)
            }
            Err(error @ SqlError::Unavailable(_)) => {
                discard(slot, &session);
                Err(error)
            }
            result => result,
        }
    }

    /// Has the server give up the statement of a session that nobody uses any more: it would work on it to its end. Whatever
    /// waits behind that statement has waited too long as well.
    fn cancel(&self, session: &PostgresSession) {
        let (token, tls) = (session.client.cancel_token(), self.target.tls.clone());
        let timeout = self.timeout;
        tokio::spawn(async move {
            // A server that does not answer does not take this either.
            let _ = tokio::time::timeout(timeout, token.cancel_query(tls)).await;
        });
    }

    fn slot(&self, statement: Statement) -> &ConnectionSlot {
        let lookups = self.slots.len() - 1;
        match statement {
            Statement::Lookup | Statement::Zone | Statement::Keys | Statement::Metadata => {
                &self.slots[self.next.fetch_add(1, Ordering::Relaxed) % lookups]
            }
            _ => &self.slots[lookups],
        }
    }

    /// The session of a slot, and whether it is new.
    async fn session(
        &self,
        slot: &ConnectionSlot,
    ) -> Result<(Arc<PostgresSession>, bool), SqlError> {
        if let Some(session) = current(slot) {
            return Ok((session, false));
        }
        let mut back_off = slot.connecting.lock().await;
        if let Some(session) = current(slot) {
            return Ok((session, false));
        }
        back_off.check()?;
        match connect(&self.target, self.timeout).await {
            Ok(client) => {
                back_off.succeed();
                self.bound_locks(&client).await;
                let session = Arc::new(PostgresSession {
                    client,
                    prepared: std::array::from_fn(|_| OnceCell::new()),
                });
                *lock(&slot.session) = Some(session.clone());
                Ok((session, true))
            }
            Err(error) => Err(back_off.fail(error)),
        }
    }

    /// A table that is locked (it is being altered) fails its own statements soon, and not all that wait behind them
    /// on the connection.
    async fn bound_locks(&self, client: &Client) {
        let most = (self.timeout / 4).as_millis().max(1);
        let set = format!("SET lock_timeout = {most}");
        let _ = tokio::time::timeout(self.timeout, client.batch_execute(&set)).await;
    }

    async fn run(
        &self,
        session: &PostgresSession,
        statement: Statement,
        zone: Option<i64>,
        names: &[&str],
        each: &mut (dyn FnMut(&dyn Cells) -> Result<(), SqlError> + Send),
    ) -> Result<(), SqlError> {
        let mut parameters: Vec<&(dyn ToSql + Sync)> = Vec::with_capacity(2);
        parameters.extend(zone.as_ref().map(|zone| zone as &(dyn ToSql + Sync)));
        if statement.list_index().is_some() {
            parameters.push(&names);
        }
        let rows = self.within(session.start(statement, &parameters)).await?;
        let mut rows = pin!(rows);
        loop {
            let row = self.within(std::future::poll_fn(|context| {
                next_row(rows.as_mut(), context)
            }));
            match row.await? {
                Some(row) => each(&row)?,
                None => return Ok(()),
            }
        }
    }

    async fn within<T>(
        &self,
        step: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, SqlError> {
        match tokio::time::timeout(self.timeout, step).await {
            Ok(result) => result.map_err(|error| failure(&error)),
            Err(_) => Err(SqlError::Timeout(self.timeout.as_millis())),
        }
    }
}

pub(crate) fn next_row(
    rows: std::pin::Pin<&mut RowStream>,
    context: &mut std::task::Context<'_>,
) -> std::task::Poll<Result<Option<Row>, tokio_postgres::Error>> {
    use futures_core::Stream;
    rows.poll_next(context).map(Option::transpose)
}

impl PostgresSession {
    async fn start(
        &self,
        statement: Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<RowStream, tokio_postgres::Error> {
        let prepared = self.prepared[statement as usize]
            .get_or_try_init(|| {
                // Without this the cast of a name list to the type of the column would hide the index.
                let types: &[Type] = match statement {
                    Statement::Lookup | Statement::Keys | Statement::Metadata => {
                        &[Type::VARCHAR_ARRAY]
                    }
                    _ => &[],
                };
                let sql = statement.sql(SqlEngine::Postgres, 0);
                async move { self.client.prepare_typed(&sql, types).await }
            })
            .await?;
        self.client
            .query_raw(prepared, parameters.iter().copied())
            .await
    }
}

fn current(slot: &ConnectionSlot) -> Option<Arc<PostgresSession>> {
    let session = lock(&slot.session);
    session
        .as_ref()
        .filter(|session| !session.client.is_closed())
        .cloned()
}

/// Takes a session out of use, unless another has taken its place.
fn discard(slot: &ConnectionSlot, broken: &Arc<PostgresSession>) {
    let mut session = lock(&slot.session);
    if session
        .as_ref()
        .is_some_and(|session| Arc::ptr_eq(session, broken))
    {
        *session = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the meaning of a failure, by SQLSTATE.
pub(crate) fn failure(error: &tokio_postgres::Error) -> SqlError {
    let Some(refusal) = error.as_db_error() else {
        let cause = error
            .source()
            .map(|cause| format!(": {cause}"))
            .unwrap_or_default();
        return SqlError::Unavailable(format!("{error}{cause}"));
    };
    let message = refusal.message().to_owned();
    match refusal.code().code() {
        // Cancelled by a time limit of the server.
        "57014" => SqlError::Timeout(0),
        // Lock timeout, serialisation failure, deadlock.
        code if code == "55P03" || code.starts_with("40") => SqlError::Busy(message),
        // Connection, resources, shutting down or starting up, login, no such database.
        code if ["08", "53", "57", "28", "3D"]
            .iter()
            .any(|class| code.starts_with(class)) =>
        {
            SqlError::Unavailable(message)
        }
        _ => SqlError::Refused(message),
    }
}

/// Any value as its bytes.
struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Raw(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl Cells for Row {
    fn int(&self, column: usize) -> Option<i64> {
        self.try_get(column).ok()?
    }

    fn text(&self, column: usize) -> Option<&[u8]> {
        let raw: Option<Raw<'_>> = self.try_get(column).ok()?;
        raw.map(|raw| raw.0)
    }
}
