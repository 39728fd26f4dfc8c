//! The journal of each zone: a chain of differences from serial to serial, bounded in size and number.
//!
//! Entries are numbered. The zone's storage (a file, contents in this store) has all entries up to `base`; it lacks
//! the later ones, so only entries up to `base` are dropped when the journal exceeds its limits. If that is not
//! enough, the result names the zone (`Written::overfull`), so that the caller brings its storage up to date.

use super::audit;
use super::change::{StateChange, Written};
use super::deleted;
use super::digest::ContentsDigest;
use super::error::StateError;
use super::file_copy;
use super::journal_rows::{
    JournalBounds, JournalOrigin, JournalRow, NewEntry, ZoneStorage, ZoneTimers, drop_entries,
    number_of, run, stored_name,
};
use super::read::entries;
use super::rebase::forget_rebase;
use super::zone_rows::ZoneRows;
use nameward_wire::NameBuf;
use nameward_zone::Serial;
use rusqlite::{Connection, params};

impl ZoneRows {
    pub(super) fn apply(
        &mut self,
        connection: &Connection,
        change: &StateChange,
        written: &mut Written,
    ) -> Result<(), StateError> {
        match change {
            StateChange::Append {
                zone,
                storage,
                origin,
                difference,
                time,
                author,
            } => {
                let entry = NewEntry {
                    zone,
                    storage: *storage,
                    origin: *origin,
                    difference,
                    time: *time,
                    author: author.as_deref(),
                };
                self.append(connection, &entry, written)
            }
            StateChange::RestartJournal {
                zone,
                storage,
                serial,
            } => self.restart_journal(connection, zone, (*storage, *serial)),
            StateChange::Rebase { zone, version } => self.rebase(connection, zone, version),
            StateChange::Settle { zone, serial } => self.record_stored(connection, zone, *serial),
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
            StateChange::RemoveVanished { zone, storage } => {
                self.remove_vanished(connection, zone, *storage, written)
            }
            StateChange::KeepCopy { zone, rows, bounds } => {
                written.copy = Some(deleted::insert(connection, zone, rows, bounds)?);
                Ok(())
            }
            StateChange::RemoveCopy { number } => deleted::remove(connection, *number),
            StateChange::DropCopies { before } => deleted::drop_older(connection, *before),
            StateChange::KeepFileCopyPart {
                zone,
                digest,
                part,
                records,
            } => file_copy::write_part(connection, (zone, *digest), (*part, records)),
            StateChange::KeepFileCopy { zone, copy } => file_copy::complete(connection, zone, copy),
            StateChange::RemoveFileCopy { zone } => file_copy::remove(connection, zone),
            StateChange::Audit(entry) => audit::insert(connection, entry),
            StateChange::SetItem { kind, name, value } => {
                let sql = "INSERT OR REPLACE INTO item (kind, name, value) VALUES (?1, ?2, ?3)";
                run(connection, sql, params![kind, name, value.reveal()])
            }
            StateChange::RemoveItem { kind, name } => {
                let sql = "DELETE FROM item WHERE kind = ?1 AND name = ?2";
                run(connection, sql, params![kind, name])
            }
        }
    }

    /// Starts the journal of a zone again at a serial, without entries.
    fn restart_journal(
        &mut self,
        connection: &Connection,
        zone: &NameBuf,
        (storage, serial): (ZoneStorage, Serial),
    ) -> Result<(), StateError> {
        let mut row = self.row_or_new(connection, zone, storage, serial)?;
        drop_entries(connection, &mut row, i64::MAX)?;
        forget_rebase(connection, &mut row)?;
        (row.storage, row.serial, row.base) = (storage, serial, row.last);
        row.digest = None;
        self.put(zone, row);
        Ok(())
    }

