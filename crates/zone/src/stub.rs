//! Stubs: zones in the table with nothing but their names, because they are looked up in a backend or not ready.
//!
//! A zone that is not ready is known to exist, but has not been loaded yet or could not be loaded: queries for it are
//! answered SERVFAIL, because REFUSED would mean that the zone is not served here.

use crate::live::Live;
use crate::packed::Packed;
use crate::source::LookupRequest;
use crate::summary::ZoneSummary;
use crate::zone::Zone;
use nameward_wire::Name;
use std::ops::Deref;
use std::sync::Arc;

/// A placeholder for a zone that is looked up, kept while a lookup is in flight.
#[derive(Clone)]
pub struct LiveHandle(Arc<Zone>);

impl LiveHandle {
    /// Returns the zone if it is looked up.
    pub fn new(zone: &Arc<Zone>) -> Option<Self> {
        zone.live().map(|_| LiveHandle(Arc::clone(zone)))
    }

    /// Returns the lookup of a name, which is at or below the apex and in lower case.
    pub fn request<'n>(&'n self, name: Name<'n>) -> LookupRequest<'n> {
        LookupRequest {
            zone: self.id(),
            apex: self.0.apex_name(),
            name,
        }
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
    pub fn stub(name: Name<'_>, backend: u32, id: i64) -> Zone {
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
        names: 1,
        ..ZoneSummary::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NameKey, ZoneTable};
    use nameward_wire::{NameBuf, Type};

    #[test]
    fn a_stub_is_found_like_any_zone_and_refers_to_its_contents() {
        let mut table = ZoneTable::default();
        for name in [".", "Example.ORG."] {
            let name: NameBuf = name.parse().unwrap();
            table.insert(Arc::new(Zone::stub(name.as_name(), 3, 7)));
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
}
