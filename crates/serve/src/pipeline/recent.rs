//! Replies of the current second, for datagrams that repeat a query.
//!
//! A plain query gets the same reply from everyone who asks: the engine is a pure function of the query, the zones, the settings
//! and the second. So a worker keeps the replies that it wrote in this second from these zones, and finds them by the octets of the
//! query, all but its ID, before these are parsed. Where something else decides as well (access lists, views, required cookies, a
//! recursor), nothing is kept, and nothing is taken. Rate limits apply to each reply.
//!
//! When the second, the zones or the settings change, everything is forgotten. So entries are never replaced one by one: what has no
//! room is not kept until the next second.

use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use foldhash::fast::RandomState;
use nameward_answer::{AnswerKind, Engine, Reply};
use nameward_stats::{Protocol, Transport};
use nameward_wire::message::Query;
use nameward_zone::ZoneTable;

use super::path::Turn;
use super::record::{Done, record_repeated};
use crate::rate_limit::Account;

/// Number of buckets, a power of two.
const BUCKETS: usize = 512;
/// References in a bucket: 32 octets, half a cache line.
const BUCKET: usize = 8;
/// Maximum number of replies.
const ENTRIES: usize = BUCKETS * BUCKET / 2;
/// Octets for all queries and replies.
const OCTETS: usize = 384 * 1024;
/// Octets of the longest query that is looked for.
const QUERY_MAX: usize = u8::MAX as usize;
/// Octets of the message ID, in which equal queries differ.
const ID: usize = 2;

/// Queries in a round, after which it is decided whether looking for them pays.
const ROUND: u32 = 4096;
/// It pays if one of so many is found.
const FOUND_OF: u32 = 8;
/// After a round in which it did not, the next one begins after so many others.
const PAUSE: u32 = 16 * ROUND;

/// The inputs of the engine besides the query. Weak references keep addresses from being used again, not zones in memory.
#[derive(Default)]
struct Basis {
    zones: Weak<ZoneTable>,
    engine: Weak<Engine>,
    second: u32,
}

/// A kept reply.
struct Entry {
    /// Where the query starts in the octets of all, without its ID. The reply follows it, without its ID as well.
    at: u32,
    query_len: u8,
    dnssec_ok: bool,
    done: Done,
    /// The account that a rate limiter charges.
    account: Account,
}

/// A reference to a kept reply, valid for the batch.
#[derive(Clone, Copy)]
pub(super) struct Repeated(u16);

/// A reply that was kept.
pub(super) struct Kept<'r> {
    pub(super) done: &'r Done,
    pub(super) dnssec_ok: bool,
    account: Account,
    octets: &'r [u8],
}

impl Kept<'_> {
    /// Writes the reply to a query.
    #[inline]
    pub(super) fn write(&self, query: &[u8], out: &mut [u8]) {
        out[..ID].copy_from_slice(&query[..ID]);
        out[ID..self.done.len()].copy_from_slice(self.octets);
    }
}

/// The replies of one worker in the current second.
pub(super) struct RecentReplies {
    hasher: RandomState,
    /// 16 bits of the hash, and the number of the entry from 1; 0 if there is none. Filled from the start.
    buckets: Box<[[u32; BUCKET]; BUCKETS]>,
    entries: Vec<Entry>,
    octets: Vec<u8>,
    basis: Basis,
    looked: u32,
    found: u32,
    /// Queries that are not looked for.
    paused: u32,
}

impl RecentReplies {
    pub(super) fn new() -> Self {
        let Ok(buckets) = vec![[0; BUCKET]; BUCKETS].into_boxed_slice().try_into() else {
            unreachable!("as long as the array")
        };
        RecentReplies {
            hasher: RandomState::default(),
            buckets,
            entries: Vec::with_capacity(ENTRIES),
            octets: Vec::with_capacity(OCTETS),
            basis: Basis::default(),
            looked: 0,
            found: 0,
            paused: 0,
        }
    }

