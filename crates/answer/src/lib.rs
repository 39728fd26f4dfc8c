//! Plans and encodes one response: a pure function of a question and immutable zones.
//!
//! [`Engine::respond`] takes a parsed request and writes the complete reply. It knows no sockets, clocks, caches or
//! backends and allocates nothing, unless it has to sign. [`plan`] decides which RRsets make the answer, [`secure`] what
//! proves it, [`encode`] writes them.

#![forbid(unsafe_code)]

mod alias;
mod chaos;
mod encode;
mod plan;
mod scratch;
mod secure;
mod view;

pub use alias::{AliasAddresses, TargetPlace, alias_of, find_target};
use encode::{Encoder, Stop};
pub use nameward_dnssec::Making;
use nameward_wire::message::{HEADER, Malformed, OptRecord, Query, ReplyFlags, write_reply_header};
use nameward_wire::{Class, Rcode, Type};
pub use nameward_zone::BackendFailure;
use nameward_zone::NameKey;
pub use plan::MAX_CHAIN;
use plan::Question;
pub use scratch::Scratch;
pub use view::{ZoneView, Zones};

/// Octets every UDP client takes (RFC 1035 section 4.2.1).
pub const UDP_MIN: usize = 512;
/// Octets of a reply that a TSIG record does not take: a header, a question and an OPT record.
const SIGNED_MIN: usize = 300;
/// Octets of the largest message over TCP.
pub const TCP_MAX: usize = 65_535;

/// The way in which questions for ANY are answered (RFC 8482).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnyPolicy {
    /// One RRset of the name.
    #[default]
    OneRrset,
    /// TC over UDP, so that only clients with a true address get everything.
    TruncateOnUdp,
    /// Everything.
    All,
}

/// How far aliases are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Follow {
    /// Into every zone we serve.
    #[default]
    AllZones,
    /// Only inside the zone of the question.
    SameZone,
}

/// Choices that RFCs leave to the operator.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnswerPolicy {
    /// Questions for ANY.
    pub any: AnyPolicy,
    /// Aliases.
    pub follow: Follow,
}

/// How a request reached us, as far as the answer depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Datagrams: truncation.
    Datagram,
    /// A stream.
    Stream,
}

/// The kind of an answer, for the counters and rings of the status page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKind {
    /// Records of the type asked for, or an alias.
    Answer,
    /// The name exists, the type does not.
    NoData,
    /// The name does not exist.
    NxDomain,
    /// A delegation.
    Referral,
    /// No zone of ours.
    NotOurs,
    /// A zone of ours that this client may not ask.
    Denied,
    /// Contents that the answer needs are not here; nothing was written. They belong to the question's own name if
    /// its zone is elsewhere, otherwise to [`Scratch::pending`].
    Pending,
    /// The answer needs addresses of a name that no zone here has ([`Scratch::unresolved`]); nothing was written.
    Resolving,
    /// Signatures that the answer needs are not made yet, and this caller makes none; nothing was written.
    Unsigned,
    /// A backend gave no contents.
    BackendFailure,
    /// Anything else: errors, other classes, other opcodes.
    Other,
}

/// A written reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Octets written; 0 means silence.
    pub len: usize,
    /// Response code.
    pub rcode: Rcode,
    /// The kind of the answer.
    pub outcome: AnswerKind,
    /// Whether it was cut (TC).
    pub truncated: bool,
    /// Whether a zone was looked for, and found.
    pub zone_found: Option<bool>,
}

impl Reply {
    const PENDING: Reply = Reply {
        len: 0,
        rcode: Rcode::NoError,
        outcome: AnswerKind::Pending,
        truncated: false,
        zone_found: Some(true),
    };

    const RESOLVING: Reply = Reply {
        outcome: AnswerKind::Resolving,
        ..Reply::PENDING
    };

    const UNSIGNED: Reply = Reply {
        outcome: AnswerKind::Unsigned,
        ..Reply::PENDING
    };

    /// Whether nothing was written because the answer needs contents, addresses or signatures that are not here.
    #[inline]
    pub fn comes_later(&self) -> bool {
        matches!(
            self.outcome,
            AnswerKind::Pending | AnswerKind::Resolving | AnswerKind::Unsigned
        )
    }
}

