//! Planning and encoding of one response: a pure function of a query and immutable zones.
//!
//! [`Engine::respond`] takes a parsed request and writes the complete reply. It knows nothing about sockets, clocks,
//! caches or backends, and does not allocate unless it has to sign. [`planner`] decides which RRsets are in the answer
//! and what it has to prove, [`encode`] writes them.

#![forbid(unsafe_code)]

mod alias;
mod chaos;
mod claim;
mod computed;
mod effective_client;
mod encode;
mod hints;
mod plan;
mod planner;
mod reply;
mod scratch;
mod view;
mod without_question;

pub use alias::{AliasAddresses, TargetLocation, alias_of, find_target};
pub use computed::{ComputedName, ComputedRrset, NeededScripts};
pub use effective_client::EffectiveClient;
use encode::{Encoder, Stop};
pub use hints::{has_auto_hints, hinted_records};
pub use nameward_dnssec::Making;
use nameward_wire::message::{OptRecord, Query, extended_error};
use nameward_wire::{Class, Rcode, Type};
pub use nameward_zone::BackendFailure;
use nameward_zone::NameKey;
pub use plan::MAX_CHAIN;
use plan::Plan;
use planner::Question;
pub use reply::{AnswerKind, Reply};
pub use scratch::Scratch;
pub use view::{PreparedAddresses, ZoneView, Zones};

/// Size of a UDP message that every client accepts (RFC 1035 section 4.2.1).
pub const UDP_MIN: usize = 512;
/// Octets of a reply always available besides a TSIG record: a header, a question and an OPT record.
const SIGNED_MIN: usize = 300;
/// Octets of the largest message over TCP.
pub const TCP_MAX: usize = 65_535;

/// How ANY queries are answered (RFC 8482).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnyPolicy {
    /// One RRset of the name.
    #[default]
    OneRrset,
    /// TC over UDP, so that only clients with a verified address get everything.
    TruncateOnUdp,
    /// All RRsets.
    All,
}

/// How far aliases are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Follow {
    /// Into every zone served here.
    #[default]
    AllZones,
    /// Only inside the zone of the query name.
    SameZone,
}

/// Choices that the RFCs leave to the operator.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnswerPolicy {
    /// How ANY queries are answered.
    pub any: AnyPolicy,
    /// How far aliases are followed.
    pub follow: Follow,
}

/// How a request arrived, as far as the answer depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Datagrams: answers may be truncated.
    Datagram,
    /// A stream.
    Stream,
}

/// The identity of this server, for queries about it.
#[derive(Debug, Clone, Default)]
pub struct ServerIdentity {
    /// `version.bind`; empty means REFUSED.
    pub version: String,
    /// `id.server` and `hostname.bind`; empty means REFUSED.
    pub id: String,
    /// NSID (RFC 5001); empty omits it.
    pub nsid: Vec<u8>,
}

/// Answers requests.
#[derive(Debug, Clone)]
pub struct Engine {
    /// Choices of the operator.
    pub policy: AnswerPolicy,
    /// The identity of this server.
    pub identity: ServerIdentity,
    /// The largest UDP message, in both directions.
    pub udp_payload: u16,
}

impl Default for Engine {
    fn default() -> Self {
        Engine {
            policy: AnswerPolicy::default(),
            identity: ServerIdentity::default(),
            udp_payload: 1232,
        }
    }
}

