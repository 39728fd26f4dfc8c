//! The journal of each zone: a chain of differences from serial to serial, bounded in size and number.
//!
//! Entries are numbered. The home of a zone (a file, contents in this store) has all entries up to `base`; those after it
//! are what the home lacks, so only entries up to `base` are dropped when the journal is larger than its bounds. Where
//! that is not enough the caller is told, so that it brings the home up to date.

use super::change::{JournalOrigin, StateChange, Written, ZoneHome, ZoneTimers};
use super::digest::ContentsDigest;
use super::error::StateError;
use super::read::entries;
use nameward_wire::NameBuf;
use nameward_zone::Serial;
use nameward_zone::change::Difference;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;

/// How much of the past is kept for each zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalBounds {
    /// Octets of all differences.
    pub octets: u64,
    /// Differences.
    pub entries: u64,
}

/// One difference of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// The serial before.
    pub from: Serial,
    /// The serial after.
    pub to: Serial,
    /// Who made it.
    pub origin: JournalOrigin,
    /// Seconds since 1970.
    pub time: u64,
    /// The records that go and come.
    pub difference: Difference,
}

/// A row of the table `zone`.
#[derive(Debug, Clone, Copy)]
pub(super) struct JournalRow {
    pub(super) id: i64,
    pub(super) home: ZoneHome,
    pub(super) serial: Serial,
    pub(super) last: i64,
    pub(super) base: i64,
    pub(super) entries: u64,
    pub(super) octets: u64,
    /// Of the contents at the end of the journal, if it is known.
    pub(super) digest: Option<ContentsDigest>,
}

/// The name of a zone as the store has it.
pub(super) fn stored_name(name: &NameBuf) -> Vec<u8> {
    name.as_name().as_wire().to_ascii_lowercase()
}

/// Reads the row of a zone.
pub(super) fn find_zone(
    connection: &Connection,
    name: &[u8],
) -> Result<Option<JournalRow>, StateError> {
    let sql =
        "SELECT id, home, serial, last, base, entries, octets, digest FROM zone WHERE name = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let row = statement.query_row([name], |row| {
        let home: i64 = row.get(1)?;
        Ok(ZoneHome::of(home).map(|home| JournalRow {
            id: row.get_unwrap(0),
            home,
            serial: Serial(row.get_unwrap(2)),
            last: row.get_unwrap(3),
            base: row.get_unwrap(4),
            entries: row.get_unwrap::<_, i64>(5) as u64,
            octets: row.get_unwrap::<_, i64>(6) as u64,
            digest: row
                .get_unwrap::<_, Option<i64>>(7)
                .map(ContentsDigest::from_number),
        }))
    });
    match row.optional()? {
        Some(None) => Err(StateError::corrupt("a zone has an unknown home")),
        Some(row) => Ok(row),
        None => Ok(None),
    }
}

/// Applies changes within a transaction, and keeps the rows of zones it has seen.
pub(super) struct ZoneRows {
    bounds: JournalBounds,
    known: HashMap<Vec<u8>, JournalRow>,
}

impl ZoneRows {
    pub(super) fn new(bounds: JournalBounds) -> Self {
        ZoneRows {
            bounds,
            known: HashMap::new(),
        }
    }

    /// Forgets the rows it has seen: a transaction was undone.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// Makes one change.
    pub(super) fn apply(
        &mut self,
        connection: &Connection,
        change: &StateChange,
        written: &mut Written,
    ) -> Result<(), StateError> {
        match change {
            StateChange::Append {
                zone,
                home,
                origin,
                difference,
                time,
            } => {
                let entry = NewEntry {
                    zone,
                    home: *home,
                    origin: *origin,
                    difference,
                    time: *time,
                };
                self.append(connection, &entry, written)
            }
            StateChange::RestartJournal { zone, home, serial } => {
                let mut row = self.row_or_new(connection, zone, *home, *serial)?;
                drop_entries(connection, &mut row, i64::MAX)?;
                (row.home, row.serial, row.base) = (*home, *serial, row.last);
                row.digest = None;
                self.put(connection, zone, row)
            }
            StateChange::Settle { zone, serial } => self.settle(connection, zone, *serial),
            StateChange::SetContents {
                zone,
                serial,
                parts,
            } => self.set_contents(connection, zone, *serial, parts),
            StateChange::RefreshContents {
                zone,
                serial,
                parts,
            } => self.refresh_contents(connection, zone, *serial, parts),
            StateChange::SetTimers { zone, timers } => self.set_timers(connection, zone, timers),
            StateChange::RemoveZone { zone } => self.remove(connection, zone),
            StateChange::SetDigest {
                zone,
                serial,
                digest,
            } => self.set_digest(connection, zone, *serial, *digest),
            StateChange::RemoveVanished { zone, home } => {
                self.remove_vanished(connection, zone, *home, written)
            }
            StateChange::SetItem { kind, name, value } => {
                let sql = "INSERT OR REPLACE INTO item (kind, name, value) VALUES (?1, ?2, ?3)";
                connection
                    .prepare_cached(sql)?
                    .execute(params![kind, name, value])?;
                Ok(())
            }
            StateChange::RemoveItem { kind, name } => {
                let sql = "DELETE FROM item WHERE kind = ?1 AND name = ?2";
                connection
                    .prepare_cached(sql)?
                    .execute(params![kind, name])?;
                Ok(())
            }
        }
    }

