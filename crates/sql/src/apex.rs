//! Short-lived cache of live zone apexes: the records that an answer may need, and whether there is a wildcard directly
//! below.
//!
//! Without it, every lookup would fetch and parse the same SOA and NS records and search for the same wildcard: half of
//! its cost. Entries are dropped when the zone is known to have changed, and after a few seconds in any case. A query
//! for the apex itself never uses them.

use super::zone_cache::{CacheBounds, ZoneCache};
use nameward_wire::zonefile::{Record, RecordLocation};
use nameward_wire::{Name, Type};
use nameward_zone::{PackedApex, ZoneBuilder};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long an entry is used.
const MAX_AGE: Duration = Duration::from_secs(5);
const MAX_ZONES: usize = 50_000;

/// One parsed apex record.
pub(crate) struct ApexRecord {
    pub(crate) id: i64,
    pub(crate) rtype: Type,
    pub(crate) ttl: u32,
    pub(crate) rdata: Box<[u8]>,
}

/// The known records of an apex.
pub(crate) struct Apex {
    /// The SOA and NS records, or all.
    pub(crate) records: Vec<ApexRecord>,
    /// The records packed for fragments, once the first fragment needs them.
    pub(crate) packed: OnceLock<Option<PackedApex>>,
    /// Which records are included.
    pub(crate) scope: ApexScope,
    /// There is no wildcard directly below the apex.
    pub(crate) no_wildcard: bool,
}

/// Which records of an apex are cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApexScope {
    /// SOA and NS, which every answer may need.
    Plain,
    /// All records: the proofs of a signed zone list their types.
    Signed,
}

impl ApexRecord {
    /// Returns the record with this apex as its owner.
    pub(crate) fn with_owner<'r>(&'r self, apex: Name<'r>) -> Record<'r> {
        Record::new(apex, self.rtype, self.ttl, &self.rdata).at(RecordLocation::row(self.id))
    }
}

impl Apex {
    /// Returns the records packed with `builder`, unless that is impossible or they were packed under a different name.
    pub(crate) fn packed(&self, apex: Name<'_>, builder: &mut ZoneBuilder) -> Option<&PackedApex> {
        let packed = self.packed.get_or_init(|| {
            let records = self.records.iter().map(|record| record.with_owner(apex));
            builder.pack_apex(apex, records)
        });
        let packed = packed.as_ref();
        packed.filter(|packed| packed.name().as_wire() == apex.as_wire())
    }
}

/// The apex records of recently queried zones.
pub(crate) struct Apexes(ZoneCache<Apex>);

impl Default for Apexes {
    fn default() -> Self {
        Apexes(ZoneCache::new(CacheBounds {
            entries: MAX_ZONES,
            ttl: MAX_AGE,
        }))
    }
}

impl Apexes {
    /// Returns the cached apex of a zone if it has the requested scope (`None`: not known yet), and the generation to
    /// pass to [`Apexes::insert`].
    pub(crate) fn get(&self, zone: i64, scope: Option<ApexScope>) -> (Option<Arc<Apex>>, u64) {
        let generation = self.0.generation();
        let cached = self.0.find(zone);
        (cached.filter(|apex| Some(apex.scope) == scope), generation)
    }

    /// Caches data fetched after `generation` was read, unless anything has changed since.
    pub(crate) fn insert(&self, zone: i64, apex: Apex, generation: u64) {
        self.0.keep_for(MAX_AGE, zone, Arc::new(apex), generation);
    }

    /// Drops the entry of a zone that changed; `None`: of all zones.
    pub(crate) fn forget(&self, zone: Option<i64>) {
        self.0.forget(zone);
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
        let (none, generation) = apexes.get(1, Some(ApexScope::Plain));
        assert!(none.is_none());
        apexes.forget(Some(1));
        apexes.insert(1, nothing(), generation);
        let (none, generation) = apexes.get(1, Some(ApexScope::Plain));
        assert!(none.is_none());
        apexes.insert(1, nothing(), generation);
        assert!(apexes.get(1, Some(ApexScope::Plain)).0.is_some());
        assert!(apexes.get(1, Some(ApexScope::Signed)).0.is_none());
        assert!(apexes.get(1, None).0.is_none());
        apexes.forget(None);
        assert!(apexes.get(1, Some(ApexScope::Plain)).0.is_none());
    }
}
