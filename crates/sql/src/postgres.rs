//! PostgreSQL: a few connections, each running many statements at once.
//!
//! Statements are sent without waiting for earlier results (pipelining), so a few connections carry many lookups.
//! Statements that read a lot have their own connection: one that waits behind them would time out, and take them with it.
//!
//! Among several servers, the one that accepts changes is preferred: a standby lags behind.

use super::back_off::BackOff;
use super::dialect::{STATEMENTS, SqlEngine, Statement};
use super::error::SqlError;
use super::hosts::{Hosts, ListedHost, OpenConnection, Server, Suitable};
use super::postgres_error;
use super::postgres_pooler::Pooler;
use super::postgres_role;
use super::row::Cells;
use super::tls::{Encrypted, Tls, TlsUrlSettings};
use nameward_base::sync::Mutex;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Client, Config, Row, RowStream, Socket, Statement as Prepared};

pub(crate) struct Postgres {
    /// Sessions to a server that is no longer preferred are not used.
    pub(crate) target: PostgresTarget,
    timeout: Duration,
    /// The last two are for change detection, and for statements that read a lot: neither waits behind the other.
    slots: Box<[ConnectionSlot]>,
    next: AtomicUsize,
}

#[derive(Default)]
struct ConnectionSlot {
    session: Mutex<Option<Arc<PostgresSession>>>,
    connecting: tokio::sync::Mutex<BackOff>,
}

struct PostgresSession {
    server: Server,
    client: Client,
    /// Empty if a pooler does not keep prepared statements.
    prepared: Option<[OnceCell<Prepared>; STATEMENTS]>,
}

/// The default port of a listed host.
const DEFAULT_PORT: u16 = 5432;
/// Idle time before the operating system probes a connection, probe interval, and failures before it is considered
/// broken.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(3);
const KEEPALIVE_RETRIES: u32 = 3;
/// How long sent data may stay unacknowledged before the connection is considered broken.
const USER_TIMEOUT: Duration = Duration::from_secs(10);

/// A database, and how to connect to it.
#[derive(Clone)]
pub(crate) struct PostgresTarget {
    /// Without hosts.
    config: Config,
    pub(crate) hosts: Arc<Hosts>,
    tls: Tls,
    pooler: Arc<Pooler>,
    /// For reads: a standby is as good as the primary unless it is further behind.
    lag_max: Option<Duration>,
}

impl PostgresTarget {
    /// Prefers the first server that is not too far behind.
    pub(crate) fn for_reads(self, lag_max: Duration) -> Self {
        PostgresTarget {
            lag_max: Some(lag_max),
            ..self
        }
    }

    /// Checks whether connections go through a pooler that gives each transaction to any of its own; false before the first one.
    pub(crate) fn is_pooled(&self) -> bool {
        self.pooler.is_found()
    }

    /// Opens a connection that the caller must poll.
    pub(crate) async fn open_polled(
        &self,
        server: &Server,
    ) -> Result<(Client, Connection), tokio_postgres::Error> {
        let mut config = self.config.clone();
        match server {
            Server::Tcp(name, address) => {
                config.host(name).hostaddr(address.ip());
                config.port(address.port())
            }
            Server::Socket(directory, port) => config.host_path(directory).port(*port),
        };
        config.connect(self.tls.clone()).await
    }

    /// Opens a connection and spawns its task.
    async fn open_client(&self, server: &Server) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = self.open_polled(server).await?;
        // It ends when the client is dropped or the connection breaks; the client reports both.
        tokio::spawn(connection);
        Ok(client)
    }
}

impl OpenConnection for PostgresTarget {
    type Connection = Client;

    /// Connects to a server and spawns the connection task.
    async fn open(
        &self,
        server: &Server,
        is_one_of_many: bool,
    ) -> Result<Suitable<Client>, SqlError> {
        let opened = self.open_client(server).await;
        let client = opened.map_err(|error| postgres_error::failure(&error))?;
        self.pooler.detect(&client, self.open_client(server)).await;
        // A session setting would also apply to the pooler's next client.
        if !self.is_pooled() {
            // Replanning a lookup for each list of names takes longer than the lookup. Older and compatible servers do not
            // know the setting and work without it.
            let _ = client
                .batch_execute("SET plan_cache_mode = force_generic_plan")
                .await;
        }
        if is_one_of_many && postgres_role::is_second_best(&client, self.lag_max).await {
            return Ok(Suitable::Fallback(client));
        }
        Ok(Suitable::Good(client))
    }
}

