//! Live zones: which backend has the contents, and the generation that caches compare.
//!
//! The generation is incremented with every change, so cached data of an older generation is recognised as stale at
//! once.

use nameward_wire::Name;
use nameward_wire::name::InlineName;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A zone whose contents are in a backend.
#[derive(Debug)]
pub struct Live {
    id: i64,
    number: u64,
    name: InlineName<SHORT>,
    /// It may wrap: nothing is cached for as long as 2^32 changes take.
    generation: AtomicU32,
    backend: u16,
    lookups: AtomicU16,
}

/// Octets of the longest name in place. With one octet more, [`crate::Zone`] would no longer fit into its block.
const SHORT: usize = 30;

impl Live {
    pub(crate) fn new(name: Name<'_>, backend: u32, id: i64) -> Self {
        Live {
            id,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            name: name.into(),
            generation: AtomicU32::new(0),
            // There is no such backend, so nothing is found in it.
            backend: u16::try_from(backend).unwrap_or(u16::MAX),
            lookups: AtomicU16::new(0),
        }
    }

    /// Returns the name of the zone, or of its version.
    #[inline]
    pub(crate) fn name(&self) -> Name<'_> {
        self.name.as_name()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.name.heap_bytes()
    }

    /// Returns the zone ID in the backend.
    #[inline]
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Returns the backend that has the zone.
    #[inline]
    pub fn backend(&self) -> u32 {
        self.backend.into()
    }

    /// Returns a number that is unique in this process.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the generation of the contents.
    #[inline]
    pub fn generation(&self) -> u32 {
        // Data read after seeing the new generation is at least as new.
        self.generation.load(Ordering::Acquire)
    }

    /// Increments the generation, because the contents have changed.
    pub fn advance(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Starts a lookup unless `limit` lookups are already in flight.
    pub fn begin_lookup(&self, limit: u32) -> bool {
        let more = |lookups: u16| {
            let next = lookups.checked_add(1);
            next.filter(|_| u32::from(lookups) < limit)
        };
        self.lookups
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Ends a lookup that was started.
    pub fn end_lookup(&self) {
        self.lookups.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_in_flight_are_bounded() {
        let live = Live::new(Name::ROOT, 0, 1);
        assert!(live.begin_lookup(2) && live.begin_lookup(2) && !live.begin_lookup(2));
        live.end_lookup();
        assert!(live.begin_lookup(2));
    }
}
