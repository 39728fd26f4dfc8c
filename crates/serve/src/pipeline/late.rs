//! Requests whose replies come later than their batch or turn, and the way back to those who sent them.
//!
//! Only what an answer depends on is kept of a request, however long its packet was. A reply that comes later is counted
//! when it leaves, with the time that its sender waited.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError};
use std::time::{Instant, SystemTime};

use nameward_answer::{AnswerKind, Engine, Medium, Reply};
use nameward_dnssec::tsig::ReplySigner;
use nameward_stats::{Counter, Recorder, Stamp, Transport};
use nameward_wire::Rcode;
use nameward_wire::message::{HEADER, Query, QueryBuf};

use super::ServingState;
use super::record::{Done, record_answer};
use crate::request::{Request, ViewId, medium_of};
use crate::sys::outbox::Outbox;
use crate::tap::{Exchange, ExchangeTap};
use crate::tcp::Ticket;
use crate::udp::ReturnPath;

/// Room for a reply that is only a code: header, question and OPT record.
const CODE_MAX: usize = 512;

/// Where a reply goes.
pub(crate) enum ReplyTo {
    Datagram(Box<ReturnPath>),
    Stream(Ticket),
}

/// A request that is answered later: all that is needed for that, apart from the buffers it came in.
pub(crate) struct LateRequest {
    query: QueryBuf,
    peer: SocketAddr,
    local: Option<SocketAddr>,
    transport: Transport,
    /// Signs the reply, if the request was signed.
    signer: Option<Box<ReplySigner>>,
    view: ViewId,
    reply_to: ReplyTo,
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
            view: request.view,
            reply_to,
            received,
        }
    }

    /// The question again.
    pub(crate) fn query(&self) -> Query<'_> {
        self.query.as_query()
    }

    /// The request again, with what [`LateRequest::query`] gave.
    pub(crate) fn request<'q>(&'q self, query: &'q Query<'q>) -> Request<'q> {
        Request {
            query,
            peer: self.peer,
            local: self.local,
            transport: self.transport,
            tsig: self.signer.as_deref(),
            view: self.view,
        }
    }

    /// How its transport shapes an answer.
    pub(crate) fn medium(&self) -> Medium {
        medium_of(self.transport)
    }

    /// Who sent it.
    pub(crate) fn client(&self) -> IpAddr {
        self.peer.ip()
    }

    /// When it was received.
    pub(crate) fn received(&self) -> Instant {
        self.received
    }
}

/// A reply in the outbox, for the counters.
struct Leaving {
    done: Done,
    transport: Transport,
    client: IpAddr,
    received: Instant,
    query: QueryBuf,
}

/// Replies of one thread that leave later than their batch: datagrams many at a time, messages of streams at once.
pub(crate) struct LateReplies {
    outbox: Outbox,
    /// One for each reply in the outbox.
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

    /// Lets a reply go: a datagram with the next ones, at the latest with [`LateReplies::flush`].
    pub(crate) fn send(
        &mut self,
        mut late: LateRequest,
        (mut reply, octets): (Reply, &[u8]),
        recorder: &mut Recorder,
    ) {
        let mut signed = Vec::new();
        let octets = match late.signer.take() {
            None => octets,
            Some(mut signer) => {
                signed.extend_from_slice(octets);
                signer.sign(&mut signed, crate::sys::seconds_since_1970().into());
                reply.len = signed.len();
                &signed[..]
            }
        };
        if self.tap.is_on() {
            tap_reply(&self.tap, &late, octets);
        }
        let leaving = Leaving {
            done: Done::new(reply, &late.query()),
            transport: late.transport,
            client: late.peer.ip(),
            received: late.received,
            query: late.query,
        };
        match late.reply_to {
            ReplyTo::Stream(ticket) => {
                recorder.begin();
                ticket.deliver(octets);
                record(&leaving, recorder);
            }
            ReplyTo::Datagram(path) => {
                if self.outbox.push(*path, octets) {
                    self.leaving.push(leaving);
                }
                if self.outbox.is_full() {
                    self.flush(recorder);
                }
            }
        }
    }

    /// Sends what has not left yet.
    pub(crate) fn flush(&mut self, recorder: &mut Recorder) {
        if self.outbox.is_empty() {
            return;
        }
        recorder.begin();
        let sent = self.outbox.flush();
        for (i, leaving) in self.leaving.drain(..).enumerate() {
            if sent & (1 << i) != 0 {
                record(&leaving, recorder);
            }
        }
    }
}