    pub(super) fn row(
        &mut self,
        connection: &Connection,
        zone: &NameBuf,
    ) -> Result<Option<JournalRow>, StateError> {
        let name = stored_name(zone);
        if let Some(row) = self.known.get(&name) {
            return Ok(Some(*row));
        }
        let row = find_zone(connection, &name)?;
        if let Some(row) = row {
            self.known.insert(name, row);
        }
        Ok(row)
    }

    pub(super) fn row_or_new(
        &mut self,
        connection: &Connection,
        zone: &NameBuf,
        home: ZoneHome,
        serial: Serial,
    ) -> Result<JournalRow, StateError> {
        if let Some(row) = self.row(connection, zone)? {
            return Ok(row);
        }
        let sql = "INSERT INTO zone (name, home, serial, last, base, entries, octets) \
                   VALUES (?1, ?2, ?3, 0, 0, 0, 0)";
        let values = params![stored_name(zone), home.number(), serial.0];
        let id = connection.prepare_cached(sql)?.insert(values)?;
        Ok(JournalRow {
            id,
            home,
            serial,
            last: 0,
            base: 0,
            entries: 0,
            octets: 0,
            digest: None,
        })
    }

    pub(super) fn put(
        &mut self,
        connection: &Connection,
        zone: &NameBuf,
        row: JournalRow,
    ) -> Result<(), StateError> {
        let sql = "UPDATE zone SET home = ?2, serial = ?3, last = ?4, base = ?5, entries = ?6, \
                   octets = ?7, digest = ?8 WHERE id = ?1";
        connection.prepare_cached(sql)?.execute(params![
            row.id,
            row.home.number(),
            row.serial.0,
            row.last,
            row.base,
            row.entries as i64,
            row.octets as i64,
            row.digest.map(ContentsDigest::number)
        ])?;
        self.known.insert(stored_name(zone), row);
        Ok(())
    }

