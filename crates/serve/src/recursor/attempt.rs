//! One attempt to resolve a query with one resolver: over UDP, and over TCP if the response is truncated.
//!
//! Each attempt has its own socket, whose port the kernel picks at random, and its own ID (RFC 5452 section 9.2).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::query::{ReceivedMessage, UpstreamMessage, UpstreamReply};

/// Number of unrelated datagrams after which the query is sent over TCP: an attacker is guessing (RFC 5452 section
/// 9.3), and over TCP would have to guess much more.
const STRAYS_MAX: usize = 16;
/// Receive buffer size. The EDNS size in our queries is smaller.
const DATAGRAM_MAX: usize = 4096;

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptFailure {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("malformed response")]
    Garbage,
}

/// How a query is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttemptSettings {
    pub(super) server: SocketAddr,
    pub(super) randomize_case: bool,
}

/// Queries one resolver. Has no timeout of its own; the caller applies one.
pub(super) async fn query_resolver(
    settings: AttemptSettings,
    query: &UpstreamMessage,
) -> Result<UpstreamReply, AttemptFailure> {
    match query_udp(settings, query).await? {
        Some(reply) => Ok(reply),
        None => query_tcp(settings, query).await,
    }
}

/// Queries over UDP; `None` means that the query must be repeated over TCP.
async fn query_udp(
    settings: AttemptSettings,
    query: &UpstreamMessage,
) -> Result<Option<UpstreamReply>, AttemptFailure> {
    let local: SocketAddr = match settings.server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(local).await?;
    // The kernel then drops datagrams from any other address or port.
    socket.connect(settings.server).await?;
    let message = write(settings, query)?;
    socket.send(&message).await?;
    let mut buffer = vec![0; DATAGRAM_MAX];
    for _ in 0..STRAYS_MAX {
        let len = socket.recv(&mut buffer).await?;
        match UpstreamReply::read(&buffer[..len], &message) {
            ReceivedMessage::NotOurs => {}
            ReceivedMessage::Garbage => return Err(AttemptFailure::Garbage),
            ReceivedMessage::Truncated => return Ok(None),
            ReceivedMessage::Reply(reply) => return Ok(Some(reply)),
        }
    }
    Ok(None)
}

async fn query_tcp(
    settings: AttemptSettings,
    query: &UpstreamMessage,
) -> Result<UpstreamReply, AttemptFailure> {
    let mut stream = TcpStream::connect(settings.server).await?;
    stream.set_nodelay(true)?;
    let message = write(settings, query)?;
    let mut framed = (message.len() as u16).to_be_bytes().to_vec();
    framed.extend_from_slice(&message);
    stream.write_all(&framed).await?;
    let mut reply = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut reply).await?;
    match UpstreamReply::read(&reply, &message) {
        ReceivedMessage::Reply(reply) => Ok(reply),
        // RFC 7766 section 7: a stream with an unexpected response is of no further use.
        ReceivedMessage::NotOurs | ReceivedMessage::Garbage | ReceivedMessage::Truncated => {
            Err(AttemptFailure::Garbage)
        }
    }
}

/// Writes the query with a random ID and, if configured, random letter case.
fn write(settings: AttemptSettings, query: &UpstreamMessage) -> io::Result<Vec<u8>> {
    let (mut id, mut case) = ([0; 2], [0; 32]);
    let unavailable = |_| io::Error::other("no random numbers available");
    aws_lc_rs::rand::fill(&mut id).map_err(unavailable)?;
    if settings.randomize_case {
        aws_lc_rs::rand::fill(&mut case).map_err(unavailable)?;
    }
    Ok(query.write(u16::from_be_bytes(id), &case))
}
