//! Requests that are answered later than their batch or turn, and the way back to their senders.
//!
//! Only what an answer depends on is kept of a request, however long its packet was. A late reply is counted when it
//! is sent, with the time that its sender waited.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use nameward_answer::{AnswerKind, Engine, Medium, Reply};
use nameward_dnssec::tsig::ReplySigner;
use nameward_stats::{Counter, Protocol, Recorder, Stamp, Transport};
use nameward_wire::Rcode;
use nameward_wire::message::{HEADER, PADDING_BLOCK, Query, QueryBuf, pad_reply};

use super::ServingState;
use super::limit::limit_late;
use super::record::{Done, record_answer};
use super::signed::is_padded;
use crate::request::{Request, TlsPeer, ViewId, medium_of};
use crate::sys::outbox::Outbox;
use crate::tap::{Exchange, ExchangeTap};
use crate::tcp::Ticket;
use crate::udp::ReturnPath;

/// Time for which clients wait for a reply over UDP: stub resolvers and tools such as dig wait for five seconds, resolvers
/// for less. After it, a reply is only load, or a packet for the next process on that port.
const CLIENT_WAITS: Duration = Duration::from_secs(5);
/// Buffer size for a reply that is only a response code: header, question and OPT record.
const CODE_MAX: usize = 512;

/// Destination of a reply.
pub(crate) enum ReplyTo {
    Datagram(ReturnPath),
    Stream(Ticket),
}

/// A request that is answered later: everything needed for that, independent of the receive buffers.
pub(crate) struct LateRequest {
    query: QueryBuf,
    peer: SocketAddr,
    local: Option<SocketAddr>,
    transport: Transport,
    /// Signs the reply, if the request was signed.
    signer: Option<Box<ReplySigner>>,
    tls: Option<Arc<TlsPeer>>,
    view: ViewId,
    /// Where the reply goes, until it is sent.
    reply_to: Option<ReplyTo>,
    received: Instant,
}

impl LateRequest {
    pub(crate) fn new(request: &Request<'_>, reply_to: ReplyTo, received: Instant) -> Self {
        LateRequest {
            query: QueryBuf::from(request.query),
            peer: request.peer,
            local: request.local,
            transport: request.transport,
            signer: request.tsig.cloned().map(Box::new),
            tls: request.tls.cloned(),
            view: request.view,
            reply_to: Some(reply_to),
            received,
        }
    }

    /// Returns the query.
    pub(crate) fn query(&self) -> Query<'_> {
        self.query.as_query()
    }

    /// Rebuilds the request from the result of [`LateRequest::query`].
    pub(crate) fn request<'q>(&'q self, query: &'q Query<'q>) -> Request<'q> {
        Request {
            query,
            peer: self.peer,
            local: self.local,
            transport: self.transport,
            tsig: self.signer.as_deref(),
            tls: self.tls.as_ref(),
            view: self.view,
        }
    }

    /// Returns how its transport shapes a response.
    pub(crate) fn medium(&self) -> Medium {
        medium_of(self.transport)
    }

    /// Checks whether it was received as a datagram.
    pub(super) fn is_datagram(&self) -> bool {
        self.transport.protocol == Protocol::Udp
    }

    /// Returns the sender's address.
    pub(crate) fn client(&self) -> IpAddr {
        self.peer.ip()
    }

    /// Checks whether its sender no longer waits, given how long queries may wait here.
    fn is_outdated(&self, query_timeout: Duration, now: Instant) -> bool {
        let waited = now.saturating_duration_since(self.received);
        self.is_datagram() && waited >= query_timeout.max(CLIENT_WAITS)
    }

    /// Returns when it was received.
    pub(crate) fn received(&self) -> Instant {
        self.received
    }
}

/// A reply in the outbox, for the counters.
struct Leaving {
    done: Done,
    request: Box<LateRequest>,
}

/// Late replies of one thread: datagrams many at a time, stream messages at once.
pub(crate) struct LateReplies {
    outbox: Outbox,
    /// One entry per reply in the outbox.
    leaving: Vec<Leaving>,
    tap: Arc<ExchangeTap>,
}

impl LateReplies {
    pub(crate) fn new(tap: &Arc<ExchangeTap>) -> Self {
        LateReplies {
            outbox: Outbox::new(),
            leaving: Vec::new(),
            tap: Arc::clone(tap),
        }
    }