impl Engine {
    /// Writes the reply to a query: a request with opcode QUERY and EDNS version 0 that is not a transfer. The tuple is
    /// the query name as a key and the zone that `zones` has for it; `out` must have room for at least 512 octets.
    #[inline]
    pub fn respond<Z: Zones>(
        &self,
        zones: &Z,
        query: &Query<'_>,
        (key, zone): (&NameKey, Option<&'_ Z::View>),
        medium: Medium,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Reply {
        if let Some(reply) = self.refuse_early(query, medium, out) {
            return reply;
        }
        if query.qclass != Class::IN {
            return self.other_class(query, medium, out);
        }
        let Some(zone) = zone else {
            let error = Some(extended_error::NOT_AUTHORITATIVE);
            return Reply {
                outcome: AnswerKind::NotOurs,
                zone_found: Some(false),
                ..self.error(query, Rcode::Refused, error, medium, out)
            };
        };
        if zone.is_elsewhere() {
            // One test for both kinds of placeholder, so that zones in memory do not pay for a second one.
            return if zone.is_ready() {
                Reply::PENDING
            } else {
                self.respond_with_failure(query, BackendFailure::NotReady, medium, out)
            };
        }
        if query.qtype == Type::RRSIG && zone.signing().online().is_some() {
            // A query for all signatures of a name is expensive and useless to clients (RFC 8482 section 7).
            return Reply {
                zone_found: Some(true),
                ..self.error(
                    query,
                    Rcode::Refused,
                    Some(extended_error::NOT_SUPPORTED),
                    medium,
                    out,
                )
            };
        }
        let question = Question {
            query,
            name: query.qname,
            key,
            qtype: query.qtype,
            dnssec_ok: query.edns.is_some_and(|edns| edns.dnssec_ok),
            compact_ok: query.edns.is_some_and(|edns| edns.compact_ok),
        };
        let mut plan = Plan::new();
        planner::plan(zones, zone, question, (&self.policy, scratch), &mut plan);
        if let Some(reply) = Reply::postponed(plan.outcome) {
            return reply;
        }
        if plan.outcome == AnswerKind::BackendFailure {
            return self.respond_with_failure(query, BackendFailure::BadData, medium, out);
        }
        plan.truncate &= medium == Medium::Datagram;
        let mut encoder = Encoder::new(query, out, self.limit(query, medium));
        encoder.now = scratch.now;
        encoder.dnssec_ok = question.dnssec_ok;
        encoder.making = scratch.making;
        encoder.addresses = scratch.alias.known.as_deref();
        encoder.computed_names = &scratch.computed.known;
        encoder.absent = (plan.outcome == AnswerKind::NoData).then_some(query.qtype);
        let mut opt = self.opt(query, None);
        if let Some(subnet) = opt.as_mut().and_then(|opt| opt.subnet.as_mut()) {
            subnet.lengthen_scope(scratch.client_bits());
        }
        encoder.recent = Some(&mut scratch.recent);
        let written = encoder.write(query, &plan, &scratch.made, opt.as_ref());
        scratch.making = written.making;
        match written.stop {
            // RFC 8945 section 5.3: if the TSIG record leaves no room for the reply, it is the question with TC.
            Some(Stop::Full) if query.reserved > 0 => return self.respond_truncated(query, out),
            None | Some(Stop::Full) => {}
            Some(Stop::NotSigned) => return Reply::UNSIGNED,
            Some(Stop::CannotSign) => {
                return self.respond_with_failure(query, BackendFailure::BadData, medium, out);
            }
        }
        Reply {
            truncated: written.stop.is_some(),
            is_expanded: plan.is_expanded,
            zone_found: Some(true),
            ..Reply::new(written.len, plan.rcode, plan.outcome)
        }
    }

    /// Writes the reply that makes a client retry over TCP: TC and no records.
    #[cold]
    pub fn respond_truncated(&self, query: &Query<'_>, out: &mut [u8]) -> Reply {
        let plan = Plan::<nameward_zone::Zone> {
            truncate: true,
            authoritative: true,
            ..Plan::empty(Rcode::NoError)
        };
        let mut encoder = Encoder::new(query, out, self.limit(query, Medium::Datagram));
        let opt = self.opt(query, None);
        let len = encoder.write(query, &plan, &[], opt.as_ref()).len;
        Reply {
            truncated: true,
            zone_found: Some(true),
            ..Reply::new(len, Rcode::NoError, AnswerKind::Other)
        }
    }

    /// Writes the reply to a query for contents that a backend did not deliver: SERVFAIL.
    #[cold]
    pub fn respond_with_failure(
        &self,
        query: &Query<'_>,
        failure: BackendFailure,
        medium: Medium,
        out: &mut [u8],
    ) -> Reply {
        let error = match failure {
            BackendFailure::Unreachable => extended_error::NETWORK_ERROR,
            BackendFailure::BadData => extended_error::OTHER,
            BackendFailure::NotReady => extended_error::NOT_READY,
        };
        Reply {
            outcome: AnswerKind::BackendFailure,
            zone_found: Some(true),
            ..self.error(query, Rcode::ServFail, Some(error), medium, out)
        }
    }

    /// Writes the reply to a client that is not in the access list of the zone: REFUSED with the extended error
    /// Prohibited (RFC 8914 section 4.19). Requests that do not involve a zone are answered as for any other client.
    #[cold]
    pub fn respond_denied(&self, query: &Query<'_>, medium: Medium, out: &mut [u8]) -> Reply {
        if let Some(reply) = self.refuse_early(query, medium, out) {
            return reply;
        }
        if query.qclass != Class::IN {
            return self.other_class(query, medium, out);
        }
        let error = Some(extended_error::PROHIBITED);
        Reply {
            outcome: AnswerKind::Denied,
            zone_found: Some(true),
            ..self.error(query, Rcode::Refused, error, medium, out)
        }
    }

    /// Writes the reply to a request that was decided elsewhere: a response code and optionally an extended error (RFC
    /// 8914).
    #[cold]
    pub fn respond_with_code(
        &self,
        query: &Query<'_>,
        (rcode, error): (Rcode, Option<u16>),
        medium: Medium,
        out: &mut [u8],
    ) -> Reply {
        self.error(query, rcode, error, medium, out)
    }

    /// Rejects types that do not involve a zone.
    #[inline]
    fn refuse_early(&self, query: &Query<'_>, medium: Medium, out: &mut [u8]) -> Option<Reply> {
        if !query.qtype.is_meta() || query.qtype == Type::ANY {
            return None;
        }
        let mut fail = |rcode, error| Some(self.error(query, rcode, error, medium, out));
        match query.qtype {
            // RFC 6891 section 6.1.1, RFC 8945 section 5.2: these only appear in the additional section.
            Type::OPT | Type::TSIG | Type::TKEY => fail(Rcode::FormErr, None),
            // RFC 9824 section 3.5: it only appears in NSEC records.
            Type::NXNAME => fail(Rcode::FormErr, Some(extended_error::INVALID_QUERY_TYPE)),
            Type::MAILA | Type::MAILB => fail(Rcode::NotImp, Some(extended_error::NOT_SUPPORTED)),
            _ => None,
        }
    }

    fn other_class(&self, query: &Query<'_>, medium: Medium, out: &mut [u8]) -> Reply {
        if query.qclass == Class::CH
            && let Some((len, truncated)) = self.chaos(query, medium, out)
        {
            return Reply {
                truncated,
                ..Reply::new(len, Rcode::NoError, AnswerKind::Other)
            };
        }
        self.error(
            query,
            Rcode::Refused,
            Some(extended_error::NOT_SUPPORTED),
            medium,
            out,
        )
    }

    /// Writes a reply with nothing but a response code.
    fn error(
        &self,
        query: &Query<'_>,
        rcode: Rcode,
        error: Option<u16>,
        medium: Medium,
        out: &mut [u8],
    ) -> Reply {
        let plan = Plan::<nameward_zone::Zone>::empty(rcode);
        let mut encoder = Encoder::new(query, out, self.limit(query, medium));
        let opt = self.opt(query, error);
        let len = encoder.write(query, &plan, &[], opt.as_ref()).len;
        Reply::new(len, rcode, AnswerKind::Other)
    }

    /// Returns the OPT record of the reply, if the request has one (RFC 6891 section 6.1.1).
    #[inline]
    pub fn opt(&self, query: &Query<'_>, error: Option<u16>) -> Option<OptRecord<'_>> {
        let (edns, options) = (query.edns?, query.reply_options);
        let nsid = (edns.nsid && !self.identity.nsid.is_empty()).then_some(&self.identity.nsid[..]);
        Some(OptRecord {
            payload: self.udp_payload,
            dnssec_ok: edns.dnssec_ok,
            compact_ok: edns.compact_ok,
            nsid,
            error,
            expire: None,
            subnet: options.subnet,
            keepalive: options.keepalive,
            cookie: options.cookie.map(|cookie| cookie.octets),
        })
    }

    /// Returns the maximum size of the reply, in octets.
    #[inline]
    pub fn limit(&self, query: &Query<'_>, medium: Medium) -> usize {
        let limit = match (medium, query.edns) {
            (Medium::Stream, _) => TCP_MAX,
            (Medium::Datagram, None) => UDP_MIN,
            // RFC 6891 section 6.2.3: values below 512 are treated as 512.
            (Medium::Datagram, Some(edns)) => {
                (edns.payload.min(self.udp_payload) as usize).max(UDP_MIN)
            }
        };
        match query.reserved {
            0 => limit,
            // However long the names in a TSIG record are, question and OPT record must fit. The request was at least
            // as long.
            reserved => (limit - usize::from(reserved).min(limit)).max(SIGNED_MIN),
        }
    }
}