/// A connection, encrypted or not.
pub(crate) type Connection = tokio_postgres::Connection<Socket, Encrypted<Socket>>;

pub(crate) fn target(url: &str) -> Result<PostgresTarget, SqlError> {
    let settings = TlsUrlSettings::read(url)?;
    // The parser's message may quote the URL, including the password.
    let expected = || SqlError::Address("expected postgres://user@host:port/database".into());
    let read: Config = settings.url.parse().map_err(|_| expected())?;
    let mut config = without_hosts(&read);
    config
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .keepalives_retries(KEEPALIVE_RETRIES)
        .tcp_user_timeout(USER_TIMEOUT)
        .application_name("nameward")
        // No fallback: if encryption is requested, it is used or the connection fails.
        .ssl_mode(match settings.authorities {
            Some(_) => SslMode::Require,
            None => SslMode::Disable,
        });
    let listed = listed_hosts(&read).ok_or_else(expected)?;
    let tls = Tls::new(settings.authorities.as_deref(), settings.identity.as_ref())?;
    Ok(PostgresTarget {
        config,
        hosts: Arc::new(Hosts::new(listed)),
        tls,
        pooler: Arc::default(),
        lag_max: None,
    })
}

/// Returns the settings of a URL other than its hosts.
fn without_hosts(read: &Config) -> Config {
    let mut config = Config::new();
    if let Some(user) = read.get_user() {
        config.user(user);
    }
    if let Some(password) = read.get_password() {
        config.password(password);
    }
    if let Some(name) = read.get_dbname() {
        config.dbname(name);
    }
    if let Some(options) = read.get_options() {
        config.options(options);
    }
    config
        .ssl_negotiation(read.get_ssl_negotiation())
        .target_session_attrs(read.get_target_session_attrs())
        .channel_binding(read.get_channel_binding());
    config
}

/// Returns the hosts that a URL lists; `None` if there are none, or the lists do not match.
fn listed_hosts(read: &Config) -> Option<Vec<ListedHost>> {
    let (hosts, addresses, ports) = (read.get_hosts(), read.get_hostaddrs(), read.get_ports());
    let count = hosts.len().max(addresses.len());
    let matches = |length: usize| length == count || length == 0;
    if count == 0
        || !matches(hosts.len())
        || !matches(addresses.len())
        || !(matches(ports.len()) || ports.len() == 1)
    {
        return None;
    }
    let listed = (0..count).map(|i| {
        let port = ports.get(i).or(ports.first()).copied();
        let port = port.unwrap_or(DEFAULT_PORT);
        match (hosts.get(i), addresses.get(i)) {
            (Some(Host::Unix(directory)), _) => ListedHost::Socket(directory.clone(), port),
            (Some(Host::Tcp(name)), Some(address)) => {
                ListedHost::Address(name.clone(), (*address, port).into())
            }
            (Some(Host::Tcp(name)), None) => ListedHost::Name(name.clone(), port),
            (None, Some(address)) => {
                ListedHost::Address(address.to_string(), (*address, port).into())
            }
            (None, None) => ListedHost::Name(String::new(), port),
        }
    });
    Some(listed.collect())
}

impl Postgres {
    pub(crate) fn new(target: PostgresTarget, connections: usize, timeout: Duration) -> Self {
        Postgres {
            target,
            timeout,
            slots: (0..connections.max(1) + 2)
                .map(|_| ConnectionSlot::default())
                .collect(),
            next: AtomicUsize::new(0),
        }
    }

