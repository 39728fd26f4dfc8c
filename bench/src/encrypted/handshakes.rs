//! Connections that are opened for one query each, with full and with resumed handshakes, and connections that stay idle.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::HandshakeKind;

use super::clients::{self, ClientError, EncryptedCounts, PATIENCE, SERVER_NAME, Sessions};
use super::{EncryptedTransport, quic, tls};

/// Connections that are being opened at the same time.
const OPENING: usize = 16;

/// Opens connections over TLS one after the other, each for one query; returns how many were resumed.
pub async fn over_tls(
    server: SocketAddr,
    connector: &TlsConnector,
    count: usize,
    counts: &EncryptedCounts,
) -> Result<usize, ClientError> {
    let mut resumed = 0;
    for _ in 0..count {
        let mut stream = timeout(PATIENCE, tls::connect(server, connector)).await??;
        let (index, query) = counts.next();
        let framed = [&(query.len() as u16).to_be_bytes()[..], query].concat();
        stream.write_all(&framed).await?;
        stream.flush().await?;
        let mut prefix = [0; 2];
        timeout(PATIENCE, stream.read_exact(&mut prefix)).await??;
        let mut response = vec![0; usize::from(u16::from_be_bytes(prefix))];
        timeout(PATIENCE, stream.read_exact(&mut response)).await??;
        counts.count(index, &response);
        let kind = stream.get_ref().1.handshake_kind();
        resumed += usize::from(kind == Some(HandshakeKind::Resumed));
        stream.shutdown().await?;
    }
    Ok(resumed)
}

/// Like [`over_tls`], over QUIC; early data is not used. Whether a session was resumed is not shown by quinn.
pub async fn over_quic(
    server: SocketAddr,
    endpoint: &quinn::Endpoint,
    count: usize,
    counts: &EncryptedCounts,
) -> Result<(), ClientError> {
    for _ in 0..count {
        let connecting = endpoint.connect(server, SERVER_NAME)?;
        let connection = timeout(PATIENCE, connecting).await??;
        quic::exchange(&connection, counts).await?;
        connection.close(0u32.into(), b"");
    }
    Ok(())
}

/// Opens connections over TLS that stay idle for as long as they are held.
pub async fn open_idle(
    server: SocketAddr,
    authority: &Path,
    count: usize,
) -> Result<Vec<TlsStream<TcpStream>>, ClientError> {
    let config = clients::config(authority, EncryptedTransport::Tls, Sessions::Never)?;
    let connector = TlsConnector::from(Arc::new(config));
    let (mut opening, mut open) = (JoinSet::new(), Vec::with_capacity(count));
    for started in 0..count {
        if started >= OPENING {
            let opened: Option<Result<io::Result<_>, _>> = opening.join_next().await;
            open.push(opened.ok_or("no connection is being opened")???);
        }
        let connector = connector.clone();
        opening.spawn(async move { tls::connect(server, &connector).await });
    }
    while let Some(opened) = opening.join_next().await {
        open.push(opened??);
    }
    Ok(open)
}
