//! Zones of a database that are not answered as they should be: unservable rows, PRESIGNED zones without signatures,
//! zones without a SOA.
//!
//! The database follower records them as it reads zones; the server status contains the totals.

use nameward_base::sync::Mutex;
use nameward_wire::{Name, NameBuf};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of zones named per kind.
const NAMED_MAX: usize = 5;
/// Maximum number of zones whose error is kept; of more, only the names.
const ERRORS_MAX: usize = 1000;

/// Some zones: their number, and the first few by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedZones {
    /// Total number.
    pub number: usize,
    /// The first few.
    pub first: Vec<NameBuf>,
}

impl NamedZones {
    /// Counts a zone.
    pub fn add(&mut self, zone: NameBuf) {
        self.number += 1;
        if self.first.len() < NAMED_MAX {
            self.first.push(zone);
        }
    }
}

/// The zones of all databases that are not answered as they should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatabaseZoneFaults {
    /// The first few resident zones whose rows cannot be served, each with its first error.
    pub refused: Vec<(NameBuf, String)>,
    /// PRESIGNED zones that are answered without signatures.
    pub unsigned: NamedZones,
    /// Zones of live databases, except secondary zones, that have no SOA.
    pub without_records: NamedZones,
}

#[derive(Default)]
pub(super) struct ZoneFaultLog(Mutex<RecordedZoneFaults>);

#[derive(Default)]
struct RecordedZoneFaults {
    refused: BTreeMap<Box<[u8]>, String>,
    unsigned: BTreeSet<Box<[u8]>>,
    without_records: NamedZones,
}

impl ZoneFaultLog {
    /// Records the result of reading a zone into memory: the error that keeps its rows from being served, and whether
    /// it lacks its expected signatures.
    pub(super) fn note_read(&self, zone: &[u8], error: Option<String>, is_unsigned: bool) {
        let mut faults = self.0.lock();
        match error {
            Some(error) => {
                let error = if faults.refused.len() < ERRORS_MAX {
                    error
                } else {
                    String::new()
                };
                faults.refused.insert(zone.into(), error);
            }
            None => {
                faults.refused.remove(zone);
            }
        }
        if is_unsigned {
            faults.unsigned.insert(zone.into());
        } else {
            faults.unsigned.remove(zone);
        }
    }

    /// Removes a zone that the database no longer has.
    pub(super) fn forget(&self, zone: &[u8]) {
        let mut faults = self.0.lock();
        faults.refused.remove(zone);
        faults.unsigned.remove(zone);
    }

    /// Replaces the zones that have no SOA.
    pub(super) fn set_without_records(&self, zones: NamedZones) {
        self.0.lock().without_records = zones;
    }

    /// Checks whether a zone without a SOA is known.
    pub(super) fn has_without_records(&self) -> bool {
        self.0.lock().without_records.number > 0
    }

    /// Adds the faults of this database to those of others.
    pub(super) fn add_to(&self, all: &mut DatabaseZoneFaults) {
        let faults = self.0.lock();
        let refused = faults.refused.iter();
        let refused = refused.filter_map(|(zone, error)| Some((name(zone)?, error.clone())));
        all.refused
            .extend(refused.take(NAMED_MAX - all.refused.len()));
        for zone in faults.unsigned.iter().filter_map(|zone| name(zone)) {
            all.unsigned.add(zone);
        }
        for zone in &faults.without_records.first {
            all.without_records.add(*zone);
        }
        let unnamed = faults.without_records.number - faults.without_records.first.len();
        all.without_records.number += unnamed;
    }
}

fn name(wire: &[u8]) -> Option<NameBuf> {
    Name::from_wire(wire).ok().map(NameBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_that_is_read_or_removed_is_no_longer_faulty() {
        let log = ZoneFaultLog::default();
        let [a, b]: [NameBuf; 2] = ["a.test.", "b.test."].map(|name| name.parse().unwrap());
        let (a_wire, b_wire) = (a.as_name().as_wire(), b.as_name().as_wire());
        let sums = || {
            let mut all = DatabaseZoneFaults::default();
            log.add_to(&mut all);
            all
        };
        log.note_read(a_wire, Some("row 7: no SOA".into()), false);
        log.note_read(b_wire, None, true);
        assert_eq!(sums().refused, [(a, "row 7: no SOA".to_string())]);
        assert_eq!(sums().unsigned.first, [b]);
        log.note_read(a_wire, None, false);
        log.forget(b_wire);
        assert_eq!(sums(), DatabaseZoneFaults::default());
        let mut many = NamedZones::default();
        (0..8).for_each(|_| many.add(a));
        log.set_without_records(many);
        assert_eq!(
            (
                sums().without_records.number,
                sums().without_records.first.len()
            ),
            (8, 5)
        );
    }
}
