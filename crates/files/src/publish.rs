//! Passes loaded zones to the owner of the table that all workers read.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{AccessRules, AccessSource, Contest, TableChange, ViewRule, Zone, ZoneTable};

/// How soon new zones are published during a load. Each publication costs time in proportion to the table, so the
/// interval doubles from the first of these to the second.
const PUBLISH_FIRST: Duration = Duration::from_millis(100);
const PUBLISH_AT_LEAST: Duration = Duration::from_secs(5);

/// The receiver of loaded zones.
pub trait ZoneTarget {
    /// Returns the current table.
    fn table(&self) -> Arc<ZoneTable>;

    /// Publishes changes, and returns the zones that another source has too.
    fn publish(&self, changes: Vec<TableChange>) -> Vec<Contest>;

    /// Applies the access lists from other servers' configurations.
    fn set_access(&self, rules: AccessRules);

    /// Applies the views from other servers' configurations.
    fn set_views(&self, _rules: Vec<ViewRule>) {}

    /// Returns why a zone that was read without errors is rejected.
    fn objection(&self, zone: &Zone) -> Option<String>;

    /// Returns the last version of a zone's file without errors, if it is kept.
    fn last_good(&self, name: Name<'_>) -> Option<Zone>;

    /// Returns how many zones were served from a directory when the server last read it; 0 if that is not known.
    fn zones_before(&self, _directory: &Path) -> usize {
        0
    }

    /// Lists the zones that copies of zone files are kept of and that no source has.
    fn zones_without_source(&self) -> Vec<NameBuf> {
        Vec::new()
    }

    /// Returns the version that a zone's file had when it was last read or written. The served version may be ahead
    /// of it by changes that the file lacks.
    fn file_version(&self, zone: Name<'_>, rank: u16) -> Option<Arc<Zone>> {
        let table = self.table();
        let served = table.exact(zone).filter(|served| served.rank() == rank);
        served.map(Zone::stored)
    }
}

/// A standalone table, for tools without maintenance.
impl ZoneTarget for ArcSwap<ZoneTable> {
    fn table(&self) -> Arc<ZoneTable> {
        self.load_full()
    }

    fn publish(&self, changes: Vec<TableChange>) -> Vec<Contest> {
        let mut contests = Vec::new();
        self.rcu(|table| {
            let mut table = ZoneTable::clone(table);
            contests = table.make(&changes);
            table
        });
        contests
    }

    fn set_access(&self, rules: AccessRules) {
        let rules = Arc::new(rules);
        self.rcu(|table| {
            let mut table = ZoneTable::clone(table);
            table.set_access(AccessSource::Imported, Arc::clone(&rules));
            table
        });
    }

    fn objection(&self, _: &Zone) -> Option<String> {
        None
    }

    fn last_good(&self, _: Name<'_>) -> Option<Zone> {
        None
    }
}

/// Collects table changes and publishes them in groups.
pub(super) struct Publisher<'t> {
    pub(super) target: &'t dyn ZoneTarget,
    changes: Vec<TableChange>,
    last: Instant,
    interval: Duration,
}

impl<'t> Publisher<'t> {
    pub(super) fn new(target: &'t dyn ZoneTarget) -> Self {
        Self {
            target,
            changes: Vec::new(),
            last: Instant::now(),
            interval: PUBLISH_FIRST,
        }
    }

    pub(super) fn offer(&mut self, mut zone: Zone, rank: u16, rank_before: Option<u16>) {
        zone.set_rank(rank);
        let zone = Arc::new(zone);
        self.changes.push(match rank_before {
            Some(before) if before != rank => TableChange::Move(zone, before),
            _ => TableChange::Offer(zone),
        });
    }

    pub(super) fn withdraw(&mut self, name: Name<'_>, rank: u16) {
        let name = name.as_wire().into();
        self.changes.push(TableChange::Withdraw(name, rank));
    }

    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = !self.changes.is_empty() && now - self.last >= self.interval;
        if is_due {
            self.last = now;
            self.interval = (self.interval * 2).min(PUBLISH_AT_LEAST);
        }
        is_due
    }

    /// Publishes the changes. Returns the zones that another source has too.
    pub(super) fn publish(&mut self) -> Vec<Contest> {
        if self.changes.is_empty() {
            Vec::new()
        } else {
            self.target.publish(std::mem::take(&mut self.changes))
        }
    }
}
