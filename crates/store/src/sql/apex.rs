//! The records of the apex that every answer of a live zone may need, kept for a moment.
//!
//! Without this every look-up would fetch and parse the same SOA and NS records: a quarter of its cost. They are
//! dropped when the zone is known to have changed, and after a few seconds in any case. A question for the apex
//! itself never uses them.

use nameward_wire::Type;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long they are used.
const MAX_AGE: Duration = Duration::from_secs(5);
/// Zones whose records are kept; when there are more, all are dropped, which costs each zone one fetch.
const MAX_ZONES: usize = 50_000;

/// One record of an apex, parsed.
pub(crate) struct ApexRecord {
    pub(crate) id: i64,
    pub(crate) rtype: Type,
    pub(crate) ttl: u32,
    pub(crate) rdata: Box<[u8]>,
}

struct Kept {
    records: Arc<[ApexRecord]>,
    since: Instant,
}

/// The apex records of the zones asked for of late.
#[derive(Default)]
pub(crate) struct Apexes {
    zones: Mutex<Generation>,
}

#[derive(Default)]
struct Generation {
    kept: HashMap<i64, Kept>,
    /// Counts calls of [`Apexes::forget`].
    number: u64,
}

impl Apexes {
    /// The records of a zone, and the generation to hand to [`Apexes::keep`].
    pub(crate) fn of(&self, zone: i64) -> (Option<Arc<[ApexRecord]>>, u64) {
        let zones = self.lock();
        let kept = zones
            .kept
            .get(&zone)
            .filter(|kept| kept.since.elapsed() < MAX_AGE);
        (kept.map(|kept| kept.records.clone()), zones.number)
    }

    /// Keeps records that were fetched after `generation` was told; not if anything changed since.
    pub(crate) fn keep(&self, zone: i64, records: Vec<ApexRecord>, generation: u64) {
        let mut zones = self.lock();
        if zones.number != generation {
            return;
        }
        if zones.kept.len() >= MAX_ZONES {
            zones.kept.clear();
        }
        let kept = Kept {
            records: records.into(),
            since: Instant::now(),
        };
        zones.kept.insert(zone, kept);
    }

    /// The zone changed; `None`: any.
    pub(crate) fn forget(&self, zone: Option<i64>) {
        let mut zones = self.lock();
        zones.number += 1;
        match zone {
            Some(zone) => drop(zones.kept.remove(&zone)),
            None => zones.kept.clear(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Generation> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_fetched_before_a_change_are_not_kept_after_it() {
        let apexes = Apexes::default();
        let (none, generation) = apexes.of(1);
        assert!(none.is_none());
        apexes.forget(Some(1));
        apexes.keep(1, Vec::new(), generation);
        let (none, generation) = apexes.of(1);
        assert!(none.is_none());
        apexes.keep(1, Vec::new(), generation);
        assert!(apexes.of(1).0.is_some());
        apexes.forget(None);
        assert!(apexes.of(1).0.is_none());
    }
}