    /// Begins a batch of this many datagrams; false if looking for them does not pay.
    #[inline]
    pub(super) fn begin(
        &mut self,
        datagrams: usize,
        (zones, engine, second): (&Arc<ZoneTable>, &Arc<Engine>, u32),
    ) -> bool {
        let datagrams = datagrams as u32;
        if self.paused > 0 {
            self.paused = self.paused.saturating_sub(datagrams);
            return false;
        }
        if self.looked >= ROUND {
            let pays = self.found >= self.looked / FOUND_OF;
            self.paused = if pays { 0 } else { PAUSE };
            (self.looked, self.found) = (0, 0);
        }
        self.looked += datagrams;
        let basis = &self.basis;
        let is_same = basis.second == second
            && Weak::as_ptr(&basis.zones) == Arc::as_ptr(zones)
            && Weak::as_ptr(&basis.engine) == Arc::as_ptr(engine);
        if !is_same {
            self.clear();
            self.basis = Basis {
                zones: Arc::downgrade(zones),
                engine: Arc::downgrade(engine),
                second,
            };
        }
        true
    }

    fn clear(&mut self) {
        if !self.entries.is_empty() {
            self.buckets.fill([0; BUCKET]);
            self.entries.clear();
            self.octets.clear();
        }
    }

    #[inline]
    fn hash(&self, query: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(query);
        hasher.finish()
    }

    /// Looks for the reply to an equal query.
    #[inline]
    pub(super) fn find(&mut self, packet: &[u8]) -> Option<Repeated> {
        let query = packet.get(ID..)?;
        if query.len() > QUERY_MAX {
            return None;
        }
        let hash = self.hash(query);
        let tag = tag_of(hash);
        for slot in self.buckets[bucket_of(hash)] {
            if slot == 0 {
                return None;
            }
            let number = (slot as u16).wrapping_sub(1);
            if slot & TAG == tag
                && let Some(entry) = self.entries.get(usize::from(number))
                && entry.query_len as usize == query.len()
                && self
                    .octets
                    .get(entry.at as usize..)
                    .is_some_and(|kept| kept.starts_with(query))
            {
                self.found += 1;
                return Some(Repeated(number));
            }
        }
        None
    }

    /// Returns the reply to an equal query.
    #[inline]
    pub(super) fn kept(&self, repeated: Repeated) -> Kept<'_> {
        let entry = &self.entries[usize::from(repeated.0)];
        let at = entry.at as usize + entry.query_len as usize;
        Kept {
            done: &entry.done,
            dnssec_ok: entry.dnssec_ok,
            account: entry.account,
            octets: &self.octets[at..at + entry.done.len() - ID],
        }
    }

    /// Returns what the reply to an equal query is charged to.
    #[inline]
    pub(super) fn account(&self, repeated: Repeated) -> &Account {
        &self.entries[usize::from(repeated.0)].account
    }

    /// Keeps a reply that depends on nothing but the query, unless there is no room for it.
    pub(super) fn keep(
        &mut self,
        query: &Query<'_>,
        (done, account): (Done, Account),
        reply: &[u8],
    ) {
        let (Some(octets), Some(reply)) = (query.packet().get(ID..), reply.get(ID..)) else {
            return;
        };
        let room = OCTETS - self.octets.len();
        if self.entries.len() == ENTRIES
            || octets.len() > QUERY_MAX
            || octets.len() + reply.len() > room
        {
            return;
        }
        let hash = self.hash(octets);
        let number = self.entries.len() as u32 + 1;
        let tag = tag_of(hash);
        // A batch may contain the same query twice.
        let slots = self.buckets[bucket_of(hash)].iter_mut();
        match slots
            .take_while(|slot| **slot & TAG != tag || **slot == 0)
            .find(|slot| **slot == 0)
        {
            Some(free) => *free = tag | number,
            None => return,
        }
        self.entries.push(Entry {
            at: self.octets.len() as u32,
            query_len: octets.len() as u8,
            dnssec_ok: query.edns.is_some_and(|edns| edns.dnssec_ok),
            done,
            account,
        });
        self.octets.extend_from_slice(octets);
        self.octets.extend_from_slice(reply);
    }
}

