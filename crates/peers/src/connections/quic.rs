//! DNS over QUIC to other servers (RFC 9250): one connection for each server, one stream for each request.
//!
//! A connection is kept until either side closes it; quinn closes idle ones. Streams look like TCP
//! to their users: length-prefixed messages in both directions. Message IDs are 0 on the wire
//! (section 4.2.1).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use nameward_base::sync::Mutex;
use nameward_maintain::policy::{PeerTls, RemoteServer};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint, IdleTimeout, TransportConfig, VarInt};
use tokio_rustls::rustls;

use super::failure::{ConnectFailure, TlsFailure, alert_code, closed_by_alert};
use super::idle::{ConnectionKey, key_of};
use super::{MessageTransport, local_address, server_name};

/// Time after which an idle connection is closed, in milliseconds.
const IDLE_MS: u32 = 10_000;
/// Maximum number of open connections.
const CONNECTIONS_MAX: usize = 64;
/// Maximum number of sockets, one for each source address.
const SOCKETS_MAX: usize = 64;

#[derive(Default)]
pub(super) struct QuicConnections {
    sockets: Mutex<HashMap<SocketAddr, Endpoint>>,
    connections: Mutex<HashMap<ConnectionKey, Connection>>,
}

impl QuicConnections {
    /// Opens a stream to a server, on its connection if there is one.
    pub(super) async fn open(
        &self,
        (server, tls): (&RemoteServer, &PeerTls),
        config: Arc<rustls::ClientConfig>,
    ) -> Result<Box<dyn MessageTransport>, ConnectFailure> {
        let key = key_of(server);
        let known = key
            .as_ref()
            .and_then(|key| self.connections.lock().get(key).cloned());
        if let Some(connection) = known.filter(|known| known.close_reason().is_none())
            && let Ok((send, receive)) = connection.open_bi().await
        {
            return Ok(Box::new(tokio::io::join(receive, send)));
        }
        let connection = self.connect((server, tls), config).await?;
        let (send, receive) = connection.open_bi().await.map_err(failed)?;
        if let Some(key) = key {
            let mut connections = self.connections.lock();
            connections.retain(|_, connection| connection.close_reason().is_none());
            if connections.len() < CONNECTIONS_MAX {
                connections.insert(key, connection);
            }
        }
        Ok(Box::new(tokio::io::join(receive, send)))
    }

    async fn connect(
        &self,
        (server, tls): (&RemoteServer, &PeerTls),
        config: Arc<rustls::ClientConfig>,
    ) -> Result<Connection, ConnectFailure> {
        let unusable = |error: &dyn std::fmt::Display| TlsFailure::Handshake(error.to_string());
        let crypto = QuicClientConfig::try_from(config).map_err(|error| unusable(&error))?;
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_MS))));
        // The server answers on our streams and opens none (RFC 9250 section 4.2).
        transport.max_concurrent_bidi_streams(VarInt::from_u32(0));
        transport.max_concurrent_uni_streams(VarInt::from_u32(0));
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport));
        let name = server_name(server, tls)?;
        let endpoint = self.endpoint(local_address(server))?;
        let connecting = endpoint.connect_with(config, server.address, &name.to_str());
        let connecting = connecting.map_err(|error| unusable(&error))?;
        connecting.await.map_err(failed)
    }

    /// Returns the socket for a source address.
    fn endpoint(&self, local: SocketAddr) -> Result<Endpoint, ConnectFailure> {
        let mut sockets = self.sockets.lock();
        if let Some(endpoint) = sockets.get(&local) {
            return Ok(endpoint.clone());
        }
        let endpoint = Endpoint::client(local)?;
        if sockets.len() >= SOCKETS_MAX {
            sockets.clear();
        }
        sockets.insert(local, endpoint.clone());
        Ok(endpoint)
    }
}

/// Distinguishes a failed handshake, which is a fault, from an unreachable server.
fn failed(error: quinn::ConnectionError) -> ConnectFailure {
    if let Some(alert) = closed_by_alert(&error) {
        return TlsFailure::Handshake(alert).into();
    }
    match error {
        quinn::ConnectionError::TimedOut => ConnectFailure::TimedOut,
        quinn::ConnectionError::TransportError(error) if alert_code(error.code).is_some() => {
            TlsFailure::Handshake(error.reason).into()
        }
        other => std::io::Error::other(other).into(),
    }
}