    fn append(
        &mut self,
        connection: &Connection,
        entry: &NewEntry<'_>,
        written: &mut Written,
    ) -> Result<(), StateError> {
        let NewEntry { zone, home, .. } = *entry;
        let serials = entry.difference.serials().filter(|(from, to)| from != to);
        let (from, to) = serials.ok_or_else(|| StateError::NoSerial(zone.to_string()))?;
        let gap = |tip| StateError::Gap {
            zone: zone.to_string(),
            tip,
            from,
        };
        let mut row = match (self.row(connection, zone)?, home) {
            (Some(row), _) => row,
            // Without contents there is nothing that a difference could continue.
            (None, ZoneHome::Store) => return Err(gap(Serial(0))),
            (None, _) => self.row_or_new(connection, zone, home, from)?,
        };
        if row.serial != from || row.home != home {
            return Err(gap(row.serial));
        }
        row.last += 1;
        let sql = "INSERT INTO journal (zone, number, from_serial, to_serial, origin, time, \
                   removed, added) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        connection.prepare_cached(sql)?.execute(params![
            row.id,
            row.last,
            from.0,
            to.0,
            entry.origin.number(),
            entry.time as i64,
            entry.difference.removed.as_bytes(),
            entry.difference.added.as_bytes()
        ])?;
        row.serial = to;
        row.entries += 1;
        row.octets += entry.difference.octets() as u64;
        row.digest = row.digest.map(|digest| digest.after(entry.difference));
        if home == ZoneHome::Database || entry.origin == JournalOrigin::Home {
            row.base = row.last;
        }
        self.prune(connection, &mut row)?;
        if row.base < row.last && self.is_over(&row) {
            written.overfull.push(*zone);
        }
        self.put(connection, zone, row)
    }

    fn is_over(&self, row: &JournalRow) -> bool {
        row.octets > self.bounds.octets || row.entries > self.bounds.entries
    }

    /// Drops the oldest entries of a journal that is larger than its bounds, some more than needed, so that not every
    /// change has to.
    pub(super) fn prune(
        &self,
        connection: &Connection,
        row: &mut JournalRow,
    ) -> Result<(), StateError> {
        if !self.is_over(row) {
            return Ok(());
        }
        let JournalBounds { octets, entries } = self.bounds;
        let (octets, entries) = (octets - octets / 8, entries - entries / 8);
        let sql = "SELECT number, length(removed) + length(added) FROM journal \
                   WHERE zone = ?1 AND number <= ?2 ORDER BY number";
        let mut statement = connection.prepare_cached(sql)?;
        let mut oldest = statement.query(params![row.id, row.base])?;
        let (mut left, mut cut) = ((row.octets, row.entries), None);
        while (left.0 > octets || left.1 > entries)
            && let Some(next) = oldest.next()?
        {
            cut = Some(next.get::<_, i64>(0)?);
            left = (
                left.0.saturating_sub(next.get::<_, i64>(1)? as u64),
                left.1 - 1,
            );
        }
        drop(oldest);
        // Where the home lacks all of them nothing can be dropped, and each change would sum the whole journal in vain.
        match cut {
            Some(cut) => drop_entries(connection, row, cut),
            None => Ok(()),
        }
    }

    /// The home has all entries up to the one that led to `serial`.
    fn settle(
        &mut self,
        connection: &Connection,
        zone: &NameBuf,
        serial: Serial,
    ) -> Result<(), StateError> {
        let Some(mut row) = self.row(connection, zone)? else {
            return Ok(());
        };
        let number = number_of(connection, &row, serial)?;
        row.base = row.base.max(number.unwrap_or(row.base));
        self.prune(connection, &mut row)?;
        self.put(connection, zone, row)
    }

    /// Sets the digest of the contents at a serial, brought forward to the end of the journal.
    fn set_digest(
        &mut self,
        connection: &Connection,
        zone: &NameBuf,
        serial: Serial,
        digest: ContentsDigest,
    ) -> Result<(), StateError> {
        let Some(mut row) = self.row(connection, zone)? else {
            return Ok(());
        };
        if row.serial == serial {
            row.digest = Some(digest);
            return self.put(connection, zone, row);
        }
        let sql = "SELECT max(number) FROM journal WHERE zone = ?1 AND from_serial = ?2";
        let values = params![row.id, serial.0];
        let first: Option<i64> = connection.query_row(sql, values, |found| found.get(0))?;
        // A journal that began anew since does not lead there.
        if let Some(first) = first {
            let later = entries(connection, row.id, first, serial)?;
            let later = later.iter().map(|entry| &entry.difference);
            row.digest = Some(later.fold(digest, ContentsDigest::after));
            self.put(connection, zone, row)?;
        }
        Ok(())
    }

    fn remove(&mut self, connection: &Connection, zone: &NameBuf) -> Result<(), StateError> {
        let name = stored_name(zone);
        connection
            .prepare_cached("DELETE FROM zone WHERE name = ?1")?
            .execute([&name])?;
        self.known.remove(&name);
        Ok(())
    }

    fn remove_vanished(
        &mut self,
        connection: &Connection,
        zone: &NameBuf,
        home: ZoneHome,
        written: &mut Written,
    ) -> Result<(), StateError> {
        match self.row(connection, zone)? {
            Some(row) if row.home != home => Ok(()),
            Some(row) if row.base < row.last => {
                written.unsettled.push(*zone);
                Ok(())
            }
            Some(_) => {
                written.removed.push(*zone);
                self.remove(connection, zone)
            }
            None => Ok(()),
        }
    }

    fn set_timers(
        &mut self,
        connection: &Connection,
        zone: &NameBuf,
        timers: &ZoneTimers,
    ) -> Result<(), StateError> {
        let row = self.row_or_new(connection, zone, ZoneHome::Store, Serial(0))?;
        let sql = "INSERT OR REPLACE INTO timer (zone, refreshed, next_check, expires) \
                   VALUES (?1, ?2, ?3, ?4)";
        let ZoneTimers {
            refreshed,
            next_check,
            expires,
        } = timers;
        let values = params![
            row.id,
            *refreshed as i64,
            *next_check as i64,
            *expires as i64
        ];
        connection.prepare_cached(sql)?.execute(values)?;
        self.known.insert(stored_name(zone), row);
        Ok(())
    }
}

/// An entry to be appended.
struct NewEntry<'e> {
    zone: &'e NameBuf,
    home: ZoneHome,
    origin: JournalOrigin,
    difference: &'e Difference,
    time: u64,
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
    let sql = "SELECT max(number) FROM journal WHERE zone = ?1 AND to_serial = ?2";
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
    connection
        .prepare_cached(sql)?
        .execute(params![row.id, up_to])?;
    let sql = "SELECT count(*), coalesce(sum(length(removed) + length(added)), 0) FROM journal \
               WHERE zone = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let sums: (i64, i64) =
        statement.query_row([row.id], |sums| Ok((sums.get(0)?, sums.get(1)?)))?;
    (row.entries, row.octets) = (sums.0 as u64, sums.1 as u64);
    Ok(())
}
