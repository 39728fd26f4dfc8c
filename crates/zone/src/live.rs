//! Zones that are not held in memory: zones looked up in a backend, and zones that are not ready.
//!
//! In the zone table, such a zone is a placeholder with nothing but its name. A looked-up zone has a [`Live`] whose
//! generation is incremented with every change, so cached data of an older generation is recognised as stale at once. A
//! zone that is not ready is known to exist, but has not been loaded yet or could not be loaded: queries for it are
//! answered SERVFAIL, because REFUSED would mean that the zone is not served here.

use crate::packed::Packed;
use crate::summary::{DepthSet, ZoneSummary};
use crate::zone::Zone;
use nameward_wire::Name;
use std::ops::Deref;
use std::sync::Arc;
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

/// The longest name in place. With one octet more, [`Zone`] would no longer fit into its block.
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
    fn new(name: Name<'_>, backend: u32, id: i64) -> Self {
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

/// A placeholder for a zone that is looked up, kept while a lookup is in flight.
#[derive(Clone)]
pub struct LiveHandle(Arc<Zone>);

impl LiveHandle {
    /// Returns the zone if it is looked up.
    pub fn new(zone: &Arc<Zone>) -> Option<Self> {
        zone.live().map(|_| LiveHandle(Arc::clone(zone)))
    }
}

impl Deref for LiveHandle {
    type Target = Live;

    fn deref(&self) -> &Live {
        let live = self.0.live();
        live.unwrap_or_else(|| unreachable!("checked when it was created"))
    }
}

impl Zone {
    /// Creates the placeholder for a zone whose contents are looked up in a backend, where it has this ID.
    pub fn stand_in(name: Name<'_>, backend: u32, id: i64) -> Zone {
        Zone::looked_up(Live::new(name, backend, id), apex_summary(name.zone()))
    }

    /// Creates the placeholder for a zone that is known to exist but cannot be served: it is not loaded yet, its source
    /// does not respond, or the source's data is unusable.
    pub fn not_ready(name: Name<'_>) -> Zone {
        let apex = name.zone();
        let mut zone = Zone::new(Packed::with_apex(apex), apex_summary(apex));
        zone.set_id(name);
        zone.set_not_ready();
        zone
    }
}

/// Returns the summary of a zone with nothing but its apex ([`Packed::with_apex`]).
fn apex_summary(apex: Name<'_>) -> ZoneSummary {
    let labels = apex.label_count() as u8;
    ZoneSummary {
        apex: 1,
        apex_labels: labels,
        max_labels: labels,
        has_scripts: false,
        cut_depths: DepthSet::default(),
        names: 1,
        has_auto_hints: false,
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
            table.insert(Arc::new(Zone::stand_in(name.as_name(), 3, 7)));
        }
        let name: NameBuf = "a.b.example.org.".parse().unwrap();
        let key = NameKey::new(name.as_name());
        let zone = table.zone_for(&key, Type::A).unwrap();
        assert_eq!(zone.apex_name().to_string(), "Example.ORG.");
        let live = zone.live().unwrap();
        assert_eq!((live.backend(), live.id(), live.generation()), (3, 7, 0));
        live.advance();
        assert_eq!(live.generation(), 1);
        let root = table.exact(Name::ROOT).unwrap();
        assert_ne!(root.live().unwrap().number(), live.number());
    }

    #[test]
    fn lookups_in_flight_are_bounded() {
        let live = Live::new(Name::ROOT, 0, 1);
        assert!(live.begin_lookup(2) && live.begin_lookup(2) && !live.begin_lookup(2));
        live.end_lookup();
        assert!(live.begin_lookup(2));
    }
}
