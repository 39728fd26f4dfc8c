//! Facts about zones that are kept for a while: bounded, evicted one by one, dropped when a zone changes.
//!
//! That a zone has none of them is a fact too, so zones without keys or metadata cost a statement now and then, not one
//! for each question.

use quick_cache::sync::Cache;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How much is kept, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct CacheBounds {
    /// Zones; 0 keeps none.
    pub entries: usize,
    /// How long what the database said is good if it does not tell of a change.
    pub ttl: Duration,
}

struct Kept<T> {
    fact: Arc<T>,
    since: Instant,
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Kept {
            fact: self.fact.clone(),
            since: self.since,
        }
    }
}

/// Facts by the id of their zone.
pub(crate) struct ZoneCache<T> {
    ttl: Duration,
    kept: Option<Cache<i64, Kept<T>>>,
    /// Counts calls of [`ZoneCache::forget`].
    generation: AtomicU64,
}

impl<T> ZoneCache<T> {
    pub(crate) fn new(bounds: CacheBounds) -> Self {
        let is_on = bounds.entries > 0 && !bounds.ttl.is_zero();
        ZoneCache {
            ttl: bounds.ttl,
            kept: is_on.then(|| Cache::new(bounds.entries)),
            generation: AtomicU64::new(0),
        }
    }

    pub(crate) fn find(&self, zone: i64) -> Option<Arc<T>> {
        let kept = self.kept.as_ref()?.get(&zone)?;
        (kept.since.elapsed() < self.ttl).then_some(kept.fact)
    }

    /// To be asked before the database is, and handed to [`ZoneCache::keep`].
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Keeps what was read after `generation` was told; not if anything changed since.
    pub(crate) fn keep(&self, zone: i64, fact: Arc<T>, generation: u64) {
        let Some(cache) = &self.kept else { return };
        let since = Instant::now();
        cache.insert(zone, Kept { fact, since });
        // Looked at afterwards, so that a change between the two is seen by one side or the other.
        if self.generation() != generation {
            cache.remove(&zone);
        }
    }

    /// The zone changed; `None`: any. Returns how many entries are gone.
    pub(crate) fn forget(&self, zone: Option<i64>) -> usize {
        self.generation.fetch_add(1, Ordering::SeqCst);
        let Some(cache) = &self.kept else { return 0 };
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
        self.kept.as_ref().map_or(0, Cache::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(entries: usize, ttl: Duration) -> ZoneCache<u8> {
        ZoneCache::new(CacheBounds { entries, ttl })
    }

    #[test]
    fn what_was_read_before_a_change_is_not_kept_after_it() {
        let cache = cache(10, Duration::from_secs(60));
        let generation = cache.generation();
        cache.forget(Some(2));
        cache.keep(1, Arc::new(7), generation);
        assert_eq!(cache.find(1), None);
        cache.keep(1, Arc::new(7), cache.generation());
        assert_eq!(cache.find(1), Some(Arc::new(7)));
        assert_eq!((cache.forget(Some(1)), cache.find(1)), (1, None));
    }

    #[test]
    fn it_is_bounded_and_can_be_off() {
        let small = cache(100, Duration::from_secs(60));
        for zone in 0..10_000 {
            small.keep(zone, Arc::new(1), small.generation());
        }
        assert!(small.len() <= 100, "{}", small.len());
        assert!(small.forget(None) > 50);
        assert_eq!(small.len(), 0);
        for off in [cache(0, Duration::from_secs(60)), cache(10, Duration::ZERO)] {
            off.keep(1, Arc::new(1), off.generation());
            assert_eq!((off.find(1), off.len()), (None, 0));
        }
    }
}
