//! MySQL and MariaDB: a connection pool to one server; each connection runs one statement at a time.
//!
//! Among several servers, one that accepts changes is preferred: a replica lags behind.

use super::back_off::BackOff;
use super::dialect::{SqlEngine, Statement, StatementTexts};
use super::error::SqlError;
use super::hosts::{Hosts, ListedHost, OpenConnection, Server, Suitable};
use super::row::Cells;
use super::tls::{Tls, TlsUrlSettings};
use super::url::hosts_in;
use mysql_async::prelude::Queryable;
use mysql_async::{
    ClientIdentity, Conn, Error, Opts, OptsBuilder, Params, Pool, PoolConstraints, PoolOpts, Row,
    SslOpts, Value,
};
use nameward_base::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The default port of a listed host.
const DEFAULT_PORT: u16 = 3306;
/// Idle time after which the operating system probes a connection.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);

pub(crate) struct Mysql {
    pub(crate) target: MysqlTarget,
    /// The current server, and the connections to it.
    pool: Mutex<Option<(Server, Pool)>>,
    /// Limits the number of connections in use.
    seats: Semaphore,
    seat_count: usize,
    timeout: Duration,
    back_off: Mutex<BackOff>,
    statements: StatementTexts,
}

/// Makes statements on a table that is being altered fail before clients give up. In seconds; 1 is the minimum.
const INIT: &str = "SET SESSION lock_wait_timeout = 1";

/// A database, and how to connect to it.
#[derive(Clone)]
pub(crate) struct MysqlTarget {
    options: Opts,
    pub(crate) hosts: Arc<Hosts>,
    /// A server that accepts no changes is as good as another.
    is_for_reads: bool,
}

impl MysqlTarget {
    /// Prefers the first server, whether it accepts changes or not.
    pub(crate) fn for_reads(self) -> Self {
        MysqlTarget {
            is_for_reads: true,
            ..self
        }
    }

    fn options(&self, server: &Server) -> OptsBuilder {
        let options = OptsBuilder::from_opts(self.options.clone());
        match server {
            Server::Tcp(name, address) => options
                .ip_or_hostname(name)
                .tcp_port(address.port())
                .resolved_ips(Some([address.ip()])),
            Server::Socket(path, _) => options.socket(Some(path.display().to_string())),
        }
    }
}

impl OpenConnection for MysqlTarget {
    type Connection = Conn;

    async fn open(
        &self,
        server: &Server,
        is_one_of_many: bool,
    ) -> Result<Suitable<Conn>, SqlError> {
        let connect = async {
            let mut connection = Conn::new(self.options(server)).await?;
            let mut is_second_best = false;
            if is_one_of_many {
                if !self.is_for_reads {
                    let sql = "SELECT @@global.read_only";
                    is_second_best = connection.query_first::<i64, _>(sql).await? == Some(1);
                }
                is_second_best |= cluster_state(&mut connection).await != ClusterState::InStep;
            }
            Ok((connection, is_second_best))
        };
        match connect.await.map_err(|error: Error| failure(&error))? {
            (connection, true) => Ok(Suitable::Fallback(connection)),
            (connection, false) => Ok(Suitable::Good(connection)),
        }
    }
}

/// The state of a server in its Galera cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClusterState {
    /// It is in step, or in no cluster.
    InStep,
    /// It gives a copy of its data to another node. Until that is done, changes on it may wait, and it may be behind.
    Donor,
    /// It is joining or cut off, and refuses statements about tables.
    Unready,
}

pub(super) async fn cluster_state(connection: &mut Conn) -> ClusterState {
    // A server without this variable refuses the statement; one without a cluster is never "ready".
    let in_cluster = connection.query_first::<i64, _>("SELECT @@wsrep_on").await;
    if !matches!(in_cluster, Ok(Some(1))) {
        return ClusterState::InStep;
    }
    let sql = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_ready', 'wsrep_local_state')";
    let rows = connection.query::<(String, String), _>(sql).await;
    let rows = rows.unwrap_or_default();
    let is = |name: &str, value: &str| {
        let mut rows = rows.iter();
        rows.any(|(row, found)| row.eq_ignore_ascii_case(name) && found == value)
    };
    if is("wsrep_ready", "OFF") {
        ClusterState::Unready
    } else if is("wsrep_local_state", "2") {
        ClusterState::Donor
    } else {
        ClusterState::InStep
    }
}

