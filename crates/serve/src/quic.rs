//! DNS over QUIC (RFC 9250): one stream per query.
//!
//! quinn implements QUIC. Connections are counted and limited together with those of TCP. Streams, what a client
//! sends ahead, unread answers, and the idle time of a connection are bounded. When many handshakes are running,
//! addresses are validated by Retry packets, so that forged ones cost little.

mod connection;
mod exchange;
mod identity;
mod socket;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, Incoming, ServerConfig, TokioRuntime, TransportConfig, VarInt};
use tokio::sync::watch;

use crate::listener::ListenerRules;
use crate::pipeline::TcpPipeline;
use crate::tcp::{Endpoints, MessageServer, TcpSettings};
use crate::tls::{HandshakeBudget, LoadedTls, ServerTls, TlsPurpose};
pub use identity::QuicIdentity;
pub use socket::QuicListener;
use socket::QuicSocket;

/// Error codes of RFC 9250 section 4.3.
const NO_ERROR: VarInt = VarInt::from_u32(0);
const INTERNAL_ERROR: VarInt = VarInt::from_u32(1);
const PROTOCOL_ERROR: VarInt = VarInt::from_u32(2);
const REQUEST_CANCELLED: VarInt = VarInt::from_u32(3);
const EXCESSIVE_LOAD: VarInt = VarInt::from_u32(4);
/// Maximum number of concurrent streams per connection.
const STREAMS_MAX: u32 = 100;
/// Octets that a client may send ahead: on one stream, the largest message with its prefix; and on all streams.
const STREAM_WINDOW: u32 = 64 * 1024 + 8;
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// Octets of answers that a client has not acknowledged.
const SEND_WINDOW: u64 = 512 * 1024;
/// Connections that wait for their handshake, and octets of their packets that are buffered.
const INCOMING_MAX: usize = 4096;
const INCOMING_BYTES: u64 = 16 << 20;
/// With `retry = "auto"`: number of running handshakes above which new clients must prove that they receive our
/// packets.
const RETRY_ABOVE: usize = 64;

/// When a client must prove that it receives our packets before its handshake is computed (RFC 9000 section 8.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuicRetry {
    /// While many handshakes are running.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The settings of DNS over QUIC.
pub struct QuicSettings {
    /// The limits of connections.
    pub tcp: TcpSettings,
    /// The certificates.
    pub tls: Arc<ServerTls>,
    /// The budget of handshakes.
    pub budget: Arc<HandshakeBudget>,
    /// When addresses are validated.
    pub retry: QuicRetry,
    /// The keys of connections.
    pub identity: QuicIdentity,
    /// The rules of each socket, in the same order; sockets beyond the list have none.
    pub rules: Vec<Arc<ListenerRules>>,
}

/// The state that all connections share.
struct QuicState {
    server: MessageServer<TcpPipeline>,
    settings: QuicSettings,
    handshakes: AtomicUsize,
}

/// Serves the listeners until `shutdown` is true; after another process has taken over, until their connections have
/// ended.
pub async fn serve(
    listeners: Vec<QuicListener>,
    pipeline: Arc<TcpPipeline>,
    settings: QuicSettings,
    shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let state = Arc::new(QuicState {
        server: MessageServer::new(pipeline, settings.tcp.clone()),
        settings,
        handshakes: AtomicUsize::new(0),
    });
    let mut endpoints = tokio::task::JoinSet::new();
    let mut rules = state.settings.rules.clone().into_iter();
    for listener in listeners {
        let rules = rules.next().unwrap_or_default();
        let config = state.server_config(&state.settings.tls.current())?;
        let local = listener.local_addr()?;
        let socket = Arc::new(QuicSocket::new(listener, &state.settings.identity)?);
        let endpoint = Endpoint::new_with_abstract_socket(
            state.settings.identity.endpoint_config(),
            Some(config),
            Arc::clone(&socket) as Arc<dyn quinn::AsyncUdpSocket>,
            Arc::new(TokioRuntime),
        )?;
        let endpoint = (endpoint, socket);
        let at = (local, rules);
        endpoints.spawn(accept(Arc::clone(&state), endpoint, at, shutdown.clone()));
    }
    while endpoints.join_next().await.is_some() {}
    state.server.wait_for_end(&shutdown).await;
    Ok(())
}

