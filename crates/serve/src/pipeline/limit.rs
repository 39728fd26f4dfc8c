//! Response rate limiting of replies over UDP, whichever path they take: answers of a batch, cached answers, errors,
//! and replies that are sent later. Replies are limited before they are signed.

use std::net::SocketAddr;

use nameward_answer::{Engine, Reply};
use nameward_dnssec::tsig::ReplySigner;
use nameward_stats::{Counter, Protocol, Recorder};
use nameward_wire::Name;
use nameward_wire::message::Query;
use nameward_zone::NameKey;

use super::ServingState;
use super::late::LateRequest;
use super::path::{Arrival, QueriedName, Turn, signed_by};
use super::record::Done;
use crate::rate_limit::{Account, OverLimit, RateLimiter, ticks};
use crate::request::Verdict;

/// The limiter at the time of a batch.
#[derive(Clone, Copy)]
pub(super) struct Limits<'t> {
    limiter: &'t RateLimiter,
    now: u64,
}

impl<'t> Limits<'t> {
    #[inline]
    pub(super) fn new(limiter: &'t RateLimiter) -> Self {
        Limits {
            limiter,
            now: ticks(),
        }
    }

    /// Starts loading what [`Limits::check`] will read: in a flood with forged senders every bucket is a cache miss.
    #[inline]
    pub(super) fn prefetch(&self, peer: SocketAddr, (key, found): QueriedName<'_>) {
        let zone = found.map(|found| &**found.zone);
        self.limiter.prefetch(peer.ip(), (key, zone));
    }

    /// Starts loading what [`Limits::check`] will read for a reply whose account is known.
    #[inline]
    pub(super) fn prefetch_account(&self, peer: SocketAddr, account: &Account) {
        self.limiter.prefetch_account(peer.ip(), account);
    }

    /// Charges a reply; `None` if it may be sent as it is.
    #[inline]
    fn check(
        &self,
        peer: SocketAddr,
        key: Option<Name<'_>>,
        account: Account,
        packet: &[u8],
        recorder: &mut Recorder,
    ) -> Option<Limited> {
        if self.limiter.charge(peer.ip(), account, self.now) {
            return None;
        }
        self.over_limit(peer, key, account, packet, recorder)
    }

    #[cold]
    fn over_limit(
        &self,
        peer: SocketAddr,
        key: Option<Name<'_>>,
        account: Account,
        packet: &[u8],
        recorder: &mut Recorder,
    ) -> Option<Limited> {
        // A client that retries has a new message ID or port.
        let id = packet
            .first_chunk::<2>()
            .map_or(0, |id| u16::from_be_bytes(*id));
        let salt = u64::from(id) << 16 | u64::from(peer.port());
        let decision = self
            .limiter
            .decide(peer.ip(), key, account, (salt, self.now));
        let (counter, limited) = match decision {
            OverLimit::Exempt => return None,
            OverLimit::Logged => (Counter::RateLimitLogged, None),
            OverLimit::Slip => (Counter::RateLimitSlips, Some(Limited::Slip)),
            OverLimit::Drop => (Counter::RateLimitDrops, Some(Limited::Drop)),
        };
        recorder.limited(counter, self.limiter.network(peer.ip()));
        limited
    }
}

/// The replacement for a reply over the limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limited {
    /// TC and no records.
    Slip,
    Drop,
}

