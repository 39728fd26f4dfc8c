//! Reads from the state store: the journal of a zone, all stored zones, values.

use super::StateStore;
use super::digest::ContentsDigest;
use super::error::StateError;
use super::journal_rows::{
    JournalEntry, JournalOrigin, JournalRow, ZoneStorage, ZoneTimers, find_zone, list, number_of,
    read_digest, read_rows, stored_name,
};
use super::rebase::read_rebase;
use nameward_base::secret::Secret;
use nameward_wire::{Name, NameBuf};
use nameward_zone::change::{ChangeAuthor, Difference};
use nameward_zone::{RecordList, Serial};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::sync::Arc;

/// A zone with stored state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournaledZone {
    /// Its name in lower case.
    pub name: NameBuf,
    /// Where its contents are stored.
    pub storage: ZoneStorage,
    /// The serial that its journal ends at.
    pub serial: Serial,
    /// Its timers, if it has any.
    pub timers: Option<ZoneTimers>,
    /// The digest of the contents that its journal ends with, if known.
    pub digest: Option<ContentsDigest>,
    /// Number of entries in its journal.
    pub entries: u64,
    /// Size of the entries in octets.
    pub octets: u64,
}

/// The name of a value, and the value, which may be a secret.
pub type StoredItem = (Vec<u8>, Secret<Vec<u8>>);

/// A journalled difference, with its author and reason, if known.
pub type JournalVersion = (JournalEntry, Option<Arc<ChangeAuthor>>);

/// The columns that [`journaled_zone`] reads.
const KEPT_ZONE: &str = "SELECT name, home, serial, entries, octets, refreshed, next_check, expires, digest \
                         FROM zone LEFT JOIN timer ON timer.zone = zone.id";

impl StateStore {
    /// Lists the zones with stored state.
    pub fn zones(&self) -> Result<Vec<JournaledZone>, StateError> {
        self.read(|connection| {
            let sql = format!("{KEPT_ZONE} ORDER BY zone.id");
            read_rows(connection, &sql, [], journaled_zone)
        })
    }

    /// Reads the state of one zone.
    pub fn zone(&self, zone: &NameBuf) -> Result<Option<JournaledZone>, StateError> {
        self.read(|connection| {
            let sql = format!("{KEPT_ZONE} WHERE name = ?1");
            Ok(read_rows(connection, &sql, [stored_name(zone)], journaled_zone)?.pop())
        })
    }

    /// Reads what is stored about a zone; nothing if it has no state.
    fn read_zone<T: Default>(
        &self,
        zone: &NameBuf,
        work: impl FnOnce(&Connection, JournalRow) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        self.read(|connection| {
            let transaction = connection.unchecked_transaction()?;
            match find_zone(&transaction, &stored_name(zone))? {
                Some(row) => work(&transaction, row),
                None => Ok(T::default()),
            }
        })
    }

    /// Returns the differences from `serial` to the end of a zone's journal, oldest first; `None` if the journal does
    /// not go back that far. Empty if it ends there.
    pub fn journal_from(
        &self,
        zone: &NameBuf,
        serial: Serial,
    ) -> Result<Option<Vec<JournalEntry>>, StateError> {
        self.read_zone(zone, |connection, row| {
            let number = number_of(connection, &row, serial)?;
            let later = number.map(|number| entries(connection, row.id, number + 1));
            later.transpose()
        })
    }

    /// Returns all differences in the journal of a zone, oldest first; empty if the zone has no state. The journal is
    /// bounded, and so is this.
    pub fn journal(&self, zone: &NameBuf) -> Result<Vec<JournalEntry>, StateError> {
        self.read_zone(zone, |connection, row| entries(connection, row.id, 0))
    }

    /// Returns all differences in the journal of a zone like [`StateStore::journal`], with their authors and reasons.
    pub fn history(&self, zone: &NameBuf) -> Result<Vec<JournalVersion>, StateError> {
        self.read_zone(zone, |connection, row| {
            let sql = "SELECT who, message FROM journal WHERE zone = ?1 ORDER BY number";
            let authors = read_rows(connection, sql, [row.id], |row| {
                let (who, message): (Option<String>, Option<String>) = (row.get(0)?, row.get(1)?);
                Ok(who.map(|who| ChangeAuthor::new(&who, message.as_deref())))
            })?;
            let entries = entries(connection, row.id, 0)?;
            Ok(entries.into_iter().zip(authors).collect())
        })
    }

    /// Returns the differences that a zone's storage lacks, oldest first: those of its journal, after the one that
    /// leads from an edited file to it.
    pub fn journal_after_base(&self, zone: &NameBuf) -> Result<Vec<JournalEntry>, StateError> {
        self.read_zone(zone, |connection, row| {
            let mut lacking = Vec::from_iter(read_rebase(connection, &row)?);
            lacking.extend(entries(connection, row.id, row.base + 1)?);
            Ok(lacking)
        })
    }