    /// Runs a statement and passes each row on; once more if its connection is broken, or another server may respond.
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
        let result = self.run(&session, statement, zone, names, &mut each).await;
        let has_rows = has_rows.load(Ordering::Relaxed);
        let is_repeated = match &result {
            Err(SqlError::Unavailable(_)) => !is_fresh && !has_rows,
            Err(SqlError::Timeout(_)) => self.target.hosts.are_several() && !has_rows,
            // The cancellation was for another statement, which has abandoned the session.
            Err(SqlError::Cancelled(_)) => {
                (self.target.hosts.are_several() || !slot.holds(&session)) && !has_rows
            }
            _ => false,
        };
        self.leave_failed(slot, &session, &result);
        if !is_repeated {
            return result;
        }
        let (session, _) = self.session(slot).await?;
        let result = self.run(&session, statement, zone, names, &mut each).await;
        self.leave_failed(slot, &session, &result);
        result
    }

    /// Takes a session out of use if its server is the reason why a statement failed, and tries that server last.
    fn leave_failed(
        &self,
        slot: &ConnectionSlot,
        session: &Arc<PostgresSession>,
        result: &Result<(), SqlError>,
    ) {
        let is_left = match result {
            Err(SqlError::Timeout(_)) => {
                self.cancel(session);
                true
            }
            Err(SqlError::Unavailable(_)) => true,
            // Nothing to cancel: the statement has ended, and others run on the connection.
            Err(SqlError::Cancelled(_)) => self.target.hosts.are_several(),
            _ => false,
        };
        if is_left {
            slot.discard(session);
            self.target.hosts.avoid(&session.server);
        }
    }

    /// Makes the server cancel the statement of an abandoned session; otherwise it would run to completion. If it has just
    /// ended, that may hit the one behind it, which is then repeated.
    fn cancel(&self, session: &PostgresSession) {
        let (token, tls) = (session.client.cancel_token(), self.target.tls.clone());
        let timeout = self.timeout;
        tokio::spawn(async move {
            // A server that does not respond does not handle this either.
            let _ = tokio::time::timeout(timeout, token.cancel_query(tls)).await;
        });
    }

    fn slot(&self, statement: Statement) -> &ConnectionSlot {
        let lookups = self.slots.len() - 2;
        match statement {
            Statement::Lookup | Statement::Zone | Statement::Keys | Statement::Metadata => {
                &self.slots[self.next.fetch_add(1, Ordering::Relaxed) % lookups]
            }
            Statement::Changes | Statement::LastChange => &self.slots[lookups],
            _ => &self.slots[lookups + 1],
        }
    }

    /// Returns the session of a slot, and whether it is new.
    async fn session(
        &self,
        slot: &ConnectionSlot,
    ) -> Result<(Arc<PostgresSession>, bool), SqlError> {
        if let Some(session) = self.current(slot) {
            return Ok((session, false));
        }
        let mut back_off = slot.connecting.lock().await;
        if let Some(session) = self.current(slot) {
            return Ok((session, false));
        }
        back_off.check()?;
        match self.target.hosts.connect(self.timeout, &self.target).await {
            Ok((server, client)) => {
                back_off.succeed();
                let is_pooled = self.target.is_pooled();
                if !is_pooled {
                    self.bound_locks(&client).await;
                }
                let prepared = || std::array::from_fn(|_| OnceCell::new());
                let session = Arc::new(PostgresSession {
                    server,
                    client,
                    prepared: (!is_pooled).then(prepared),
                });
                *slot.session.lock() = Some(session.clone());
                Ok((session, true))
            }
            Err(error) => Err(back_off.fail(error)),
        }
    }

    fn current(&self, slot: &ConnectionSlot) -> Option<Arc<PostgresSession>> {
        let session = slot.session.lock();
        let is_of_use = |session: &&Arc<PostgresSession>| {
            !session.client.is_closed()
                && self.target.hosts.prefers(&session.server)
                && session.prepared.is_none() == self.target.is_pooled()
        };
        session.as_ref().filter(is_of_use).cloned()
    }

    /// Sets a lock timeout, so that a locked table (one being altered) makes its own statements fail soon, and not all
    /// that wait behind them on the connection.
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
            Ok(result) => result.map_err(|error| self.target.pooler.failure(&error)),
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
        // Without this, the cast of a name list to the column type would prevent the use of the index.
        let types: &[Type] = match statement.list_index() {
            Some(_) => &[Type::VARCHAR_ARRAY],
            None => &[Type::INT8],
        };
        let types = &types[..parameters.len().min(types.len())];
        let sql = || statement.sql(SqlEngine::Postgres, 0);
        let Some(prepared) = &self.prepared else {
            let typed = parameters.iter().copied().zip(types.iter().cloned());
            return self.client.query_typed_raw(&sql(), typed).await;
        };
        let prepared = prepared[statement as usize]
            .get_or_try_init(|| async { self.client.prepare_typed(&sql(), types).await })
            .await?;
        self.client
            .query_raw(prepared, parameters.iter().copied())
            .await
    }
}

impl ConnectionSlot {
    /// Checks whether this is its session still.
    fn holds(&self, session: &Arc<PostgresSession>) -> bool {
        let current = self.session.lock();
        current
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current, session))
    }

    /// Takes a session out of use, unless it has already been replaced.
    fn discard(&self, broken: &Arc<PostgresSession>) {
        self.session
            .lock()
            .take_if(|session| Arc::ptr_eq(session, broken));
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