/// The answers about the server itself.
#[derive(Debug, Clone, Default)]
pub struct ServerIdentity {
    /// `version.bind`; empty refuses.
    pub version: String,
    /// `id.server` and `hostname.bind`; empty refuses.
    pub id: String,
    /// NSID (RFC 5001); empty leaves it out.
    pub nsid: Vec<u8>,
}

/// RFC 8914 section 4: extended error codes.
mod extended_error {
    pub const OTHER: u16 = 0;
    pub const NOT_READY: u16 = 14;
    pub const NETWORK_ERROR: u16 = 23;
    pub const NOT_AUTHORITATIVE: u16 = 20;
    pub const NOT_SUPPORTED: u16 = 21;
    pub const INVALID_QUERY_TYPE: u16 = 30;
    pub const PROHIBITED: u16 = 18;
}

/// Answers requests.
#[derive(Debug, Clone)]
pub struct Engine {
    /// Choices of the operator.
    pub policy: AnswerPolicy,
    /// The answers about the server itself.
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
    /// Writes the reply to a question: a request of opcode QUERY and EDNS version 0 that is no transfer. `asked` is the question's name as a key and the zone that
    /// `zones` has for it; `out` has room for 512 octets at least.
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
            // One test for both kinds of stand-in, so that zones in memory pay for no other.
            return match zone.is_ready() {
                true => Reply::PENDING,
                false => self.respond_with_failure(query, BackendFailure::NotReady, medium, out),
            };
        }
        if query.qtype == Type::RRSIG && zone.signing().online().is_some() {
            // A question for all signatures of a name costs much and helps nobody (RFC 8482 section 7).
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
            name: query.qname,
            key,
            qtype: query.qtype,
            dnssec_ok: query.edns.is_some_and(|edns| edns.dnssec_ok),
            compact_ok: query.edns.is_some_and(|edns| edns.compact_ok),
        };
        let mut plan = plan::Plan::new();
        plan::plan(zones, zone, question, (&self.policy, scratch), &mut plan);
        match plan.outcome {
            AnswerKind::Pending => return Reply::PENDING,
            AnswerKind::Resolving => return Reply::RESOLVING,
            AnswerKind::BackendFailure => {
                return self.respond_with_failure(query, BackendFailure::BadData, medium, out);
            }
            _ => {}
        }
        plan.truncate &= medium == Medium::Datagram;
        let mut encoder = Encoder::new(query, out, self.limit(query, medium));
        encoder.now = scratch.now;
        encoder.dnssec_ok = question.dnssec_ok;
        encoder.making = scratch.making;
        encoder.addresses = scratch.alias.known.as_deref();
        encoder.absent = (plan.outcome == AnswerKind::NoData).then_some(query.qtype);
        let written = encoder.write(query, &plan, &scratch.made, self.opt(query, None));
        scratch.making = written.making;
        match written.stop {
            // RFC 8945 section 5.3: a reply that the TSIG record leaves no room for is a question with TC.
            Some(Stop::Full) if query.reserved > 0 => return self.respond_truncated(query, out),
            None | Some(Stop::Full) => {}
            Some(Stop::NotSigned) => return Reply::UNSIGNED,
            Some(Stop::CannotSign) => {
                return self.respond_with_failure(query, BackendFailure::BadData, medium, out);
            }
        }
        Reply {
            len: written.len,
            rcode: plan.rcode,
            outcome: plan.outcome,
            truncated: written.stop.is_some(),
            zone_found: Some(true),
        }
    }

    /// The reply that sends a client over to TCP: TC and no records.
    #[cold]
    pub fn respond_truncated(&self, query: &Query<'_>, out: &mut [u8]) -> Reply {
        let plan = plan::Plan::<nameward_zone::Zone> {
            truncate: true,
            authoritative: true,
            ..plan::Plan::empty(Rcode::NoError)
        };
        let encoder = Encoder::new(query, out, self.limit(query, Medium::Datagram));
        let len = encoder.write(query, &plan, &[], self.opt(query, None)).len;
        Reply {
            len,
            rcode: Rcode::NoError,
            outcome: AnswerKind::Other,
            truncated: true,
            zone_found: Some(true),
        }
    }

    /// The reply to a question for contents that a backend did not give: SERVFAIL.
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

    /// The reply to a client that the access list of the question's zone does not have: REFUSED with the extended error
    /// Prohibited (RFC 8914 section 4.19). Requests that no zone is asked for are answered as for everybody.
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

    /// The reply to a request that is decided elsewhere: a response code and maybe an extended error (RFC 8914).
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

    /// Types that no zone is asked for.
    #[inline]
    fn refuse_early(&self, query: &Query<'_>, medium: Medium, out: &mut [u8]) -> Option<Reply> {
        if !query.qtype.is_meta() || query.qtype == Type::ANY {
            return None;
        }
        let mut fail = |rcode, error| Some(self.error(query, rcode, error, medium, out));
        match query.qtype {
            // RFC 6891 section 6.1.1, RFC 8945 section 5.2: these stand in the additional section only.
            Type::OPT | Type::TSIG | Type::TKEY => fail(Rcode::FormErr, None),
            // RFC 9824 section 3.5: it stands in NSEC records only.
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
                len,
                rcode: Rcode::NoError,
                outcome: AnswerKind::Other,
                truncated,
                zone_found: None,
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

    /// A reply with nothing but a response code.
    fn error(
        &self,
        query: &Query<'_>,
        rcode: Rcode,
        error: Option<u16>,
        medium: Medium,
        out: &mut [u8],
    ) -> Reply {
        let plan = plan::Plan::<nameward_zone::Zone>::empty(rcode);
        let encoder = Encoder::new(query, out, self.limit(query, medium));
        let len = encoder.write(query, &plan, &[], self.opt(query, error)).len;
        Reply {
            len,
            rcode,
            outcome: AnswerKind::Other,
            truncated: false,
            zone_found: None,
        }
    }

    /// RFC 6891 section 6.1.1: an OPT in the reply if there was one in the request.
    #[inline]
    pub fn opt(&self, query: &Query<'_>, error: Option<u16>) -> Option<OptRecord<'_>> {
        let edns = query.edns?;
        let nsid = (edns.nsid && !self.identity.nsid.is_empty()).then_some(&self.identity.nsid[..]);
        Some(OptRecord {
            payload: self.udp_payload,
            dnssec_ok: edns.dnssec_ok,
            compact_ok: edns.compact_ok,
            nsid,
            error,
            expire: None,
        })
    }

    /// Octets the reply may have.
    #[inline]
    pub fn limit(&self, query: &Query<'_>, medium: Medium) -> usize {
        let limit = match (medium, query.edns) {
            (Medium::Stream, _) => TCP_MAX,
            (Medium::Datagram, None) => UDP_MIN,
            // RFC 6891 section 6.2.3: values below 512 are taken as 512.
            (Medium::Datagram, Some(edns)) => {
                (edns.payload.min(self.udp_payload) as usize).max(UDP_MIN)
            }
        };
        match query.reserved {
            0 => limit,
            // However long the names of a TSIG record are: the question and an OPT record go before it. The request was
            // as long as that too.
            reserved => (limit - usize::from(reserved).min(limit)).max(SIGNED_MIN),
        }
    }

    /// The reply to a packet that is not a proper request; `None` is silence.
    pub fn respond_to_malformed(
        &self,
        packet: &[u8],
        malformed: Malformed,
        out: &mut [u8],
    ) -> Option<Reply> {
        let (rcode, end) = match malformed {
            Malformed::TooShort | Malformed::Response => return None,
            Malformed::FormErr => (Rcode::FormErr, HEADER),
            Malformed::FormErrAfterQuestion(end) => (Rcode::FormErr, end),
            Malformed::NotImplemented => (Rcode::NotImp, HEADER),
        };
        out.get_mut(HEADER..end)?
            .copy_from_slice(packet.get(HEADER..end)?);
        let flags = ReplyFlags {
            rcode: rcode as u8,
            ..ReplyFlags::default()
        };
        write_reply_header(packet, out, flags, [(end > HEADER) as u16, 0, 0, 0]);
        Some(Reply {
            len: end,
            rcode,
            outcome: AnswerKind::Other,
            truncated: false,
            zone_found: None,
        })
    }
}
