//! The query cache: data returned by backends, including that a name does not exist.
//!
//! An entry is fresh while its zone's generation is unchanged and its TTL has not expired. After that it stays until
//! it is evicted, because it may be served for a while when its backend is down. That the data of a name is unusable
//! is cached too, briefly (RFC 2308 section 7): repeated queries for it cost the backend nothing.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{CachedName, LiveSettings};
use nameward_answer::BackendFailure;
use nameward_wire::Name;
use nameward_wire::name::same_octets;
use nameward_zone::{Find, Live, NameKey, Zone, ZoneFragment};
use quick_cache::{Equivalent, Weighter, sync::Cache};

/// Bytes that count as one entry: a larger one counts as several. Most fragments with one address take 400 to 500.
const ENTRY_BYTES: usize = 512;
/// The counters in front of the contents of an `Arc`.
const ARC_COUNTERS: usize = 2 * size_of::<usize>();
/// Maximum time a failure is cached: a row may be fixed without notice.
const FAILURE_TTL: Duration = Duration::from_secs(5);

#[derive(PartialEq, Eq)]
struct FragmentKey {
    hash: u64,
    zone: u64,
    name: CachedName,
}

struct BorrowedFragmentKey<'a> {
    hash: u64,
    zone: u64,
    name: &'a [u8],
}

// The name was hashed with a random seed when the query was parsed.
impl Hash for FragmentKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Hash for BorrowedFragmentKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

fn hash_of(live: &Live, name: &NameKey) -> u64 {
    name.hash(name.labels()) ^ live.number().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Equivalent<FragmentKey> for BorrowedFragmentKey<'_> {
    fn equivalent(&self, key: &FragmentKey) -> bool {
        self.zone == key.zone && same_octets(self.name, key.name.as_name().as_wire())
    }
}

/// A zone fragment as of one generation.
#[derive(Clone)]
pub(crate) struct CachedZoneFragment {
    pub(crate) zone: Arc<Zone>,
    pub(crate) generation: u32,
    is_shared: bool,
    expires: Instant,
}

/// A cache entry.
#[derive(Clone)]
enum CachedLookup {
    Part(CachedZoneFragment),
    /// The data of the name is unusable.
    Failure {
        generation: u32,
        expires: Instant,
    },
}

impl CachedLookup {
    fn generation(&self) -> u32 {
        match self {
            CachedLookup::Part(part) => part.generation,
            CachedLookup::Failure { generation, .. } => *generation,
        }
    }
}

/// The result of a cache look-up.
pub(crate) enum Cached {
    /// A valid fragment.
    Fresh(CachedZoneFragment),
    /// A fragment whose TTL has expired, without notice of a change.
    Old(CachedZoneFragment),
    /// A look-up failed a moment ago.
    Failed(BackendFailure),
    /// No entry.
    Nothing,
    /// Another thread holds the lock of this cache shard.
    Busy,
}

#[derive(Clone)]
struct FragmentWeight;

impl Weighter<FragmentKey, CachedLookup> for FragmentWeight {
    fn weight(&self, key: &FragmentKey, entry: &CachedLookup) -> u64 {
        let contents = match entry {
            CachedLookup::Part(part) if !part.is_shared => {
                ARC_COUNTERS + size_of::<Zone>() + part.zone.heap_bytes()
            }
            CachedLookup::Part(_) | CachedLookup::Failure { .. } => 0,
        };
        let entry = size_of::<FragmentKey>() + key.name.heap_bytes() + size_of::<CachedLookup>();
        let bytes = entry + contents;
        bytes.div_ceil(ENTRY_BYTES) as u64
    }
}

pub(crate) struct QueryCache {
    positive_ttl: Duration,
    negative_ttl: Duration,
    /// How much longer a fragment may be served.
    stale: Duration,
    parts: Option<Cache<FragmentKey, CachedLookup, FragmentWeight>>,
}

impl QueryCache {
    pub(crate) fn new(settings: &LiveSettings) -> Self {
        let entries = settings.query_entries;
        QueryCache {
            positive_ttl: settings.query_ttl,
            negative_ttl: settings.negative_ttl,
            stale: settings.stale_while_down,
            parts: (entries > 0)
                .then(|| Cache::with_weighter(entries, entries as u64, FragmentWeight)),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.parts.is_some()
    }

    /// Looks up the fragment of `live` that answers for the name of `key`; `None` if the cache is off.
    pub(crate) fn find(&self, live: &Live, key: &NameKey, now: Instant) -> Option<Cached> {
        let borrowed = BorrowedFragmentKey {
            hash: hash_of(live, key),
            zone: live.number(),
            name: key.suffix(key.labels()).as_wire(),
        };
        Some(match self.parts.as_ref()?.try_get(&borrowed) {
            Err(_) => Cached::Busy,
            Ok(Some(entry)) if entry.generation() == live.generation() => match entry {
                CachedLookup::Part(part) if now < part.expires => Cached::Fresh(part),
                CachedLookup::Part(part) if now < part.expires + self.stale => Cached::Old(part),
                CachedLookup::Failure { expires, .. } if now < expires => {
                    Cached::Failed(BackendFailure::BadData)
                }
                CachedLookup::Part(_) | CachedLookup::Failure { .. } => Cached::Nothing,
            },
            Ok(_) => Cached::Nothing,
        })
    }

    /// Caches a fragment that was looked up when the zone had this generation; false if it was skipped because the
    /// cache shard is locked.
    pub(crate) fn insert_fragment(
        &self,
        live: &Live,
        name: &NameKey,
        part: CachedZoneFragment,
    ) -> bool {
        self.insert(live, name, CachedLookup::Part(part))
    }

    /// Caches briefly that the data of a name was unusable when the zone had this generation.
    pub(crate) fn cache_failure(&self, live: &Live, name: &NameKey, generation: u32, now: Instant) {
        let expires = now + self.negative_ttl.min(FAILURE_TTL);
        let failure = CachedLookup::Failure {
            generation,
            expires,
        };
        self.insert(live, name, failure);
    }

    fn insert(&self, live: &Live, name: &NameKey, entry: CachedLookup) -> bool {
        let Some(parts) = &self.parts else {
            return true;
        };
        let key = FragmentKey {
            hash: hash_of(live, name),
            zone: live.number(),
            name: name.suffix(name.labels()).into(),
        };
        parts.try_insert(key, entry).is_ok()
    }

    /// Creates an entry for a fragment, with its expiry time.
    pub(crate) fn part(
        &self,
        part: ZoneFragment,
        name: &NameKey,
        generation: u32,
        now: Instant,
    ) -> CachedZoneFragment {
        let ttl = match part.zone.find(name) {
            Find::Missing { .. } => self.negative_ttl,
            _ => self.positive_ttl,
        };
        CachedZoneFragment {
            zone: part.zone,
            generation,
            is_shared: part.is_shared,
            expires: now + ttl,
        }
    }

    /// Drops the entries whose names `matches`; returns their number.
    pub(crate) fn flush(&self, matches: &dyn Fn(Name<'_>) -> bool) -> usize {
        let Some(parts) = &self.parts else { return 0 };
        let count = Cell::new(0);
        parts.retain(|key, _| {
            let is_match = matches(key.name.as_name());
            count.set(count.get() + usize::from(is_match));
            !is_match
        });
        count.get()
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.as_ref().map_or(0, Cache::len)
    }
}
