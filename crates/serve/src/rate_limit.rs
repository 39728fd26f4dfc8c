//! Response rate limiting: the rate of similar answers to a client network over UDP, where the source of a query may
//! be forged.
//!
//! ```text
//! answer -> account: network, class, name or zone     -> within the rate: sent as it is
//!                                                     -> over it: exempt or log_only: sent, counted
//!                                                                 every slip-th: TC and no records, so that a real
//!                                                                 client retries over TCP
//!                                                                 the others: dropped
//! ```
//! | class | one bucket per network and |
//! |---|---|
//! | answer, NODATA | query name |
//! | answer from a wildcard or DNAME | zone: random names share it |
//! | NXDOMAIN | zone |
//! | referral | zone |
//! | error, and every other opcode | nothing else |
//! | query without the cookie that is required | nothing else |
//! | all | nothing else, in addition to the class |
//!
//! Errors are dropped and never slipped: TC on an error tells a client nothing. Requests over TCP are never limited.

mod buckets;
mod limited;

pub use limited::{LimitChange, LimitedPrefix};

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nameward_answer::{AnswerKind, Reply};
use nameward_wire::message::Query;
use nameward_wire::{Name, NameBuf, Opcode, Rcode};
use nameward_zone::{AccessClient, AccessList, NameKey, Zone};

use buckets::{Buckets, SECOND};
use limited::LimitedPrefixes;

/// Answers per second, by class; 0 means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // named like the settings
pub struct AnswerRates {
    pub responses: u32,
    pub nxdomains: u32,
    pub referrals: u32,
    pub errors: u32,
    pub all: u32,
}

impl AnswerRates {
    fn is_off(&self) -> bool {
        *self == AnswerRates::default()
    }
}

/// Settings of a limiter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RateLimitSettings {
    /// The rates of zones without their own.
    pub rates: AnswerRates,
    /// The rate for answers, NXDOMAIN and referrals of single zones, and of single versions of zones; 0 exempts them.
    pub zones: Vec<(NameBuf, u32)>,
    /// One in this many answers over the limit is truncated instead of dropped; 0 drops all.
    pub slip: u32,
    /// Maximum debt of a flood, in seconds.
    pub window_seconds: u32,
    /// Length of IPv4 client prefixes.
    pub ipv4_prefix: u8,
    /// Length of IPv6 client prefixes, at most 64.
    pub ipv6_prefix: u8,
    /// Clients and TSIG keys that are never limited.
    pub exempt: AccessList,
    /// Count and log, but send every answer.
    pub log_only: bool,
    /// Number of buckets.
    pub table_size: usize,
}

/// The limiter of all UDP answers.
pub struct RateLimiter {
    settings: RateLimitSettings,
    /// The rates of single zones by the hash of their names, sorted.
    zones: Box<[(u64, u32)]>,
    buckets: Buckets,
    limited: LimitedPrefixes,
    /// Random per process, so that collisions cannot be aimed at a prefix.
    secrets: [u64; 2],
}

/// The decision on an answer over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverLimit {
    /// The client or its key is exempt.
    Exempt,
    /// Sent and counted, because of `log_only`.
    Logged,
    /// Replaced by a reply with TC and no records.
    Slip,
    Drop,
}

/// The account that an answer is charged to, apart from its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    class: AnswerClass,
    /// The hash of the name or zone.
    name: u64,
    /// The hash of the zone; 0 if there is none.
    zone: u64,
    /// The hash of the name of the version, if it is one for some views; otherwise 0.
    version: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum AnswerClass {
    Answer = 1,
    Expanded,
    NxDomain,
    Referral,
    Error,
    WithoutCookie,
    All,
}

impl Account {
    /// The account of replies to packets that are not valid requests.
    pub(crate) const MALFORMED: Account = Account {
        class: AnswerClass::Error,
        name: 0,
        zone: 0,
        version: 0,
    };

    /// The account of replies to clients that must send a valid cookie first, at the rate of errors. They may slip:
    /// TC makes a real client retry over TCP, and the reply has a cookie if the client sent one.
    pub(crate) const WITHOUT_COOKIE: Account = Account {
        class: AnswerClass::WithoutCookie,
        name: 0,
        zone: 0,
        version: 0,
    };

