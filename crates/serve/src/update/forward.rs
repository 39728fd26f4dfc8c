//! Forwards updates of secondary zones to their primaries (RFC 2136 section 6).
//!
//! Message and reply are passed on unchanged, TSIG included: client and primary verify each other, and this server
//! adds nothing. The number of updates in flight and the time for each are limited.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nameward_maintain::policy::RemoteServer;
use nameward_wire::Rcode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Maximum number of updates in flight to primaries.
const UNDER_WAY: usize = 64;
/// Time limit per primary; then the next one is tried.
const PATIENCE: Duration = Duration::from_secs(5);
/// Size of the header in octets; a reply must at least contain its response code.
const HEADER: usize = 12;

/// Forwards updates to primaries.
pub(super) struct UpdateForwarder {
    runtime: Handle,
    places: Arc<Semaphore>,
}

/// A primary's reply.
pub(super) struct ForwardedReply {
    /// The message as received.
    pub(super) octets: Vec<u8>,
    /// Its response code.
    pub(super) rcode: Rcode,
}

/// Why an update was not forwarded.
#[derive(Debug, thiserror::Error)]
pub(super) enum ForwardError {
    /// The limit on updates in flight is reached.
    #[error("too many updates are being forwarded")]
    TooMany,
    /// The zone has no primary.
    #[error("no primary configured")]
    NoPrimary,
    /// The last primary that was tried did not answer.
    #[error("primary {0}: {1}")]
    Primary(SocketAddr, io::Error),
}

impl UpdateForwarder {
    pub(super) fn new(runtime: Handle) -> Self {
        UpdateForwarder {
            runtime,
            places: Arc::new(Semaphore::new(UNDER_WAY)),
        }
    }

    /// Tries the primaries in order and passes on the first reply, or the last failure.
    pub(super) fn forward(
        &self,
        message: Box<[u8]>,
        primaries: Vec<RemoteServer>,
        done: impl FnOnce(Result<ForwardedReply, ForwardError>) + Send + 'static,
    ) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return done(Err(ForwardError::TooMany));
        };
        self.runtime.spawn(async move {
            let _place = place;
            let mut failure = ForwardError::NoPrimary;
            for primary in primaries {
                let asked = timeout(PATIENCE, ask(&primary, &message)).await;
                match asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                    Ok(reply) => return done(Ok(reply)),
                    Err(error) => failure = ForwardError::Primary(primary.address, error),
                }
            }
            done(Err(failure));
        });
    }
}

/// Sends a message over TCP and reads its reply.
async fn ask(primary: &RemoteServer, message: &[u8]) -> io::Result<ForwardedReply> {
    let socket = match primary.address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if let Some(source) = primary.source {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    let mut stream = socket.connect(primary.address).await?;
    let len = u16::try_from(message.len()).map_err(io::Error::other)?;
    let framed = [&len.to_be_bytes(), message].concat();
    stream.write_all(&framed).await?;
    let mut octets = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut octets).await?;
    let is_reply = octets.len() >= HEADER
        && octets[..2] == message[..2]
        // QR set, and the same opcode as the request.
        && octets[2] & 0xf8 == 0x80 | message[2] & 0x78;
    let rcode = is_reply.then(|| code(octets[3] & 15)).flatten();
    let rcode = rcode.ok_or_else(|| io::Error::other("the response does not match the update"))?;
    Ok(ForwardedReply { octets, rcode })
}

/// Converts a response code that an UPDATE may have (RFC 2136 section 2.2).
fn code(number: u8) -> Option<Rcode> {
    let codes = [
        Rcode::NoError,
        Rcode::FormErr,
        Rcode::ServFail,
        Rcode::NxDomain,
        Rcode::NotImp,
        Rcode::Refused,
        Rcode::YxDomain,
        Rcode::YxRrset,
        Rcode::NxRrset,
        Rcode::NotAuth,
        Rcode::NotZone,
    ];
    codes.into_iter().find(|code| *code as u8 == number)
}
