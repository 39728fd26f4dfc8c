//! One request from its query to its verdict: policy, opcode, view, cache, engine.
//!
//! | step | here | verdict |
//! |---|---|---|
//! | TSIG | the record fails verification | NOTAUTH or FORMERR ([`super::signed`]) |
//! | cookie | required over UDP, and missing or not valid | TC; BADCOOKIE ([`super::cookies`]) |
//! | policy | clients in the blackhole; clients not in the access list of the listener or of the zone | drop; REFUSED |
//! | opcode | other than QUERY, transfers, unknown EDNS versions | from a [`ZoneRequests`](crate::request::ZoneRequests), or a code |
//! | view | by TSIG key, listener or client network, if there are views ([`super::views`]) | |
//! | engine | zones in memory | reply |
//! | cache | zones that are looked up: packet cache, query cache | reply |
//! | look-up | not cached | later; none is free: drop over UDP, SERVFAIL over a stream |
//! | alias | an ALIAS target is outside our zones and not cached | later; none is free: as for a look-up |
//! | recursor | no zone matches, RD is set, and the client is allowed recursion | later; too many wait: SERVFAIL |
//! | rate limit | the client's network gets too many such answers over UDP | drop; TC ([`super::limit`]) |
//! | signing | a signature is not in the cache | later; queue full: TC over UDP, SERVFAIL over a stream |
//!
//! Zones in memory bypass the packet cache: once a query is parsed, building an answer costs no more than finding one. Datagrams that
//! repeat a query are answered before that ([`super::recent`]).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use nameward_answer::{AnswerKind, Engine, Medium, Reply, Scratch};
use nameward_dnssec::tsig::ReplySigner;
use nameward_stats::{Counter, Protocol, Recorder, Transport};
use nameward_steering::pools::PreparedPools;
use nameward_wire::message::{Malformed, Query};
use nameward_wire::{Name, Opcode, Rcode, Type};
use nameward_zone::{AccessClient, NameKey, ZoneMatch, ZoneTable};

use super::late::{ReplyPath, ReplyTo};
use super::limit::Limits;
use super::record::{record_malformed, record_received, record_signatures};
use super::{ServingState, Snapshots};
use crate::access::ClientZones;
use crate::cookies::Cookies;
use crate::listener::ListenerRules;
use crate::recursor::{RecursorForwarder, offer_recursion};
use crate::request::{Request, TlsPeer, Verdict, ViewId, extended_error, medium_of};

/// The rules of a listener without any.
static NO_RULES: ListenerRules = ListenerRules::NONE;

/// One snapshot of the zones and one thread's tools: everything that decides requests for one batch or one message.
pub(crate) struct Turn<'t> {
    pub(crate) shared: &'t Arc<ServingState>,
    pub(crate) engine: &'t Engine,
    pub(crate) zones: &'t ZoneTable,
    pools: &'t PreparedPools,
    pub(crate) recorder: &'t mut Recorder,
    pub(crate) scratch: &'t mut Scratch,
    pub(super) cookies: Option<&'t Cookies>,
    /// Queries over UDP need a valid cookie.
    pub(super) demands_cookies: bool,
    pub(super) limits: Option<Limits<'t>>,
    /// The rules of the listener; requests that are answered late have passed them.
    pub(super) rules: &'t ListenerRules,
    pub(super) hand_off: Option<&'t Arc<RecursorForwarder>>,
    /// The client of the encrypted connection whose message this turn decides.
    pub(super) tls: Option<&'t Arc<TlsPeer>>,
    /// The view of the request that is decided.
    pub(crate) view: ViewId,
    /// Requests in that view that are not counted yet.
    pub(super) in_view: u32,
    /// Read for the first query to a live zone; others need no clock.
    pub(super) now: Option<Instant>,
    /// The zones and the engine with their owners.
    pub(super) snapshot: (&'t Arc<ZoneTable>, &'t Arc<Engine>),
    /// The reply was written from zones in memory by the engine alone. Set by [`Turn::decide`], cleared by its caller.
    pub(super) is_from_memory: bool,
}

/// A request as its transport sees it.
pub(crate) trait Arrival {
    /// Returns the sender's address.
    fn peer(&self) -> SocketAddr;
    /// Returns the address it was sent to, if known.
    fn local(&self) -> Option<SocketAddr>;
    /// Returns the transport it was received over.
    fn transport(&self) -> Transport;
    /// Returns where to send a late reply. Called at most once.
    fn reply_to(&mut self) -> Option<ReplyTo>;