    pub(super) fn append(
        &mut self,
        connection: &Connection,
        entry: &NewEntry<'_>,
        written: &mut Written,
    ) -> Result<(), StateError> {
        let NewEntry { zone, storage, .. } = *entry;
        let serials = entry.difference.serials().filter(|(from, to)| from != to);
        let (from, to) = serials.ok_or_else(|| StateError::NoSerial(zone.to_string()))?;
        let gap = |tip| StateError::Gap {
            zone: zone.to_string(),
            tip,
            from,
        };
        let mut row = match (self.row(connection, zone)?, storage) {
            (Some(row), _) => row,
            // Without contents there is nothing that a difference could continue.
            (None, ZoneStorage::Store) => return Err(gap(Serial(0))),
            (None, _) => self.row_or_new(connection, zone, storage, from)?,
        };
        if row.serial != from || row.storage != storage {
            return Err(gap(row.serial));
        }
        row.last += 1;
        let sql = "INSERT INTO journal (zone, number, from_serial, to_serial, origin, time, \
                   removed, added, who, message) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        let values = params![
            row.id,
            row.last,
            from.0,
            to.0,
            entry.origin.number(),
            entry.time as i64,
            entry.difference.removed.as_bytes(),
            entry.difference.added.as_bytes(),
            entry.author.map(|author| &*author.who),
            entry.author.and_then(|author| author.message.as_deref())
        ];
        run(connection, sql, values)?;
        row.serial = to;
        row.entries += 1;
        row.octets += entry.difference.octets() as u64;
        row.digest = row.digest.map(|digest| digest.after(entry.difference));
        if storage == ZoneStorage::Database || entry.origin == JournalOrigin::Storage {
            row.base = row.last;
            forget_rebase(connection, &mut row)?;
        }
        self.prune(connection, &mut row)?;
        if row.base < row.last && self.is_over(&row) {
            written.overfull.push(*zone);
        }
        self.put(zone, row);
        Ok(())
    }

    fn is_over(&self, row: &JournalRow) -> bool {
        row.octets > self.bounds.octets || row.entries > self.bounds.entries
    }

    /// Drops the oldest entries of a journal that exceeds its limits, more than necessary, so that not every change
    /// has to.
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
        // If the storage lacks all of them nothing can be dropped, and each change would sum up the whole journal in
        // vain.
        match cut {
            Some(cut) => drop_entries(connection, row, cut),
            None => Ok(()),
        }
    }

    /// Records that the storage has all entries up to the one that led to `serial`.
    fn record_stored(
        &mut self,
        connection: &Connection,
        zone: &NameBuf,
        serial: Serial,
    ) -> Result<(), StateError> {
        let Some(mut row) = self.row(connection, zone)? else {
            return Ok(());
        };
        if let Some(number) = number_of(connection, &row, serial)?.filter(|n| *n >= row.base) {
            row.base = number;
            forget_rebase(connection, &mut row)?;
        }
        self.prune(connection, &mut row)?;
        self.put(zone, row);
        Ok(())
    }

    /// Sets the digest of the contents at a serial, advanced to the end of the journal.
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
        // A journal that has restarted since does not lead there.
        if let Some(number) = number_of(connection, &row, serial)? {
            let later = entries(connection, row.id, number + 1)?;
            let later = later.iter().map(|entry| &entry.difference);
            row.digest = Some(later.fold(digest, ContentsDigest::after));
            self.put(zone, row);
        }
        Ok(())
    }

    fn remove(&mut self, connection: &Connection, zone: &NameBuf) -> Result<(), StateError> {
        let name = stored_name(zone);
        run(connection, "DELETE FROM zone WHERE name = ?1", [&name])?;
        self.forget_row(name);
        Ok(())
    }

    fn remove_vanished(
        &mut self,
        connection: &Connection,
        zone: &NameBuf,
        storage: ZoneStorage,
        written: &mut Written,
    ) -> Result<(), StateError> {
        match self.row(connection, zone)? {
            Some(row) if row.storage != storage => Ok(()),
            Some(row) if row.base < row.last || row.is_rebased => {
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
        let row = self.row_or_new(connection, zone, ZoneStorage::Store, Serial(0))?;
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
        run(connection, sql, values)?;
        self.note(stored_name(zone), row);
        Ok(())
    }
}
