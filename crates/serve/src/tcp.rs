//! DNS over TCP (RFC 7766): accepting connections, their limits, and stopping.
//!
//! A connection is one small task. It holds no buffer while it waits: a turn (read, answer,
//! write) borrows one from a pool and keeps only what could not be finished. When all places are
//! taken, the connection that completed a message longest ago makes room, so idle connections
//! never lock new clients out.
//!
//! Bounds: connections in all and of one client, messages of one connection, time for a message to
//! come in and for answers to go out, bytes held back in all, messages and bytes of one turn, messages of one
//! connection that are answered later.

mod connection;
mod holdings;
mod later;
mod many;
mod registry;
mod stream;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nameward_stats::LogThrottle;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::request::MessageStream;
use connection::StreamConnection;
pub use later::{Later, Ticket};
pub(crate) use registry::counted_as;
use registry::{ConnectionRefusal, Registry};
pub use stream::ByteStream;

/// Descriptors left for everything else, when the limit of open files bounds the connections.
const RESERVED_DESCRIPTORS: u64 = 256;
/// How long accepting rests after it failed for want of descriptors or memory.
const ACCEPT_REST: Duration = Duration::from_millis(50);
/// How often such a failure is logged at most.
const ACCEPT_LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Turn buffers kept for later; more exist only while more threads run turns.
const SPARE_SCRATCHES: usize = 8;
/// Received at once.
const READ_BYTES: usize = 16 * 1024;
/// A turn buffer for answers that grew beyond this is not kept.
const SPARE_OUT_BYTES: usize = 256 * 1024;

/// Settings of the TCP listeners.
#[derive(Clone, Debug)]
pub struct TcpSettings {
    /// A connection without a complete message for this long is closed.
    pub idle_timeout: Duration,
    /// A message whose first byte came must be complete within this time.
    pub message_timeout: Duration,
    /// A client that reads less than 64 KiB of its waiting answers in this time is cut.
    pub write_timeout: Duration,
    /// A connection is closed at this age, between two messages. Clients just open another one.
    pub lifetime: Duration,
    /// A connection is closed after this many messages.
    pub max_queries_per_connection: u64,
    /// Connections open at once; also bounded by the limit of open files. A new one beyond closes
    /// the one that was idle for longest.
    pub max_connections: usize,
    /// Connections open at once from one IPv4 address or one IPv6 /64 network; more are refused.
    pub max_connections_per_client: usize,
    /// Bytes of incomplete messages and unread answers held for all connections together (the
    /// first 512 of each do not count), those that came after a look-up included. When they are used up, the client
    /// that holds most for longest loses its worst connections.
    pub max_held_bytes: usize,
    /// How long connections may go on delivering answers after the server was asked to stop.
    pub stop_grace: Duration,
}

impl TcpSettings {
    /// Makes settings from those that the operator decides; the others are bounds that nobody had to change yet.
    pub fn new(
        idle_timeout: Duration,
        lifetime: Duration,
        max_connections: usize,
        max_connections_per_client: usize,
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
        }
    }
}

/// How the connection goes on after a message.
pub enum StreamAction {
    /// More messages are welcome.
    Continue,
    /// The answers so far are delivered, then the connection is closed.
    Close,
    /// These messages follow, each when the client has taken those before.
    Messages(Box<dyn MessageStream>),
}

/// The two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints {
    /// The address of the client.
    pub client: SocketAddr,
    /// Our own address.
    pub local: SocketAddr,
}

/// Answers messages of streams. Shared by all connections.
pub trait StreamHandler: Send + Sync + 'static {
    /// Answers one message (without its length prefix): appends nothing, or complete messages with
    /// their length prefixes, to `out`. Synchronous and quick: what takes longer is answered through a ticket of
    /// `later`, in any order (RFC 7766 section 6.2.1.1).
    fn handle(
        &self,
        message: &[u8],
        ends: Endpoints,
        out: &mut Vec<u8>,
        later: &mut Later<'_>,
    ) -> StreamAction;

    /// A further message of an answer of many was made, of this many octets.
    fn streamed(&self, _client: SocketAddr, _octets: usize) {}

    /// A connection was accepted.
    fn opened(&self, client: SocketAddr);

    /// A connection that was accepted has ended, for whatever reason.
    fn closed(&self, client: SocketAddr);

    /// A connection was closed at once because its client has too many.
    fn refused(&self, _client: SocketAddr) {}
}

/// State that all connections share.
struct StreamState<H> {
    handler: Arc<H>,
    settings: TcpSettings,
    registry: Arc<Registry>,
    scratches: Mutex<Vec<Box<TurnBuffers>>>,
}

/// Buffers of one turn.
struct TurnBuffers {
    input: [u8; READ_BYTES],
    out: Vec<u8>,
}

impl<H> StreamState<H> {
    fn borrow_scratch(&self) -> Box<TurnBuffers> {
        let spare = self
            .scratches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        spare.unwrap_or_else(|| {
            Box::new(TurnBuffers {
                input: [0; READ_BYTES],
                out: Vec::new(),
            })
        })
    }

