//! One try to get a question answered by one resolver: over UDP, and over TCP where the reply is cut.
//!
//! Each try has a socket of its own, whose port the kernel takes at random, and an id of its own (RFC 5452 section 9.2).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::question::{ReceivedMessage, UpstreamQuestion, UpstreamReply};

/// Datagrams that are no reply to the question, after which it is asked over TCP: an attacker is guessing (RFC 5452
/// section 9.3), and over TCP has to guess much more.
const STRAYS_MAX: usize = 16;
/// Octets of a datagram that are read. The EDNS size in questions asks for less.
const DATAGRAM_MAX: usize = 4096;

/// Why a try failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptFailure {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("its reply cannot be read")]
    Garbage,
}

/// How a question is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttemptTerms {
    pub(super) server: SocketAddr,
    pub(super) randomize_case: bool,
}

/// Asks one resolver. It has no end of its own: whoever calls gives up in time.
pub(super) async fn ask(
    terms: AttemptTerms,
    question: &UpstreamQuestion,
) -> Result<UpstreamReply, AttemptFailure> {
    match ask_udp(terms, question).await? {
        Some(reply) => Ok(reply),
        None => ask_tcp(terms, question).await,
    }
}

/// Asks over UDP; `None` is a reply that has to be fetched over TCP.
async fn ask_udp(
    terms: AttemptTerms,
    question: &UpstreamQuestion,
) -> Result<Option<UpstreamReply>, AttemptFailure> {
    let local: SocketAddr = match terms.server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(local).await?;
    // The kernel then drops what comes from any other address or port.
    socket.connect(terms.server).await?;
    let asked = write(terms, question)?;
    socket.send(&asked).await?;
    let mut buffer = vec![0; DATAGRAM_MAX];
    for _ in 0..STRAYS_MAX {
        let len = socket.recv(&mut buffer).await?;
        match UpstreamReply::read(&buffer[..len], &asked) {
            ReceivedMessage::NotOurs => {}
            ReceivedMessage::Garbage => return Err(AttemptFailure::Garbage),
            ReceivedMessage::Truncated => return Ok(None),
            ReceivedMessage::Reply(reply) => return Ok(Some(reply)),
        }
    }
    Ok(None)
}

async fn ask_tcp(
    terms: AttemptTerms,
    question: &UpstreamQuestion,
) -> Result<UpstreamReply, AttemptFailure> {
    let mut stream = TcpStream::connect(terms.server).await?;
    stream.set_nodelay(true)?;
    let asked = write(terms, question)?;
    let mut framed = (asked.len() as u16).to_be_bytes().to_vec();
    framed.extend_from_slice(&asked);
    stream.write_all(&framed).await?;
    let mut reply = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut reply).await?;
    match UpstreamReply::read(&reply, &asked) {
        ReceivedMessage::Reply(reply) => Ok(reply),
        // RFC 7766 section 7: a stream that answers something else is of no more use.
        ReceivedMessage::NotOurs | ReceivedMessage::Garbage | ReceivedMessage::Truncated => {
            Err(AttemptFailure::Garbage)
        }
    }
}

/// Writes the question with an id, and if wanted letters, that nobody can guess.
fn write(terms: AttemptTerms, question: &UpstreamQuestion) -> io::Result<Vec<u8>> {
    let (mut id, mut case) = ([0; 2], [0; 32]);
    let unavailable = |_| io::Error::other("the system gives no random numbers");
    aws_lc_rs::rand::fill(&mut id).map_err(unavailable)?;
    if terms.randomize_case {
        aws_lc_rs::rand::fill(&mut case).map_err(unavailable)?;
    }
    Ok(question.write(u16::from_be_bytes(id), &case))
}
