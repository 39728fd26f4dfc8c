//! Zones that are not held in memory: zones looked up in a backend, and zones that are not ready.
//!
//! In the zone table, such a zone is a placeholder with nothing but its name. A looked-up zone has a [`Live`] whose
//! generation is incremented with every change, so cached data of an older generation is recognised as stale at once. A
//! zone that is not ready is known to exist, but has not been loaded yet or could not be loaded: queries for it are
//! answered SERVFAIL, because REFUSED would mean that the zone is not served here.

use crate::draft::{Draft, Keep};
use crate::packed::{ALIGN, Packed};
use crate::zone::{DepthSet, Zone, ZoneSummary};
use nameward_wire::Name;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A zone whose contents are in a backend.
#[derive(Debug)]
pub struct Live {
    /// The backend that has the zone.
    pub backend: u32,
    /// The zone ID in the backend.
    pub id: i64,
    number: u64,
    generation: AtomicU64,
    lookups: AtomicU32,
}

impl Live {
    /// Creates the handle of a backend zone, with a number of its own.
    pub fn new(backend: u32, id: i64) -> Arc<Self> {
        Arc::new(Live {
            backend,
            id,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            generation: AtomicU64::new(0),
            lookups: AtomicU32::new(0),
        })
    }

    /// Returns a number that is unique in this process.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the generation of the contents.
    #[inline]
    pub fn generation(&self) -> u64 {
        // Data read after seeing the new generation is at least as new.
        self.generation.load(Ordering::Acquire)
    }

    /// Increments the generation, because the contents have changed.
    pub fn advance(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Starts a lookup unless `limit` lookups are already in flight.
    pub fn begin_lookup(&self, limit: u32) -> bool {
        let more = |lookups: u32| (lookups < limit).then_some(lookups + 1);
        self.lookups
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Ends a lookup that was started.
    pub fn end_lookup(&self) {
        self.lookups.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Zone {
    /// Creates the placeholder for a zone whose contents are looked up.
    pub fn stand_in(apex: Name<'_>, live: Arc<Live>) -> Zone {
        let mut zone = Zone::without_contents(apex);
        zone.set_live(live);
        zone
    }

    /// Creates the placeholder for a zone that is known to exist but cannot be served: it is not loaded yet, its source
    /// does not respond, or the source's data is unusable.
    pub fn not_ready(apex: Name<'_>) -> Zone {
        let mut zone = Zone::without_contents(apex);
        zone.set_not_ready();
        zone
    }

    fn without_contents(id: Name<'_>) -> Zone {
        let apex = id.zone();
        let labels = apex.label_count() as u8;
        let draft = Draft::default();
        let mut arena = Vec::with_capacity(ALIGN + draft.encoded_len_max(apex));
        arena.resize(ALIGN, 0);
        let keep = Keep {
            children: 0,
            flags: 0,
        };
        draft.encode(apex, true, keep, &mut arena);
        let packed = Packed {
            slots: Box::default(),
            arena: arena.into_boxed_slice(),
        };
        let summary = ZoneSummary {
            apex: 1,
            apex_labels: labels,
            max_labels: labels,
            has_scripts: false,
            cut_depths: DepthSet::default(),
            names: 1,
            has_auto_hints: false,
        };
        let zone = Zone::new(packed, summary);
        zone.set_id(id);
        zone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NameKey, ZoneTable};
    use nameward_wire::{NameBuf, Type};

    #[test]
    fn a_stand_in_is_found_like_any_zone_and_tells_where_its_contents_are() {
        let mut table = ZoneTable::default();
        for name in [".", "Example.ORG."] {
            let name: NameBuf = name.parse().unwrap();
            table.insert(Arc::new(Zone::stand_in(name.as_name(), Live::new(3, 7))));
        }
        let name: NameBuf = "a.b.example.org.".parse().unwrap();
        let key = NameKey::new(name.as_name());
        let zone = table.zone_for(&key, Type::A).unwrap();
        assert_eq!(zone.apex_name().to_string(), "Example.ORG.");
        let live = zone.live().unwrap();
        assert_eq!((live.backend, live.id, live.generation()), (3, 7, 0));
        live.advance();
        assert_eq!(live.generation(), 1);
        let root = table.exact(Name::ROOT).unwrap();
        assert_ne!(root.live().unwrap().number(), live.number());
    }

    #[test]
    fn lookups_in_flight_are_bounded() {
        let live = Live::new(0, 1);
        assert!(live.begin_lookup(2) && live.begin_lookup(2) && !live.begin_lookup(2));
        live.end_lookup();
        assert!(live.begin_lookup(2));
    }
}