    fn return_scratch(&self, mut scratch: Box<TurnBuffers>) {
        scratch.out.clear();
        let mut spare = self
            .scratches
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_SCRATCHES && scratch.out.capacity() <= SPARE_OUT_BYTES {
            spare.push(scratch);
        }
    }
}

/// The place of one connection; giving it up, even by a panic or by eviction, is counted.
struct Seat<H: StreamHandler> {
    shared: Arc<StreamState<H>>,
    id: u64,
    ends: Endpoints,
}

impl<H: StreamHandler> Drop for Seat<H> {
    fn drop(&mut self) {
        self.shared.registry.leave(self.id);
        self.shared.handler.closed(self.ends.client);
    }
}

/// Answers one message as if it had come over a connection, without its length and without sockets: to test and
/// measure a handler. Nothing comes of an answer that comes later, and only the first of many messages is given.
pub fn answer_alone(handler: &impl StreamHandler, message: &[u8], ends: Endpoints) -> Vec<u8> {
    let registry = Arc::new(Registry::new(1, 1, usize::MAX));
    let (mut mailbox, mut out) = (None, Vec::new());
    let mut later = Later::new((&registry, 0), &mut mailbox);
    handler.handle(message, ends, &mut out, &mut later);
    out.get(2..).unwrap_or_default().to_vec()
}

/// Serves the listeners until `shutdown` says true (or its sender is gone), then lets connections
/// deliver the answers to what has come, for [`TcpSettings::stop_grace`] at most.
///
/// Runs its tasks on the runtime it is called in.
pub async fn serve<H: StreamHandler>(
    listeners: Vec<TcpListener>,
    handler: Arc<H>,
    settings: TcpSettings,
    shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    serve_over(listeners, handler, settings, shutdown, |stream| stream).await
}

/// As [`serve`], with another stream laid over each connection.
pub async fn serve_over<H: StreamHandler, S: ByteStream>(
    listeners: Vec<TcpListener>,
    handler: Arc<H>,
    settings: TcpSettings,
    shutdown: watch::Receiver<bool>,
    lay_over: fn(TcpStream) -> S,
) -> io::Result<()> {
    let max_connections = affordable_connections(settings.max_connections);
    let shared = Arc::new(StreamState {
        handler,
        registry: Arc::new(Registry::new(
            max_connections,
            settings.max_connections_per_client,
            settings.max_held_bytes,
        )),
        scratches: Mutex::new(Vec::new()),
        settings,
    });
    let mut acceptors = tokio::task::JoinSet::new();
    for listener in listeners {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let shared = Arc::clone(&shared);
        acceptors.spawn(accept_all(shared, listener, shutdown.clone(), lay_over));
    }
    while acceptors.join_next().await.is_some() {}
    let deadline = tokio::time::Instant::now() + shared.settings.stop_grace;
    while !shared.registry.is_empty() && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    shared.registry.evict_all();
    Ok(())
}

fn affordable_connections(wanted: usize) -> usize {
    let Ok(limit) = crate::sys::descriptor_limit() else {
        return wanted;
    };
    let room = limit.saturating_sub(RESERVED_DESCRIPTORS).max(limit / 2);
    let affordable = wanted.min(usize::try_from(room).unwrap_or(usize::MAX));
    if affordable < wanted {
        tracing::info!(
            "TCP connections are limited to {affordable}, not {wanted}: the limit of open files is {limit}"
        );
    }
    affordable
}

async fn accept_all<H: StreamHandler, S: ByteStream>(
    shared: Arc<StreamState<H>>,
    listener: tokio::net::TcpListener,
    mut shutdown: watch::Receiver<bool>,
    lay_over: fn(TcpStream) -> S,
) {
    let stopping = shutdown.clone();
    let mut log = LogThrottle::new(ACCEPT_LOG_INTERVAL);
    loop {
        let accepted = tokio::select! {
            biased;
            _ = shutdown.wait_for(|stop| *stop) => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, client)) => {
                // Answers are written whole; waiting to merge them with later ones only delays them.
                let _ = stream.set_nodelay(true);
                // A connection that has no address any more is gone.
                if let Ok(local) = stream.local_addr() {
                    let ends = Endpoints { client, local };
                    admit(&shared, lay_over(stream), ends, &stopping);
                }
            }
            Err(error) if is_shortage(&error) => {
                if log.admit("", Instant::now()).is_some() {
                    tracing::warn!("cannot accept TCP connections for now: {error}");
                }
                // Frees one descriptor for those who wait; resting keeps this from spinning.
                shared.registry.evict_longest_idle();
                tokio::time::sleep(ACCEPT_REST).await;
            }
            // The connection was gone before we took it: no concern of the next one.
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
    ends: Endpoints,
    shutdown: &watch::Receiver<bool>,
) {
    let client = ends.client;
    let id = match shared.registry.enter(client.ip()) {
        Ok(id) => id,
        Err(ConnectionRefusal::ClientHasTooMany) => {
            shared.handler.refused(client);
            return;
        }
    };
    shared.handler.opened(client);
    let seat = Seat {
        shared: Arc::clone(shared),
        id,
        ends,
    };
    let connection = StreamConnection::new(stream, seat);
    let task = tokio::spawn(connection.run(shutdown.clone()));
    shared.registry.seated(id, task.abort_handle());
}
