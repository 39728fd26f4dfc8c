//! The apex of a live zone as every look-up has to know it, kept for a moment: the records that an answer may
//! need, and that no wildcard stands right below it.
//!
//! Without this every look-up would fetch and parse the same SOA and NS records and search the same wildcard: half of
//! its cost. It is dropped when the zone is known to have changed, and after a few seconds in any case. A question for the apex
//! itself never uses them.

use nameward_base::sync::{Mutex, MutexGuard};
use nameward_wire::zonefile::{Record, RecordPlace};
use nameward_wire::{Name, Type};
use nameward_zone::{PackedApex, ZoneBuilder};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
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

/// The known records of an apex.
pub(crate) struct Apex {
    /// Its SOA and NS records, or all.
    pub(crate) records: Vec<ApexRecord>,
    /// The records packed for zone parts, once the first part has to be made with them.
    pub(crate) packed: OnceLock<Option<PackedApex>>,
    /// Which of them.
    pub(crate) scope: ApexScope,
    /// No wildcard stands right below it.
    pub(crate) no_wildcard: bool,
}

/// Which records of an apex are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApexScope {
    /// SOA and NS, which every answer may need.
    Plain,
    /// All: the proofs of a signed zone list its types.
    Signed,
}

impl ApexRecord {
    /// Returns the record as one of the apex with this name.
    pub(crate) fn of<'r>(&'r self, apex: Name<'r>) -> Record<'r> {
        Record::new(apex, self.rtype, self.ttl, &self.rdata).at(RecordPlace::row(self.id))
    }
}

impl Apex {
    /// Returns its records packed with `builder`, unless they cannot be, or were packed under another name.
    pub(crate) fn packed(&self, apex: Name<'_>, builder: &mut ZoneBuilder) -> Option<&PackedApex> {
        let packed = self.packed.get_or_init(|| {
            let records = self.records.iter().map(|record| record.of(apex));
            builder.pack_apex(apex, records)
        });
        let packed = packed.as_ref();
        packed.filter(|packed| packed.name().as_wire() == apex.as_wire())
    }
}

struct KeptApex {
    apex: Arc<Apex>,
    since: Instant,
}

/// The apex records of the zones asked for of late.
#[derive(Default)]
pub(crate) struct Apexes {
    zones: Mutex<Generation>,
}

#[derive(Default)]
struct Generation {
    kept: HashMap<i64, KeptApex>,
    /// Counts calls of [`Apexes::forget`].
    number: u64,
}

impl Apexes {
    /// Returns the known apex of a zone, if it is what is asked for (`None`: it is not known what will be), and the generation to hand to [`Apexes::keep`].
    pub(crate) fn of(&self, zone: i64, scope: Option<ApexScope>) -> (Option<Arc<Apex>>, u64) {
        let zones = self.lock();
        let kept = zones
            .kept
            .get(&zone)
            .filter(|kept| Some(kept.apex.scope) == scope && kept.since.elapsed() < MAX_AGE);
        (kept.map(|kept| kept.apex.clone()), zones.number)
    }

    /// Keeps what was fetched after `generation` was read; not if anything changed since.
    pub(crate) fn keep(&self, zone: i64, apex: Apex, generation: u64) {
        let mut zones = self.lock();
        if zones.number != generation {
            return;
        }
        if zones.kept.len() >= MAX_ZONES {
            zones.kept.clear();
        }
        let kept = KeptApex {
            apex: Arc::new(apex),
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
        self.zones.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> Apex {
        Apex {
            records: Vec::new(),
            packed: OnceLock::new(),
            scope: ApexScope::Plain,
            no_wildcard: true,
        }
    }

    #[test]
    fn records_fetched_before_a_change_are_not_kept_after_it() {
        let apexes = Apexes::default();
        let (none, generation) = apexes.of(1, Some(ApexScope::Plain));
        assert!(none.is_none());
        apexes.forget(Some(1));
        apexes.keep(1, nothing(), generation);
        let (none, generation) = apexes.of(1, Some(ApexScope::Plain));
        assert!(none.is_none());
        apexes.keep(1, nothing(), generation);
        assert!(apexes.of(1, Some(ApexScope::Plain)).0.is_some());
        assert!(apexes.of(1, Some(ApexScope::Signed)).0.is_none());
        assert!(apexes.of(1, None).0.is_none());
        apexes.forget(None);
        assert!(apexes.of(1, Some(ApexScope::Plain)).0.is_none());
    }
}
