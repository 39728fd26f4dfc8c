//! Queries over TLS: each connection keeps its window of queries in flight and writes those that are due in one
//! record.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::clients::{EncryptedCounts, PATIENCE, server_name};

/// Octets of one read.
const READ: usize = 16 * 1024;

/// Connects and shakes hands.
pub async fn connect(
    server: SocketAddr,
    connector: &TlsConnector,
) -> io::Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(server).await?;
    tcp.set_nodelay(true)?;
    connector.connect(server_name(), tcp).await
}

/// Keeps one connection busy, and opens it again when the server closes it.
pub async fn send_queries(
    server: SocketAddr,
    connector: TlsConnector,
    window: usize,
    counts: Arc<EncryptedCounts>,
) {
    let mut is_first = true;
    loop {
        let opening = counts.opening.acquire().await;
        let connected = connect(server, &connector).await;
        drop(opening);
        if let Ok(stream) = connected {
            if std::mem::take(&mut is_first) {
                counts.established().await;
            }
            // Servers close a connection after some thousand queries.
            let _ = exchange(stream, window, &counts).await;
        } else {
            tokio::task::yield_now().await;
        }
    }
}

async fn exchange(
    mut stream: TlsStream<TcpStream>,
    window: usize,
    counts: &EncryptedCounts,
) -> io::Result<()> {
    // The message ID is the position of a query in the window.
    let mut sent = vec![0; window];
    let (mut out, mut input, mut have) = (Vec::new(), vec![0; READ], 0);
    for (slot, index) in sent.iter_mut().enumerate() {
        *index = push_query(&mut out, slot, counts);
    }
    loop {
        stream.write_all(&out).await?;
        stream.flush().await?;
        out.clear();
        let read = match timeout(PATIENCE, stream.read(&mut input[have..])).await {
            Ok(read) => read?,
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        };
        if read == 0 {
            return Ok(());
        }
        have += read;
        let mut used = 0;
        while let Some((&[high, low], rest)) = input[used..have].split_first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes([high, low]));
            let Some(response) = rest.get(..length) else {
                break;
            };
            used += 2 + length;
            let id = response.first_chunk::<2>().copied().unwrap_or_default();
            let slot = usize::from(u16::from_be_bytes(id)) % window;
            counts.count(sent[slot], response);
            sent[slot] = push_query(&mut out, slot, counts);
        }
        input.copy_within(used..have, 0);
        have -= used;
    }
}

fn push_query(out: &mut Vec<u8>, slot: usize, counts: &EncryptedCounts) -> usize {
    let (index, query) = counts.next();
    out.extend_from_slice(&(query.len() as u16).to_be_bytes());
    out.extend_from_slice(&(slot as u16).to_be_bytes());
    out.extend_from_slice(&query[2..]);
    index
}