    /// Returns how long its connection may be idle, in units of 100 milliseconds (RFC 7828); `None` for a datagram.
    fn keepalive(&self) -> Option<u16> {
        None
    }

    /// Builds the full request.
    #[cold]
    fn request<'q>(
        &self,
        (query, tsig): (&'q Query<'q>, Option<&'q ReplySigner>),
        (tls, view): (Option<&'q Arc<TlsPeer>>, ViewId),
    ) -> Request<'q> {
        Request {
            query,
            peer: self.peer(),
            local: self.local(),
            transport: self.transport(),
            tsig,
            tls,
            view,
        }
    }
}

/// The query name as a key, and the zone that matches it with its access list.
pub(crate) type QueriedName<'a> = (&'a NameKey, Option<ZoneMatch<'a>>);

impl<'t> Turn<'t> {
    #[inline]
    pub(crate) fn new(
        shared: &'t Arc<ServingState>,
        snapshots: &'t mut Snapshots,
        recorder: &'t mut Recorder,
        scratch: &'t mut Scratch,
    ) -> Self {
        scratch.set_now(crate::sys::seconds_since_1970());
        scratch.set_making(shared.signing.making_in_workers());
        let (zones, engine) = (snapshots.zones.load(), snapshots.engine.load());
        Turn {
            shared,
            engine,
            zones,
            snapshot: (zones, engine),
            is_from_memory: false,
            pools: snapshots.pools.load(),
            cookies: snapshots.cookies.load().as_deref(),
            demands_cookies: false,
            limits: snapshots.rate_limiter.load().as_deref().map(Limits::new),
            rules: &NO_RULES,
            hand_off: snapshots.hand_off.load().as_ref(),
            tls: None,
            view: ViewId::DEFAULT,
            in_view: 0,
            recorder,
            scratch,
            now: None,
        }
    }

    /// Decides a request. The full [`Request`] is built only if a query has no plain answer.
    #[inline]
    pub(crate) fn decide(
        &mut self,
        query: &Query<'_>,
        arrival: &mut impl Arrival,
        queried: QueriedName<'_>,
        out: &mut [u8],
    ) -> Verdict {
        let (peer, transport) = (arrival.peer(), arrival.transport());
        record_received(self.recorder, query, transport, peer.ip());
        if query.is_plain && !self.demands_cookies {
            self.decide_verified((query, None), arrival, queried, out)
        } else {
            self.decide_extended(query, arrival, queried, out)
        }
    }

