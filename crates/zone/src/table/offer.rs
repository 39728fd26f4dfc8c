//! Zones offered by several sources: which source serves, and which ones stand by.
//!
//! A zone that is ready takes precedence over one that is not; among those, the source listed first in the
//! configuration (the lower rank) serves the zone. So configuration order decides between sources that can answer, and
//! a source that cannot answer never takes a zone out of service that another source has: two sources offer the same
//! zone while an operator migrates it from one to the other, and an outage of either must not become an outage of the
//! zone. The result does not depend on the order of the offers, so that all servers of a fleet select the same source.
//!
//! The other versions stand by in the table; when the serving source withdraws its zone, the next one takes over at
//! once.

use super::{NO_SOURCE, ZoneTable};
use crate::key::{NameKey, lower_case};
use crate::zone::Zone;
use nameward_wire::{Name, NameBuf};
use std::sync::Arc;

/// The outcome of offering a zone to the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// This source serves the zone; there was none, or an older version from the same source.
    Taken,
    /// This source serves the zone, replacing the source with this rank.
    TakenFrom(u16),
    /// The offer stands by: the source with this rank serves the zone.
    KeptBy(u16),
}

/// A change to the table.
#[derive(Clone)]
pub enum TableChange {
    /// Adds a zone, or replaces the zone with this name from the same source.
    Offer(Arc<Zone>),
    /// Like an offer, by a source that previously had this rank.
    Move(Arc<Zone>, u16),
    /// Withdraws the zone with this name, in wire form, on behalf of the source with this rank.
    Withdraw(Box<[u8]>, u16),
}

impl TableChange {
    /// Returns the name of the zone.
    pub fn name(&self) -> Name<'_> {
        match self {
            TableChange::Offer(zone) | TableChange::Move(zone, _) => zone.id(),
            TableChange::Withdraw(name, _) => Name::from_valid_wire(name),
        }
    }
}

/// A zone that two sources offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contest {
    /// The zone name.
    pub name: NameBuf,
    /// Rank of the source that serves the zone.
    pub served: u16,
    /// Rank of the source that stands by.
    pub other: u16,
}

impl ZoneTable {
    /// Adds a zone, or replaces the zone with this name from the same source. A placeholder that is not ready does not
    /// replace a version that is: an old version is better than none.
    pub fn offer(&mut self, zone: Arc<Zone>) -> Offered {
        self.offer_with(&mut NameKey::default(), zone)
    }

    /// Like [`ZoneTable::offer`], with a reusable key.
    fn offer_with(&mut self, key: &mut NameKey, zone: Arc<Zone>) -> Offered {
        let rank = zone.rank();
        key.set(zone.id());
        let Some(current) = self.exact_by(key) else {
            self.insert_by(key, zone);
            return Offered::Taken;
        };
        let is_next = current.rank() == rank && (zone.is_ready() || !current.is_ready());
        if is_next && self.standing_by.is_empty() {
            // The next version of a zone that no other source has: a load consists of a hundred thousand of these.
            self.insert_by(key, zone);
            return Offered::Taken;
        }
        let current = Arc::clone(current);
        let before = current.rank();
        let mut all = self.take_standing_by(zone.id());
        all.push(current);
        let own = all.iter().position(|other| other.rank() == rank);
        let own = own.map(|at| all.swap_remove(at));
        all.push(match own {
            Some(own) if own.is_ready() && !zone.is_ready() => own,
            _ => zone,
        });
        match self.serve_best(all) {
            Some(served) if served != rank => Offered::KeptBy(served),
            _ if before != rank && before != NO_SOURCE => Offered::TakenFrom(before),
            _ => Offered::Taken,
        }
    }

    /// Applies changes, withdrawals first: a name given up by one zone may now be used by another. Returns the offered
    /// zones that another source has too.
    pub fn make(&mut self, changes: &[TableChange]) -> Vec<Contest> {
        for change in changes {
            if let TableChange::Withdraw(name, rank) = change
                && let Ok(name) = Name::from_wire(name)
            {
                self.withdraw(name, *rank);
            }
        }
        self.reserve(changes.len());
        let mut contests = Vec::new();
        let mut key = NameKey::default();
        for change in changes {
            let (zone, before) = match change {
                TableChange::Offer(zone) => (zone, None),
                TableChange::Move(zone, before) => (zone, Some(*before)),
                TableChange::Withdraw(..) => continue,
            };
            let rank = zone.rank();
            let offered = self.offer_with(&mut key, Arc::clone(zone));
            let (served, other) = match offered {
                Offered::Taken => (rank, None),
                Offered::TakenFrom(other) => (rank, Some(other)),
                Offered::KeptBy(other) => (other, Some(rank)),
            };
            // The same source under its previous rank is not a conflict.
            if let Some(other) = other
                && before.is_none_or(|before| before != other && before != served)
            {
                contests.push(Contest {
                    name: zone.id().into(),
                    served,
                    other,
                });
            }
            if let Some(before) = before {
                self.withdraw(zone.id(), before);
            }
        }
        contests
    }

    /// Returns the version that the source with this rank offers, whether it is served or stands by.
    pub fn offered_by(&self, name: Name<'_>, rank: u16) -> Option<&Arc<Zone>> {
        let served = self.exact(name)?;
        if served.rank() == rank {
            return Some(served);
        }
        let others = self.standing_by.get(&lower_case(name))?;
        others.iter().find(|zone| zone.rank() == rank)
    }