/// Parses a URL, including its `sslmode`, which determines encryption.
pub(crate) fn target(url: &str) -> Result<MysqlTarget, SqlError> {
    let settings = TlsUrlSettings::read(url)?;
    // The parser's message may quote the URL, including the password.
    let expected = || SqlError::Address("expected mysql://user@host:port/database".into());
    let (first, others) = split_hosts(&settings.url).ok_or_else(expected)?;
    let options = Opts::from_url(&first).map_err(|_| expected())?;
    let mut listed = vec![match options.socket() {
        Some(path) => ListedHost::Socket(path.into(), 0),
        None => ListedHost::Name(bare(options.ip_or_hostname()), options.tcp_port()),
    }];
    listed.extend(others);
    // The driver would otherwise abandon a loopback connection for the socket path that the server reports. Behind a
    // tunnel or in a container, that path may belong to a different server on this host.
    let mut options = OptsBuilder::from_opts(options)
        .prefer_socket(false)
        .tcp_keepalive(Some(KEEPALIVE_IDLE));
    if let Some(path) = settings.authorities {
        // A file that cannot be read is an error now, not when the first connection fails.
        Tls::new(Some(&path), settings.identity.as_ref())?;
        let identity = settings
            .identity
            .map(|identity| ClientIdentity::new(identity.certificate.into(), identity.key.into()));
        let tls = SslOpts::default()
            .with_disable_built_in_roots(true)
            .with_client_identity(identity)
            .with_root_certs(vec![path.into()]);
        options = options.ssl_opts(tls);
    }
    Ok(MysqlTarget {
        options: options.into(),
        hosts: Arc::new(Hosts::new(listed)),
        is_for_reads: false,
    })
}

/// Returns a URL with only its first host, and the other hosts it lists.
fn split_hosts(url: &str) -> Option<(String, Vec<ListedHost>)> {
    let at = hosts_in(url)?;
    let mut hosts = url[at.clone()].split(',');
    let first = hosts.next()?;
    let others = hosts.map(|host| {
        let (name, port) = match host.rsplit_once(':') {
            // An IPv6 address without a port.
            Some((_, behind)) if behind.ends_with(']') => (host, DEFAULT_PORT),
            Some((name, port)) => (name, port.parse().ok()?),
            None => (host, DEFAULT_PORT),
        };
        (!name.is_empty()).then(|| ListedHost::Name(bare(name), port))
    });
    let others = others.collect::<Option<Vec<_>>>()?;
    let url = format!("{}{first}{}", &url[..at.start], &url[at.end..]);
    Some((url, others))
}

/// Strips the brackets of an IPv6 address.
fn bare(host: &str) -> String {
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host).to_owned()
}

/// A connection for one statement.
struct PooledConnection<'m> {
    connection: Conn,
    server: Server,
    _seat: SemaphorePermit<'m>,
}

impl Mysql {
    pub(crate) fn new(target: MysqlTarget, connections: usize, timeout: Duration) -> Self {
        // One more, so that reading a whole zone takes nothing away from lookups.
        let most = connections.max(1) + 1;
        Mysql {
            target,
            pool: Mutex::default(),
            seats: Semaphore::new(most),
            seat_count: most,
            timeout,
            back_off: Mutex::default(),
            statements: StatementTexts::new(SqlEngine::Mysql),
        }
    }