    /// Sends a reply: a datagram together with the next ones, at the latest by [`LateReplies::flush`].
    pub(crate) fn send(
        &mut self,
        shared: &ServingState,
        mut late: Box<LateRequest>,
        (reply, now): ((Reply, &[u8]), Instant),
        recorder: &mut Recorder,
    ) {
        if late.is_outdated(shared.live.query_timeout(), now) {
            recorder.add(Counter::TimedoutPackets, 1);
            return;
        }
        let mut truncated = [0; CODE_MAX];
        let Some((mut reply, octets)) = limit_late(shared, &late, reply, recorder, &mut truncated)
        else {
            return;
        };
        let mut padded = Vec::new();
        let octets = if is_padded(&late.query(), late.transport.protocol) {
            let reserved = late.query().reserved.into();
            padded.extend_from_slice(octets);
            padded.resize(octets.len() + 2 * PADDING_BLOCK + reserved, 0);
            reply = reply.with_len(pad_reply(&mut padded, octets.len(), reserved));
            &padded[..reply.len()]
        } else {
            octets
        };
        let mut signed = Vec::new();
        let octets = match late.signer.take() {
            None => octets,
            Some(mut signer) => {
                signed.extend_from_slice(octets);
                signer.sign(&mut signed, crate::sys::seconds_since_1970().into());
                reply = reply.with_len(signed.len());
                &signed[..]
            }
        };
        if self.tap.is_on() {
            tap_reply(shared, &self.tap, &late, octets);
        }
        let reply_to = late.reply_to.take();
        let leaving = Leaving {
            done: Done::new(reply, &late.query(), late.view),
            request: late,
        };
        match reply_to {
            Some(ReplyTo::Stream(ticket)) => {
                recorder.begin();
                ticket.deliver(octets);
                leaving.record(Instant::now(), recorder);
            }
            Some(ReplyTo::Datagram(path)) => {
                if self.outbox.push(path, octets) {
                    self.leaving.push(leaving);
                }
                if self.outbox.is_full() {
                    self.flush(recorder);
                }
            }
            None => {}
        }
    }

    /// Sends the replies that are still queued.
    pub(crate) fn flush(&mut self, recorder: &mut Recorder) {
        if self.outbox.is_empty() {
            return;
        }
        recorder.begin();
        let sent = self.outbox.flush();
        let now = Instant::now();
        for (i, leaving) in self.leaving.drain(..).enumerate() {
            if sent & (1 << i) != 0 {
                leaving.record(now, recorder);
            }
        }
    }
}

/// Passes a late reply to the query log and dnstap. Its request was passed on before.
#[cold]
fn tap_reply(shared: &ServingState, tap: &ExchangeTap, late: &LateRequest, octets: &[u8]) {
    let zones = shared.zones.load();
    let replied = SystemTime::now();
    let received = replied.checked_sub(late.received.elapsed());
    tap.pass(&Exchange {
        protocol: late.transport.protocol,
        client: late.peer,
        local: late.local,
        view: zones.views().and_then(|views| views.name(late.view)),
        query: None,
        reply: Some(octets),
        received: received.unwrap_or(replied),
        replied,
    });
}

impl Leaving {
    /// Counts the reply as sent.
    fn record(&self, now: Instant, recorder: &mut Recorder) {
        let Leaving { done, request } = self;
        let query = request.query();
        let qname = &query.packet()[HEADER..HEADER + done.qname_len()];
        record_answer(recorder, done, request.transport, request.client(), qname);
        let waited = now.saturating_duration_since(request.received);
        recorder.answered_after(waited.as_nanos() as u64);
    }
}

/// The way back to the sender of a request, for components that reply later.
pub struct ReplyPath<'w> {
    shared: &'w Arc<ServingState>,
    request: &'w Request<'w>,
    reply_to: &'w mut dyn FnMut() -> Option<ReplyTo>,
}

impl<'w> ReplyPath<'w> {
    pub(super) fn new(
        shared: &'w Arc<ServingState>,
        request: &'w Request<'w>,
        reply_to: &'w mut dyn FnMut() -> Option<ReplyTo>,
    ) -> Self {
        ReplyPath {
            shared,
            request,
            reply_to,
        }
    }

    /// Returns the state that all workers share.
    pub fn shared(&self) -> &Arc<ServingState> {
        self.shared
    }

