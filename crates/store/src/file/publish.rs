//! Owns the way of loaded zones into the table that all workers read.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{AccessRules, AccessSource, Offered, Zone, ZoneTable};

/// How soon new zones are made visible while a load goes on. Each time costs the size of the table,
/// so the wait doubles from the first of these to the second.
const PUBLISH_FIRST: Duration = Duration::from_millis(100);
const PUBLISH_AT_LEAST: Duration = Duration::from_secs(5);

enum Change {
    Insert(Arc<Zone>),
    /// As an insert; it had this rank before.
    Move(Arc<Zone>, u16),
    /// Takes back what the source of this rank offered.
    Withdraw(Box<[u8]>, u16),
}

/// Puts the access lists of other servers' configurations in force.
pub(super) fn set_access(table: &ArcSwap<ZoneTable>, rules: AccessRules) {
    let rules = Arc::new(rules);
    if **table.load().access(AccessSource::Imported) == *rules {
        return;
    }
    table.rcu(|table| {
        let mut table = ZoneTable::clone(table);
        table.set_access(AccessSource::Imported, Arc::clone(&rules));
        table
    });
}

/// Gathers changes of the table and makes them visible in groups. Others change the table too, so each group is
/// applied to what the table is then.
pub(super) struct Publisher<'t> {
    shared: &'t ArcSwap<ZoneTable>,
    changes: Vec<Change>,
    last: Instant,
    interval: Duration,
}

impl<'t> Publisher<'t> {
    pub(super) fn new(shared: &'t ArcSwap<ZoneTable>) -> Self {
        Self {
            shared,
            changes: Vec::new(),
            last: Instant::now(),
            interval: PUBLISH_FIRST,
        }
    }

    pub(super) fn offer(&mut self, mut zone: Zone, rank: u16, rank_before: Option<u16>) {
        zone.set_rank(rank);
        let zone = Arc::new(zone);
        self.changes.push(match rank_before {
            Some(before) if before != rank => Change::Move(zone, before),
            _ => Change::Insert(zone),
        });
    }

    pub(super) fn withdraw(&mut self, name: Name<'_>, rank: u16) {
        let name = name.as_wire().into();
        self.changes.push(Change::Withdraw(name, rank));
    }

    /// The table as it is now.
    pub(super) fn table(&self) -> Arc<ZoneTable> {
        self.shared.load_full()
    }

    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = !self.changes.is_empty() && now - self.last >= self.interval;
        if is_due {
            self.last = now;
            self.interval = (self.interval * 2).min(PUBLISH_AT_LEAST);
        }
        is_due
    }

    /// Returns the zones that another source has too: the rank that is served, and the one that is not.
    pub(super) fn publish(&mut self) -> Vec<(NameBuf, u16, u16)> {
        let mut contested = Vec::new();
        if self.changes.is_empty() {
            return contested;
        }
        self.shared.rcu(|table| {
            contested.clear();
            let mut table = ZoneTable::clone(table);
            for change in &self.changes {
                let (zone, offered) = match change {
                    Change::Insert(zone) => (zone, table.offer(Arc::clone(zone))),
                    Change::Move(zone, before) => {
                        let offered = table.offer(Arc::clone(zone));
                        table.withdraw(zone.apex_name(), *before);
                        (zone, offered)
                    }
                    Change::Withdraw(name, rank) => {
                        if let Ok(name) = Name::from_wire(name) {
                            table.withdraw(name, *rank);
                        }
                        continue;
                    }
                };
                let (name, rank) = (zone.apex_name(), zone.rank());
                match offered {
                    Offered::TakenFrom(other) if !is_own(change, other) => {
                        contested.push((name.into(), rank, other));
                    }
                    Offered::KeptBy(other) if !is_own(change, other) => {
                        contested.push((name.into(), other, rank));
                    }
                    _ => {}
                }
            }
            table
        });
        self.changes.clear();
        contested
    }
}

/// Whether the other source is the same one before it moved.
fn is_own(change: &Change, other: u16) -> bool {
    matches!(change, Change::Move(_, before) if *before == other)
}