impl Turn<'_> {
    /// Returns the replies of this second for a batch of datagrams, if nothing else than zones and settings decides about them.
    #[inline]
    pub(super) fn recent<'r>(
        &self,
        recent: &'r mut RecentReplies,
        datagrams: usize,
    ) -> Option<&'r mut RecentReplies> {
        let (zones, engine) = self.snapshot;
        let is_same_for_all = !self.demands_cookies
            && self.hand_off.is_none()
            && self.rules.allow_query.is_none()
            && zones.views().is_none()
            && !zones.has_access_lists();
        let basis = (zones, engine, self.scratch.now());
        (is_same_for_all && recent.begin(datagrams, basis)).then_some(recent)
    }

    /// Checks whether equal queries get the same reply.
    #[inline]
    pub(super) fn is_repeatable(&self, query: &Query<'_>, reply: &Reply) -> bool {
        self.is_from_memory
            && query.is_plain
            && !self.scratch.has_computed()
            && matches!(
                reply.outcome,
                AnswerKind::Answer
                    | AnswerKind::NoData
                    | AnswerKind::NxDomain
                    | AnswerKind::Referral
            )
    }

    /// Answers a query like an equal one, unless its sender is over the rate limit.
    #[inline]
    pub(super) fn repeat(
        &mut self,
        recent: &Option<&mut RecentReplies>,
        repeated: Repeated,
        (packet, peer): (&[u8], SocketAddr),
        out: &mut [u8],
    ) -> Done {
        let Some(recent) = recent else {
            return Done::NOTHING;
        };
        let kept = recent.kept(repeated);
        let transport = Transport::to(Protocol::Udp, peer.ip());
        record_repeated(self.recorder, (packet, &kept), transport, peer.ip());
        if self.limits.is_some()
            && let Some(limited) = self.limit_repeated(kept.account, packet, peer, out)
        {
            return limited;
        }
        kept.write(packet, out);
        *kept.done
    }
}

/// The part of a slot that is compared with the hash.
const TAG: u32 = 0xffff_0000;

#[inline]
fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32 & TAG
}

