//! The servers behind one database URL, and the order in which they are tried.
//!
//! A URL can list several hosts (`db1:5432,db2:5432`), and a host name can have several addresses. Each has its own
//! time limit, so that an unresponsive server costs the others no more than that time. The last good server is tried
//! first, by all connections of a backend together: reads then go where changes are written.

use super::error::SqlError;
use nameward_base::sync::Mutex;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How long a server may be unresponsive while there is another one to try.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(2);
/// How long a server may be silent that did not respond to its last probe either: it is probed again every second.
const FAILED_SILENCE_MAX: Duration = Duration::from_millis(250);
/// Maximum number of servers tried for one connection.
const SERVERS_MAX: usize = 16;

/// A server as given in a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListedHost {
    /// A host name, or an address as text, and a port.
    Name(String, u16),
    /// The address to connect to, and the name that its certificate must have.
    Address(String, SocketAddr),
    /// A local socket: a path, or for PostgreSQL a directory with the port in the socket name.
    Socket(PathBuf, u16),
}

/// A server that a connection can be opened to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Server {
    /// An address, and the name that its certificate must have.
    Tcp(String, SocketAddr),
    /// See [`ListedHost::Socket`].
    Socket(PathBuf, u16),
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Server::Tcp(_, address) => write!(f, "{address}"),
            Server::Socket(path, _) => write!(f, "{}", path.display()),
        }
    }
}

/// How suitable a server is.
pub(crate) enum Suitable<T> {
    /// It is what is needed.
    Good(T),
    /// It can be used if no other is better: a read-only one.
    Fallback(T),
}

/// Opens connections of one kind.
pub(crate) trait OpenConnection: Sync {
    type Connection: Send;

    /// Connects to a server, and reports how suitable it is. `is_one_of_many` means that there are others to compare it
    /// with.
    fn open(
        &self,
        server: &Server,
        is_one_of_many: bool,
    ) -> impl Future<Output = Result<Suitable<Self::Connection>, SqlError>> + Send;
}

/// The servers of one URL.
pub(crate) struct Hosts {
    listed: Vec<ListedHost>,
    order: Mutex<ServerOrder>,
}

/// The order of servers, based on earlier connections.
#[derive(Default)]
struct ServerOrder {
    /// The last one that was good.
    preferred: Option<Server>,
    /// The last one that failed: tried after all others.
    avoided: Option<Server>,
    /// Servers that did not respond to their last probe, or are busy with a copy of their data: tried after all others.
    failed: Vec<Server>,
    /// Number of servers when the URL was last resolved.
    count: usize,
    /// The last server that a connection was opened to, and how often that was another one than before.
    used: Option<Server>,
    moves: u64,
}

impl Hosts {
    pub(crate) fn new(listed: Vec<ListedHost>) -> Self {
        Hosts {
            listed,
            order: Mutex::default(),
        }
    }

    /// Checks whether a connection to this server should still be used: false if another one was found to be better.
    pub(crate) fn prefers(&self, server: &Server) -> bool {
        let order = self.order.lock();
        match &order.preferred {
            Some(preferred) => preferred == server,
            None => order.count <= 1 || order.avoided.as_ref() != Some(server),
        }
    }

    /// Checks whether there is more than one server to choose from.
    pub(crate) fn are_several(&self) -> bool {
        self.order.lock().count > 1
    }

    /// Avoids the server that is used, if there are others; returns it.
    pub(crate) fn avoid_preferred(&self) -> Option<Server> {
        let mut order = self.order.lock();
        if order.count <= 1 {
            return None;
        }
        let preferred = order.preferred.take()?;
        order.avoided = Some(preferred.clone());
        Some(preferred)
    }

    /// Records that a server failed or refused changes.
    pub(crate) fn avoid(&self, server: &Server) {
        let mut order = self.order.lock();
        if order.preferred.as_ref() == Some(server) {
            order.preferred = None;
        }
        order.avoided = Some(server.clone());
    }

    /// Records which servers did not respond to their last probe.
    pub(crate) fn set_failed(&self, failed: &[Server]) {
        self.order.lock().failed = failed.to_vec();
    }

