//! DNS over TCP (RFC 7766): accepting connections, their limits, and shutdown.
//!
//! A connection is one small task. It holds no buffer while it waits: a turn (read, answer, write) borrows one from a
//! pool and keeps only what it could not finish. At the connection limit, the connection whose last complete message
//! is oldest is closed, so idle connections never lock out new clients.
//!
//! Limits: connections in total and per client, messages per connection, time for a message to arrive and for
//! answers to be read, bytes held in total, messages and bytes per turn, and messages per connection that are
//! answered later.

mod behind_proxy;
mod connection;
mod drain;
mod holdings;
mod later;
mod registry;
mod single;
mod stream;

use nameward_base::sync::Mutex;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nameward_stats::LogThrottle;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::listener::{ListenerRules, StreamListener};
use crate::request::MessageStream;
use connection::StreamConnection;
pub use drain::Drain;
pub(crate) use drain::{DRAIN_BUSY, DRAIN_IDLE};
pub use later::{Later, Ticket};
pub use registry::client_network;
use registry::{ConnectionRefusal, Registry};
pub use single::{FramedMessage, MessageAnswer, MessageConnection, MessageServer};
pub use stream::ByteStream;
pub(crate) use stream::read_available;

/// Descriptors reserved for everything else when the open file limit bounds the connections.
const RESERVED_DESCRIPTORS: u64 = 256;
/// By default, one client may have the connections divided by this number.
const CLIENT_SHARE: usize = 4;
/// Pause after accept failed for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Minimum interval between two log lines about such a failure.
const ACCEPT_LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Turn buffers kept in the pool; more exist only while more threads run turns.
const POOLED_BUFFERS_MAX: usize = 8;
/// Size of one read.
const READ_BYTES: usize = 16 * 1024;
/// Turn buffers whose answer buffer grew beyond this are freed instead of pooled.
const POOLED_OUT_BYTES: usize = 256 * 1024;

/// Settings of the TCP listeners.
#[derive(Clone, Debug)]
pub struct TcpSettings {
    /// Time without a complete message after which a connection is closed.
    pub idle_timeout: Duration,
    /// Time in which a message must be complete, counted from its first byte.
    pub message_timeout: Duration,
    /// A client that reads less than 64 KiB of its pending answers in this time is disconnected.
    pub write_timeout: Duration,
    /// Age at which a connection is closed, between two messages. Clients simply open another one.
    pub lifetime: Duration,
    /// Messages after which a connection is closed.
    pub max_queries_per_connection: u64,
    /// Maximum number of open connections, also bounded by the open file limit. A new connection beyond it closes
    /// the one that has been idle longest.
    pub max_connections: usize,
    /// Maximum number of open connections per IPv4 address or IPv6 /64 network; more are refused. `None` means a quarter
    /// of all.
    pub max_connections_per_client: Option<usize>,
    /// Maximum number of bytes of incomplete messages and unread answers, late answers included, over all connections
    /// (the first 512 of each are not counted). When it is exceeded, the client with the most bytes held for the
    /// longest time loses its worst connections.
    pub max_held_bytes: usize,
    /// Time that connections have to deliver pending answers after shutdown was requested.
    pub stop_grace: Duration,
    /// The connections that the limits count, shared with other listeners; `None` for those of these listeners only.
    pub table: Option<SharedConnections>,
    /// Tells whether another process accepts connections.
    pub drain: Drain,
}

/// The open connections of several listeners, so that a client's connections over TCP and TLS are counted together.
#[derive(Clone)]
pub struct SharedConnections(Arc<Registry>);

impl std::fmt::Debug for SharedConnections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedConnections")
    }
}

impl TcpSettings {
    /// Builds settings from those the operator configures; the others are fixed limits.
    pub fn new(
        idle_timeout: Duration,
        lifetime: Duration,
        max_connections: usize,
        max_connections_per_client: Option<usize>,
    ) -> TcpSettings {
        TcpSettings {
            idle_timeout,
            message_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(10),
            lifetime,
            max_queries_per_connection: 20_000,
            max_connections,
            max_connections_per_client,
            max_held_bytes: 64 << 20,
            stop_grace: Duration::from_secs(2),
            table: None,
            drain: Drain::default(),
        }
    }

    /// Returns these settings with a table that other listeners can share.
    pub fn with_table(mut self) -> TcpSettings {
        self.table = Some(SharedConnections(Arc::new(self.registry())));
        self
    }

    fn registry(&self) -> Registry {
        let max_connections = connection_limit(self.max_connections);
        let max_per_client = self.max_connections_per_client;
        Registry::new(
            max_connections,
            max_per_client.unwrap_or(max_connections.div_ceil(CLIENT_SHARE)),
            self.max_held_bytes,
        )
    }
}

/// How the connection continues after a message.
pub enum StreamAction {
    /// Further messages are accepted.
    Continue,
    /// Answers written so far are delivered, then the connection is closed.
    Close,
    /// A multi-message response: each message is produced when the client has read those before.
    Messages(Box<dyn MessageStream>),
}

