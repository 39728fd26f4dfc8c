//! Contents of zones stored in the state store, as of one position of the journal.

use super::error::StateError;
use super::journal_rows::{ZoneStorage, drop_entries, number_of, run};
use super::zone_rows::ZoneRows;
use nameward_wire::NameBuf;
use nameward_zone::{RecordList, Serial};
use rusqlite::{Connection, params};

impl ZoneRows {
    /// Sets the contents of a zone; a journal that does not end there restarts.
    pub(super) fn set_contents(
        &mut self,
        connection: &Connection,
        zone: &NameBuf,
        serial: Serial,
        parts: &[RecordList],
    ) -> Result<(), StateError> {
        let mut row = self.row_or_new(connection, zone, ZoneStorage::Store, serial)?;
        if row.serial != serial || row.storage != ZoneStorage::Store {
            drop_entries(connection, &mut row, i64::MAX)?;
        }
        (row.storage, row.serial, row.base) = (ZoneStorage::Store, serial, row.last);
        write_contents(connection, row.id, parts)?;
        self.prune(connection, &mut row)?;
        self.put(zone, row);
        Ok(())
    }

    /// Writes the contents at a serial of the journal, so that the entries up to there can be dropped.
    pub(super) fn refresh_contents(
        &mut self,
        connection: &Connection,
        zone: &NameBuf,
        serial: Serial,
        parts: &[RecordList],
    ) -> Result<(), StateError> {
        let row = self.row(connection, zone)?;
        let Some(mut row) = row.filter(|row| row.storage == ZoneStorage::Store) else {
            return Ok(());
        };
        let Some(number) = number_of(connection, &row, serial)?.filter(|n| *n >= row.base) else {
            return Ok(());
        };
        write_contents(connection, row.id, parts)?;
        row.base = number;
        self.prune(connection, &mut row)?;
        self.put(zone, row);
        Ok(())
    }
}

/// Replaces the stored contents of a zone.
fn write_contents(
    connection: &Connection,
    id: i64,
    parts: &[RecordList],
) -> Result<(), StateError> {
    run(connection, "DELETE FROM contents WHERE zone = ?1", [id])?;
    let sql = "INSERT INTO contents (zone, part, records) VALUES (?1, ?2, ?3)";
    let mut statement = connection.prepare_cached(sql)?;
    for (number, part) in parts.iter().enumerate() {
        statement.execute(params![id, number as i64, part.as_bytes()])?;
    }
    Ok(())
}
