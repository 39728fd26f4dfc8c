//! DNS over HTTPS (RFC 8484): HTTP/1.1 and HTTP/2, GET and POST. Only the configured path answers.
//!
//! hyper implements HTTP, and TLS is that of `tls`. Connections are counted and limited together
//! with those of TCP. The sizes of heads, bodies and unread replies, the streams of a connection
//! and its idle time are bounded.

mod connection;
mod exchange;
mod freshness;

use std::io;
use std::sync::Arc;

use tokio::sync::watch;

use crate::http::BodyMemory;
use crate::listener::StreamListener;
use crate::pipeline::TcpPipeline;
use crate::tcp::{MessageServer, TcpSettings};
use crate::tls::TlsLayer;

/// Octets of request bodies and unread replies, over all connections.
const MEMORY: usize = 64 << 20;

/// The settings of DNS over HTTPS.
pub struct HttpsSettings {
    /// The path that answers.
    pub path: String,
    /// The limits of connections.
    pub tcp: TcpSettings,
    /// TLS with its certificates.
    pub layer: Arc<TlsLayer>,
}

/// The state that all connections share.
struct HttpsState {
    path: String,
    memory: Arc<BodyMemory>,
    tcp: TcpSettings,
}

/// Serves the listeners until `shutdown` is true.
pub async fn serve(
    listeners: Vec<StreamListener>,
    pipeline: Arc<TcpPipeline>,
    settings: HttpsSettings,
    shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let HttpsSettings { path, tcp, layer } = settings;
    let server = MessageServer::new(pipeline, tcp.clone());
    let state = Arc::new(HttpsState {
        path,
        memory: BodyMemory::new(MEMORY),
        tcp,
    });
    let stopping = shutdown.clone();
    server
        .serve_listeners(listeners, shutdown, move |stream, connection| {
            let (state, stopping) = (Arc::clone(&state), stopping.clone());
            connection::run(state, connection, layer.over(stream), stopping)
        })
        .await
}