/// Both addresses of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints {
    /// Client address.
    pub client: SocketAddr,
    /// Local address.
    pub local: SocketAddr,
}

/// The addresses of a connection, and the rules of the listener that accepted it.
type AcceptedAt = (Endpoints, Arc<ListenerRules>);

/// Answers messages received over streams. Shared by all connections.
pub trait StreamHandler: Send + Sync + 'static {
    /// Answers one message (without its length prefix): appends nothing, or complete messages with their length
    /// prefixes, to `out`. Must not block: slower answers are sent through a ticket from `later`, in any order (RFC
    /// 7766 section 6.2.1.1).
    fn handle(
        &self,
        message: &[u8],
        ends: Endpoints,
        out: &mut Vec<u8>,
        later: &mut Later<'_>,
    ) -> StreamAction;

    /// Called for each further message of a multi-message response, with its size in octets.
    fn streamed(&self, _client: SocketAddr, _octets: usize) {}

    /// Called when a connection was accepted.
    fn opened(&self, client: SocketAddr);

    /// Called when the stream of an accepted connection is ready for messages, or has failed to become ready.
    fn established(&self, _client: SocketAddr, _is_ok: bool) {}

    /// Called when an accepted connection has ended, for any reason.
    fn closed(&self, client: SocketAddr);

    /// Called when a connection was closed at once because its client has too many.
    fn refused(&self, _client: SocketAddr) {}

    /// Called when a connection of a proxy was closed because it did not start with a valid PROXY header.
    fn header_refused(&self, _proxy: SocketAddr) {}
}

/// State that all connections share.
struct StreamState<H> {
    handler: Arc<H>,
    settings: TcpSettings,
    registry: Arc<Registry>,
    buffers: Mutex<Vec<Box<TurnBuffers>>>,
}

/// Buffers for one turn.
struct TurnBuffers {
    input: [u8; READ_BYTES],
    out: Vec<u8>,
}

impl<H> StreamState<H> {
    fn new(handler: Arc<H>, settings: TcpSettings) -> Self {
        let registry = match &settings.table {
            Some(table) => Arc::clone(&table.0),
            None => Arc::new(settings.registry()),
        };
        StreamState {
            handler,
            registry,
            buffers: Mutex::new(Vec::new()),
            settings,
        }
    }

