//! One request from its question to its verdict: policy, opcode, view, cache, engine.
//!
//! | step | here | verdict |
//! |---|---|---|
//! | TSIG | a record that is no good | NOTAUTH or FORMERR ([`super::signed`]) |
//! | policy | clients in the blackhole; clients that the zone's access list does not have | drop; REFUSED |
//! | opcode | other than QUERY, transfers, later versions of EDNS | of a [`ZoneRequests`](crate::request::ZoneRequests), or a code |
//! | view | one for all: [`ViewId::DEFAULT`](crate::request::ViewId) | |
//! | engine | zones in memory | reply |
//! | cache | zones that are looked up: packet cache, query cache | reply |
//! | look-up | nothing is known yet | later; none is free: drop over UDP, SERVFAIL over a stream |
//! | alias | an ALIAS record has a target that no zone here has, and that is not known | later; none is free: as for a look-up |
//! | recursor | no zone is for the name, RD is set, and the client may have recursion | later; too many wait: SERVFAIL |
//! | signing | a signature is not in the cache | later; too much waits: TC over UDP, SERVFAIL over a stream |
//!
//! Zones in memory do not go through the packet cache, because making an answer costs no more than finding one.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use nameward_answer::{AnswerKind, BackendFailure, Engine, Medium, Reply, Scratch};
use nameward_dnssec::tsig::ReplySigner;
use nameward_stats::{Counter, Recorder, Transport};
use nameward_wire::message::{Malformed, Query};
use nameward_wire::{Opcode, Rcode, Type};
use nameward_zone::{NameKey, ZoneMatch, ZoneTable};

use super::late::{LateRequest, ReplyTo, WayBack};
use super::record::{record_malformed, record_received, record_signatures};
use super::{ServingState, Snapshots};
use crate::access::ClientZones;
use crate::live::{Attempt, Keeping, Lacking, Parts, Tried, WaitingQuestion, join_lookup};
use crate::recursor::{HandOff, offer_recursion};
use crate::request::{Request, Verdict, ViewId, extended_error, medium_of};
use crate::signing::SigningPlace;

/// One snapshot of the zones and the tools of one thread: all that decides requests for the time of one batch, or of
/// one message.
pub(crate) struct Turn<'t> {
    pub(crate) shared: &'t Arc<ServingState>,
    pub(crate) engine: &'t Engine,
    pub(crate) zones: &'t ZoneTable,
    pub(crate) recorder: &'t mut Recorder,
    pub(crate) scratch: &'t mut Scratch,
    hand_off: Option<&'t Arc<HandOff>>,
    /// Read when the first live zone is asked for: others need no clock.
    now: Option<Instant>,
}

/// Why a question may not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitRefusal {
    /// Too many wait for a backend or a resolver.
    Overload,
    /// Too many wait for signatures.
    Signing,
}

/// A request as its transport has it.
pub(crate) trait Arrival {
    /// Who sent it.
    fn peer(&self) -> SocketAddr;
    /// The address that it came to, if that is known.
    fn local(&self) -> Option<SocketAddr>;
    /// How it came.
    fn transport(&self) -> Transport;
    /// Where the reply goes if it comes later. Asked for once at the most.
    fn reply_to(&mut self) -> Option<ReplyTo>;

    /// All of it.
    #[cold]
    fn request<'q>(&self, query: &'q Query<'q>, tsig: Option<&'q ReplySigner>) -> Request<'q> {
        Request {
            query,
            peer: self.peer(),
            local: self.local(),
            transport: self.transport(),
            tsig,
            view: ViewId::DEFAULT,
        }
    }
}

/// The zone of a question with its access list, and the question's name as a key.
pub(crate) type Asked<'a> = (&'a NameKey, Option<ZoneMatch<'a>>);

impl<'t> Turn<'t> {
    #[inline]
    pub(crate) fn new(
        shared: &'t Arc<ServingState>,
        snapshots: &'t mut Snapshots,
        recorder: &'t mut Recorder,
        scratch: &'t mut Scratch,
    ) -> Self {
        scratch.set_now(crate::sys::seconds_since_1970());
        scratch.set_making(shared.signing.making_of_others());
        Turn {
            shared,
            engine: snapshots.engine.load(),
            zones: snapshots.zones.load(),
            hand_off: snapshots.hand_off.load().as_ref(),
            recorder,
            scratch,
            now: None,
        }
    }

