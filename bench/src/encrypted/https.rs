//! Queries over HTTP/2: each connection has as many streams as its window.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Method, Request, Version, header};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::clients::{ClientError, EncryptedCounts, PATIENCE, SERVER_NAME};
use super::tls;

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
        let Ok(stream) = tls::connect(server, &connector).await else {
            continue;
        };
        let Ok((requests, connection)) = h2::client::handshake(stream).await else {
            continue;
        };
        drop(opening);
        let driver = tokio::spawn(connection);
        if std::mem::take(&mut is_first) {
            counts.established().await;
        }
        let mut streams = JoinSet::new();
        for _ in 0..window {
            let (requests, counts) = (requests.clone(), Arc::clone(&counts));
            streams.spawn(async move { while exchange(&requests, &counts).await.is_ok() {} });
        }
        drop(requests);
        while streams.join_next().await.is_some() {}
        driver.abort();
    }
}

/// Sends one query and reads its response.
async fn exchange(
    requests: &SendRequest<Bytes>,
    counts: &EncryptedCounts,
) -> Result<(), ClientError> {
    let (index, query) = counts.next();
    let request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(format!("https://{SERVER_NAME}/dns-query"))
        .header(header::CONTENT_TYPE, "application/dns-message")
        .header(header::ACCEPT, "application/dns-message")
        // BIND refuses a body without it.
        .header(header::CONTENT_LENGTH, query.len())
        .body(())?;
    let mut requests = requests.clone().ready().await?;
    let (response, mut body) = requests.send_request(request, false)?;
    body.send_data(Bytes::copy_from_slice(query), true)?;
    let response = timeout(PATIENCE, response).await??;
    let mut body = response.into_body();
    let mut message = Vec::new();
    while let Some(chunk) = timeout(PATIENCE, body.data()).await? {
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
        message.extend_from_slice(&chunk);
    }
    counts.count(index, &message);
    Ok(())
}