    /// Waits while connections deliver pending answers, for a limited time; without a limit if another process
    /// accepts new connections.
    async fn wait_for_end(&self, shutdown: &watch::Receiver<bool>) {
        if self.settings.drain.has_started() {
            while !self.registry.is_empty() && !*shutdown.borrow() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        let deadline = tokio::time::Instant::now() + self.settings.stop_grace;
        while !self.registry.is_empty() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.registry.evict_all();
    }

    fn take_buffers(&self) -> Box<TurnBuffers> {
        let spare = self.buffers.lock().pop();
        spare.unwrap_or_else(|| {
            Box::new(TurnBuffers {
                input: [0; READ_BYTES],
                out: Vec::new(),
            })
        })
    }

    fn return_buffers(&self, mut buffers: Box<TurnBuffers>) {
        buffers.out.clear();
        let mut spare = self.buffers.lock();
        if spare.len() < POOLED_BUFFERS_MAX && buffers.out.capacity() <= POOLED_OUT_BYTES {
            spare.push(buffers);
        }
    }
}

/// The registry slot of one connection. Dropping it, even by a panic or eviction, releases the slot and counts the
/// connection as closed.
struct RegistrySlot<H: StreamHandler> {
    shared: Arc<StreamState<H>>,
    id: u64,
    ends: Endpoints,
    rules: Arc<ListenerRules>,
}

impl<H: StreamHandler> Drop for RegistrySlot<H> {
    fn drop(&mut self) {
        self.shared.registry.leave(self.id);
        self.shared.handler.closed(self.ends.client);
    }
}

/// Answers one message as if it had been received over a connection, without its length prefix and without sockets:
/// for tests and benchmarks of a handler. Late answers are lost, and only the first message of a multi-message
/// response is returned.
pub fn answer_alone(handler: &impl StreamHandler, message: &[u8], ends: Endpoints) -> Vec<u8> {
    let registry = Arc::new(Registry::new(1, 1, usize::MAX));
    let (mut mailbox, mut out) = (None, Vec::new());
    let rules = &ListenerRules::NONE;
    let mut later = Later::new((&registry, 0), &mut mailbox, Duration::ZERO, rules);
    handler.handle(message, ends, &mut out, &mut later);
    out.get(2..).unwrap_or_default().to_vec()
}

/// Serves the listeners until `shutdown` is true (or its sender is dropped), then lets connections deliver pending
/// answers for at most [`TcpSettings::stop_grace`].
///
/// Spawns its tasks on the current runtime.
pub async fn serve<H: StreamHandler>(
    listeners: Vec<StreamListener>,
    handler: Arc<H>,
    settings: TcpSettings,
    shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    serve_over(listeners, handler, settings, shutdown, |stream| stream).await
}

/// Like [`serve`], with each connection wrapped in another stream.
pub async fn serve_over<H: StreamHandler, S: ByteStream>(
    listeners: Vec<StreamListener>,
    handler: Arc<H>,
    settings: TcpSettings,
    shutdown: watch::Receiver<bool>,
    lay_over: impl Fn(TcpStream) -> S + Clone + Send + 'static,
) -> io::Result<()> {
    let shared = Arc::new(StreamState::new(handler, settings));
    let (admitting, stopping) = (Arc::clone(&shared), shutdown.clone());
    let accept = move |stream, at: AcceptedAt| {
        let (ends, rules) = &at;
        if rules.is_proxy(ends.client) {
            let (lay_over, stopping) = (lay_over.clone(), stopping.clone());
            behind_proxy::admit(&admitting, stream, at, move |stream, slot| {
                StreamConnection::new(lay_over(stream), slot).run(stopping)
            });
        } else {
            admit(&admitting, lay_over(stream), at, &stopping);
        }
    };
    serve_listeners(&shared, listeners, shutdown, accept).await
}

/// Accepts the connections of all listeners until they end.
async fn serve_listeners<H: StreamHandler>(
    shared: &StreamState<H>,
    listeners: Vec<StreamListener>,
    shutdown: watch::Receiver<bool>,
    accept: impl Fn(TcpStream, AcceptedAt) + Clone + Send + 'static,
) -> io::Result<()> {
    let mut acceptors = tokio::task::JoinSet::new();
    for listener in listeners {
        let registry = Arc::clone(&shared.registry);
        let until = (shutdown.clone(), shared.settings.drain.clone());
        acceptors.spawn(accept_all(registry, listener, until, accept.clone()));
    }
    while let Some(ended) = acceptors.join_next().await {
        ended.unwrap_or(Ok(()))?;
    }
    shared.wait_for_end(&shutdown).await;
    Ok(())
}

fn connection_limit(wanted: usize) -> usize {
    let Ok(limit) = crate::sys::descriptor_limit() else {
        return wanted;
    };
    let room = limit.saturating_sub(RESERVED_DESCRIPTORS).max(limit / 2);
    let affordable = wanted.min(usize::try_from(room).unwrap_or(usize::MAX));
    if affordable < wanted {
        tracing::info!(
            "TCP connections limited to {affordable} instead of {wanted}: the open file limit is {limit}"
        );
    }
    affordable
}

/// Accepts connections until the server stops, or another process accepts them.
async fn accept_all(
    registry: Arc<Registry>,
    StreamListener { listener, rules }: StreamListener,
    (mut shutdown, drain): (watch::Receiver<bool>, Drain),
    mut on_accept: impl FnMut(TcpStream, AcceptedAt),
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut log = LogThrottle::new(ACCEPT_LOG_INTERVAL);
    loop {
        let accepted = tokio::select! {
            biased;
            () = drain.wait(&mut shutdown) => return Ok(()),
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, client)) => {
                // Answers are written completely; waiting to merge them with later ones would only delay them.
                let _ = stream.set_nodelay(true);
                // Without a local address the connection is already closed.
                if let Ok(local) = stream.local_addr() {
                    let ends = Endpoints { client, local };
                    on_accept(stream, (ends, Arc::clone(&rules)));
                }
            }
            Err(error) if is_shortage(&error) => {
                if log.admit("", Instant::now()).is_some() {
                    tracing::warn!("cannot accept TCP connections: {error}; retrying");
                }
                // Frees one descriptor for waiting clients; the pause keeps this from spinning.
                registry.evict_longest_idle();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            // The client closed the connection before we accepted it; the next one is unaffected.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

fn admit<H: StreamHandler, S: ByteStream>(
    shared: &Arc<StreamState<H>>,
    stream: S,
    accepted_at: AcceptedAt,
    shutdown: &watch::Receiver<bool>,
) {
    let shutdown = shutdown.clone();
    spawn_admitted(shared, accepted_at, |slot| {
        StreamConnection::new(stream, slot).run(shutdown)
    });
}

/// Starts the task of a connection, unless its client has too many.
fn spawn_admitted<H: StreamHandler, F: Future<Output = ()> + Send + 'static>(
    shared: &Arc<StreamState<H>>,
    (ends, rules): AcceptedAt,
    serve: impl FnOnce(RegistrySlot<H>) -> F,
) {
    let client = ends.client;
    let id = match shared.registry.enter(Some(client.ip())) {
        Ok(id) => id,
        Err(ConnectionRefusal::ClientHasTooMany) => {
            shared.handler.refused(client);
            return;
        }
    };
    shared.handler.opened(client);
    let slot = RegistrySlot {
        shared: Arc::clone(shared),
        id,
        ends,
        rules,
    };
    let task = tokio::spawn(serve(slot));
    shared.registry.set_task(id, task.abort_handle());
}
