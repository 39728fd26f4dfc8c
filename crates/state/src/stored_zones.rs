//! Reads zones stored in the state store with their contents: one by its name, or all in one pass.

use super::StateStore;
use super::error::StateError;
use super::journal_rows::{JournalEntry, ZoneStorage, list, stored_name};
use super::read::{JournaledZone, entries, journaled_zone};
use nameward_wire::NameBuf;
use nameward_zone::RecordList;
use rusqlite::{Connection, Rows, params};

/// Receives zones as they are read: begin, records in chunks, end.
pub trait StoredZoneSink {
    /// Starts a zone; false skips it.
    fn begin(&mut self, zone: &JournaledZone) -> bool;

    /// Receives a chunk of its records.
    fn records(&mut self, records: RecordList);

    /// Finishes the zone: `journal` has the differences to apply to its records.
    fn end(
        &mut self,
        store: &StateStore,
        zone: &JournaledZone,
        journal: Result<Vec<JournalEntry>, StateError>,
    );
}

/// The chunks of zones in order, with the zone columns that `journaled_zone` reads and four more.
const PARTS: &str = "SELECT name, home, serial, zone.entries, zone.octets, refreshed, next_check, expires, digest, \
                     zone.id, base, last, records FROM zone JOIN contents ON contents.zone = zone.id \
                     LEFT JOIN timer ON timer.zone = zone.id WHERE home = ?1";

impl StateStore {
    /// Reads one zone stored here; calls nothing if it is not.
    pub fn stored_zone(
        &self,
        zone: &NameBuf,
        taker: &mut impl StoredZoneSink,
    ) -> Result<(), StateError> {
        self.read(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let sql = format!("{PARTS} AND name = ?2 ORDER BY part");
            let mut statement = transaction.prepare_cached(&sql)?;
            let storage = ZoneStorage::Store.number();
            let rows = statement.query(params![storage, stored_name(zone)])?;
            self.hand_over(&transaction, rows, taker)
        })
    }

    /// Reads all zones stored here, in one pass.
    pub fn stored_zones(&self, taker: &mut impl StoredZoneSink) -> Result<(), StateError> {
        self.read(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let sql = format!("{PARTS} ORDER BY zone.id, part");
            let mut statement = transaction.prepare(&sql)?;
            let rows = statement.query([ZoneStorage::Store.number()])?;
            self.hand_over(&transaction, rows, taker)
        })
    }

    fn hand_over(
        &self,
        connection: &Connection,
        mut rows: Rows<'_>,
        taker: &mut impl StoredZoneSink,
    ) -> Result<(), StateError> {
        let mut current: Option<StoredZone> = None;
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(9)?;
            if current.as_ref().is_none_or(|zone| zone.id != id) {
                if let Some(zone) = current.take() {
                    self.end(connection, zone, taker);
                }
                let journaled = journaled_zone(row)?;
                current = Some(StoredZone {
                    id,
                    base: row.get(10)?,
                    last: row.get(11)?,
                    is_wanted: taker.begin(&journaled),
                    journaled,
                    failed: None,
                });
            }
            let Some(zone) = current.as_mut() else {
                continue;
            };
            if zone.is_wanted && zone.failed.is_none() {
                match list(row, 12) {
                    Ok(records) => taker.records(records),
                    Err(error) => zone.failed = Some(error),
                }
            }
        }
        if let Some(zone) = current {
            self.end(connection, zone, taker);
        }
        Ok(())
    }

    fn end(&self, connection: &Connection, zone: StoredZone, taker: &mut impl StoredZoneSink) {
        if !zone.is_wanted {
            return;
        }
        let journal = match zone.failed {
            Some(error) => Err(error),
            None if zone.last > zone.base => entries(connection, zone.id, zone.base + 1),
            None => Ok(Vec::new()),
        };
        let journal = journal.map_err(|error| error.with_path(self.path()));
        taker.end(self, &zone.journaled, journal);
    }
}

/// A zone being read.
struct StoredZone {
    id: i64,
    base: i64,
    last: i64,
    is_wanted: bool,
    journaled: JournaledZone,
    failed: Option<StateError>,
}
