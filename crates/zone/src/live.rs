//! Live zones: which backend has the contents, and the generation that caches compare.
//!
//! The generation is incremented with every change, so cached data of an older generation is recognised as stale at
//! once.

use nameward_wire::Name;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A zone whose contents are in a backend.
#[derive(Debug)]
pub struct Live {
    id: i64,
    number: u64,
    name: InlineName,
    /// It may wrap: nothing is cached for as long as 2^32 changes take.
    generation: AtomicU32,
    backend: u16,
    lookups: AtomicU16,
}

/// A name in wire form that is usually short enough to be stored in place.
#[derive(Debug)]
enum InlineName {
    Short { len: u8, wire: [u8; SHORT] },
    Long(Box<[u8]>),
}

/// The longest name in place. With one octet more, [`crate::Zone`] would no longer fit into its block.
const SHORT: usize = 30;

impl InlineName {
    fn new(name: Name<'_>) -> Self {
        let long = name.as_wire();
        let mut wire = [0; SHORT];
        match wire.get_mut(..long.len()) {
            Some(short) => {
                short.copy_from_slice(long);
                let len = long.len() as u8;
                InlineName::Short { len, wire }
            }
            None => InlineName::Long(long.into()),
        }
    }

    #[inline]
    fn name(&self) -> Name<'_> {
        Name::from_valid_wire(match self {
            InlineName::Short { len, wire } => &wire[..usize::from(*len)],
            InlineName::Long(wire) => wire,
        })
    }
}

impl Live {
    pub(crate) fn new(name: Name<'_>, backend: u32, id: i64) -> Self {
        Live {
            id,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            name: InlineName::new(name),
            generation: AtomicU32::new(0),
            // There is no such backend, so nothing is found in it.
            backend: u16::try_from(backend).unwrap_or(u16::MAX),
            lookups: AtomicU16::new(0),
        }
    }

    /// Returns the name of the zone, or of its version.
    #[inline]
    pub(crate) fn name(&self) -> Name<'_> {
        self.name.name()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.name {
            InlineName::Short { .. } => 0,
            InlineName::Long(wire) => wire.len(),
        }
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