    /// Lists the offered versions of a zone, the served one first.
    pub fn versions(&self, name: Name<'_>) -> Vec<Arc<Zone>> {
        let standing_by = self.standing_by.get(&lower_case(name));
        let standing_by = standing_by.into_iter().flatten();
        self.exact(name)
            .into_iter()
            .chain(standing_by)
            .cloned()
            .collect()
    }

    /// Withdraws a zone on behalf of the source with this rank; returns false if that source offers none.
    pub fn withdraw(&mut self, name: Name<'_>, rank: u16) -> bool {
        let Some(current) = self.exact(name).cloned() else {
            return false;
        };
        let mut all = self.take_standing_by(name);
        if current.rank() == rank {
            if self.serve_best(all).is_none() {
                self.remove(name);
            }
            return true;
        }
        let before = all.len();
        all.retain(|zone| zone.rank() != rank);
        let is_withdrawn = all.len() < before;
        all.push(current);
        self.serve_best(all);
        is_withdrawn
    }

    /// Returns all offered zones, served or standing by, in arbitrary order.
    pub fn offered(&self) -> impl Iterator<Item = &Arc<Zone>> {
        self.zones().chain(self.standing_by.values().flatten())
    }

    /// Serves the best version and lets the others stand by; returns the rank that is served.
    fn serve_best(&mut self, mut all: Vec<Arc<Zone>>) -> Option<u16> {
        let order = |at: &usize| (!all[*at].is_ready(), all[*at].rank());
        let best = (0..all.len()).min_by_key(order)?;
        let best = all.swap_remove(best);
        if !all.is_empty() {
            let name = lower_case(best.id());
            Arc::make_mut(&mut self.standing_by).insert(name, all);
        }
        let rank = best.rank();
        self.insert(best);
        Some(rank)
    }

    fn take_standing_by(&mut self, name: Name<'_>) -> Vec<Arc<Zone>> {
        if self.standing_by.is_empty() {
            return Vec::new();
        }
        let name = lower_case(name);
        if !self.standing_by.contains_key(&name) {
            return Vec::new();
        }
        let standing_by = Arc::make_mut(&mut self.standing_by);
        standing_by.remove(&name).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str, rank: u16, is_ready: bool) -> Arc<Zone> {
        let name: NameBuf = name.parse().unwrap();
        let mut zone = if is_ready {
            Zone::stub(name.as_name(), 0, rank.into())
        } else {
            Zone::not_ready(name.as_name())
        };
        zone.set_rank(rank);
        Arc::new(zone)
    }

    fn served(table: &ZoneTable) -> Option<(u16, bool)> {
        let name: NameBuf = "example.".parse().unwrap();
        let zone = table.exact(name.as_name())?;
        Some((zone.rank(), zone.is_ready()))
    }

    #[test]
    fn the_same_source_serves_in_any_order_of_offers() {
        let offers = [(2, true), (1, true), (0, false), (3, false)];
        for start in 0..offers.len() {
            let mut table = ZoneTable::default();
            for n in 0..offers.len() {
                let (rank, is_ready) = offers[(start + n) % offers.len()];
                table.offer(zone("example.", rank, is_ready));
            }
            assert_eq!(served(&table), Some((1, true)));
            assert_eq!((table.len(), table.offered().count()), (1, 4));
        }
    }

    #[test]
    fn the_next_source_takes_over_when_one_is_withdrawn() {
        let mut table = ZoneTable::default();
        let name: NameBuf = "EXAMPLE.".parse().unwrap();
        assert_eq!(table.offer(zone("example.", 2, true)), Offered::Taken);
        assert_eq!(
            table.offer(zone("Example.", 1, true)),
            Offered::TakenFrom(2)
        );
        assert_eq!(table.offer(zone("example.", 0, false)), Offered::KeptBy(1));
        assert!(table.withdraw(name.as_name(), 1));
        assert_eq!(served(&table), Some((2, true)));
        assert!(table.withdraw(name.as_name(), 2));
        assert_eq!(served(&table), Some((0, false)));
        assert!(!table.withdraw(name.as_name(), 2));
        assert!(table.withdraw(name.as_name(), 0));
        assert_eq!((table.len(), table.offered().count()), (0, 0));
    }

    #[test]
    fn a_standby_source_is_withdrawn_without_effect() {
        let mut table = ZoneTable::default();
        table.offer(zone("example.", 0, true));
        table.offer(zone("example.", 1, true));
        let name: NameBuf = "example.".parse().unwrap();
        assert!(table.withdraw(name.as_name(), 1));
        assert_eq!(served(&table), Some((0, true)));
        assert_eq!(table.offered().count(), 1);
    }

    #[test]
    fn a_stub_that_is_not_ready_keeps_the_old_version_and_gives_way_to_a_new_one() {
        let mut table = ZoneTable::default();
        assert_eq!(table.offer(zone("example.", 1, false)), Offered::Taken);
        assert_eq!(table.offer(zone("example.", 1, true)), Offered::Taken);
        assert_eq!(table.offer(zone("example.", 1, false)), Offered::Taken);
        assert_eq!(served(&table), Some((1, true)));
        assert_eq!(table.offered().count(), 1);
    }

    #[test]
    fn a_stub_without_a_source_is_no_competitor() {
        let mut table = ZoneTable::default();
        assert_eq!(
            table.offer(zone("example.", NO_SOURCE, false)),
            Offered::Taken
        );
        assert_eq!(table.offer(zone("example.", 0, false)), Offered::Taken);
        assert_eq!(table.offer(zone("example.", 0, true)), Offered::Taken);
        assert_eq!(served(&table), Some((0, true)));
    }
}