impl Turn<'_> {
    /// Limits the reply to a request that is unsigned, or whose signature was verified.
    #[inline]
    pub(super) fn limit(
        &mut self,
        verdict: Verdict,
        (query, tsig): (&Query<'_>, Option<&ReplySigner>),
        arrival: &impl Arrival,
        queried: QueriedName<'_>,
        out: &mut [u8],
    ) -> Verdict {
        let (Some(limits), Verdict::Reply(reply)) = (self.limits, &verdict) else {
            return verdict;
        };
        if arrival.transport().protocol != Protocol::Udp || has_valid_cookie(query) {
            return verdict;
        }
        let (key, found) = queried;
        let account = Account::new(reply, query, (key, found.map(|found| &**found.zone)));
        let peer = arrival.peer();
        match limits.check(
            peer,
            signed_by(tsig),
            account,
            query.packet(),
            self.recorder,
        ) {
            None => verdict,
            Some(Limited::Slip) => Verdict::Reply(self.engine.respond_truncated(query, out)),
            Some(Limited::Drop) => Verdict::Drop,
        }
    }

    /// Charges the reply of an equal query; returns what replaces it if it may not be sent.
    #[inline]
    pub(super) fn limit_repeated(
        &mut self,
        account: Account,
        packet: &[u8],
        peer: SocketAddr,
        out: &mut [u8],
    ) -> Option<Done> {
        let limits = self.limits?;
        let limited = limits.check(peer, None, account, packet, self.recorder)?;
        Some(match (limited, Query::parse(packet)) {
            (Limited::Slip, Ok(query)) => {
                let reply = self.engine.respond_truncated(&query, out);
                Done::new(reply, &query, self.view)
            }
            // An equal query was parsed.
            (Limited::Slip, Err(_)) | (Limited::Drop, _) => Done::NOTHING,
        })
    }

    /// Limits the reply to a datagram whose sender must show a valid cookie first: a forged one must not make the server
    /// send, either.
    pub(super) fn limit_without_cookie(
        &mut self,
        reply: Reply,
        query: &Query<'_>,
        peer: SocketAddr,
        out: &mut [u8],
    ) -> Verdict {
        let account = Account::WITHOUT_COOKIE;
        let limited = self
            .limits
            .and_then(|limits| limits.check(peer, None, account, query.packet(), self.recorder));
        match limited {
            None => Verdict::Reply(reply),
            Some(Limited::Slip) => Verdict::Reply(self.engine.respond_truncated(query, out)),
            Some(Limited::Drop) => Verdict::Drop,
        }
    }

    /// Limits the reply to a datagram that is not a valid request.
    pub(super) fn limit_malformed(
        &mut self,
        reply: Reply,
        packet: &[u8],
        peer: SocketAddr,
    ) -> Option<Reply> {
        let limited = self
            .limits
            .and_then(|limits| limits.check(peer, None, Account::MALFORMED, packet, self.recorder));
        limited.is_none().then_some(reply)
    }
}

/// Checks whether the sender of a query has shown by a cookie that it receives the replies.
#[inline]
fn has_valid_cookie(query: &Query<'_>) -> bool {
    let cookie = query.reply_options.cookie;
    cookie.is_some_and(|cookie| cookie.is_verified)
}

/// Limits a late reply: returns `None` if it is dropped, and otherwise the reply, which may have been replaced by one in
/// `out`.
pub(super) fn limit_late<'o>(
    shared: &ServingState,
    late: &LateRequest,
    (reply, octets): (Reply, &'o [u8]),
    recorder: &mut Recorder,
    out: &'o mut [u8],
) -> Option<(Reply, &'o [u8])> {
    let limiter = shared.rate_limiter.load();
    let Some(limiter) = limiter.as_deref().filter(|_| late.is_datagram()) else {
        return Some((reply, octets));
    };
    let query = late.query();
    if has_valid_cookie(&query) {
        return Some((reply, octets));
    }
    let request = late.request(&query);
    let (key, zones) = (NameKey::new(query.qname), shared.zones.load());
    let found = zones.match_in(request.view, &key, query.qtype);
    let account = Account::new(&reply, &query, (&key, found.map(|found| &**found.zone)));
    let limits = Limits::new(limiter);
    match limits.check(
        request.peer,
        request.key_name(),
        account,
        query.packet(),
        recorder,
    ) {
        None => Some((reply, octets)),
        Some(Limited::Slip) => {
            let engine: &Engine = &shared.engine.load();
            let reply = engine.respond_truncated(&query, out);
            Some((reply, &out[..reply.len()]))
        }
        Some(Limited::Drop) => None,
    }
}
