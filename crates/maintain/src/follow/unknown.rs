//! The time in which it is unknown which zones are ours: between opening the ports and the end of the search for zone files, and until
//! the zone list of each database was read, or restored from the last run.
//!
//! A stub for the root, after all sources, makes every query in that time SERVFAIL: REFUSED would be wrong for
//! the zones that are about to be found. Resolvers take it as final, and ask no other server (RFC 8906 section 3.1.1).

use crate::table::TableWriter;
use nameward_wire::Name;
use nameward_zone::{NO_SOURCE, TableChange, Zone};
use std::sync::Arc;

/// The source of zone files; databases have their ranks.
pub const FILES: u16 = NO_SOURCE;

/// Answers SERVFAIL for everything outside the zones of the table, until the zones of a source are known.
pub fn begin(table: &TableWriter, source: u16) {
    table.unknown.lock().insert(source);
    let mut zone = Zone::not_ready(Name::ROOT);
    zone.set_rank(NO_SOURCE);
    table.publish(&[TableChange::Offer(Arc::new(zone))]);
}

/// Records that the zones of a source are in the table; ends that after the last one.
pub fn end(table: &TableWriter, source: u16) {
    let mut unknown = table.unknown.lock();
    unknown.remove(&source);
    if !unknown.is_empty() {
        return;
    }
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
        begin(&table, FILES);
        begin(&table, 1);
        assert_eq!(found(&table), Some(false));
        end(&table, FILES);
        assert_eq!(found(&table), Some(false), "a database was not read");
        assert_eq!(table.load().zones().count(), 0, "it is not a zone");
        end(&table, 1);
        assert_eq!(found(&table), None);
        end(&table, 1);
        assert_eq!(table.load().len(), 0);
    }

    #[test]
    fn a_root_zone_of_a_source_stays() {
        let table = TableWriter::default();
        begin(&table, FILES);
        let root = Zone::not_ready(Name::ROOT);
        table.publish(&[TableChange::Offer(Arc::new(root))]);
        end(&table, FILES);
        assert_eq!(table.load().offered().count(), 1);
    }
}
