//! Rows of zones and their journals, and what they consist of.

use super::digest::ContentsDigest;
use super::error::StateError;
use nameward_wire::NameBuf;
use nameward_zone::change::{ChangeAuthor, Difference};
use nameward_zone::{RecordList, Serial};
use rusqlite::{Connection, Params, Row, params};

/// Where the contents of a zone are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneStorage {
    /// In a database, which has every change.
    Database = 0,
    /// In a zone file, which may lack the last changes of the journal.
    File = 1,
    /// In this store: contents as of some position of the journal, and the journal from there.
    Store = 2,
}

impl ZoneStorage {
    pub(super) fn number(self) -> i64 {
        self as i64
    }

    pub(super) fn from_number(number: i64) -> Option<Self> {
        [ZoneStorage::Database, ZoneStorage::File, ZoneStorage::Store]
            .into_iter()
            .find(|storage| storage.number() == number)
    }
}

/// The origin of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalOrigin {
    /// The zone's storage was changed directly: a zone file was edited. It already has the change.
    Storage = 0,
    /// A change through this server: by an operator or DNS UPDATE.
    Change = 1,
    /// A transfer from the primary.
    Transfer = 2,
}

impl JournalOrigin {
    pub(super) fn number(self) -> i64 {
        self as i64
    }

    pub(super) fn from_number(number: i64) -> Option<Self> {
        [
            JournalOrigin::Storage,
            JournalOrigin::Change,
            JournalOrigin::Transfer,
        ]
        .into_iter()
        .find(|origin| origin.number() == number)
    }
}

/// The timers of a secondary zone (RFC 1035 section 3.3.13), in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZoneTimers {
    /// When a primary last confirmed the contents.
    pub refreshed: u64,
    /// When a primary is queried again.
    pub next_check: u64,
    /// When the contents expire.
    pub expires: u64,
}

/// How much history is kept for each zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalBounds {
    /// Maximum size of all differences in octets.
    pub octets: u64,
    /// Maximum number of differences.
    pub entries: u64,
}

/// One difference of a journal.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    pub from: Serial,
    pub to: Serial,
    pub origin: JournalOrigin,
    /// Seconds since 1970.
    pub time: u64,
    pub difference: Difference,
}

/// A row of the table `zone`.
#[derive(Debug, Clone, Copy)]
pub(super) struct JournalRow {
    pub(super) id: i64,
    pub(super) storage: ZoneStorage,
    pub(super) serial: Serial,
    pub(super) last: i64,
    pub(super) base: i64,
    pub(super) entries: u64,
    pub(super) octets: u64,
    /// Digest of the contents at the end of the journal, if known.
    pub(super) digest: Option<ContentsDigest>,
    /// The zone file was edited while it lacked changes, and what it lacks is stored separately.
    pub(super) is_rebased: bool,
}

/// Returns the name of a zone as stored.
pub(super) fn stored_name(name: &NameBuf) -> Vec<u8> {
    name.as_name().as_wire().to_ascii_lowercase()
}

pub(super) fn find_zone(
    connection: &Connection,
    name: &[u8],
) -> Result<Option<JournalRow>, StateError> {
    let sql = "SELECT id, home, serial, last, base, entries, octets, digest, \
         EXISTS (SELECT 1 FROM rebase WHERE rebase.zone = zone.id) FROM zone WHERE name = ?1";
    let mut rows = read_rows(connection, sql, [name], |row| {
        Ok(JournalRow {
            id: row.get(0)?,
            storage: ZoneStorage::from_number(row.get(1)?)
                .ok_or_else(|| StateError::corrupt("unknown storage type of a zone"))?,
            serial: Serial(row.get(2)?),
            last: row.get(3)?,
            base: row.get(4)?,
            entries: row.get::<_, i64>(5)? as u64,
            octets: row.get::<_, i64>(6)? as u64,
            digest: read_digest(row, 7)?,
            is_rebased: row.get(8)?,
        })
    })?;
    Ok(rows.pop())
}

/// Reads a column with the digest of a zone's contents, if it is known.
pub(super) fn read_digest(
    row: &Row<'_>,
    column: usize,
) -> Result<Option<ContentsDigest>, StateError> {
    let number: Option<i64> = row.get(column)?;
    Ok(number.map(ContentsDigest::from_number))
}

/// An entry to append.
pub(super) struct NewEntry<'e> {
    pub(super) zone: &'e NameBuf,
    pub(super) storage: ZoneStorage,
    pub(super) origin: JournalOrigin,
    pub(super) difference: &'e Difference,
    pub(super) time: u64,
    pub(super) author: Option<&'e ChangeAuthor>,
}

/// Returns the number of the entry that led a zone to a serial.
pub(super) fn number_of(
    connection: &Connection,
    row: &JournalRow,
    serial: Serial,
) -> Result<Option<i64>, StateError> {
    if row.serial == serial {
        return Ok(Some(row.last));
    }
    // The one before the entry that starts there: numbers have no gaps, and from_serial is indexed.
    let sql = "SELECT max(number) - 1 FROM journal WHERE zone = ?1 AND from_serial = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row(params![row.id, serial.0], |found| found.get(0))?)
}

/// Drops the entries of a journal up to a number.
pub(super) fn drop_entries(
    connection: &Connection,
    row: &mut JournalRow,
    up_to: i64,
) -> Result<(), StateError> {
    let sql = "DELETE FROM journal WHERE zone = ?1 AND number <= ?2";
    run(connection, sql, params![row.id, up_to])?;
    let sql = "SELECT count(*), coalesce(sum(length(removed) + length(added)), 0) FROM journal \
               WHERE zone = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let sums: (i64, i64) =
        statement.query_row([row.id], |sums| Ok((sums.get(0)?, sums.get(1)?)))?;
    (row.entries, row.octets) = (sums.0 as u64, sums.1 as u64);
    Ok(())
}

/// Runs a statement, which is prepared once.
pub(super) fn run(
    connection: &Connection,
    sql: &str,
    values: impl Params,
) -> Result<(), StateError> {
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

/// Reads the rows of a statement, which is prepared once.
pub(super) fn read_rows<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, StateError>,
) -> Result<Vec<T>, StateError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// Reads a column with records.
pub(super) fn list(row: &Row<'_>, column: usize) -> Result<RecordList, StateError> {
    let octets: Vec<u8> = row.get(column)?;
    RecordList::from_bytes(octets).map_err(StateError::corrupt)
}