    /// Returns the account of a reply.
    #[inline]
    pub(crate) fn new(
        reply: &Reply,
        query: &Query<'_>,
        (key, zone): (&NameKey, Option<&Zone>),
    ) -> Self {
        let version = zone.and_then(Zone::version_id).map_or(0, hash_of);
        let zone = zone.map_or(0, |zone| key.hash(zone.apex_labels()));
        let (class, name) = match reply.outcome {
            _ if query.opcode != Opcode::QUERY => (AnswerClass::Error, 0),
            AnswerKind::NxDomain => (AnswerClass::NxDomain, zone),
            AnswerKind::Referral => (AnswerClass::Referral, zone),
            AnswerKind::Answer | AnswerKind::NoData if reply.is_expanded => {
                (AnswerClass::Expanded, zone)
            }
            AnswerKind::Answer | AnswerKind::NoData => {
                (AnswerClass::Answer, key.hash(key.labels()))
            }
            AnswerKind::Other if reply.rcode == Rcode::NxDomain => (AnswerClass::NxDomain, zone),
            AnswerKind::Other if reply.rcode == Rcode::NoError => {
                (AnswerClass::Answer, key.hash(key.labels()))
            }
            // YXDOMAIN results from a DNAME, SERVFAIL from a backend; the others have no zone.
            _ => (AnswerClass::Error, 0),
        };
        Account {
            class,
            name,
            zone,
            version,
        }
    }

    /// Errors are not slipped.
    fn can_slip(&self) -> bool {
        self.class != AnswerClass::Error
    }
}

/// Returns the hash of the name of a zone or version.
fn hash_of(name: Name<'_>) -> u64 {
    let key = NameKey::new(name);
    key.hash(key.labels())
}

impl RateLimiter {
    /// Creates a limiter with all the memory it will use; `None` if no rate is set.
    pub fn new(settings: RateLimitSettings) -> Option<Self> {
        if settings.rates.is_off() && settings.zones.iter().all(|(_, rate)| *rate == 0) {
            return None;
        }
        let zones = settings.zones.iter();
        let zones = zones.map(|(name, rate)| (hash_of(name.as_name()), *rate));
        let mut zones: Vec<_> = zones.collect();
        zones.sort_unstable();
        let random = || RandomState::new().hash_one(0u64);
        Some(RateLimiter {
            buckets: Buckets::new(settings.table_size, settings.window_seconds),
            limited: LimitedPrefixes::new(),
            zones: zones.into(),
            secrets: [random(), random()],
            settings,
        })
    }

    /// Returns the settings it was created with.
    pub fn settings(&self) -> &RateLimitSettings {
        &self.settings
    }

    /// Prefetches the buckets that the answer to a query may be charged to.
    #[inline]
    pub(crate) fn prefetch(&self, client: IpAddr, (key, zone): (&NameKey, Option<&Zone>)) {
        let prefix = self.prefix_word(client).0;
        let prefetch = |name| {
            let bucket = self.hash(prefix, AnswerClass::Answer, name);
            self.buckets.prefetch(bucket);
        };
        prefetch(key.hash(key.labels()));
        if let Some(zone) = zone {
            prefetch(key.hash(zone.apex_labels()));
        }
        if self.settings.rates.all > 0 {
            prefetch(0);
        }
    }

    /// Prefetches the buckets that an answer is charged to.
    #[inline]
    pub(crate) fn prefetch_account(&self, client: IpAddr, account: &Account) {
        let prefix = self.prefix_word(client).0;
        let bucket = self.hash(prefix, account.class, account.name);
        self.buckets.prefetch(bucket);
        if self.settings.rates.all > 0 {
            self.buckets
                .prefetch(self.hash(prefix, AnswerClass::All, 0));
        }
    }

    /// Charges an answer to its account; false if it is over the limit. `now` is from [`ticks`].
    #[inline]
    pub(crate) fn charge(&self, client: IpAddr, account: Account, now: u64) -> bool {
        let prefix = self.prefix_word(client).0;
        let rate = self.rate(&account);
        let is_within = rate == 0
            || self
                .buckets
                .take(self.hash(prefix, account.class, account.name), rate, now);
        let all = self.settings.rates.all;
        let is_within_all = all == 0
            || self
                .buckets
                .take(self.hash(prefix, AnswerClass::All, 0), all, now);
        is_within && is_within_all
    }

