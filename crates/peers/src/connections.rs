//! Connections to other servers: TCP in plain text, TLS (RFC 9103), or QUIC (RFC 9250).
//!
//! ```text
//! configs   TLS configurations, rebuilt when certificate files change
//! verify    the server's certificate: authority and name, pins
//! failure   what is wrong, worded for the log
//! faults    servers to which no encrypted connection can be made
//! quic      QUIC connections and their streams
//! idle      encrypted connections that wait a few seconds for the next request
//! ```
//! A server with TLS settings is never contacted in plain text, whatever fails: an attacker who can break connections
//! must not be able to choose the transport. Encrypted connections are reused, as RFC 9103 recommends: a check of the
//! serial and the transfer that follows, or the checks of many zones, share one handshake.

mod configs;
mod failure;
mod faults;
mod idle;
mod quic;
mod verify;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nameward_base::sync::Mutex;
use nameward_maintain::policy::{AlpnRule, PeerTls, Policies, RemoteServer};
use nameward_stats::LogThrottle;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use configs::{ALPN_DOT, TlsConfigs};
pub(crate) use failure::{ConnectFailure, TlsFailure};
use faults::TlsFaults;
pub use faults::{PeerRole, PeerTlsFault};
use idle::IdleConnections;
use quic::QuicConnections;

/// Minimum interval between two warnings about the same server.
const WARNING_INTERVAL: Duration = Duration::from_secs(3600);
/// Maximum number of servers warned about per interval.
const WARNED_MAX: usize = 64;

/// A stream of messages with two-octet length prefixes (RFC 1035 section 4.2.2).
pub(crate) trait MessageTransport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> MessageTransport for T {}

/// A connection to a server.
pub(crate) struct PeerConnection {
    pub(crate) stream: Box<dyn MessageTransport>,
    /// Whether it has served another request: the server may have closed it since.
    pub(crate) is_reused: bool,
}

/// Opens connections to other servers, and keeps encrypted ones for reuse.
pub struct PeerConnections {
    configs: TlsConfigs,
    idle: Arc<IdleConnections>,
    quic: QuicConnections,
    faults: TlsFaults,
    warnings: Mutex<LogThrottle>,
}

impl Default for PeerConnections {
    fn default() -> Self {
        PeerConnections {
            configs: TlsConfigs::default(),
            idle: Arc::default(),
            quic: QuicConnections::default(),
            faults: TlsFaults::default(),
            warnings: Mutex::new(LogThrottle::by_text(WARNING_INTERVAL, WARNED_MAX)),
        }
    }
}

impl PeerConnections {
    /// Returns a connection to a server: an idle one, or a new one, established within `time_limit`.
    pub(crate) async fn open(
        &self,
        server: &RemoteServer,
        time_limit: Duration,
    ) -> Result<PeerConnection, ConnectFailure> {
        match self.idle.take(server) {
            Some(stream) => Ok(PeerConnection {
                stream,
                is_reused: true,
            }),
            None => self.connect(server, time_limit).await,
        }
    }

    pub(crate) async fn connect(
        &self,
        server: &RemoteServer,
        time_limit: Duration,
    ) -> Result<PeerConnection, ConnectFailure> {
        let connected = self.connect_now(server, time_limit).await;
        if let Err(ConnectFailure::Tls(failure)) = &connected {
            self.faults.record(server, failure.to_string());
        }
        Ok(PeerConnection {
            stream: connected?,
            is_reused: false,
        })
    }

    async fn connect_now(
        &self,
        server: &RemoteServer,
        time_limit: Duration,
    ) -> Result<Box<dyn MessageTransport>, ConnectFailure> {
        let timed_out = |_| ConnectFailure::TimedOut;
        if let Some(tls) = server.tls.as_ref().filter(|tls| tls.is_quic()) {
            let opening = self.quic.open((server, tls), self.configs.config(tls)?);
            return timeout(time_limit, opening).await.map_err(timed_out)?;
        }
        let connecting = timeout(time_limit, connect_tcp(server));
        let stream = connecting.await.map_err(timed_out)??;
        let Some(tls) = &server.tls else {
            return Ok(Box::new(stream));
        };
        match timeout(time_limit, self.encrypt(stream, server, tls)).await {
            Ok(stream) => Ok(stream?),
            Err(_) => {
                let text = "timed out; check that the server speaks TLS on this port";
                Err(TlsFailure::Handshake(text.into()).into())
            }
        }
    }

    async fn encrypt(
        &self,
        stream: TcpStream,
        server: &RemoteServer,
        tls: &Arc<PeerTls>,
    ) -> Result<Box<dyn MessageTransport>, TlsFailure> {
        let config = self.configs.config(tls)?;
        let name = server_name(server, tls)?;
        let connecting = TlsConnector::from(config).connect(name, stream);
        let stream = connecting
            .await
            .map_err(|error| failure::explain(&error, tls))?;
        if stream.get_ref().1.alpn_protocol() != Some(ALPN_DOT) {
            // RFC 9103 section 7.1.
            if tls.alpn == AlpnRule::Required {
                return Err(TlsFailure::NoAlpn);
            }
            let mut warnings = self.warnings.lock();
            let text = server.to_string();
            if warnings.admit(&text, Instant::now()).is_some() {
                tracing::warn!("{text}: no ALPN protocol selected; accepted by tls_alpn");
            }
        }
        Ok(Box::new(stream))
    }

