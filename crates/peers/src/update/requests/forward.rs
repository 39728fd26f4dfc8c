//! Forwards updates of secondary zones to their primaries (RFC 2136 section 6).
//!
//! Message and reply are forwarded unchanged, TSIG included: client and primary verify each other, and this server
//! adds nothing. The number of updates in flight and the time for each are limited.

use std::sync::Arc;
use std::time::Duration;

use nameward_maintain::policy::RemoteServer;
use nameward_wire::Rcode;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::connections::ExchangeFailure;
use crate::connections::PeerConnections;

/// Maximum number of updates in flight to primaries.
const IN_FLIGHT_MAX: usize = 64;
/// Timeout for the connection and for the reply of a primary; then the next primary is tried.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Size of the header in octets, which a reply must contain at least.
const HEADER: usize = 12;

/// Forwards updates to primaries.
pub(super) struct UpdateForwarder {
    connections: Arc<PeerConnections>,
    runtime: Handle,
    slots: Arc<Semaphore>,
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
    #[error("too many updates are being forwarded")]
    TooMany,
    #[error("no primary configured")]
    NoPrimary,
    /// The last primary tried did not answer.
    #[error("primary {0}: {1}")]
    Primary(Box<RemoteServer>, ForwardFailure),
}

/// Why a primary did not answer an update.
#[derive(Debug, thiserror::Error)]
pub(super) enum ForwardFailure {
    /// It cannot be reached.
    #[error("{0}")]
    Exchange(#[from] ExchangeFailure),
    #[error("the response does not match the update")]
    NoReply,
}

impl UpdateForwarder {
    pub(super) fn new(connections: Arc<PeerConnections>, runtime: Handle) -> Self {
        UpdateForwarder {
            connections,
            runtime,
            slots: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
        }
    }

    /// Tries the primaries in order and passes on the first reply, or the last failure.
    pub(super) fn forward(
        &self,
        message: Box<[u8]>,
        primaries: Vec<RemoteServer>,
        done: impl FnOnce(Result<ForwardedReply, ForwardError>) + Send + 'static,
    ) {
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            return done(Err(ForwardError::TooMany));
        };
        let connections = Arc::clone(&self.connections);
        self.runtime.spawn(async move {
            let _slot = slot;
            let mut failure = ForwardError::NoPrimary;
            for primary in primaries {
                match exchange(&connections, &primary, &message).await {
                    Ok(reply) => return done(Ok(reply)),
                    Err(error) => failure = ForwardError::Primary(Box::new(primary), error),
                }
            }
            done(Err(failure));
        });
    }
}

/// Sends a message over TCP, or over TLS if the primary has TLS settings, and reads its reply.
async fn exchange(
    connections: &PeerConnections,
    primary: &RemoteServer,
    message: &[u8],
) -> Result<ForwardedReply, ForwardFailure> {
    let octets = connections.exchange(primary, message, TIMEOUT).await?;
    let is_reply = octets.len() >= HEADER
        && octets[..2] == message[..2]
        // QR set, and the same opcode as the request.
        && octets[2] & 0xf8 == 0x80 | message[2] & 0x78;
    let rcode = is_reply.then(|| code(octets[3] & 15)).flatten();
    let rcode = rcode.ok_or(ForwardFailure::NoReply)?;
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
