//! Records each request and reply in the worker's counters and rings.

use nameward_answer::{AnswerKind, Reply, Scratch};
use nameward_stats::{self as stats, Answered, Counter, Received, Recorder, Transport};
use nameward_wire::message::{Malformed, Query};
use nameward_zone::ViewId;
use std::net::IpAddr;

/// A reply that was written: what the counters need until it has been sent.
#[derive(Clone, Copy)]
pub(crate) struct Done {
    pub(super) reply: Reply,
    qtype: u16,
    qname_len: u8,
    /// The view that it was answered from.
    pub(super) view: ViewId,
}

impl Done {
    #[inline]
    pub(crate) fn new(reply: Reply, query: &Query<'_>, view: ViewId) -> Self {
        Done {
            reply,
            qtype: query.qtype.0,
            qname_len: query.qname.as_wire().len() as u8,
            view,
        }
    }

    /// Creates the entry for a reply to a packet whose question is unknown.
    pub(super) fn without_question(reply: Reply) -> Self {
        Done {
            reply,
            qtype: 0,
            qname_len: 0,
            view: ViewId::DEFAULT,
        }
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

#[inline]
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
        cookie: query.edns.is_some_and(|edns| edns.cookie.is_some()),
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
    let reply = &done.reply;
    if let Some(found) = reply.zone_found {
        recorder.zone_cache(found);
    }
    recorder.answered(&Answered {
        transport,
        client,
        qname,
        qtype: done.qtype,
        bytes: reply.len,
        rcode: reply.rcode as u8,
        outcome: match reply.outcome {
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