/// Hands a reply that leaves later than its batch to whoever writes exchanges down. Its request was handed over before.
#[cold]
fn tap_reply(tap: &ExchangeTap, late: &LateRequest, octets: &[u8]) {
    let replied = SystemTime::now();
    let received = replied.checked_sub(late.received.elapsed());
    tap.pass(&Exchange {
        protocol: late.transport.protocol,
        client: late.peer,
        local: late.local,
        query: None,
        reply: Some(octets),
        received: received.unwrap_or(replied),
        replied,
    });
}

fn record(leaving: &Leaving, recorder: &mut Recorder) {
    let Leaving { done, query, .. } = leaving;
    let query = query.as_query();
    let qname = &query.packet()[HEADER..HEADER + done.qname_len()];
    record_answer(recorder, done, leaving.transport, leaving.client, qname);
    recorder.answered_after(leaving.received.elapsed().as_nanos() as u64);
}

/// The way back to the sender of a request, for those who reply later.
pub struct WayBack<'w> {
    shared: &'w Arc<ServingState>,
    request: &'w Request<'w>,
    reply_to: &'w mut dyn FnMut() -> Option<ReplyTo>,
}

impl<'w> WayBack<'w> {
    pub(super) fn new(
        shared: &'w Arc<ServingState>,
        request: &'w Request<'w>,
        reply_to: &'w mut dyn FnMut() -> Option<ReplyTo>,
    ) -> Self {
        WayBack {
            shared,
            request,
            reply_to,
        }
    }

    /// Returns what all workers share.
    pub(crate) fn shared(&self) -> &Arc<ServingState> {
        self.shared
    }

    /// Takes the way back, once; `None` where there is none. Whoever has it answers instead of the verdict
    /// ([`crate::request::Verdict::Later`]).
    pub fn take(&mut self) -> Option<LateReply> {
        let reply_to = (self.reply_to)()?;
        Some(LateReply {
            shared: Arc::clone(self.shared),
            late: LateRequest::new(self.request, reply_to, Instant::now()),
        })
    }
}

/// The right to reply to one request later. Dropped, it stays unanswered.
pub struct LateReply {
    shared: Arc<ServingState>,
    late: LateRequest,
}

impl LateReply {
    /// Sends the reply: a complete message, and the response code that it has. One that is longer than the transport
    /// takes is not sent.
    pub fn send(self, octets: &[u8], rcode: Rcode) {
        let reply = Reply {
            len: octets.len(),
            rcode,
            outcome: AnswerKind::Other,
            truncated: false,
            zone_found: None,
        };
        self.deliver((reply, octets), &[]);
    }

    /// Sends a reply that is no more than a response code and, if there is one, an extended error (RFC 8914), and counts
    /// what came of the request.
    pub fn send_code(self, code: (Rcode, Option<u16>), counted: &[(Counter, u64)]) {
        let mut out = [0; CODE_MAX];
        let engine = self.shared.engine.load();
        let (query, medium) = (self.late.query(), self.late.medium());
        let reply = engine.respond_with_code(&query, code, medium, &mut out);
        self.deliver((reply, &out[..reply.len]), counted);
    }

    /// Sends a reply that a counter of its own counts.
    pub(crate) fn send_counted(self, octets: &[u8], reply: Reply, counter: Counter) {
        self.deliver((reply, octets), &[(counter, 1)]);
    }

    /// Returns the question.
    pub(crate) fn query(&self) -> Query<'_> {
        self.late.query()
    }

    /// Returns how the transport shapes the reply.
    pub(crate) fn medium(&self) -> Medium {
        self.late.medium()
    }

    /// Returns the policy that the reply follows.
    pub(crate) fn engine(&self) -> Arc<Engine> {
        self.shared.engine.load_full()
    }

    /// Passes the reply of another server on as it came: if it is signed, then for the client. Counts what came of it.
    pub fn relay(mut self, octets: &[u8], rcode: Rcode, counted: &[(Counter, u64)]) {
        self.late.signer = None;
        let reply = Reply {
            len: octets.len(),
            rcode,
            outcome: AnswerKind::Other,
            truncated: false,
            zone_found: None,
        };
        self.deliver((reply, octets), counted);
    }

    fn deliver(self, reply: (Reply, &[u8]), counted: &[(Counter, u64)]) {
        let mut sender = self
            .shared
            .late
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
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
        sender.replies.send(self.late, reply, recorder);
        sender.replies.flush(recorder);
        recorder.flush(Stamp::now(), None);
    }
}

/// Sends the replies of those who have no thread of their own.
pub(super) struct LateSender {
    recorder: Recorder,
    replies: LateReplies,
}