    /// Decides a request that is unsigned, or whose signature was verified.
    #[inline]
    pub(super) fn decide_verified(
        &mut self,
        request: (&Query<'_>, Option<&ReplySigner>),
        arrival: &mut impl Arrival,
        queried: QueriedName<'_>,
        out: &mut [u8],
    ) -> Verdict {
        match self.zones.views() {
            None => self.decide_in_view(request, arrival, queried, out),
            Some(views) => self.select_view(views, request, arrival, queried, out),
        }
    }

    /// Decides a request whose view is known.
    #[inline]
    pub(super) fn decide_in_view(
        &mut self,
        request: (&Query<'_>, Option<&ReplySigner>),
        arrival: &mut impl Arrival,
        queried: QueriedName<'_>,
        out: &mut [u8],
    ) -> Verdict {
        let client = arrival.peer().ip();
        if let Some(list) = &self.rules.allow_query
            && !list.allows(&self.access_client(client, request.1))
        {
            let medium = medium_of(arrival.transport());
            let denied = self.engine.respond_denied(request.0, medium, out);
            return self.limit(Verdict::Reply(denied), request, arrival, queried, out);
        }
        if self.hand_off.is_none() && self.limits.is_none() {
            // The verdict is written where the caller reads it.
            return self.decide_here(request, arrival, queried, out);
        }
        let verdict = self.decide_here(request, arrival, queried, out);
        let verdict = match self.hand_off.filter(|hand_off| hand_off.serves(client)) {
            None => verdict,
            Some(hand_off) => self.decide_with(hand_off, verdict, request, (arrival, out)),
        };
        self.limit(verdict, request, arrival, queried, out)
    }

    /// Decides a request from our zones.
    #[inline]
    fn decide_here(
        &mut self,
        (query, tsig): (&Query<'_>, Option<&ReplySigner>),
        arrival: &mut impl Arrival,
        queried: QueriedName<'_>,
        out: &mut [u8],
    ) -> Verdict {
        let (peer, transport) = (arrival.peer(), arrival.transport());
        if !is_question(query) {
            let request = arrival.request((query, tsig), (self.tls, self.view));
            return self.decide_other(&request, &mut || arrival.reply_to(), out);
        }
        let medium = medium_of(transport);
        let zones = self.zones_of(self.access_client(peer.ip(), tsig));
        let (key, found) = queried;
        if let Some(found) = found
            && !zones.allows(found)
        {
            return Verdict::Reply(self.engine.respond_denied(query, medium, out));
        }
        let zone = found.map(|found| &**found.zone);
        let reply = self
            .engine
            .respond(&zones, query, (key, zone), medium, self.scratch, out);
        if reply.comes_later() {
            let request = arrival.request((query, tsig), (self.tls, self.view));
            let reply_to = &mut || arrival.reply_to();
            return self.decide_later(&request, (queried, reply), reply_to, out);
        }
        self.is_from_memory = true;
        Verdict::Reply(reply)
    }

    /// Decides for a client that is allowed recursion: a query outside our zones goes to a resolver if RD is set, and
    /// every other response has RA set.
    #[cold]
    fn decide_with(
        &mut self,
        hand_off: &Arc<RecursorForwarder>,
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
        let request = arrival.request((query, tsig), (self.tls, self.view));
        let reply_to = &mut || arrival.reply_to();
        let mut way_back = ReplyPath::new(self.shared, &request, reply_to);
        if hand_off.hand_over(&request, &mut way_back).is_ok() {
            self.recorder.add(Counter::RecursingQuestions, 1);
            return Verdict::Later;
        }
        let code = (Rcode::ServFail, Some(extended_error::NETWORK_ERROR));
        let mut failed = self
            .engine
            .respond_with_code(query, code, request.medium(), out);
        offer_recursion(out);
        failed.zone_found = reply.zone_found;
        Verdict::Reply(failed)
    }

    /// Returns the zones that a client is allowed to query.
    #[inline]
    pub(super) fn zones_of<'k>(&self, client: AccessClient<'k>) -> ClientZones<'k>
    where
        't: 'k,
    {
        ClientZones {
            table: self.zones,
            client,
            view: self.view,
            pools: Some(self.pools),
        }
    }

    /// Returns the client of a request as access lists see it.
    #[inline]
    pub(super) fn access_client<'k>(
        &self,
        address: IpAddr,
        tsig: Option<&'k ReplySigner>,
    ) -> AccessClient<'k>
    where
        't: 'k,
    {
        AccessClient {
            address,
            key: signed_by(tsig),
            tls: self.tls.map(|tls| &**tls),
        }
    }

    /// Checks whether all packets of this client are dropped; counts one if so.
    #[inline]
    pub(crate) fn drops(&mut self, peer: SocketAddr) -> bool {
        let list = self.zones.blackhole();
        let is_dropped = list.is_some_and(|list| list.contains(peer.ip()));
        if is_dropped {
            self.recorder.add(Counter::BlackholeDrops, 1);
        }
        is_dropped
    }

    /// Decides a request that is not a query for records.
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
        let mut way_back = ReplyPath::new(self.shared, request, reply_to);
        let requests = self.shared.zone_requests();
        let verdict = match query.opcode {
            // RFC 6891 section 6.1.3: nothing of an unknown version is processed.
            _ if has_later_edns(query) => Verdict::Code(Rcode::BadVers, None),
            // RFC 8484 section 4.1: a response is one message.
            Opcode::QUERY if request.transport.protocol == Protocol::Https => {
                Verdict::Code(Rcode::Refused, Some(extended_error::NOT_SUPPORTED))
            }
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

    /// Writes the reply for a verdict that is only a code. A multi-message response does not fit into a datagram.
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

    /// Decides a packet that is not a valid request.
    pub(crate) fn decide_malformed(
        &mut self,
        packet: &[u8],
        malformed: Malformed,
        peer: SocketAddr,
        out: &mut [u8],
    ) -> Option<Reply> {
        if malformed == Malformed::FormErr
            && let Some(reply) = self.answer_cookie_only(packet, peer, out)
        {
            return Some(reply);
        }
        record_malformed(self.recorder, malformed, peer.ip());
        self.engine.respond_to_malformed(packet, malformed, out)
    }
}

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        record_signatures(self.recorder, self.scratch);
        if self.in_view > 0 {
            self.count_view();
        }
    }
}

/// Returns the name of the key that signed a request.
pub(super) fn signed_by(tsig: Option<&ReplySigner>) -> Option<Name<'_>> {
    tsig.and_then(ReplySigner::key).map(|key| key.name())
}

/// Checks whether a request queries records of a zone, or something the engine answers without one.
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
