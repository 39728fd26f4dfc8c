//! Zones that are in the database and not served: expired secondary zones (RFC 1035 section 3.3.13).

use crate::table::lower_case;
use nameward_base::sync::Mutex;
use nameward_wire::Name;
use std::collections::HashSet;

/// The names of such zones, set by the refresh of secondary zones and applied by the database follower.
#[derive(Default)]
pub(super) struct WithheldZones {
    names: Mutex<HashSet<Box<[u8]>>>,
}

impl WithheldZones {
    /// Withholds a zone, or releases it; returns whether that is new.
    pub(super) fn set(&self, zone: Name<'_>, is_withheld: bool) -> bool {
        let name = lower_case(zone);
        let mut names = self.names.lock();
        if is_withheld {
            names.insert(name)
        } else {
            names.remove(&name)
        }
    }

    pub(super) fn has(&self, zone: Name<'_>) -> bool {
        let names = self.names.lock();
        !names.is_empty() && names.contains(&lower_case(zone))
    }
}