    /// Keeps an encrypted connection for the next request, for some seconds. Must be called within
    /// the runtime, after the last octet of the last response was read.
    pub(crate) fn put_back(&self, server: &RemoteServer, stream: Box<dyn MessageTransport>) {
        self.faults.clear(server);
        if server.tls.is_some() && !server.is_quic() {
            self.idle.put(server, stream);
        }
    }

    /// Sends a message and returns the next one received. A reused connection that the server has
    /// closed is replaced by a new one.
    pub(crate) async fn exchange(
        &self,
        server: &RemoteServer,
        message: &[u8],
        time_limit: Duration,
    ) -> Result<Vec<u8>, ExchangeFailure> {
        let mut connection = self.open(server, time_limit).await?;
        let mut sent = message.to_vec();
        if server.is_quic() {
            // RFC 9250 section 4.2.1; a TSIG record has the original ID.
            sent[..2].fill(0);
        }
        loop {
            let exchange = exchange_on(&mut connection.stream, &sent, server);
            let exchange = timeout(time_limit, exchange).await;
            match exchange.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(mut reply) => {
                    if server.is_quic() && reply.len() >= 2 && reply[..2] == [0, 0] {
                        reply[..2].copy_from_slice(&message[..2]);
                    }
                    self.put_back(server, connection.stream);
                    return Ok(reply);
                }
                Err(_) if connection.is_reused => {
                    connection = self.connect(server, time_limit).await?;
                }
                Err(error) => return Err(ExchangeFailure::Lost(self.refused(error, server))),
            }
        }
    }

    /// Describes the loss of a connection. A refusal by the server is recorded as a fault.
    pub(crate) fn lost(&self, error: io::Error, server: &RemoteServer) -> io::Error {
        match failure::refusal(&error) {
            Some(reason) if server.tls.is_some() => {
                self.faults.record(server, reason.clone());
                io::Error::new(error.kind(), reason)
            }
            _ => failure::explain_loss(error, server),
        }
    }

    /// Like [`PeerConnections::lost`], for a connection on which nothing was received: BIND closes
    /// the connection of a client without a certificate without sending an alert.
    pub(crate) fn refused(&self, error: io::Error, server: &RemoteServer) -> io::Error {
        let error = self.lost(error, server);
        if error.kind() == io::ErrorKind::UnexpectedEof && server.lacks_identity() {
            self.faults.record(server, error.to_string());
        }
        error
    }

    /// Lists the servers to which no encrypted connection can be made, for zones with these policies.
    pub fn faults(&self, policies: &Policies) -> Vec<PeerTlsFault> {
        self.faults.list(policies)
    }
}

/// Why a message got no reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExchangeFailure {
    /// No connection could be established.
    #[error("{0}")]
    Connect(#[from] ConnectFailure),
    /// The connection was lost, or no reply arrived in time.
    #[error("connection lost: {0}")]
    Lost(io::Error),
}

async fn exchange_on(
    stream: &mut Box<dyn MessageTransport>,
    message: &[u8],
    server: &RemoteServer,
) -> io::Result<Vec<u8>> {
    send(stream, message, server).await?;
    let mut octets = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut octets).await?;
    Ok(octets)
}

/// Sends a message; over QUIC this finishes our side of the stream (RFC 9250 section 4.2).
pub(crate) async fn send(
    stream: &mut Box<dyn MessageTransport>,
    message: &[u8],
    server: &RemoteServer,
) -> io::Result<()> {
    stream.write_all(&framed(message)?).await?;
    if server.is_quic() {
        stream.shutdown().await
    } else {
        stream.flush().await
    }
}

/// Returns the name that the certificate of a server must have.
fn server_name(server: &RemoteServer, tls: &PeerTls) -> Result<ServerName<'static>, TlsFailure> {
    match &tls.name {
        Some(name) => ServerName::try_from(name.clone())
            .map_err(|error| TlsFailure::Handshake(format!("tls_name {name}: {error}"))),
        // As in BIND: without a name the certificate must be valid for the address.
        None => Ok(ServerName::IpAddress(
            server.address.ip().to_canonical().into(),
        )),
    }
}

/// Returns a message with its length prefix, to be sent at once.
fn framed(message: &[u8]) -> io::Result<Vec<u8>> {
    let len = u16::try_from(message.len()).map_err(io::Error::other)?;
    Ok([&len.to_be_bytes(), message].concat())
}

async fn connect_tcp(server: &RemoteServer) -> io::Result<TcpStream> {
    let socket = match server.address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if server.source.is_some() {
        socket.bind(local_address(server))?;
    }
    socket.connect(server.address).await
}

/// Returns the source address for messages to a server, with a port chosen by the kernel.
pub(crate) fn local_address(server: &RemoteServer) -> std::net::SocketAddr {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
    let unspecified = match server.address {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let source = server
        .source
        .filter(|source| source.is_ipv4() == server.address.is_ipv4());
    SocketAddr::new(source.unwrap_or(unspecified), 0)
}
