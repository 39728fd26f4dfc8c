//! Look-ups in progress, each with the queries that wait for it.
//!
//! Queries that need the same name in the same generation of a zone share one look-up. The number of queries waiting
//! for one source is limited, and so is the number of look-ups per zone (a flood of random names must not reach the
//! database).

use nameward_base::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nameward_zone::{Live, LiveHandle, LookupRequest, NameKey};
use smallvec::{SmallVec, smallvec};

use super::CachedName;
use super::query_cache::Cached;
use super::view::FetchedFragment;
use crate::client_shares::ClientSlot;
use crate::pipeline::LateRequest;

const SHARDS: usize = 16;

/// A query that waits for a look-up, with the zone fragments fetched for it so far.
pub(crate) struct WaitingQuery {
    pub(crate) request: Box<LateRequest>,
    pub(crate) parts: Vec<FetchedFragment>,
    /// The slot of its client in the queue that it waits in.
    pub(crate) slot: Option<ClientSlot>,
}

/// A look-up of one name in a live zone. Two are equal if they are for the same name in the same generation of a
/// zone.
pub(crate) struct Lookup {
    pub(crate) live: LiveHandle,
    /// The zone's generation when the look-up started.
    pub(crate) generation: u32,
    /// The name, in lower case.
    pub(crate) name: CachedName,
    /// Hash of the name, with a random seed.
    pub(crate) name_hash: u64,
    /// When the first query requested it.
    pub(crate) requested_at: Instant,
}

impl PartialEq for Lookup {
    fn eq(&self, other: &Self) -> bool {
        // Both are lower case.
        let (name, other_name) = (self.name.as_name(), other.name.as_name());
        self.live.number() == other.live.number()
            && self.generation == other.generation
            && name.as_wire() == other_name.as_wire()
    }
}

impl Eq for Lookup {}

impl Hash for Lookup {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.combined_hash());
    }
}

/// Hasher for values that already are hashes.
#[derive(Default)]
struct LookupHasher(u64);

impl Hasher for LookupHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

impl Lookup {
    /// Returns the look-up as its source gets it.
    pub(crate) fn request(&self) -> LookupRequest<'_> {
        self.live.request(self.name.as_name())
    }

    /// Returns a hash of the name, the zone and its generation.
    fn combined_hash(&self) -> u64 {
        let of_zone = self.live.number().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let of_generation = u64::from(self.generation).wrapping_mul(0xa076_1d64_78bd_642f);
        self.name_hash ^ of_zone ^ of_generation
    }
}

/// The queries that wait for one look-up: usually one.
pub(crate) type Queries = SmallVec<[WaitingQuery; 1]>;

struct Waiters {
    queries: Queries,
    /// The query cache has no stale data for this name.
    has_no_stale: bool,
}

type Shard = HashMap<Arc<Lookup>, Waiters, BuildHasherDefault<LookupHasher>>;

/// The outcome for a query that has to wait.
pub(crate) enum Admission {
    /// The caller must start the look-up.
    First,
    /// It waits for a look-up in progress.
    Joined,
    /// The limit is reached; the query is returned.
    Full(WaitingQuery),
}

/// The number of queries that wait for one source, with its limit.
pub(crate) struct WaitingCount {
    count: AtomicUsize,
    most: usize,
}

impl WaitingCount {
    pub(crate) fn new(most: usize) -> Self {
        WaitingCount {
            count: AtomicUsize::new(0),
            most,
        }
    }

    pub(crate) fn get(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn try_add(&self) -> bool {
        let is_free = self.count.fetch_add(1, Ordering::Relaxed) < self.most;
        if !is_free {
            self.subtract(1);
        }
        is_free
    }

    pub(crate) fn subtract(&self, queries: usize) {
        self.count.fetch_sub(queries, Ordering::Relaxed);
    }
}

/// The times after which a waiting query is answered without its look-up.
pub(crate) struct SweepSettings<'a> {
    pub(crate) now: Instant,
    /// Age at which stale data may be served.
    pub(crate) stale_after: Duration,
    /// Age at which the query is given up.
    pub(crate) query_timeout: Duration,
    /// Finds a stale fragment in the query cache.
    pub(crate) find_stale: &'a dyn Fn(&Live, &NameKey) -> Option<Cached>,
}

/// A query that has waited so long that it is taken out.
pub(crate) enum Overdue {
    /// A stale fragment was found and added to it.
    Stale(WaitingQuery),
    /// There is no stale fragment.
    TooLate(WaitingQuery),
}

/// The result of a sweep.
#[derive(Default)]
pub(crate) struct Swept {
    /// The queries taken out, each with the number of its source.
    pub(crate) overdue: Vec<(u32, Overdue)>,
    /// Sources with a query that has waited longer than `stale_after`.
    pub(crate) late: Vec<u32>,
}