    /// Runs a statement and passes each row on.
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
        let mut pooled = self.connection().await?;
        let mut result = self
            .run(&mut pooled.connection, statement, zone, names, &mut each)
            .await;
        let is_repeated = match &result {
            // It may have been idle while the server restarted, or the server has left its cluster.
            Err(SqlError::Unavailable(_)) => true,
            Err(SqlError::Timeout(_) | SqlError::Cancelled(_)) => self.target.hosts.are_several(),
            _ => false,
        };
        if is_repeated && !has_rows.load(Ordering::Relaxed) {
            if let Err(SqlError::Timeout(_)) = &result {
                self.kill(&pooled);
            }
            self.leave(&pooled.server);
            let PooledConnection {
                connection, _seat, ..
            } = pooled;
            drop(_seat);
            tokio::spawn(connection.disconnect());
            pooled = self.connection().await?;
            result = self
                .run(&mut pooled.connection, statement, zone, names, &mut each)
                .await;
        }
        let Err(error) = &result else {
            return result;
        };
        if let SqlError::Timeout(_) = error {
            self.kill(&pooled);
        }
        match error {
            // Other connections to a server that is merely slow are still useful.
            SqlError::Timeout(_) | SqlError::Cancelled(_) if !self.target.hosts.are_several() => {}
            SqlError::Timeout(_) | SqlError::Cancelled(_) | SqlError::Unavailable(_) => {
                self.leave(&pooled.server)
            }
            _ => {}
        }
        // Rows that are no longer read may still be in transit.
        tokio::spawn(pooled.connection.disconnect());
        result
    }

    /// Moves to another server, if there is one.
    pub(crate) fn leave_late_server(&self) {
        if let Some(server) = self.target.hosts.avoid_preferred() {
            self.leave(&server);
        }
    }

    /// Drops the connections to a server, and tries it last.
    fn leave(&self, server: &Server) {
        self.target.hosts.avoid(server);
        let mut pool = self.pool.lock();
        if pool.as_ref().is_some_and(|(of, _)| of == server) {
            *pool = None;
        }
    }

    /// Makes the server terminate a connection whose statement has been abandoned; otherwise it would run to
    /// completion.
    fn kill(&self, pooled: &PooledConnection<'_>) {
        let (options, timeout) = (self.target.options(&pooled.server), self.timeout);
        let connection = pooled.connection.id();
        tokio::spawn(async move {
            let killing = async {
                let mut own = Conn::new(options).await?;
                own.query_drop(format!("KILL {connection}")).await?;
                own.disconnect().await
            };
            // A server that does not respond does not handle this either; one that has terminated it reports that it
            // does not exist.
            let _ = tokio::time::timeout(timeout, killing).await;
        });
    }

    async fn connection(&self) -> Result<PooledConnection<'_>, SqlError> {
        self.back_off.lock().check()?;
        // Too many statements are not a reason to back off from the database.
        let seat = tokio::time::timeout(self.timeout, self.seats.acquire())
            .await
            .map_err(|_| SqlError::Timeout(self.timeout.as_millis()))?
            .map_err(|error| SqlError::Unavailable(error.to_string()))?;
        let current = self.pool.lock().clone();
        let current = current.filter(|(server, _)| self.target.hosts.prefers(server));
        if let Some((server, pool)) = current {
            match self.within(pool.get_conn()).await {
                Ok(connection) => {
                    self.back_off.lock().succeed();
                    return Ok(PooledConnection {
                        connection,
                        server,
                        _seat: seat,
                    });
                }
                Err(_) => self.leave(&server),
            }
        }
        match self.target.hosts.connect(self.timeout, &self.target).await {
            Ok((server, mut connection)) => {
                self.back_off.lock().succeed();
                self.within(connection.query_drop(INIT)).await?;
                self.use_server(&server);
                Ok(PooledConnection {
                    connection,
                    server,
                    _seat: seat,
                })
            }
            Err(error) => Err(self.back_off.lock().fail(error)),
        }
    }

    /// Uses a server for further connections.
    fn use_server(&self, server: &Server) {
        let mut pool = self.pool.lock();
        if pool.as_ref().is_some_and(|(of, _)| of == server) {
            return;
        }
        let bounds = PoolOpts::default()
            .with_constraints(PoolConstraints::new(1, self.seat_count).unwrap_or_default())
            // A reset would discard the prepared statements, and cost a round trip.
            .with_reset_connection(false);
        let options = self.target.options(server);
        let options = options
            .pool_opts(bounds)
            .stmt_cache_size(32usize)
            .init(vec![INIT]);
        *pool = Some((server.clone(), Pool::new(options)));
    }

    async fn run(
        &self,
        connection: &mut Conn,
        statement: Statement,
        zone: Option<i64>,
        names: &[&str],
        each: &mut (dyn FnMut(&dyn Cells) -> Result<(), SqlError> + Send),
    ) -> Result<(), SqlError> {
        let (sql, filled) = self.statements.find(statement, names.len());
        let mut values: Vec<Value> = zone.map(Value::Int).into_iter().collect();
        // Padding entries repeat the last name.
        values.extend((0..filled).map(|i| {
            let name = names.get(i).or(names.last()).copied().unwrap_or_default();
            Value::Bytes(name.into())
        }));
        let parameters = match values.len() {
            0 => Params::Empty,
            _ => Params::Positional(values),
        };
        let mut rows = self.within(connection.exec_iter(sql, parameters)).await?;
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

pub(crate) fn failure(error: &Error) -> SqlError {
    match error {
        Error::Server(refusal) => match refusal.code {
            // A time limit of the server.
            1969 | 3024 => SqlError::Cancelled(refusal.message.clone()),
            // Lock wait, deadlock, table changed in the meantime, serialisation failure.
            1205 | 1213 | 1412 | 1020 => SqlError::Busy(refusal.message.clone()),
            // A replica, a server that an operator made read-only, a read-only transaction.
            1290 | 1836 | 1792 => SqlError::ReadOnly(refusal.message.clone()),
            // Too many connections, login, a node outside its cluster, no such database, shutting down, an error during
            // COMMIT, killed.
            1040 | 1044 | 1045 | 1047 | 1049 | 1053 | 1129 | 1130 | 1180 | 1203 | 1226 | 1317
            | 1927 | 3169 => SqlError::Unavailable(refusal.message.clone()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_list_hosts() {
        let name = |host: &str, port| ListedHost::Name(host.into(), port);
        let (first, others) = split_hosts("mysql://me:a,b@db1:1,[::1],db3:3/pdns?x=1,2").unwrap();
        assert_eq!(first, "mysql://me:a,b@db1:1/pdns?x=1,2");
        assert_eq!(others, [name("::1", DEFAULT_PORT), name("db3", 3)]);
        let alone = "mysql://me@[2001:db8::1]:3307/pdns";
        assert_eq!(split_hosts(alone).unwrap(), (alone.into(), Vec::new()));
        assert!(split_hosts("mysql://me@db1,:3/pdns").is_none());
        assert!(split_hosts("mysql://me@db1,db2:x/pdns").is_none());
        assert!(target("mysql://me@db1,db2:3307/pdns").is_ok());
    }
}
