//! Zone files that were edited while they lacked changes: the journal continues, and what the file lacks is stored
//! next to it.
//!
//! ```text
//! journal   ... -> last version before the edit -> both together -> ...      for IXFR: a chain without a gap
//! rebase    the edited file -> both together                                 for the next start of the server
//! ```
//! The entries up to the merge are then as good as in the file, so they can be dropped like those of any other zone.

use super::change::{RebasedVersion, Written};
use super::error::StateError;
use super::journal_rows::{
    JournalEntry, JournalOrigin, JournalRow, NewEntry, ZoneStorage, drop_entries, list, read_rows,
    run, stored_name,
};
use super::zone_rows::ZoneRows;
use nameward_wire::NameBuf;
use nameward_zone::Serial;
use nameward_zone::change::Difference;
use rusqlite::{Connection, params};

impl ZoneRows {
    /// Continues the journal of a file zone with a version based on its edited file. If the journal does not lead
    /// there, it restarts at the file.
    pub(super) fn rebase(
        &mut self,
        connection: &Connection,
        zone: &NameBuf,
        version: &RebasedVersion,
    ) -> Result<(), StateError> {
        let no_serial = || StateError::NoSerial(zone.to_string());
        let (before, to) = version.forward.serials().ok_or_else(no_serial)?;
        let (file, _) = version.lacking.serials().ok_or_else(no_serial)?;
        let storage = ZoneStorage::File;
        let mut row = self.row_or_new(connection, zone, storage, before)?;
        self.note(stored_name(zone), row);
        if row.serial == before && row.storage == storage {
            let entry = NewEntry {
                zone,
                storage,
                origin: JournalOrigin::Change,
                difference: &version.forward,
                time: version.time,
                author: None,
            };
            self.append(connection, &entry, &mut Written::default())?;
            row = self.row_or_new(connection, zone, storage, to)?;
        } else {
            drop_entries(connection, &mut row, i64::MAX)?;
            row.digest = None;
        }
        (row.storage, row.serial, row.base) = (storage, to, row.last);
        row.is_rebased = true;
        let sql = "INSERT OR REPLACE INTO rebase (zone, from_serial, to_serial, time, removed, added) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let values = params![
            row.id,
            file.0,
            to.0,
            version.time as i64,
            version.lacking.removed.as_bytes(),
            version.lacking.added.as_bytes()
        ];
        run(connection, sql, values)?;
        self.prune(connection, &mut row)?;
        self.put(zone, row);
        Ok(())
    }
}

/// Drops what a file lacked: either it has that now, or the journal restarts.
pub(super) fn forget_rebase(
    connection: &Connection,
    row: &mut JournalRow,
) -> Result<(), StateError> {
    if std::mem::take(&mut row.is_rebased) {
        run(connection, "DELETE FROM rebase WHERE zone = ?1", [row.id])?;
    }
    Ok(())
}

/// Reads what an edited file lacks, as an entry that leads from the file to the merged version.
pub(super) fn read_rebase(
    connection: &Connection,
    row: &JournalRow,
) -> Result<Option<JournalEntry>, StateError> {
    if !row.is_rebased {
        return Ok(None);
    }
    let sql = "SELECT from_serial, to_serial, time, removed, added FROM rebase WHERE zone = ?1";
    let mut entries = read_rows(connection, sql, [row.id], |found| {
        Ok(JournalEntry {
            from: Serial(found.get(0)?),
            to: Serial(found.get(1)?),
            origin: JournalOrigin::Change,
            time: found.get::<_, i64>(2)? as u64,
            difference: Difference {
                removed: list(found, 3)?,
                added: list(found, 4)?,
            },
        })
    })?;
    Ok(entries.pop())
}
