//! A request on its way through the server, and the verdicts that may be given on it.
//!
//! ```text
//! request -> policy -> opcode -> view -> cache -> engine -> verdict      pipeline::path
//! ```
//! Every transport makes a [`Request`] and obeys the [`Verdict`]; none of them knows how it came about. Requests that are
//! no questions for records (NOTIFY, UPDATE, transfers) are decided by a [`ZoneRequests`], which the part of the server
//! that owns zones implements.

use std::net::SocketAddr;
use std::sync::Arc;

use nameward_answer::{Medium, Reply};
use nameward_dnssec::tsig::ReplySigner;
use nameward_stats::{Protocol, Transport};
use nameward_wire::message::Query;
use nameward_wire::{Name, Rcode};
use nameward_zone::Zone;
use tokio::sync::Notify;

use crate::pipeline::WayBack;

/// A view of the zones: which of several sets of zones a client sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ViewId(pub u16);

impl ViewId {
    /// The only view there is where none are configured.
    pub const DEFAULT: ViewId = ViewId(0);
}

/// A request that was read, with all that decides about it.
#[derive(Clone, Copy)]
pub struct Request<'q> {
    /// The message.
    pub query: &'q Query<'q>,
    /// Who sent it.
    pub peer: SocketAddr,
    /// The address that it came to, if that is known.
    pub local: Option<SocketAddr>,
    /// How it came.
    pub transport: Transport,
    /// The signer of the replies, if the request was signed (RFC 8945) and verified. It has the key.
    pub tsig: Option<&'q ReplySigner>,
    /// The view that it is answered from.
    pub view: ViewId,
}

impl<'q> Request<'q> {
    /// Returns the name of the TSIG key that the request was signed with, in lower case.
    pub fn key_name(&self) -> Option<Name<'q>> {
        Some(self.tsig?.key()?.name())
    }

    /// How the transport shapes an answer.
    #[inline]
    pub fn medium(&self) -> Medium {
        medium_of(self.transport)
    }
}

#[inline]
pub(crate) fn medium_of(transport: Transport) -> Medium {
    match transport.protocol {
        Protocol::Udp => Medium::Datagram,
        Protocol::Tcp => Medium::Stream,
    }
}

/// The decision on a request.
pub enum Verdict {
    /// The reply is written.
    Reply(Reply),
    /// A reply with a response code and, if there is one, an extended error (RFC 8914).
    Code(Rcode, Option<u16>),
    /// No reply.
    Drop,
    /// Whoever decided has taken the way back ([`WayBack::take`]) and replies later.
    Later,
    /// Many messages, made as the client takes them. Streams only; a datagram gets REFUSED instead.
    Stream(Box<dyn MessageStream>),
}

/// An answer of many messages (a transfer), made one by one as the client takes them: whoever reads slowly costs no
/// memory but that of the message in work.
pub trait MessageStream: Send {
    /// Writes the next message, without a length before it, into `out`, and no more than `out` has room for: 65,535
    /// octets, or what a TSIG record leaves of them.
    fn next_message(&mut self, out: &mut [u8]) -> NextMessage;

    /// Returns the notification that there is something to write after [`NextMessage::Wait`].
    fn wake(&self) -> Option<Arc<Notify>> {
        None
    }

    /// Returns the notification that a client which does not read is to be cut, because others wait for its place.
    fn cut(&self) -> Option<Arc<Notify>> {
        None
    }
}

/// The state of an answer of many messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextMessage {
    /// A message of this many octets was written.
    Written(usize),
    /// Nothing can be written yet.
    Wait,
    /// The last message was written before.
    End,
    /// The answer cannot be completed; the connection is closed without its end.
    Broken,
}

/// Decides requests that are not questions for records. Called by workers, so it must not wait: what takes longer takes
/// the way back and gives [`Verdict::Later`]. Replies are written into `out`, which has room for what the client takes;
/// who signs them is not their concern.
///
/// The defaults are a server that has none of these.
pub trait ZoneRequests: Send + Sync + 'static {
    /// A NOTIFY (RFC 1996): the zone of the question has changed at its primary.
    fn notify(&self, _: &Request<'_>, _: &mut WayBack<'_>, _: &mut [u8]) -> Verdict {
        Verdict::Code(Rcode::NotImp, Some(extended_error::NOT_SUPPORTED))
    }

    /// An UPDATE (RFC 2136) of the zone of the question.
    fn update(&self, _: &Request<'_>, _: &mut WayBack<'_>, _: &mut [u8]) -> Verdict {
        Verdict::Code(Rcode::NotImp, Some(extended_error::NOT_SUPPORTED))
    }

    /// Returns the seconds after which a zone expires here unless it is refreshed (RFC 7314); those of the SOA where nobody
    /// refreshes it.
    fn expires_in(&self, zone: &Zone) -> Option<u32> {
        zone.soa_expire()
    }

    /// A transfer (AXFR of RFC 5936, IXFR of RFC 1995) of the zone of the question.
    fn transfer(&self, _: &Request<'_>, _: &mut WayBack<'_>, _: &mut [u8]) -> Verdict {
        Verdict::Code(Rcode::Refused, Some(extended_error::PROHIBITED))
    }
}

/// A server without NOTIFY, UPDATE and transfers.
pub struct NoZoneRequests;

impl ZoneRequests for NoZoneRequests {}

/// RFC 8914 section 4: extended error codes.
pub mod extended_error {
    /// The client may not have this.
    pub const PROHIBITED: u16 = 18;
    /// The contents are not there yet, or not any more.
    pub const NOT_READY: u16 = 14;
    /// The zone is not one of this server's.
    pub const NOT_AUTHORITATIVE: u16 = 20;
    /// This server does not do that.
    pub const NOT_SUPPORTED: u16 = 21;
    /// Another server, which the answer needs, cannot be reached.
    pub const NETWORK_ERROR: u16 = 23;
}
