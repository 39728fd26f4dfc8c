//! Queries a primary's serial over UDP, or over TLS if the primary has TLS settings: the serial and
//! name of a zone are as confidential as its contents (RFC 9103).

use nameward_base::time::now_seconds;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::transfer_in::{SentRequest, SoaReply, TransferFailure, read_soa_reply};
use nameward_dnssec::tsig::{ReplyVerifier, TsigFailure, TsigKey, sign_request};
use nameward_maintain::policy::RemoteServer;
use nameward_wire::{NameBuf, Type};
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout_at};

use super::failure::QueryFailure;
use super::{QueryForm, random_id};
use crate::connections::PeerConnections;
use crate::connections::local_address;

/// Timeouts of the attempts.
const ATTEMPT_TIMEOUTS: [Duration; 3] = [
    Duration::from_millis(1500),
    Duration::from_millis(2500),
    Duration::from_millis(4000),
];
/// Timeout for each of connection, TLS handshake and reply of a primary with TLS settings.
const TLS_TIMEOUT: Duration = Duration::from_secs(5);
/// Receive buffer size; without EDNS a response has at most 512 octets.
const REPLY_BUFFER: usize = 4096;
/// Number of unrelated datagrams that one attempt ignores.
const STRAYS_MAX: usize = 1000;

/// Queries a primary for the SOA of a zone.
pub(crate) async fn query_soa(
    connections: &PeerConnections,
    (primary, key): (&RemoteServer, Option<&Arc<TsigKey>>),
    zone: NameBuf,
    form: QueryForm,
) -> Result<SoaReply, QueryFailure> {
    if primary.tls.is_some() {
        let query = SentRequest::query(random_id(), zone, Type::SOA);
        return query_over_tls(connections, (primary, key), &query, form).await;
    }
    for time_limit in ATTEMPT_TIMEOUTS {
        // A new port and a random ID for each attempt, so that the response is hard to forge.
        let query = SentRequest::query(random_id(), zone, Type::SOA);
        if let Some(reply) = query_once((primary, key), &query, form, time_limit).await? {
            return Ok(reply);
        }
    }
    Err(QueryFailure::NoAnswer)
}

/// Queries once over an encrypted connection, which loses no messages.
async fn query_over_tls(
    connections: &PeerConnections,
    (primary, key): (&RemoteServer, Option<&Arc<TsigKey>>),
    query: &SentRequest,
    form: QueryForm,
) -> Result<SoaReply, QueryFailure> {
    let mut message = form.message(query, None);
    let mut verifier = key.map(|key| sign_request(key, &mut message, now_seconds()));
    let octets = connections.exchange(primary, &message, TLS_TIMEOUT).await?;
    let read = read_soa_reply(query, &octets);
    verify(verifier.as_mut(), &octets, &read)?;
    Ok(read?)
}

/// Verifies the signature of a reply.
fn verify(
    verifier: Option<&mut ReplyVerifier>,
    octets: &[u8],
    read: &Result<SoaReply, TransferFailure>,
) -> Result<(), QueryFailure> {
    let Some(verifier) = verifier else {
        return Ok(());
    };
    match (verifier.verify(octets, now_seconds()), read) {
        // A server that does not know the key cannot sign its refusal.
        (Err(TsigFailure::Unsigned), Err(TransferFailure::Code(_))) => Ok(()),
        (Err(failure), _) => Err(TransferFailure::Tsig(failure).into()),
        (Ok(_), _) => Ok(()),
    }
}

async fn query_once(
    (primary, key): (&RemoteServer, Option<&Arc<TsigKey>>),
    query: &SentRequest,
    form: QueryForm,
    time_limit: Duration,
) -> Result<Option<SoaReply>, QueryFailure> {
    let network = |error| QueryFailure::Network("cannot send the query", error);
    let socket = UdpSocket::bind(local_address(primary)).await;
    let socket = socket.map_err(network)?;
    // The kernel drops datagrams from other addresses.
    socket.connect(primary.address).await.map_err(network)?;
    let mut message = form.message(query, None);
    let mut verifier = key.map(|key| sign_request(key, &mut message, now_seconds()));
    socket.send(&message).await.map_err(network)?;
    let (mut reply, deadline) = ([0; REPLY_BUFFER], Instant::now() + time_limit);
    for _ in 0..STRAYS_MAX {
        let len = match timeout_at(deadline, socket.recv(&mut reply)).await {
            Err(_) => return Ok(None),
            Ok(Ok(len)) => len,
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return Err(QueryFailure::Network("connection refused", error));
            }
            Ok(Err(error)) => return Err(network(error)),
        };
        let octets = &reply[..len];
        let read = read_soa_reply(query, octets);
        if read.as_ref().is_err_and(TransferFailure::is_forgeable) {
            continue;
        }
        verify(verifier.as_mut(), octets, &read)?;
        return Ok(Some(read?));
    }
    Ok(None)
}