    /// Reads the contents of a zone stored here: calls `part` with its records in chunks, then returns the
    /// differences to apply to them. `None` if the zone is unknown or not stored here.
    pub fn contents(
        &self,
        zone: &NameBuf,
        mut part: impl FnMut(RecordList),
    ) -> Result<Option<Vec<JournalEntry>>, StateError> {
        self.read_zone(zone, |connection, row| {
            if row.storage != ZoneStorage::Store {
                return Ok(None);
            }
            let sql = "SELECT records FROM contents WHERE zone = ?1 ORDER BY part";
            let mut statement = connection.prepare_cached(sql)?;
            let mut parts = statement.query([row.id])?;
            let mut is_empty = true;
            while let Some(next) = parts.next()? {
                part(list(next, 0)?);
                is_empty = false;
            }
            if is_empty {
                return Ok(None);
            }
            Ok(Some(entries(connection, row.id, row.base + 1)?))
        })
    }

    /// Reads a value.
    pub fn item(&self, kind: &str, name: &[u8]) -> Result<Option<Secret<Vec<u8>>>, StateError> {
        self.read(|connection| {
            let sql = "SELECT value FROM item WHERE kind = ?1 AND name = ?2";
            let mut statement = connection.prepare_cached(sql)?;
            let value = statement.query_row(params![kind, name], |row| row.get(0));
            Ok(value.optional()?.map(Secret::<Vec<u8>>::new))
        })
    }

    /// Counts the values of a kind.
    pub fn count_items(&self, kind: &str) -> Result<usize, StateError> {
        self.read(|connection| {
            let sql = "SELECT count(*) FROM item WHERE kind = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            let count: u32 = statement.query_row([kind], |row| row.get(0))?;
            Ok(count as usize)
        })
    }

    /// Reads the values of a kind whose names are a prefix followed by this many octets.
    pub fn items_behind(
        &self,
        kind: &str,
        prefix: &[u8],
        octets: usize,
    ) -> Result<Vec<StoredItem>, StateError> {
        let last = [prefix, &vec![0xff; octets]].concat();
        self.read(|connection| {
            let sql = "SELECT name, value FROM item WHERE kind = ?1 AND name BETWEEN ?2 AND ?3 \
                       AND length(name) = ?4 ORDER BY name";
            let bounds = params![kind, prefix, last, last.len() as i64];
            read_rows(connection, sql, bounds, stored_item)
        })
    }

    /// Reads all values of a kind with their names.
    pub fn items(&self, kind: &str) -> Result<Vec<StoredItem>, StateError> {
        self.read(|connection| {
            let sql = "SELECT name, value FROM item WHERE kind = ?1 ORDER BY name";
            read_rows(connection, sql, [kind], stored_item)
        })
    }
}

fn stored_item(row: &Row<'_>) -> Result<StoredItem, StateError> {
    Ok((row.get(0)?, Secret::new(row.get(1)?)))
}

/// Reads the entries of a journal from a number on, each of which must continue the previous one.
pub(super) fn entries(
    connection: &Connection,
    zone: i64,
    first: i64,
) -> Result<Vec<JournalEntry>, StateError> {
    let sql = "SELECT from_serial, to_serial, origin, time, removed, added FROM journal \
               WHERE zone = ?1 AND number >= ?2 ORDER BY number";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![zone, first])?;
    let mut entries: Vec<JournalEntry> = Vec::new();
    while let Some(row) = rows.next()? {
        let entry = JournalEntry {
            from: Serial(row.get(0)?),
            to: Serial(row.get(1)?),
            origin: JournalOrigin::from_number(row.get(2)?)
                .ok_or_else(|| StateError::corrupt("unknown origin of a journal entry"))?,
            time: row.get::<_, i64>(3)? as u64,
            difference: Difference {
                removed: list(row, 4)?,
                added: list(row, 5)?,
            },
        };
        let is_whole = entry.difference.serials() == Some((entry.from, entry.to));
        let (before, from) = (
            entries.last().map_or(entry.from, |last| last.to),
            entry.from,
        );
        if from != before || !is_whole {
            return Err(StateError::corrupt(format_args!(
                "the journal has a gap between serials {before} and {from}"
            )));
        }
        entries.push(entry);
    }
    Ok(entries)
}

pub(super) fn journaled_zone(row: &Row<'_>) -> Result<JournaledZone, StateError> {
    let name: Vec<u8> = row.get(0)?;
    let name = Name::from_wire(&name).map_err(StateError::corrupt)?;
    let refreshed: Option<i64> = row.get(5)?;
    let timers = match refreshed {
        Some(refreshed) => Some(ZoneTimers {
            refreshed: refreshed as u64,
            next_check: row.get::<_, i64>(6)? as u64,
            expires: row.get::<_, i64>(7)? as u64,
        }),
        None => None,
    };
    Ok(JournaledZone {
        name: name.into(),
        storage: ZoneStorage::from_number(row.get(1)?)
            .ok_or_else(|| StateError::corrupt("unknown storage type of a zone"))?,
        serial: Serial(row.get(2)?),
        timers,
        digest: read_digest(row, 8)?,
        entries: row.get::<_, i64>(3)? as u64,
        octets: row.get::<_, i64>(4)? as u64,
    })
}