    #[inline]
    fn rate(&self, account: &Account) -> u32 {
        let rates = &self.settings.rates;
        let rate = match account.class {
            AnswerClass::Answer | AnswerClass::Expanded => rates.responses,
            AnswerClass::NxDomain => rates.nxdomains,
            AnswerClass::Referral => rates.referrals,
            AnswerClass::Error | AnswerClass::WithoutCookie => return rates.errors,
            AnswerClass::All => return rates.all,
        };
        if self.zones.is_empty() {
            return rate;
        }
        let find = |name| {
            let found = self.zones.binary_search_by_key(&name, |(zone, _)| *zone);
            found.ok().map(|at| self.zones[at].1)
        };
        let of_version = (account.version != 0).then(|| find(account.version));
        let own = of_version.flatten().or_else(|| find(account.zone));
        own.unwrap_or(rate)
    }

    /// Decides what happens to an answer over the limit. `salt` differs between the queries of a client.
    #[cold]
    pub(crate) fn decide(
        &self,
        client: IpAddr,
        key: Option<Name<'_>>,
        account: Account,
        (salt, now): (u64, u64),
    ) -> OverLimit {
        let settings = &self.settings;
        if settings
            .exempt
            .allows(&AccessClient::in_plain_text(client, key))
        {
            return OverLimit::Exempt;
        }
        let prefix = self.prefix_word(client);
        let hash = self.hash(prefix.0, AnswerClass::All, 1);
        self.limited.add(prefix, hash, now);
        if settings.log_only {
            return OverLimit::Logged;
        }
        // Random instead of round-robin, so that no pattern of queries can use up the slips of others.
        let draw = fold(salt ^ now.rotate_left(32) ^ hash, self.secrets[1]) >> 32;
        let slips = settings.slip > 0 && draw.is_multiple_of(settings.slip.into());
        if slips && account.can_slip() {
            OverLimit::Slip
        } else {
            OverLimit::Drop
        }
    }

    /// Returns the network that a client belongs to, and its prefix length.
    pub(crate) fn network(&self, client: IpAddr) -> (IpAddr, u8) {
        let (v4, v6) = self.lengths();
        match self.prefix_word(client) {
            (word, false) => (IpAddr::V4(Ipv4Addr::from_bits(word as u32)), v4),
            (word, true) => (IpAddr::V6(Ipv6Addr::from_bits(u128::from(word) << 64)), v6),
        }
    }

    /// Returns the prefixes that are being limited, the most limited first.
    pub fn limited(&self) -> Vec<LimitedPrefix> {
        self.limited.list(self.lengths())
    }

    /// Returns the prefixes whose limiting has started or stopped since the last call. For one thread only.
    pub fn changes(&self) -> Vec<LimitChange> {
        self.limited.changes(self.lengths(), ticks())
    }

    fn lengths(&self) -> (u8, u8) {
        (self.settings.ipv4_prefix, self.settings.ipv6_prefix)
    }

    /// Returns the network of a client as a word that is never 0, and whether it is an IPv6 network.
    #[inline]
    fn prefix_word(&self, client: IpAddr) -> (u64, bool) {
        match client.to_canonical() {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.settings.ipv4_prefix));
                // No IPv6 client has such a network: this is the upper half of ::ffff:0:0/96.
                (
                    0xffff_0000_0000 | u64::from(v4.to_bits() & mask.unwrap_or(0)),
                    false,
                )
            }
            IpAddr::V6(v6) => {
                let mask = u64::MAX.checked_shl(64 - u32::from(self.settings.ipv6_prefix));
                let word = (v6.to_bits() >> 64) as u64 & mask.unwrap_or(0);
                // ::/64 is loopback and not routed.
                (word.max(1), true)
            }
        }
    }

    /// Returns the key of a bucket. The class is part of the tag alone, so that all classes of a name, or of a zone, are
    /// in one cache line, which can be loaded before the class is known.
    #[inline]
    fn hash(&self, prefix: u64, class: AnswerClass, name: u64) -> u64 {
        let prefix = fold(prefix ^ self.secrets[0], self.secrets[1] | 1);
        fold(prefix ^ name, self.secrets[0] | 1) ^ (class as u64) << 1
    }
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64 ^ a.rotate_left(29)
}

/// Returns the time for [`RateLimiter::charge`]. The coarse clock is enough: a bucket holds the tokens of a second.
#[inline]
pub(crate) fn ticks() -> u64 {
    let time = crate::sys::coarse_time();
    // Starts at 1, because 0 marks an unused bucket.
    (time.as_secs() + 1) * SECOND + u64::from(time.subsec_nanos()) * SECOND / 1_000_000_000
}

#[cfg(test)]
mod tests;