pub(crate) struct Lookups {
    shards: [Mutex<Shard>; SHARDS],
    max_per_zone: u32,
}

impl Lookups {
    pub(crate) fn new(max_per_zone: u32) -> Self {
        Lookups {
            shards: Default::default(),
            max_per_zone,
        }
    }

    fn shard(&self, lookup: &Lookup) -> MutexGuard<'_, Shard> {
        // The hash table itself uses the lowest and the highest bits.
        let shard = (lookup.combined_hash() >> 32) as usize % SHARDS;
        self.shards[shard].lock()
    }

    /// Lets a query wait for a look-up, counted in `waiting`.
    pub(crate) fn join(
        &self,
        lookup: &Arc<Lookup>,
        waiting: &WaitingCount,
        query: WaitingQuery,
    ) -> Admission {
        if !waiting.try_add() {
            return Admission::Full(query);
        }
        let mut shard = self.shard(lookup);
        if let Some(waiters) = shard.get_mut(lookup) {
            waiters.queries.push(query);
            return Admission::Joined;
        }
        if !lookup.live.begin_lookup(self.max_per_zone) {
            drop(shard);
            waiting.subtract(1);
            return Admission::Full(query);
        }
        let waiters = Waiters {
            queries: smallvec![query],
            has_no_stale: false,
        };
        shard.insert(Arc::clone(lookup), waiters);
        Admission::First
    }

    /// Ends a look-up and returns the queries that waited for it.
    pub(crate) fn end(&self, lookup: &Lookup, waiting: &WaitingCount) -> Queries {
        lookup.live.end_lookup();
        let waiters = self.shard(lookup).remove(lookup);
        let queries = waiters.map_or_else(Queries::new, |waiters| waiters.queries);
        waiting.subtract(queries.len());
        queries
    }

    /// Ends a look-up if no query waits for it any longer; true if so.
    pub(crate) fn end_if_unwanted(&self, lookup: &Lookup) -> bool {
        let mut shard = self.shard(lookup);
        let is_unwanted = shard
            .get(lookup)
            .is_some_and(|waiters| waiters.queries.is_empty());
        if is_unwanted {
            shard.remove(lookup);
            lookup.live.end_lookup();
        }
        is_unwanted
    }

    /// Takes out the queries that have waited too long. Look-ups in progress continue: their results serve clients
    /// that retry.
    pub(crate) fn sweep(&self, settings: &SweepSettings<'_>) -> Swept {
        let mut swept = Swept::default();
        for shard in &self.shards {
            let mut shard = shard.lock();
            for (lookup, waiters) in shard.iter_mut() {
                waiters.sweep(lookup, settings, &mut swept);
            }
        }
        swept
    }
}

impl Waiters {
    fn sweep(&mut self, lookup: &Lookup, settings: &SweepSettings<'_>, swept: &mut Swept) {
        let waited = |query: &WaitingQuery| {
            let now = settings.now;
            now.saturating_duration_since(query.request.received())
        };
        // Queries mostly arrive in order, but those in a CNAME chain have waited elsewhere before.
        let longest = self.queries.iter().map(waited).max().unwrap_or_default();
        if longest < settings.stale_after.min(settings.query_timeout) {
            return;
        }
        let (live, backend) = (&lookup.live, lookup.live.backend());
        if longest >= settings.stale_after && !swept.late.contains(&backend) {
            swept.late.push(backend);
        }
        let key = NameKey::new(lookup.name.as_name());
        let mut stale = None;
        if longest >= settings.stale_after && !self.has_no_stale {
            match (settings.find_stale)(live, &key) {
                Some(Cached::Fresh(part) | Cached::Old(part)) => stale = Some(part),
                Some(Cached::Busy) => {}
                Some(Cached::Failed(_) | Cached::Nothing) | None => self.has_no_stale = true,
            }
        }
        let after = match stale {
            Some(_) => settings.stale_after,
            None => settings.query_timeout,
        };
        if longest < after {
            return;
        }
        let (overdue, others): (Queries, Queries) =
            (self.queries.drain(..)).partition(|query| waited(query) >= after);
        self.queries = others;
        swept.overdue.extend(overdue.into_iter().map(|mut query| {
            let overdue = match &stale {
                Some(part) => {
                    let zone = Arc::clone(&part.zone);
                    let held = FetchedFragment::new(live, &key, part.generation, zone);
                    query.parts.push(held);
                    Overdue::Stale(query)
                }
                None => Overdue::TooLate(query),
            };
            (backend, overdue)
        }));
    }
}
