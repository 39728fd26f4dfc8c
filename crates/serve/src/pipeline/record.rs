//! What a worker writes down of each question and answer.

use super::Done;
use nameward_answer::{Outcome, Scratch};
use nameward_stats::{self as stats, Answered, Counter, Received, Recorder, Transport};
use nameward_wire::Opcode;
use nameward_wire::message::{Malformed, Query};
use std::net::IpAddr;

pub(super) fn udp(client: IpAddr) -> Transport {
    if client.is_ipv4() {
        Transport::Udp4
    } else {
        Transport::Udp6
    }
}

pub(super) fn tcp(client: IpAddr) -> Transport {
    if client.is_ipv4() {
        Transport::Tcp4
    } else {
        Transport::Tcp6
    }
}

/// Signatures made since the last call.
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
    match query.opcode {
        Opcode::NOTIFY => recorder.add(Counter::IncomingNotifications, 1),
        Opcode::UPDATE => {
            recorder.add(Counter::DnsupdateQueries, 1);
            // No update is accepted: each is answered NOTIMP.
            recorder.add(Counter::DnsupdateRefused, 1);
        }
        _ => {}
    }
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
            Outcome::Answer => stats::Outcome::Answer,
            Outcome::NoData => stats::Outcome::NoData,
            Outcome::NxDomain => stats::Outcome::NxDomain,
            Outcome::Referral => stats::Outcome::Referral,
            Outcome::NotOurs => stats::Outcome::Unauth,
            Outcome::BackendFailure => stats::Outcome::BackendFailure,
            Outcome::Pending | Outcome::Other => stats::Outcome::Other,
        },
    });
}