#[inline]
fn bucket_of(hash: u64) -> usize {
    hash as usize % BUCKETS
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_wire::Rcode;

    const ACCOUNT: Account = Account::MALFORMED;

    struct Snapshot(Arc<ZoneTable>, Arc<Engine>);

    impl Snapshot {
        fn new() -> Self {
            Snapshot(Arc::default(), Arc::default())
        }

        fn at(&self, second: u32) -> (&Arc<ZoneTable>, &Arc<Engine>, u32) {
            (&self.0, &self.1, second)
        }
    }

    /// A query whose ID is `id` and whose name has one label of these octets.
    fn packet(id: u8, label: &[u8]) -> Vec<u8> {
        let mut packet = vec![id, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, label.len() as u8];
        packet.extend_from_slice(label);
        packet.extend_from_slice(&[0, 0, 1, 0, 1]);
        packet
    }

    fn keep(recent: &mut RecentReplies, packet: &[u8], reply: &[u8]) {
        let query = Query::parse(packet).unwrap();
        let written = Reply::new(reply.len(), Rcode::NoError, AnswerKind::Answer);
        let done = Done::new(written, &query, nameward_zone::ViewId::DEFAULT);
        recent.keep(&query, (done, ACCOUNT), reply);
    }

    fn find(recent: &mut RecentReplies, packet: &[u8]) -> Option<Vec<u8>> {
        let repeated = recent.find(packet)?;
        let kept = recent.kept(repeated);
        let mut out = [0; 4096];
        kept.write(packet, &mut out);
        Some(out[..kept.done.len()].to_vec())
    }

    #[test]
    fn an_equal_query_gets_the_reply_with_its_own_id() {
        let (snapshot, mut recent) = (Snapshot::new(), RecentReplies::new());
        assert!(recent.begin(3, snapshot.at(7)));
        keep(&mut recent, &packet(1, b"a"), b"\x01\x01reply");
        assert_eq!(
            find(&mut recent, &packet(9, b"a")).unwrap(),
            b"\x09\x09reply"
        );
        assert_eq!(find(&mut recent, &packet(1, b"A")), None);
        assert_eq!(find(&mut recent, &packet(1, b"b")), None);
        for len in 0..packet(1, b"a").len() {
            assert_eq!(find(&mut recent, &packet(1, b"a")[..len]), None, "{len}");
        }
    }

    #[test]
    fn nothing_outlives_its_second_its_zones_and_its_settings() {
        let (first, mut recent) = (Snapshot::new(), RecentReplies::new());
        let zones = Snapshot(Arc::default(), Arc::clone(&first.1));
        let settings = Snapshot(Arc::clone(&first.0), Arc::default());
        for other in [first.at(8), zones.at(7), settings.at(7)] {
            recent.begin(1, first.at(7));
            keep(&mut recent, &packet(1, b"a"), b"\x01\x01reply");
            recent.begin(1, first.at(7));
            assert!(find(&mut recent, &packet(1, b"a")).is_some());
            recent.begin(1, other);
            assert_eq!(find(&mut recent, &packet(1, b"a")), None);
        }
    }

    #[test]
    fn zones_that_only_the_replies_refer_to_are_freed() {
        let (snapshot, mut recent) = (Snapshot::new(), RecentReplies::new());
        recent.begin(1, snapshot.at(7));
        let zones = Arc::downgrade(&snapshot.0);
        drop(snapshot);
        assert!(zones.upgrade().is_none());
    }

    #[test]
    fn what_has_no_room_is_not_kept() {
        let (snapshot, mut recent) = (Snapshot::new(), RecentReplies::new());
        recent.begin(1, snapshot.at(7));
        let (entries, octets) = (recent.entries.capacity(), recent.octets.capacity());
        for reply in [100, 4000] {
            recent.begin(1, snapshot.at(reply as u32));
            for n in 0..10_000u32 {
                let label = format!("{n}");
                keep(&mut recent, &packet(1, label.as_bytes()), &vec![1; reply]);
                // The same query again takes no room.
                keep(&mut recent, &packet(2, label.as_bytes()), &vec![1; reply]);
            }
            let found = (0..10_000u32)
                .filter(|n| find(&mut recent, &packet(1, format!("{n}").as_bytes())).is_some())
                .count();
            let room = OCTETS / (reply + 20);
            assert!(found <= ENTRIES && found > ENTRIES.min(room) / 2, "{found}");
        }
        // With a padding that no query has.
        let long = [packet(1, b"a"), vec![0; QUERY_MAX]].concat();
        assert_eq!(find(&mut recent, &long), None);
        assert_eq!(entries, recent.entries.capacity());
        assert_eq!(octets, recent.octets.capacity());
    }

    #[test]
    fn a_worker_pauses_when_queries_do_not_repeat() {
        let (snapshot, mut recent) = (Snapshot::new(), RecentReplies::new());
        let query = packet(1, b"a");
        let mut active = 0;
        for n in 0..10 * (ROUND + PAUSE) / 32 {
            if recent.begin(32, snapshot.at(7)) {
                active += 32;
                find(&mut recent, &packet(1, format!("{n}").as_bytes()));
            }
        }
        assert!(active <= 12 * ROUND, "{active}");
        // After the pause at the latest.
        while !recent.begin(32, snapshot.at(7)) {}
        keep(&mut recent, &query, b"\x01\x01reply");
        for _ in 0..100 * ROUND / 32 {
            assert!(recent.begin(32, snapshot.at(7)));
            for _ in 0..32 {
                find(&mut recent, &query);
            }
        }
    }
}
