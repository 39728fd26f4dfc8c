//! Requests on their way through the server, and the verdicts on them.
//!
//! ```text
//! request -> policy -> opcode -> view -> cache -> engine -> verdict      pipeline::path
//! ```
//! Every transport builds a [`Request`] and carries out the [`Verdict`]; none of them knows how it was reached.
//! Requests that are not queries for records (NOTIFY, UPDATE, transfers) are decided by a [`ZoneRequests`],
//! implemented by the component that owns zones.

pub use nameward_wire::message::extended_error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nameward_answer::{EffectiveClient, Medium, Reply};
use nameward_dnssec::tsig::ReplySigner;
use nameward_stats::{Protocol, Transport};
use nameward_wire::message::Query;
use nameward_wire::{Name, Rcode};
use nameward_zone::{AccessClient, Zone};
pub use nameward_zone::{TlsPeer, ViewId};
use tokio::sync::Notify;

use crate::pipeline::ReplyPath;

/// A parsed request with everything that its handling depends on.
#[derive(Clone, Copy)]
pub struct Request<'q> {
    /// The message.
    pub query: &'q Query<'q>,
    /// Address of the sender.
    pub peer: SocketAddr,
    /// The address it was sent to, if known.
    pub local: Option<SocketAddr>,
    /// The transport it was received over.
    pub transport: Transport,
    /// The signer for the replies, if the request was signed (TSIG, RFC 8945) and verified. It holds the key.
    pub tsig: Option<&'q ReplySigner>,
    /// The client of the encrypted connection that it was received over; `None` over UDP and TCP.
    pub tls: Option<&'q Arc<TlsPeer>>,
    /// The view it is answered from.
    pub view: ViewId,
}

impl<'q> Request<'q> {
    /// Returns the name of the TSIG key that the request was signed with, in lower case.
    pub fn key_name(&self) -> Option<Name<'q>> {
        Some(self.tsig?.key()?.name())
    }

    /// Returns the client as access lists see it.
    pub fn client(&self) -> AccessClient<'q> {
        AccessClient {
            address: self.peer.ip(),
            key: self.key_name(),
            tls: self.tls.map(|tls| &**tls),
        }
    }

    /// Returns the client that the answer is made for: the sender, or the subnet sent by a trusted resolver.
    pub fn effective_client(&self) -> EffectiveClient {
        EffectiveClient::new(self.query, self.peer.ip())
    }

    /// Returns the limits that the transport sets on a response.
    #[inline]
    pub fn medium(&self) -> Medium {
        medium_of(self.transport)
    }
}

#[inline]
pub(crate) fn medium_of(transport: Transport) -> Medium {
    match transport.protocol {
        Protocol::Udp => Medium::Datagram,
        Protocol::Tcp | Protocol::Tls | Protocol::Https | Protocol::Quic => Medium::Stream,
    }
}

/// The decision on a request.
pub enum Verdict {
    /// The reply has been written.
    Reply(Reply),
    /// A reply with this response code and, optionally, an extended error (RFC 8914).
    Code(Rcode, Option<u16>),
    /// No reply.
    Drop,
    /// The handler has taken the reply path ([`ReplyPath::take`]) and replies later.
    Later,
    /// A multi-message response, produced as the client reads it. Streams only; a datagram gets REFUSED instead.
    Stream(Box<dyn MessageStream>),
}

/// A multi-message response (a transfer), produced message by message as the client reads it, so a slow client costs
/// no more memory than one message.
pub trait MessageStream: Send {
    /// Writes the next message, without a length prefix, into `out`, whose length is the limit: 65,535 octets, less
    /// the room for a TSIG record.
    fn next_message(&mut self, out: &mut [u8]) -> NextMessage;

    /// Returns the notification that signals, after [`NextMessage::Wait`], that there is something to write.
    fn wake(&self) -> Option<Arc<Notify>> {
        None
    }

    /// Returns the notification that signals that a client which does not read must be disconnected because others
    /// wait for its slot.
    fn cut(&self) -> Option<Arc<Notify>> {
        None
    }
}

/// The state of a multi-message response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextMessage {
    /// A message of this many octets was written.
    Written(usize),
    /// Nothing can be written yet.
    Wait,
    /// The last message has already been written.
    End,
    /// The response cannot be completed; the connection is closed before its end.
    Broken,
}

/// Interval at which a waiting response is polled if no wake-up arrives.
pub(crate) const REPOLL_INTERVAL: Duration = Duration::from_secs(1);

/// Waits for a notification; without one, forever.
pub(crate) async fn notified(notify: Option<&Arc<Notify>>) {
    match notify {
        Some(notify) => notify.notified().await,
        None => std::future::pending().await,
    }
}

/// Decides requests that are not queries for records. Called by workers, so it must not block: for anything slower it
/// takes the reply path and returns [`Verdict::Later`]. Replies are written into `out`, whose length is the client's
/// limit; the caller signs them with TSIG.
///
/// The defaults implement a server that supports none of these requests.
pub trait ZoneRequests: Send + Sync + 'static {
    /// Decides a NOTIFY (RFC 1996): the zone in the question section has changed at its primary.
    fn notify(&self, _: &Request<'_>, _: &mut ReplyPath<'_>, _: &mut [u8]) -> Verdict {
        Verdict::Code(Rcode::NotImp, Some(extended_error::NOT_SUPPORTED))
    }

    /// Decides an UPDATE (RFC 2136) of the zone in the zone section.
    fn update(&self, _: &Request<'_>, _: &mut ReplyPath<'_>, _: &mut [u8]) -> Verdict {
        Verdict::Code(Rcode::NotImp, Some(extended_error::NOT_SUPPORTED))
    }

    /// Returns the seconds after which a zone expires here unless it is refreshed (RFC 7314); the SOA expire value if
    /// the zone is not a secondary.
    fn expires_in(&self, zone: &Zone) -> Option<u32> {
        zone.soa_expire()
    }

    /// Decides a transfer request (AXFR of RFC 5936, IXFR of RFC 1995) for the zone in the question section.
    fn transfer(&self, _: &Request<'_>, _: &mut ReplyPath<'_>, _: &mut [u8]) -> Verdict {
        Verdict::Code(Rcode::Refused, Some(extended_error::PROHIBITED))
    }
}

/// A server without NOTIFY, UPDATE and transfers.
pub struct NoZoneRequests;

impl ZoneRequests for NoZoneRequests {}