    /// Decides a request. The whole [`Request`] is put together only where a question has no plain answer.
    #[inline]
    pub(crate) fn decide(
        &mut self,
        query: &Query<'_>,
        arrival: &mut impl Arrival,
        asked: Asked<'_>,
        out: &mut [u8],
    ) -> Verdict {
        let (peer, transport) = (arrival.peer(), arrival.transport());
        record_received(self.recorder, query, transport, peer.ip());
        match query.is_plain {
            true => self.decide_verified((query, None), arrival, asked, out),
            false => self.decide_extended(query, arrival, asked, out),
        }
    }

    /// Decides a request that is not signed, or whose signature was verified.
    #[inline]
    pub(super) fn decide_verified(
        &mut self,
        request: (&Query<'_>, Option<&ReplySigner>),
        arrival: &mut impl Arrival,
        asked: Asked<'_>,
        out: &mut [u8],
    ) -> Verdict {
        let verdict = self.decide_here(request, arrival, asked, out);
        let client = arrival.peer().ip();
        match self.hand_off.filter(|hand_off| hand_off.serves(client)) {
            None => verdict,
            Some(hand_off) => self.decide_with(hand_off, verdict, request, (arrival, out)),
        }
    }

    /// Decides a request from the zones that are here.
    #[inline]
    fn decide_here(
        &mut self,
        (query, tsig): (&Query<'_>, Option<&ReplySigner>),
        arrival: &mut impl Arrival,
        asked: Asked<'_>,
        out: &mut [u8],
    ) -> Verdict {
        let (peer, transport) = (arrival.peer(), arrival.transport());
        if !is_question(query) {
            let request = arrival.request(query, tsig);
            return self.decide_other(&request, &mut || arrival.reply_to(), out);
        }
        let medium = medium_of(transport);
        let zones = self.zones_of(peer.ip());
        let (key, found) = asked;
        if let Some(found) = found
            && !self.zones.allows(found, zones.client)
        {
            return Verdict::Reply(self.engine.respond_denied(query, medium, out));
        }
        let zone = found.map(|found| found.zone);
        let reply = self
            .engine
            .respond(&zones, query, (key, zone), medium, self.scratch, out);
        if reply.comes_later() {
            let request = arrival.request(query, tsig);
            let reply_to = &mut || arrival.reply_to();
            return self.decide_later(&request, (asked, reply), reply_to, out);
        }
        Verdict::Reply(reply)
    }

    /// Decides for a client that may have recursion: what no zone here has goes to a resolver if the client wants that, and
    /// every other answer says that there is recursion.
    #[cold]
    fn decide_with(
        &mut self,
        hand_off: &Arc<HandOff>,
        verdict: Verdict,
        (query, tsig): (&Query<'_>, Option<&ReplySigner>),
        (arrival, out): (&mut impl Arrival, &mut [u8]),
    ) -> Verdict {
        let reply = match verdict {
            Verdict::Reply(reply) if query.opcode == Opcode::QUERY => reply,
            other => return other,
        };
        if reply.outcome != AnswerKind::NotOurs || !query.rd() {
            offer_recursion(out);
            return Verdict::Reply(reply);
        }
        let request = arrival.request(query, tsig);
        let reply_to = &mut || arrival.reply_to();
        let mut way_back = WayBack::new(self.shared, &request, reply_to);
        if hand_off.hand_over(&request, &mut way_back).is_ok() {
            self.recorder.add(Counter::RecursingQuestions, 1);
            return Verdict::Later;
        }
        let code = (Rcode::ServFail, Some(extended_error::NETWORK_ERROR));
        let failed = self
            .engine
            .respond_with_code(query, code, request.medium(), out);
        offer_recursion(out);
        Verdict::Reply(Reply {
            zone_found: reply.zone_found,
            ..failed
        })
    }

    /// The zones that a client may ask.
    #[inline]
    fn zones_of(&self, client: IpAddr) -> ClientZones<'t> {
        ClientZones {
            table: self.zones,
            client,
        }
    }

    /// Whether packets of this client are dropped, whatever they are; counts one if so.
    #[inline]
    pub(crate) fn drops(&mut self, peer: SocketAddr) -> bool {
        let list = self.zones.blackhole();
        let is_dropped = list.is_some_and(|list| list.contains(peer.ip()));
        if is_dropped {
            self.recorder.add(Counter::BlackholeDrops, 1);
        }
        is_dropped
    }

    /// Decides a request that is no question for records.
    #[cold]
    fn decide_other(
        &mut self,
        request: &Request<'_>,
        reply_to: &mut dyn FnMut() -> Option<ReplyTo>,
        out: &mut [u8],
    ) -> Verdict {
        let query = request.query;
        let limit = self.engine.limit(query, request.medium()).min(out.len());
        let out = &mut out[..limit];
        let mut way_back = WayBack::new(self.shared, request, reply_to);
        let requests = self.shared.zone_requests();
        let verdict = match query.opcode {
            // RFC 6891 section 6.1.3: nothing of a later version is understood.
            _ if has_later_edns(query) => Verdict::Code(Rcode::BadVers, None),
            Opcode::QUERY => requests.transfer(request, &mut way_back, out),
            Opcode::NOTIFY => {
                self.recorder.add(Counter::IncomingNotifications, 1);
                requests.notify(request, &mut way_back, out)
            }
            Opcode::UPDATE => {
                self.recorder.add(Counter::DnsupdateQueries, 1);
                requests.update(request, &mut way_back, out)
            }
            _ => Verdict::Code(Rcode::NotImp, Some(extended_error::NOT_SUPPORTED)),
        };
        let verdict = self.write_code(verdict, request, out);
        if let (Opcode::UPDATE, Verdict::Reply(reply)) = (query.opcode, &verdict) {
            self.recorder.add(
                match reply.rcode {
                    Rcode::NoError => Counter::DnsupdateAnswers,
                    _ => Counter::DnsupdateRefused,
                },
                1,
            );
        }
        verdict
    }

    /// Writes the reply of a verdict that is only a code. Many messages do not fit into a datagram.
    fn write_code(&self, verdict: Verdict, request: &Request<'_>, out: &mut [u8]) -> Verdict {
        let medium = request.medium();
        let (rcode, error) = match verdict {
            Verdict::Code(rcode, error) => (rcode, error),
            Verdict::Stream(_) if medium == Medium::Datagram => (Rcode::Refused, None),
            other => return other,
        };
        let engine = self.engine;
        Verdict::Reply(engine.respond_with_code(request.query, (rcode, error), medium, out))
    }

    /// Decides a question whose answer needs a live zone, or signatures: from the caches, or after a look-up, or after
    /// signing. `reply` is what the engine said of it.
    #[inline(never)]
    fn decide_later(
        &mut self,
        request: &Request<'_>,
        (asked, reply): (Asked<'_>, Reply),
        reply_to: &mut dyn FnMut() -> Option<ReplyTo>,
        out: &mut [u8],
    ) -> Verdict {
        // The time of one look-up in the cache stands for all of a batch.
        let is_timed = self.now.is_none();
        let now = *self.now.get_or_insert_with(Instant::now);
        let attempt = self.attempt(request, asked, now);
        let mut parts = Parts::new();
        if reply.outcome == AnswerKind::Pending
            && let Some(reply) = attempt.ask_packet_cache(self.recorder, is_timed, out)
        {
            return Verdict::Reply(reply);
        }
        let tried = match reply.outcome {
            AnswerKind::Unsigned => Tried::Waits(Lacking::Signatures(attempt.place_for_signing())),
            _ => attempt.run(&mut parts, self.scratch, self.recorder, out),
        };
        let lacking = match tried {
            Tried::Answered(reply) => return Verdict::Reply(reply),
            Tried::Waits(lacking) => lacking,
        };
        let Some(reply_to) = reply_to() else {
            return Verdict::Drop;
        };
        let question = WaitingQuestion {
            request: Box::new(LateRequest::new(request, reply_to, now)),
            parts: parts.into_iter().collect(),
        };
        match self.wait_for(lacking, question) {
            Ok(()) => Verdict::Later,
            Err((_, refusal)) => self.refuse_to_wait(refusal, request, out),
        }
    }

    /// Lets a question wait for what its answer lacks; gives it back if too much waits already.
    pub(crate) fn wait_for(
        &mut self,
        lacking: Lacking,
        question: WaitingQuestion,
    ) -> Result<(), (WaitingQuestion, WaitRefusal)> {
        let (waits, refusal) = match lacking {
            Lacking::Part(lookup) => {
                let waits = join_lookup(self.shared, lookup, question);
                (waits, WaitRefusal::Overload)
            }
            Lacking::Addresses(target) => {
                let waits = match self.shared.aliases() {
                    Some(aliases) => aliases.wait(target, question),
                    None => Err(question),
                };
                (waits, WaitRefusal::Overload)
            }
            Lacking::Signatures(place) => {
                let waits = self.wait_for_signatures(place, question);
                (waits, WaitRefusal::Signing)
            }
        };
        waits.map_err(|question| (question, refusal))
    }

    /// Decides a question that may not wait.
    pub(crate) fn refuse_to_wait(
        &mut self,
        refusal: WaitRefusal,
        request: &Request<'_>,
        out: &mut [u8],
    ) -> Verdict {
        match refusal {
            WaitRefusal::Overload => self.turn_away(request, out),
            WaitRefusal::Signing => self.refuse_signing(request, out),
        }
    }

    /// Lets a question wait for signatures; gives it back if too much waits already.
    fn wait_for_signatures(
        &mut self,
        place: SigningPlace,
        question: WaitingQuestion,
    ) -> Result<(), WaitingQuestion> {
        self.shared.signing.push(place, question)?;
        self.recorder.add(Counter::SigningWaits, 1);
        Ok(())
    }

    /// Decides a question that cannot wait for signatures: a datagram gets TC, so that its client
    /// comes back over TCP, a stream gets SERVFAIL.
    fn refuse_signing(&mut self, request: &Request<'_>, out: &mut [u8]) -> Verdict {
        self.recorder.add(Counter::SigningRefusals, 1);
        match request.medium() {
            Medium::Datagram => Verdict::Reply(self.engine.respond_truncated(request.query, out)),
            Medium::Stream => self.fail(request, BackendFailure::NotReady, out),
        }
    }

    /// One try to answer a question for live zones from what is in memory.
    pub(crate) fn attempt<'a>(
        &self,
        request: &Request<'a>,
        (key, found): Asked<'a>,
        now: Instant,
    ) -> Attempt<'a>
    where
        't: 'a,
    {
        Attempt {
            live: &self.shared.live,
            aliases: self.shared.aliases(),
            engine: self.engine,
            zones: self.zones_of(request.peer.ip()),
            query: request.query,
            key,
            own: found
                .and_then(|found| found.zone.live())
                .map(|live| &**live),
            view: request.view,
            medium: request.medium(),
            now,
            keeping: Keeping::All,
        }
    }

    /// Decides a question for which there is no room: a datagram is dropped, a stream gets SERVFAIL, so that
    /// its client does not wait in vain.
    pub(crate) fn turn_away(&mut self, request: &Request<'_>, out: &mut [u8]) -> Verdict {
        match request.medium() {
            Medium::Datagram => {
                self.recorder.add(Counter::OverloadDrops, 1);
                Verdict::Drop
            }
            Medium::Stream => self.fail(request, BackendFailure::Unreachable, out),
        }
    }

    /// Decides a question whose contents a backend did not give.
    pub(crate) fn fail(
        &self,
        request: &Request<'_>,
        failure: BackendFailure,
        out: &mut [u8],
    ) -> Verdict {
        let (query, medium) = (request.query, request.medium());
        Verdict::Reply(
            self.engine
                .respond_with_failure(query, failure, medium, out),
        )
    }

    /// Decides a packet that is no request.
    pub(crate) fn decide_malformed(
        &mut self,
        packet: &[u8],
        malformed: Malformed,
        peer: SocketAddr,
        out: &mut [u8],
    ) -> Option<Reply> {
        record_malformed(self.recorder, malformed, peer.ip());
        self.engine.respond_to_malformed(packet, malformed, out)
    }
}

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        record_signatures(self.recorder, self.scratch);
    }
}

/// Whether a request asks for records of a zone, or for something that the engine knows without one.
#[inline]
fn is_question(query: &Query<'_>) -> bool {
    query.opcode == Opcode::QUERY
        && !matches!(query.qtype, Type::AXFR | Type::IXFR)
        && !has_later_edns(query)
}

#[inline]
fn has_later_edns(query: &Query<'_>) -> bool {
    query.edns.is_some_and(|edns| edns.version > 0)
}