/// Accepts the connections of one socket, with the current certificates.
async fn accept(
    state: Arc<QuicState>,
    (endpoint, socket): (Endpoint, Arc<QuicSocket>),
    at: (SocketAddr, Arc<ListenerRules>),
    mut shutdown: watch::Receiver<bool>,
) {
    let (stopping, mut handed_over) = (shutdown.clone(), shutdown.clone());
    let drain = state.settings.tcp.drain.clone();
    let mut is_released = false;
    let mut certificates = state.settings.tls.follow();
    loop {
        tokio::select! {
            biased;
            _ = shutdown.wait_for(|stop| *stop) => break,
            () = drain.wait(&mut handed_over), if !is_released => {
                socket.release();
                is_released = true;
            }
            Ok(()) = certificates.changed() => {
                let loaded = Arc::clone(&certificates.borrow_and_update());
                match state.server_config(&loaded) {
                    Ok(config) => endpoint.set_server_config(Some(config)),
                    Err(error) => tracing::error!("DNS over QUIC keeps its certificate: {error}"),
                }
            }
            incoming = endpoint.accept() => match incoming {
                Some(incoming) => state.admit(incoming, &at, &stopping),
                None => return,
            },
            () = endpoint.wait_idle(), if is_released => return,
        }
    }
    // Running connections end by themselves; until then the endpoint carries their packets.
    endpoint.wait_idle().await;
}

impl QuicState {
    /// Starts a connection, unless its client has too many or must validate its address first.
    fn admit(
        self: &Arc<Self>,
        incoming: Incoming,
        (local, rules): &(SocketAddr, Arc<ListenerRules>),
        stopping: &watch::Receiver<bool>,
    ) {
        let is_validated = incoming.remote_address_validated() || !incoming.may_retry();
        let must_retry = match self.settings.retry {
            QuicRetry::Always => !is_validated,
            QuicRetry::Auto => {
                !is_validated && self.handshakes.load(Ordering::Relaxed) >= RETRY_ABOVE
            }
            QuicRetry::Never => false,
        };
        if must_retry {
            let _ = incoming.retry();
            return;
        }
        let ip = incoming.local_ip().unwrap_or(local.ip());
        let ends = Endpoints {
            client: incoming.remote_address(),
            local: SocketAddr::new(ip, local.port()),
        };
        let (state, stopping) = (Arc::clone(self), stopping.clone());
        let at = (ends, Arc::clone(rules));
        self.server.admit(at, |connection| {
            connection::run(state, connection, incoming, stopping)
        });
    }

    fn server_config(&self, loaded: &LoadedTls) -> io::Result<ServerConfig> {
        let crypto = Arc::clone(loaded.config(TlsPurpose::Quic));
        let crypto = QuicServerConfig::try_from(crypto).map_err(io::Error::other)?;
        let token_key = self.settings.identity.token_key();
        let mut config = ServerConfig::new(Arc::new(crypto), token_key);
        let idle_timeout = self.settings.tcp.idle_timeout;
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(STREAMS_MAX))
            // RFC 9250 section 4.2: only bidirectional streams are used.
            .max_concurrent_uni_streams(VarInt::from_u32(0))
            .datagram_receive_buffer_size(None)
            .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
            .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
            .send_window(SEND_WINDOW)
            .max_idle_timeout(Some(idle_timeout.try_into().map_err(io::Error::other)?));
        config
            .transport_config(Arc::new(transport))
            .max_incoming(INCOMING_MAX)
            .incoming_buffer_size_total(INCOMING_BYTES);
        Ok(config)
    }
}
