//! Which of several servers of a database do not respond. No statement goes to a spare server until it is needed, so each is
//! probed on a connection of its own.

use super::SqlBackend;
use super::connection::ConnectTarget;
use super::error::SqlError;
use super::hosts::{Hosts, OpenConnection, SILENCE_MAX, Server, Suitable};
use super::mysql::{self, ClusterState};
use mysql_async::prelude::Queryable;
use std::time::{Duration, SystemTime};
use tokio::task::JoinSet;

/// Interval between two probes of a server. With the time that one may take and that of the status, a fault shows within five seconds.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which an address with a single server is resolved again.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(30);

/// A server of a database that does not respond, while others may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedServer {
    /// Its address.
    pub server: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: SystemTime,
}

enum ProbeConnection {
    Postgres(tokio_postgres::Client),
    Mysql(Box<mysql_async::Conn>),
}

/// A server, and the connection that it is probed on.
struct ProbedServer {
    target: ConnectTarget,
    server: Server,
    connection: Option<ProbeConnection>,
}

impl ProbedServer {
    /// Probes the server; returns it with the result. A connection that failed is not used again.
    async fn probe(mut self) -> (Self, Result<ClusterState, SqlError>) {
        let connection = self.connection.take();
        let probing = async {
            let mut connection = match connection {
                Some(connection) => connection,
                None => open(&self.target, &self.server).await?,
            };
            let state = connection.probe().await?;
            Ok((connection, state))
        };
        let probed = tokio::time::timeout(SILENCE_MAX, probing).await;
        let probed = probed.unwrap_or(Err(SqlError::Timeout(SILENCE_MAX.as_millis())));
        let result = probed.map(|(connection, state)| {
            self.connection = Some(connection);
            state
        });
        (self, result)
    }
}

async fn open(target: &ConnectTarget, server: &Server) -> Result<ProbeConnection, SqlError> {
    match target {
        ConnectTarget::Sqlite(_) => Err(SqlError::Unavailable("a file has no servers".into())),
        ConnectTarget::Postgres(target) => match target.open(server, false).await? {
            Suitable::Good(client) | Suitable::Fallback(client) => {
                Ok(ProbeConnection::Postgres(client))
            }
        },
        ConnectTarget::Mysql(target) => match target.open(server, false).await? {
            Suitable::Good(connection) | Suitable::Fallback(connection) => {
                Ok(ProbeConnection::Mysql(Box::new(connection)))
            }
        },
    }
}

impl ProbeConnection {
    async fn probe(&mut self) -> Result<ClusterState, SqlError> {
        match self {
            ProbeConnection::Postgres(client) => {
                let probed = client.batch_execute("SELECT 1").await;
                probed.map_err(|error| super::postgres_error::failure(&error))?;
                Ok(ClusterState::InStep)
            }
            ProbeConnection::Mysql(connection) => {
                let probed = connection.query_drop("SELECT 1").await;
                probed.map_err(|error| mysql::failure(&error))?;
                let state = mysql::cluster_state(connection).await;
                if state == ClusterState::Unready {
                    let reason = "it is joining its cluster, or cut off from it";
                    return Err(SqlError::Unavailable(reason.into()));
                }
                Ok(state)
            }
        }
    }
}

impl SqlBackend {
    /// Returns the servers of the database that do not respond, if it has several.
    pub fn failed_servers(&self) -> Vec<FailedServer> {
        self.inner.failed_servers.lock().clone()
    }

    /// Probes the servers of the database until the future is dropped.
    pub(super) async fn check_servers(&self) {
        let mut known: Vec<ProbedServer> = Vec::new();
        let mut known_donors: Vec<Server> = Vec::new();
        loop {
            let servers = self.all_servers().await;
            if servers.len() <= 1 {
                self.inner.failed_servers.lock().clear();
                self.try_last(Vec::new());
                tokio::time::sleep(RESOLVE_INTERVAL).await;
                continue;
            }
            let mut probes = JoinSet::new();
            for (target, server) in servers {
                let before = known.iter().position(|one| one.server == server);
                let probed = before.map_or(
                    ProbedServer {
                        target,
                        server,
                        connection: None,
                    },
                    |before| known.swap_remove(before),
                );
                probes.spawn(probed.probe());
            }
            known.clear();
            let (mut failed, mut donors) = (Vec::new(), Vec::new());
            while let Some(probed) = probes.join_next().await {
                let Ok((server, result)) = probed else {
                    continue;
                };
                match result {
                    Err(error) => failed.push((server.server.clone(), error.reason())),
                    Ok(ClusterState::Donor) => donors.push(server.server.clone()),
                    Ok(_) => {}
                }
                known.push(server);
            }
            // Servers that have started to hand their data to another node are left.
            for donor in donors.iter().filter(|donor| !known_donors.contains(donor)) {
                self.all_hosts().for_each(|hosts| hosts.avoid(donor));
            }
            let last = failed.iter().map(|(server, _)| server).chain(&donors);
            self.try_last(last.cloned().collect());
            known_donors = donors;
            let failed = failed.into_iter();
            let failed = failed.map(|(server, reason)| (server.to_string(), reason));
            self.note_failed(failed.collect());
            tokio::time::sleep(PROBE_INTERVAL).await;
        }
    }

    /// Returns the servers that changes and reads may go to.
    async fn all_servers(&self) -> Vec<(ConnectTarget, Server)> {
        let mut all: Vec<(ConnectTarget, Server)> = Vec::new();
        let replica = self.inner.options.replica.as_ref();
        let replica = replica.and_then(|replica| ConnectTarget::new(replica).ok());
        for target in [Some(self.inner.primary.clone()), replica] {
            let Some(target) = target else { continue };
            for server in target.listed_servers().await {
                if all.iter().all(|(_, known)| *known != server) {
                    all.push((target.clone(), server));
                }
            }
        }
        all
    }

    /// Lets new connections try these servers last, and for a shorter time.
    fn try_last(&self, servers: Vec<Server>) {
        self.all_hosts()
            .for_each(|hosts| hosts.set_failed(&servers));
    }

    fn all_hosts(&self) -> impl Iterator<Item = &Hosts> {
        let hosts = [self.inner.primary.hosts(), self.inner.reads.hosts()];
        hosts.into_iter().flatten()
    }

    fn note_failed(&self, mut failed: Vec<(String, String)>) {
        failed.sort_unstable();
        let mut known = self.inner.failed_servers.lock();
        let database = &self.inner.options.address;
        for (server, reason) in &failed {
            if known.iter().all(|one| one.server != *server) {
                tracing::warn!(%database, "server {server} does not respond: {reason}");
            }
        }
        for one in known.iter() {
            if failed.iter().all(|(server, _)| one.server != *server) {
                tracing::info!(%database, "server {} responds again", one.server);
            }
        }
        let since = |server: &str| {
            let before = known.iter().find(|one| one.server == server);
            before.map_or_else(SystemTime::now, |one| one.since)
        };
        let failed = failed.into_iter().map(|(server, reason)| FailedServer {
            since: since(&server),
            server,
            reason,
        });
        *known = failed.collect();
    }
}
