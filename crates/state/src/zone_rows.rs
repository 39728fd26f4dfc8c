//! The writer's cache of rows of the table `zone`.

use super::digest::ContentsDigest;
use super::error::StateError;
use super::journal_rows::{JournalBounds, JournalRow, ZoneStorage, find_zone, stored_name};
use nameward_wire::NameBuf;
use nameward_zone::Serial;
use rusqlite::{Connection, params};
use std::collections::{HashMap, HashSet};

/// The rows of zones that were read. Changed rows are written back once at the end of the transaction, however many
/// changes of their zone it has.
pub(super) struct ZoneRows {
    pub(super) bounds: JournalBounds,
    rows: HashMap<Vec<u8>, JournalRow>,
    /// Zones whose rows are not written back yet.
    unwritten: HashSet<Vec<u8>>,
    /// Rows as they were before the changes of the current caller.
    before: Vec<(Vec<u8>, Option<JournalRow>)>,
}

impl ZoneRows {
    pub(super) fn new(bounds: JournalBounds) -> Self {
        ZoneRows {
            bounds,
            rows: HashMap::new(),
            unwritten: HashSet::new(),
            before: Vec::new(),
        }
    }

    /// Clears the cache after a rollback.
    pub(super) fn forget(&mut self) {
        self.rows.clear();
        self.unwritten.clear();
        self.before.clear();
    }

    /// Starts the changes of another caller.
    pub(super) fn begin_caller(&mut self) {
        self.before.clear();
    }

    /// Restores the rows to their state before the current caller, whose changes were undone.
    pub(super) fn undo_caller(&mut self) {
        for (name, row) in std::mem::take(&mut self.before).into_iter().rev() {
            match row {
                Some(row) => self.rows.insert(name, row),
                // It was not cached before, and may no longer exist.
                None => {
                    self.unwritten.remove(&name);
                    self.rows.remove(&name)
                }
            };
        }
    }

    /// Writes the changed rows, before the transaction ends.
    pub(super) fn write_back(&mut self, connection: &Connection) -> Result<(), StateError> {
        let sql = "UPDATE zone SET home = ?2, serial = ?3, last = ?4, base = ?5, entries = ?6, \
                   octets = ?7, digest = ?8 WHERE id = ?1";
        for name in self.unwritten.drain() {
            let Some(row) = self.rows.get(&name) else {
                continue;
            };
            connection.prepare_cached(sql)?.execute(params![
                row.id,
                row.storage.number(),
                row.serial.0,
                row.last,
                row.base,
                row.entries as i64,
                row.octets as i64,
                row.digest.map(ContentsDigest::number)
            ])?;
        }
        Ok(())
    }

    pub(super) fn row(
        &mut self,
        connection: &Connection,
        zone: &NameBuf,
    ) -> Result<Option<JournalRow>, StateError> {
        let name = stored_name(zone);
        if let Some(row) = self.rows.get(&name) {
            return Ok(Some(*row));
        }
        let row = find_zone(connection, &name)?;
        if let Some(row) = row {
            self.rows.insert(name, row);
        }
        Ok(row)
    }

    pub(super) fn row_or_new(
        &mut self,
        connection: &Connection,
        zone: &NameBuf,
        storage: ZoneStorage,
        serial: Serial,
    ) -> Result<JournalRow, StateError> {
        if let Some(row) = self.row(connection, zone)? {
            return Ok(row);
        }
        let sql = "INSERT INTO zone (name, home, serial, last, base, entries, octets) \
                   VALUES (?1, ?2, ?3, 0, 0, 0, 0)";
        let values = params![stored_name(zone), storage.number(), serial.0];
        let id = connection.prepare_cached(sql)?.insert(values)?;
        Ok(JournalRow {
            id,
            storage,
            serial,
            last: 0,
            base: 0,
            entries: 0,
            octets: 0,
            digest: None,
            is_rebased: false,
        })
    }

    /// Sets the row of a zone, to be written back.
    pub(super) fn put(&mut self, zone: &NameBuf, row: JournalRow) {
        let name = stored_name(zone);
        self.unwritten.insert(name.clone());
        self.note(name, row);
    }

    /// Records a row as it is in the table.
    pub(super) fn note(&mut self, name: Vec<u8>, row: JournalRow) {
        let previous = self.rows.insert(name.clone(), row);
        self.before.push((name, previous));
    }

    /// Records that a row was deleted.
    pub(super) fn forget_row(&mut self, name: Vec<u8>) {
        let previous = self.rows.remove(&name);
        self.before.push((name, previous));
    }
}