    /// Takes the way back, once; `None` if there is none. Its holder answers in place of the verdict
    /// ([`crate::request::Verdict::Later`]).
    pub fn take(&mut self) -> Option<LateReply> {
        let reply_to = (self.reply_to)()?;
        Some(LateReply {
            shared: Arc::clone(self.shared),
            late: Box::new(LateRequest::new(self.request, reply_to, Instant::now())),
        })
    }
}

/// The right to reply to one request later. If it is dropped, the request stays unanswered.
pub struct LateReply {
    shared: Arc<ServingState>,
    late: Box<LateRequest>,
}

impl LateReply {
    /// Sends the reply: a complete message and its response code. One that is longer than the transport allows is not
    /// sent.
    pub fn send(self, octets: &[u8], rcode: Rcode) {
        let reply = Reply::new(octets.len(), rcode, AnswerKind::Other);
        self.deliver((reply, octets), &[]);
    }

    /// Sends a reply that consists of a response code and, optionally, an extended error (RFC 8914), and adds to the
    /// given counters.
    pub fn send_code(self, code: (Rcode, Option<u16>), counted: &[(Counter, u64)]) {
        let mut out = [0; CODE_MAX];
        let engine = self.shared.engine.load();
        let (query, medium) = (self.late.query(), self.late.medium());
        let reply = engine.respond_with_code(&query, code, medium, &mut out);
        self.deliver((reply, &out[..reply.len()]), counted);
    }

    /// Sends a reply that has its own counter.
    pub(crate) fn send_counted(self, octets: &[u8], reply: Reply, counter: Counter) {
        self.deliver((reply, octets), &[(counter, 1)]);
    }

    /// Returns the query.
    pub(crate) fn query(&self) -> Query<'_> {
        self.late.query()
    }

    /// Returns how the transport shapes the reply.
    pub(crate) fn medium(&self) -> Medium {
        self.late.medium()
    }

    /// Returns the engine whose policy the reply follows.
    pub(crate) fn engine(&self) -> Arc<Engine> {
        self.shared.engine.load_full()
    }

    /// Relays the reply of another server unchanged: if it is signed, then for the client. Adds to the given
    /// counters.
    pub fn relay(mut self, octets: &[u8], rcode: Rcode, counted: &[(Counter, u64)]) {
        self.late.signer = None;
        let reply = Reply::new(octets.len(), rcode, AnswerKind::Other);
        self.deliver((reply, octets), counted);
    }

    fn deliver(self, reply: (Reply, &[u8]), counted: &[(Counter, u64)]) {
        let mut sender = self.shared.late.lock();
        let sender = sender.get_or_insert_with(|| {
            Box::new(LateSender {
                recorder: self.shared.stats.recorder(),
                replies: LateReplies::new(&self.shared.tap),
            })
        });
        let recorder = &mut sender.recorder;
        for (counter, number) in counted {
            recorder.add(*counter, *number);
        }
        sender
            .replies
            .send(&self.shared, self.late, (reply, Instant::now()), recorder);
        sender.replies.flush(recorder);
        recorder.flush(Stamp::now(), None);
    }
}

/// Sends the late replies of components without a thread of their own.
pub(super) struct LateSender {
    recorder: Recorder,
    replies: LateReplies,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_not_answered_when_its_sender_no_longer_waits() {
        let packet = [0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1];
        let peer: SocketAddr = "192.0.2.1:53".parse().unwrap();
        let is_outdated = |protocol, age: u64, timeout: u64| {
            let request = Request {
                query: &Query::parse(&packet).unwrap(),
                peer,
                local: None,
                transport: Transport::to(protocol, peer.ip()),
                tsig: None,
                tls: None,
                view: ViewId::DEFAULT,
            };
            let received = Instant::now();
            let reply_to = ReplyTo::Stream(Ticket::disconnected());
            let late = LateRequest::new(&request, reply_to, received);
            let now = received + Duration::from_secs(age);
            late.is_outdated(Duration::from_secs(timeout), now)
        };
        assert!(!is_outdated(Protocol::Udp, 3, 1));
        assert!(is_outdated(Protocol::Udp, 6, 1));
        assert!(!is_outdated(Protocol::Udp, 6, 60));
        assert!(!is_outdated(Protocol::Tcp, 60, 1));
    }
}
