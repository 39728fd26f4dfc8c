//! The time between opening the ports and the end of the search for zone files, when it is unknown which zones are
//! ours.
//!
//! A stand-in for the root, after all sources, makes every query in that time SERVFAIL: REFUSED would be wrong for
//! the zones that the search is about to find.

use crate::table::TableWriter;
use nameward_wire::Name;
use nameward_zone::{NO_SOURCE, TableChange, Zone};
use std::sync::Arc;

/// Answers SERVFAIL for everything outside the zones of the table: it may be ours.
pub fn begin(table: &TableWriter) {
    let mut zone = Zone::not_ready(Name::ROOT);
    zone.set_rank(NO_SOURCE);
    table.publish(&[TableChange::Offer(Arc::new(zone))]);
}

/// Ends that: our zones are in the table.
pub fn end(table: &TableWriter) {
    let is_there = table.load().offered_by(Name::ROOT, NO_SOURCE).is_some();
    if is_there {
        let root = Name::ROOT.as_wire().into();
        table.publish(&[TableChange::Withdraw(root, NO_SOURCE)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_wire::{NameBuf, Type};
    use nameward_zone::NameKey;

    fn found(table: &TableWriter) -> Option<bool> {
        let name: NameBuf = "www.example.".parse().unwrap();
        let table = table.load();
        let zone = table.zone_for(&NameKey::new(name.as_name()), Type::A);
        zone.map(|zone| zone.is_ready())
    }

    #[test]
    fn every_name_is_found_not_ready_until_the_zones_are_known() {
        let table = TableWriter::default();
        begin(&table);
        assert_eq!(found(&table), Some(false));
        end(&table);
        assert_eq!(found(&table), None);
        end(&table);
        assert_eq!(table.load().len(), 0);
    }

    #[test]
    fn a_root_zone_of_a_source_stays() {
        let table = TableWriter::default();
        begin(&table);
        let root = Zone::not_ready(Name::ROOT);
        table.publish(&[TableChange::Offer(Arc::new(root))]);
        end(&table);
        assert_eq!(table.load().offered().count(), 1);
    }
}
