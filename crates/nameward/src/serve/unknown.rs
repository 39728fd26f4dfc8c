//! Owns the moment between the opening of the ports and the end of the search for zone files, when nobody can say yet
//! which zones are ours.
//!
//! A stand-in for the root, behind all sources, has every question of that moment answered SERVFAIL: REFUSED would be
//! wrong for the zones that the search is about to find.

use std::sync::Arc;

use arc_swap::ArcSwap;
use nameward_wire::Name;
use nameward_zone::{NO_SOURCE, Zone, ZoneTable};

/// Whatever is in no zone of the table may be ours.
pub fn begin(table: &ArcSwap<ZoneTable>) {
    table.rcu(|table| {
        let mut table = ZoneTable::clone(table);
        let mut zone = Zone::not_ready(Name::ROOT);
        zone.set_rank(NO_SOURCE);
        table.offer(Arc::new(zone));
        table
    });
}

/// The zones that are ours are in the table.
pub fn end(table: &ArcSwap<ZoneTable>) {
    let is_there = table.load().offered().any(|zone| zone.rank() == NO_SOURCE);
    if is_there {
        table.rcu(|table| {
            let mut table = ZoneTable::clone(table);
            table.withdraw(Name::ROOT, NO_SOURCE);
            table
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_wire::{NameBuf, Type};
    use nameward_zone::NameKey;

    fn found(table: &ArcSwap<ZoneTable>) -> Option<bool> {
        let name: NameBuf = "www.example.".parse().unwrap();
        let table = table.load();
        let zone = table.zone_for(&NameKey::new(name.as_name()), Type::A);
        zone.map(|zone| zone.is_ready())
    }

    #[test]
    fn every_name_is_found_not_ready_until_the_zones_are_known() {
        let table = ArcSwap::from_pointee(ZoneTable::default());
        begin(&table);
        assert_eq!(found(&table), Some(false));
        end(&table);
        assert_eq!(found(&table), None);
        end(&table);
        assert_eq!(table.load().len(), 0);
    }

    #[test]
    fn a_root_zone_of_a_source_stays() {
        let table = ArcSwap::from_pointee(ZoneTable::default());
        begin(&table);
        let mut with_root = ZoneTable::clone(&table.load());
        with_root.offer(Arc::new(Zone::not_ready(Name::ROOT)));
        table.store(Arc::new(with_root));
        end(&table);
        assert_eq!(table.load().offered().count(), 1);
    }
}
