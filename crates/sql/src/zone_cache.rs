//! A cache of facts about zones: bounded, evicted one by one, dropped when a zone changes.
//!
//! The absence of facts is a fact too, so zones without keys or metadata cost a statement now and then, not one per
//! query. The fact last read is remembered beyond its TTL, in case the database does not deliver the next one: a zone
//! that was signed must not become unsigned.

use super::LiveZone;
use quick_cache::sync::Cache;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long the last known fact is used before the database is queried again.
const RETRY: Duration = Duration::from_secs(2);

/// How much is cached, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct CacheBounds {
    /// Number of zones; 0 disables the cache.
    pub entries: usize,
    /// How long a fact is valid without a change notification.
    pub ttl: Duration,
}

/// The fact last read about a zone, and the name of the zone: an ID may be reused for another one.
type LastFact<T> = (Arc<T>, Arc<[u8]>);

/// Facts by zone ID.
pub(crate) struct ZoneCache<T> {
    ttl: Duration,
    /// Facts and their expiry times.
    valid: Option<Cache<i64, (Arc<T>, Instant)>>,
    last: Option<Cache<i64, LastFact<T>>>,
    /// Counts calls of [`ZoneCache::forget`].
    generation: AtomicU64,
}

impl<T> ZoneCache<T> {
    pub(crate) fn new(bounds: CacheBounds) -> Self {
        let is_on = bounds.entries > 0 && !bounds.ttl.is_zero();
        ZoneCache {
            ttl: bounds.ttl,
            valid: is_on.then(|| Cache::new(bounds.entries)),
            last: (bounds.entries > 0).then(|| Cache::new(bounds.entries)),
            generation: AtomicU64::new(0),
        }
    }

    /// Returns the fact about a zone while it is valid.
    pub(crate) fn find(&self, zone: i64) -> Option<Arc<T>> {
        let (value, until) = self.valid.as_ref()?.get(&zone)?;
        (Instant::now() < until).then_some(value)
    }

    /// Returns the generation, which must be read before the database is queried and passed to [`ZoneCache::insert`].
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Caches data read after `generation` was read, unless anything has changed since.
    pub(crate) fn insert(&self, zone: &LiveZone, value: Arc<T>, generation: u64) {
        if let Some(last) = &self.last {
            let apex = zone.apex.as_name().as_wire().into();
            last.insert(zone.id, (value.clone(), apex));
        }
        self.keep_for(self.ttl, zone.id, value, generation);
    }

    /// Returns the fact last read about a zone, and uses it briefly, because the database does not deliver it now.
    pub(crate) fn fall_back(&self, zone: &LiveZone, generation: u64) -> Option<Arc<T>> {
        let (last, apex) = self.last.as_ref()?.get(&zone.id)?;
        if *apex != *zone.apex.as_name().as_wire() {
            return None;
        }
        self.keep_for(RETRY.min(self.ttl), zone.id, last.clone(), generation);
        Some(last)
    }

    /// Caches data for a time, unless anything has changed since `generation` was read.
    pub(crate) fn keep_for(&self, time: Duration, zone: i64, value: Arc<T>, generation: u64) {
        let Some(cache) = &self.valid else { return };
        cache.insert(zone, (value, Instant::now() + time));
        // Checked afterwards, so that a change in between is seen by one side or the other.
        if self.generation() != generation {
            cache.remove(&zone);
        }
    }

    /// Drops the entry of a zone that changed; `None`: of all zones. Returns the number of dropped entries.
    pub(crate) fn forget(&self, zone: Option<i64>) -> usize {
        self.generation.fetch_add(1, Ordering::SeqCst);
        let Some(cache) = &self.valid else { return 0 };
        match zone {
            Some(zone) => usize::from(cache.remove(&zone).is_some()),
            None => {
                let count = cache.len();
                cache.clear();
                count
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.valid.as_ref().map_or(0, Cache::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(id: i64) -> LiveZone {
        LiveZone {
            id,
            apex: "example.org".parse().unwrap(),
        }
    }

    fn cache(entries: usize, ttl: Duration) -> ZoneCache<u8> {
        ZoneCache::new(CacheBounds { entries, ttl })
    }

    #[test]
    fn zones_read_before_a_change_are_not_cached_after_it() {
        let cache = cache(10, Duration::from_secs(60));
        let generation = cache.generation();
        cache.forget(Some(2));
        cache.insert(&zone(1), Arc::new(7), generation);
        assert_eq!(cache.find(1), None);
        cache.insert(&zone(1), Arc::new(7), cache.generation());
        assert_eq!(cache.find(1), Some(Arc::new(7)));
        assert_eq!((cache.forget(Some(1)), cache.find(1)), (1, None));
    }

    #[test]
    fn it_is_bounded_and_can_be_off() {
        let small = cache(100, Duration::from_secs(60));
        for id in 0..10_000 {
            small.insert(&zone(id), Arc::new(1), small.generation());
        }
        assert!(small.len() <= 100, "{}", small.len());
        assert!(small.forget(None) > 50);
        assert_eq!(small.len(), 0);
        for off in [cache(0, Duration::from_secs(60)), cache(10, Duration::ZERO)] {
            off.insert(&zone(1), Arc::new(1), off.generation());
            assert_eq!((off.find(1), off.len()), (None, 0));
        }
    }

    #[test]
    fn the_last_fact_outlives_changes_and_time_but_not_a_change_of_the_name() {
        let cache = cache(10, Duration::from_secs(60));
        assert_eq!(cache.fall_back(&zone(1), cache.generation()), None);
        cache.insert(&zone(1), Arc::new(7), cache.generation());
        cache.forget(None);
        assert_eq!(cache.find(1), None);
        let other = LiveZone {
            apex: "example.net".parse().unwrap(),
            ..zone(1)
        };
        assert_eq!(cache.fall_back(&other, cache.generation()), None);
        assert_eq!(cache.find(1), None);
        let last = cache.fall_back(&zone(1), cache.generation());
        assert_eq!(
            (last, cache.find(1)),
            (Some(Arc::new(7)), Some(Arc::new(7)))
        );
    }
}
