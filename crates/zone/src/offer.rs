//! Zones that several sources have: which of them is served, and which stands by.
//!
//! A zone that is ready is served before one that is not, then the source that stands first in the configuration
//! (the lower rank) serves it. So the order of the configuration decides between sources that can answer, and a
//! source that cannot never takes a zone out of service that another one answers for: where two sources have a
//! zone, an operator moves it from one to the other, and an outage of one of them must not become one of the zone.
//! The result does not depend on who came first, so that all servers of a fleet settle on the same source.
//!
//! The others stand by in the table, and when the one that serves is withdrawn the next takes over at once.

use crate::key::NameKey;
use crate::table::ZoneTable;
use crate::zone::Zone;
use nameward_wire::{Name, NameBuf};
use std::collections::HashMap;
use std::sync::Arc;

/// The outcome of offering a zone to the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// This source serves it; there was none, or an older version from the same source.
    Taken,
    /// It is served in place of one from the source of this rank.
    TakenFrom(u16),
    /// It stands by: the source of this rank serves the zone.
    KeptBy(u16),
}

/// A change of the table.
#[derive(Clone)]
pub enum TableChange {
    /// Adds a zone or replaces the one of its name from the same source.
    Offer(Arc<Zone>),
    /// As an offer, by a source that had this rank before.
    Move(Arc<Zone>, u16),
    /// Takes back the zone of this name, in wire form, from the source of this rank.
    Withdraw(Box<[u8]>, u16),
}

/// A zone that two sources have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contest {
    /// The zone.
    pub name: NameBuf,
    /// The rank of the source that serves it.
    pub served: u16,
    /// The rank of the source that stands by.
    pub other: u16,
}

/// The rank of a stand-in that no source has offered: behind all sources, and no rival of any.
pub const NO_SOURCE: u16 = u16::MAX;

/// Zones that stand by, by their names in lower case. Few, so a change copies all.
pub(crate) type StandingBy = Arc<HashMap<Box<[u8]>, Vec<Arc<Zone>>>>;

impl ZoneTable {
    /// Adds a zone or replaces the one of its name from the same source. A stand-in that is not ready does not
    /// replace a version that is: an old version is better than none.
    pub fn offer(&mut self, zone: Arc<Zone>) -> Offered {
        self.offer_with(&mut NameKey::default(), zone)
    }

    /// As [`ZoneTable::offer`], with a key that is used again.
    fn offer_with(&mut self, key: &mut NameKey, zone: Arc<Zone>) -> Offered {
        let rank = zone.rank();
        key.set(zone.apex_name());
        let Some(there) = self.exact_by(key) else {
            self.insert_by(key, zone);
            return Offered::Taken;
        };
        let is_next = there.rank() == rank && (zone.is_ready() || !there.is_ready());
        if is_next && self.standing_by.is_empty() {
            // The next version of a zone that no other source has: a load is a hundred thousand of these.
            self.insert_by(key, zone);
            return Offered::Taken;
        }
        let there = Arc::clone(there);
        let before = there.rank();
        let mut all = self.take_standing_by(zone.apex_name());
        all.push(there);
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

    /// Makes changes, those that withdraw first: a name that one zone has given up may be that of another now. Returns the
    /// offered zones that another source has too.
    pub fn make(&mut self, changes: &[TableChange]) -> Vec<Contest> {
        for change in changes {
            if let TableChange::Withdraw(name, rank) = change
                && let Ok(name) = Name::from_wire(name)
            {
                self.withdraw(name, *rank);
            }
        }
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
            // The same source before it moved is no other.
            if let Some(other) = other
                && before.is_none_or(|before| before != other && before != served)
            {
                contests.push(Contest {
                    name: zone.apex_name().into(),
                    served,
                    other,
                });
            }
            if let Some(before) = before {
                self.withdraw(zone.apex_name(), before);
            }
        }
        contests
    }

    /// The version of a zone that the source of this rank has offered, whether it is served or stands by.
    pub fn offered_by(&self, name: Name<'_>, rank: u16) -> Option<&Arc<Zone>> {
        let served = self.exact(name)?;
        if served.rank() == rank {
            return Some(served);
        }
        let others = self.standing_by.get(&lower_case(name))?;
        others.iter().find(|zone| zone.rank() == rank)
    }

    /// Lists the versions of a zone that sources have offered, the one that is served first.
    pub fn versions(&self, name: Name<'_>) -> Vec<Arc<Zone>> {
        let standing_by = self.standing_by.get(&lower_case(name));
        let standing_by = standing_by.into_iter().flatten();
        self.exact(name)
            .into_iter()
            .chain(standing_by)
            .cloned()
            .collect()
    }

    /// Takes back the zone of this name from the source of this rank; false if that has offered none.
    pub fn withdraw(&mut self, name: Name<'_>, rank: u16) -> bool {
        let Some(there) = self.exact(name).cloned() else {
            return false;
        };
        let mut all = self.take_standing_by(name);
        if there.rank() == rank {
            if self.serve_best(all).is_none() {
                self.remove(name);
            }
            return true;
        }
        let before = all.len();
        all.retain(|zone| zone.rank() != rank);
        let is_withdrawn = all.len() < before;
        all.push(there);
        self.serve_best(all);
        is_withdrawn
    }

    /// All zones that were offered, served or standing by, in no order.
    pub fn offered(&self) -> impl Iterator<Item = &Arc<Zone>> {
        self.zones().chain(self.standing_by.values().flatten())
    }

    /// Serves the best of them and lets the others stand by; returns the rank that is served.
    fn serve_best(&mut self, mut all: Vec<Arc<Zone>>) -> Option<u16> {
        let order = |at: &usize| (!all[*at].is_ready(), all[*at].rank());
        let best = (0..all.len()).min_by_key(order)?;
        let best = all.swap_remove(best);
        if !all.is_empty() {
            let name = lower_case(best.apex_name());
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

/// A name in wire form and lower case.
pub(crate) fn lower_case(name: Name<'_>) -> Box<[u8]> {
    let key = NameKey::new(name);
    key.suffix(key.labels()).as_wire().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Live;

    fn zone(name: &str, rank: u16, is_ready: bool) -> Arc<Zone> {
        let name: NameBuf = name.parse().unwrap();
        let mut zone = match is_ready {
            true => Zone::stand_in(name.as_name(), Live::new(0, rank.into())),
            false => Zone::not_ready(name.as_name()),
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
    fn the_same_source_serves_whoever_came_first() {
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
    fn one_that_stands_by_is_withdrawn_without_a_trace() {
        let mut table = ZoneTable::default();
        table.offer(zone("example.", 0, true));
        table.offer(zone("example.", 1, true));
        let name: NameBuf = "example.".parse().unwrap();
        assert!(table.withdraw(name.as_name(), 1));
        assert_eq!(served(&table), Some((0, true)));
        assert_eq!(table.offered().count(), 1);
    }

    #[test]
    fn a_stand_in_that_is_not_ready_keeps_the_old_version_and_gives_way_to_a_new_one() {
        let mut table = ZoneTable::default();
        assert_eq!(table.offer(zone("example.", 1, false)), Offered::Taken);
        assert_eq!(table.offer(zone("example.", 1, true)), Offered::Taken);
        assert_eq!(table.offer(zone("example.", 1, false)), Offered::Taken);
        assert_eq!(served(&table), Some((1, true)));
        assert_eq!(table.offered().count(), 1);
    }

    #[test]
    fn a_stand_in_of_no_source_is_no_rival() {
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
