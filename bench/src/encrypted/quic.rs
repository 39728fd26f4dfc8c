//! Queries over QUIC: each connection has as many streams as its window.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::rustls;

use super::clients::{ClientError, EncryptedCounts, PATIENCE, SERVER_NAME};

/// The length prefix and the largest message.
const RESPONSE_MAX: usize = 2 + u16::MAX as usize;

/// Opens a socket whose connections have these settings.
pub fn endpoint(config: rustls::ClientConfig) -> Result<Endpoint, ClientError> {
    let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
    let crypto = QuicClientConfig::try_from(config)?;
    endpoint.set_default_client_config(ClientConfig::new(Arc::new(crypto)));
    Ok(endpoint)
}

/// Keeps one connection busy, and opens it again when the server closes it.
pub async fn send_queries(
    server: SocketAddr,
    endpoint: Endpoint,
    window: usize,
    counts: Arc<EncryptedCounts>,
) {
    let mut is_first = true;
    loop {
        let opening = counts.opening.acquire().await;
        let Ok(connecting) = endpoint.connect(server, SERVER_NAME) else {
            return;
        };
        let Ok(connection) = connecting.await else {
            continue;
        };
        drop(opening);
        if std::mem::take(&mut is_first) {
            counts.established().await;
        }
        let mut streams = JoinSet::new();
        for _ in 0..window {
            let (connection, counts) = (connection.clone(), Arc::clone(&counts));
            streams.spawn(async move { while exchange(&connection, &counts).await.is_ok() {} });
        }
        while streams.join_next().await.is_some() {}
    }
}

/// Sends one query and reads its response.
pub async fn exchange(
    connection: &Connection,
    counts: &EncryptedCounts,
) -> Result<(), ClientError> {
    let (index, query) = counts.next();
    let framed = [&(query.len() as u16).to_be_bytes()[..], query].concat();
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&framed).await?;
    send.finish()?;
    let response = timeout(PATIENCE, receive.read_to_end(RESPONSE_MAX)).await??;
    counts.count(index, response.get(2..).unwrap_or_default());
    Ok(())
}