    fn prefer(&self, server: &Server) {
        let mut order = self.order.lock();
        if order.avoided.as_ref() == Some(server) {
            order.avoided = None;
        }
        order.preferred = Some(server.clone());
        if order.used.as_ref() != Some(server) {
            order.moves += u64::from(order.used.is_some());
            order.used = Some(server.clone());
        }
    }

    /// Counts how often another server was used than before.
    pub(crate) fn moves(&self) -> u64 {
        self.order.lock().moves
    }

    /// Returns the servers in the order in which they are tried.
    async fn servers(&self) -> Result<Vec<Server>, SqlError> {
        let mut servers = self.listed().await?;
        let mut order = self.order.lock();
        order.count = servers.len();
        // Stable: others keep their order in the URL.
        servers.sort_by_key(|server| {
            let is = |one: &Option<Server>| one.as_ref() == Some(server);
            let is_failed = order.failed.contains(server);
            (is_failed, !is(&order.preferred), is(&order.avoided))
        });
        servers.truncate(SERVERS_MAX);
        Ok(servers)
    }

    /// Returns the servers in the order of the URL.
    pub(crate) async fn listed(&self) -> Result<Vec<Server>, SqlError> {
        let (mut servers, mut unresolved) = (Vec::new(), None);
        for host in &self.listed {
            match host {
                ListedHost::Address(name, address) => {
                    servers.push(Server::Tcp(name.clone(), *address));
                }
                ListedHost::Socket(path, port) => servers.push(Server::Socket(path.clone(), *port)),
                ListedHost::Name(name, port) => {
                    let resolving = tokio::net::lookup_host((name.as_str(), *port));
                    match tokio::time::timeout(SILENCE_MAX, resolving).await {
                        Ok(Ok(found)) => {
                            servers.extend(found.map(|address| Server::Tcp(name.clone(), address)));
                        }
                        Ok(Err(error)) => unresolved = Some(format!("{name}: {error}")),
                        Err(_) => {
                            unresolved = Some(format!("{name}: no response from the resolver"))
                        }
                    }
                }
            }
        }
        if let (true, Some(reason)) = (servers.is_empty(), unresolved) {
            return Err(SqlError::Unavailable(reason));
        }
        servers.dedup();
        Ok(servers)
    }

    /// Connects to the first suitable server, or else to the first usable one.
    pub(crate) async fn connect<O: OpenConnection>(
        &self,
        timeout: Duration,
        opener: &O,
    ) -> Result<(Server, O::Connection), SqlError> {
        let servers = self.servers().await?;
        let (mut fallback, mut failures) = (None, Vec::new());
        for (place, server) in servers.iter().enumerate() {
            let is_last = place + 1 == servers.len() && fallback.is_none();
            let is_failed = self.order.lock().failed.contains(server);
            let limit = match (is_last, is_failed) {
                (true, _) => timeout,
                (false, true) => timeout.min(FAILED_SILENCE_MAX),
                (false, false) => timeout.min(SILENCE_MAX),
            };
            let opened = tokio::time::timeout(limit, opener.open(server, servers.len() > 1)).await;
            match opened.unwrap_or(Err(SqlError::Timeout(limit.as_millis()))) {
                Ok(Suitable::Good(connection)) => {
                    self.prefer(server);
                    return Ok((server.clone(), connection));
                }
                Ok(Suitable::Fallback(connection)) => {
                    fallback.get_or_insert((server.clone(), connection));
                }
                Err(error @ SqlError::Address(_)) => return Err(error),
                Err(error) => failures.push((server, error)),
            }
        }
        if let Some((server, connection)) = fallback {
            self.prefer(&server);
            return Ok((server, connection));
        }
        Err(joined(failures))
    }
}

