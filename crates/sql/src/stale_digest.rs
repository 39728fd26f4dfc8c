//! Digests (ZONEMD) in live zones that are of another serial than the zone: left out, and logged once for each serial.

use nameward_base::sync::Mutex;
use nameward_wire::Name;
use std::collections::HashMap;

/// Zones that are remembered, so that each is logged once.
const WARNED_MAX: usize = 100_000;

/// The serials of zones at which a digest was left out, by the id of the zone.
#[derive(Default)]
pub(super) struct StaleDigests(Mutex<HashMap<i64, u32>>);

impl StaleDigests {
    /// Logs that the digest of a zone is left out, once for each serial.
    pub(super) fn note(&self, id: i64, zone: Name<'_>, serial: u32) {
        let mut warned = self.0.lock();
        let is_known = warned.contains_key(&id);
        if (is_known || warned.len() < WARNED_MAX) && warned.insert(id, serial) != Some(serial) {
            tracing::warn!(
                "zone {zone}: the ZONEMD record is of another serial than {serial} and is left out of answers and \
                 transfers: compute it again, or delete it"
            );
        }
    }
}
