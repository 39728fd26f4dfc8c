//! Records each request and reply in the worker's counters and rings.

use nameward_answer::{AnswerKind, Reply, Scratch};
use nameward_stats::{self as stats, Answered, Counter, Received, Recorder, Transport};
use nameward_wire::Rcode;
use nameward_wire::message::{HEADER, Malformed, Query, RD};
use nameward_zone::ViewId;
use std::net::IpAddr;

use super::recent::Kept;

/// A reply that was written: what the counters need until it has been sent. It has no [`Reply`], and is set in place:
/// copying a structure that was just written field by field stalls the processor.
#[derive(Clone, Copy)]
pub(crate) struct Done {
    /// 0 if there is no reply.
    len: u32,
    qtype: u16,
    /// The view that it was answered from.
    pub(super) view: ViewId,
    outcome: AnswerKind,
    rcode: Rcode,
    zone_found: Option<bool>,
    qname_len: u8,
}

impl Done {
    /// No reply.
    pub(super) const NOTHING: Done = Done {
        len: 0,
        qtype: 0,
        view: ViewId::DEFAULT,
        outcome: AnswerKind::Other,
        rcode: Rcode::NoError,
        zone_found: None,
        qname_len: 0,
    };

    pub(crate) fn new(reply: Reply, query: &Query<'_>, view: ViewId) -> Self {
        let mut done = Done::NOTHING;
        done.set(&reply, query, view);
        done
    }

    /// Sets the reply to a query.
    #[inline]
    pub(super) fn set(&mut self, reply: &Reply, query: &Query<'_>, view: ViewId) {
        self.len = reply.len() as u32;
        self.qtype = query.qtype.0;
        self.view = view;
        self.outcome = reply.outcome;
        self.rcode = reply.rcode;
        self.zone_found = reply.zone_found;
        self.qname_len = query.qname.as_wire().len() as u8;
    }

    /// Creates the entry for a reply to a packet whose question is unknown.
    pub(super) fn without_question(reply: Reply) -> Self {
        Done {
            len: reply.len() as u32,
            outcome: reply.outcome,
            rcode: reply.rcode,
            zone_found: reply.zone_found,
            ..Done::NOTHING
        }
    }

    /// Returns the length of the reply in octets.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns the length of the query name in octets.
    #[inline]
    pub(crate) fn qname_len(&self) -> usize {
        self.qname_len.into()
    }
}

/// Counts the signatures made since the last call.
#[inline]
pub(crate) fn record_signatures(recorder: &mut Recorder, scratch: &mut Scratch) {
    let signatures = scratch.take_signatures();
    if signatures > 0 {
        recorder.add(Counter::Signatures, signatures.into());
    }
}

#[inline(always)]
pub(super) fn record_received(
    recorder: &mut Recorder,
    query: &Query<'_>,
    transport: Transport,
    client: IpAddr,
) {
    recorder.received(&Received {
        transport,
        client,
        qname: query.qname.as_wire(),
        qtype: query.qtype.0,
        rd: query.rd(),
        dnssec_ok: query.edns.is_some_and(|edns| edns.dnssec_ok),
        cookie: query.has_cookie(),
    });
}

/// Records a query that was not parsed, because an equal one was.
#[inline(always)]
pub(super) fn record_repeated(
    recorder: &mut Recorder,
    (packet, kept): (&[u8], &Kept<'_>),
    transport: Transport,
    client: IpAddr,
) {
    recorder.received(&Received {
        transport,
        client,
        qname: &packet[HEADER..HEADER + kept.done.qname_len()],
        qtype: kept.done.qtype,
        rd: packet[2] & RD != 0,
        dnssec_ok: kept.dnssec_ok,
        cookie: false,
    });
}

pub(super) fn record_malformed(recorder: &mut Recorder, malformed: Malformed, client: IpAddr) {
    match malformed {
        Malformed::Response => recorder.response_dropped(),
        _ => recorder.corrupt(client),
    }
}

#[inline]
pub(crate) fn record_answer(
    recorder: &mut Recorder,
    done: &Done,
    transport: Transport,
    client: IpAddr,
    qname: &[u8],
) {
    if let Some(found) = done.zone_found {
        recorder.zone_cache(found);
    }
    recorder.answered(&Answered {
        transport,
        client,
        qname,
        qtype: done.qtype,
        bytes: done.len(),
        rcode: done.rcode as u8,
        outcome: match done.outcome {
            AnswerKind::Answer => stats::Outcome::Answer,
            AnswerKind::NoData => stats::Outcome::NoData,
            AnswerKind::NxDomain => stats::Outcome::NxDomain,
            AnswerKind::Referral => stats::Outcome::Referral,
            AnswerKind::NotOurs => stats::Outcome::Unauth,
            AnswerKind::Denied => stats::Outcome::Denied,
            AnswerKind::BackendFailure => stats::Outcome::BackendFailure,
            AnswerKind::Pending
            | AnswerKind::Resolving
            | AnswerKind::Computing
            | AnswerKind::Unsigned
            | AnswerKind::Other => stats::Outcome::Other,
        },
    });
}