/// Returns one error for all servers; if there are several, it names each.
fn joined(mut failures: Vec<(&Server, SqlError)>) -> SqlError {
    if failures.len() <= 1 {
        let only = failures.pop().map(|(_, error)| error);
        return only
            .unwrap_or_else(|| SqlError::Unavailable("the database address has no host".into()));
    }
    let texts: Vec<String> = failures
        .iter()
        .map(|(server, error)| format!("{server}: {}", error.reason()))
        .collect();
    let text = texts.join("; ");
    let is_read_only = |(_, error): &(&Server, SqlError)| matches!(error, SqlError::ReadOnly(_));
    if failures.iter().any(is_read_only) {
        SqlError::ReadOnly(text)
    } else {
        SqlError::Unavailable(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(addresses: &[&str]) -> Hosts {
        let listed = addresses.iter().map(|text| {
            let address: SocketAddr = text.parse().unwrap();
            ListedHost::Address(address.ip().to_string(), address)
        });
        Hosts::new(listed.collect())
    }

    /// Answers by port, and is silent otherwise.
    struct Ports<'p> {
        good: &'p [u16],
        fallback: &'p [u16],
        tried: Mutex<Vec<u16>>,
    }

    impl OpenConnection for Ports<'_> {
        type Connection = u16;

        async fn open(&self, server: &Server, _: bool) -> Result<Suitable<u16>, SqlError> {
            let Server::Tcp(_, address) = server else {
                unreachable!()
            };
            let port = address.port();
            self.tried.lock().push(port);
            match port {
                port if self.good.contains(&port) => Ok(Suitable::Good(port)),
                port if self.fallback.contains(&port) => Ok(Suitable::Fallback(port)),
                _ => std::future::pending().await,
            }
        }
    }

    /// Connects and returns the ports that were tried and the one that was used.
    async fn tried(hosts: &Hosts, good: &[u16], fallback: &[u16]) -> (Vec<u16>, Option<u16>) {
        let ports = Ports {
            good,
            fallback,
            tried: Mutex::default(),
        };
        let found = hosts.connect(Duration::from_millis(30), &ports).await;
        let found = found.map(|(_, port)| port).ok();
        (ports.tried.into_inner(), found)
    }

    #[tokio::test]
    async fn a_silent_server_costs_its_own_time_and_the_last_good_one_is_first() {
        let hosts = hosts(&["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]);
        assert_eq!(tried(&hosts, &[2, 3], &[]).await, (vec![1, 2], Some(2)));
        assert_eq!(tried(&hosts, &[1, 2], &[]).await, (vec![2], Some(2)));
        assert_eq!(hosts.moves(), 0);
        let second = Server::Tcp("127.0.0.1".into(), "127.0.0.1:2".parse().unwrap());
        assert!(hosts.prefers(&second));
        hosts.avoid(&second);
        assert!(!hosts.prefers(&second), "there are others");
        assert_eq!(tried(&hosts, &[2, 3], &[]).await, (vec![1, 3], Some(3)));
        assert_eq!(hosts.moves(), 1);
        assert_eq!(tried(&hosts, &[], &[]).await, (vec![3, 1, 2], None));
    }

    #[tokio::test]
    async fn a_server_that_did_not_respond_to_its_probe_is_tried_last() {
        let hosts = hosts(&["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]);
        assert_eq!(tried(&hosts, &[1, 2, 3], &[]).await.0, [1]);
        let [first, second] = [1, 2].map(|port| {
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            Server::Tcp("127.0.0.1".into(), address)
        });
        hosts.set_failed(&[first]);
        assert_eq!(tried(&hosts, &[2, 3], &[]).await.0, [2]);
        // One that has become read-only is not left for it, as long as there is another.
        hosts.avoid(&second);
        assert_eq!(tried(&hosts, &[3], &[2]).await.0, [3]);
        assert_eq!(tried(&hosts, &[], &[2]).await, (vec![3, 2, 1], Some(2)));
        hosts.set_failed(&[]);
        assert_eq!(tried(&hosts, &[1], &[2]).await, (vec![2, 1], Some(1)));
    }

    #[tokio::test]
    async fn a_read_only_server_is_used_when_no_other_answers() {
        let hosts = hosts(&["127.0.0.1:1", "127.0.0.1:2"]);
        assert_eq!(tried(&hosts, &[2], &[1]).await, (vec![1, 2], Some(2)));
        assert_eq!(tried(&hosts, &[], &[1]).await, (vec![2, 1], Some(1)));
    }
}
