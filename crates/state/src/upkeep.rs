//! Maintenance of the state store by its operator: check, compact, back up. All of it while a server runs.

use super::error::StateError;
use super::journal_rows::{ZoneStorage, find_zone};
use super::read::{entries, journaled_zone};
use super::{FILE, StateStore, open_to_read, schema};
use nameward_wire::NameBuf;
use nameward_wire::rdata::validate;
use nameward_zone::{RecordList, Zone, ZoneBuilder};
use rusqlite::{Connection, params};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of faults listed by one check.
const MAX_FAULTS: usize = 100;

/// The findings of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateCheckReport {
    /// The version of the schema.
    pub version: i64,
    /// Number of zones with stored state.
    pub zones: usize,
    /// Number of differences in all journals.
    pub entries: usize,
    /// Size of the file in octets.
    pub octets: u64,
    /// Faults, one line each; empty if the store is intact.
    pub faults: Vec<String>,
}

/// The sizes of a store before and after it was compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactReport {
    /// Octets before.
    pub before: u64,
    /// Octets after.
    pub after: u64,
}

impl StateStore {
    /// Checks the store of a state directory: the file, each journal from end to end, and the zones stored in it.
    pub fn check(directory: &Path) -> Result<StateCheckReport, StateError> {
        let path = existing(directory)?;
        check(&path).map_err(|error| error.with_path(&path))
    }

    /// Checks whether the store of a state directory has values of a kind, without writing to it: works for a store
    /// that a server cannot open, too. A directory without a store has none.
    pub fn has_items(directory: &Path, kind: &str) -> Result<bool, StateError> {
        let path = match existing(directory) {
            Ok(path) => path,
            Err(StateError::Missing(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        let look = || -> Result<bool, StateError> {
            let connection = open_to_read(&path)?;
            // Created, and nothing written to it yet.
            if schema::version(&connection)? == 0 {
                return Ok(false);
            }
            let sql = "SELECT EXISTS (SELECT 1 FROM item WHERE kind = ?1)";
            Ok(connection.query_row(sql, [kind], |row| row.get(0))?)
        };
        look().map_err(|error| error.with_path(&path))
    }

    /// Returns unused space of a state directory's store to the file system.
    pub fn compact(directory: &Path) -> Result<CompactReport, StateError> {
        let path = existing(directory)?;
        let size = || path.metadata().map_or(0, |metadata| metadata.len());
        let before = size();
        let compact = || -> Result<(), StateError> {
            let connection = Connection::open(&path)?;
            connection.busy_timeout(super::TIMEOUT)?;
            known_version(&connection)?;
            connection.execute_batch("VACUUM")?;
            let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
            connection.query_row(sql, [], |_| Ok(()))?;
            Ok(())
        };
        compact().map_err(|error| error.with_path(&path))?;
        Ok(CompactReport {
            before,
            after: size(),
        })
    }

    /// Copies a consistent snapshot of a state directory's store to a file that does not exist yet. Returns its size
    /// in octets.
    pub fn backup(directory: &Path, to: &Path) -> Result<u64, StateError> {
        let path = existing(directory)?;
        let connection = open_to_read(&path)?;
        known_version(&connection).map_err(|error| error.with_path(&path))?;
        // It contains secrets. SQLite accepts an existing file if it is empty.
        let mut options = OpenOptions::new();
        let made = options.create_new(true).write(true).mode(0o600).open(to);
        made.map_err(|error| StateError::from_io(to, &error))?;
        let copied = connection.execute("VACUUM INTO ?1", [to.to_string_lossy()]);
        let synchronised = copied.map_err(StateError::from).and_then(|_| {
            let file = File::open(to).map_err(|error| StateError::from_io(to, &error))?;
            file.sync_all()
                .map_err(|error| StateError::from_io(to, &error))?;
            let metadata = file.metadata();
            metadata.map_err(|error| StateError::from_io(to, &error))
        });
        match synchronised {
            Ok(metadata) => Ok(metadata.len()),
            Err(error) => {
                // A partial copy is worse than none.
                let _ = std::fs::remove_file(to);
                Err(error.with_path(to))
            }
        }
    }
}

fn existing(directory: &Path) -> Result<PathBuf, StateError> {
    let path = directory.join(FILE);
    match path.metadata() {
        Ok(_) => super::condition::require_regular(&path).map(|()| path),
        // The directory's path is a file: there can be no store in it.
        Err(error) if error.kind() == ErrorKind::NotADirectory => Err(StateError::Missing(path)),
        Err(error) => Err(StateError::from_io(&path, &error)),
    }
}

fn known_version(connection: &Connection) -> Result<i64, StateError> {
    let (found, known) = (
        schema::version(connection)?,
        schema::MIGRATIONS.len() as i64,
    );
    if found <= known {
        Ok(found)
    } else {
        Err(StateError::Newer {
            path: PathBuf::new(),
            found,
            known,
        })
    }
}

fn check(path: &Path) -> Result<StateCheckReport, StateError> {
    let connection = open_to_read(path)?;
    let mut report = StateCheckReport {
        version: known_version(&connection)?,
        octets: path.metadata().map_or(0, |metadata| metadata.len()),
        ..StateCheckReport::default()
    };
    let sql = format!("PRAGMA integrity_check({MAX_FAULTS})");
    let mut statement = connection.prepare(&sql)?;
    let mut lines = statement.query([])?;
    while let Some(line) = lines.next()? {
        let line: String = line.get(0)?;
        if line != "ok" {
            report.faults.push(line);
        }
    }
    drop(lines);
    // A store of an older version is checked after the next server has migrated it.
    let is_current = report.version == schema::MIGRATIONS.len() as i64;
    if !is_current || !report.faults.is_empty() {
        return Ok(report);
    }
    // One snapshot for all.
    let transaction = connection.unchecked_transaction()?;
    let sql = "SELECT name, home, serial, entries, octets, NULL, NULL, NULL, NULL FROM zone";
    let mut statement = transaction.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        report.zones += 1;
        let zone = journaled_zone(row)?;
        match check_zone(&transaction, &zone.name) {
            Ok(entries) => report.entries += entries,
            Err(error) => report.faults.push(format!("zone {}: {error}", zone.name)),
        }
        if report.faults.len() >= MAX_FAULTS {
            break;
        }
    }
    Ok(report)
}

/// Checks one zone; returns the number of entries in its journal.
fn check_zone(connection: &Connection, name: &NameBuf) -> Result<usize, StateError> {
    let stored = super::journal_rows::stored_name(name);
    let Some(row) = find_zone(connection, &stored)? else {
        return Ok(0);
    };
    let journal = entries(connection, row.id, 0)?;
    let octets: usize = journal.iter().map(|entry| entry.difference.octets()).sum();
    if (journal.len() as u64, octets as u64) != (row.entries, row.octets) {
        return Err(StateError::corrupt(
            "the journal size does not match the recorded size",
        ));
    }
    if journal.last().is_some_and(|last| last.to != row.serial) {
        return Err(StateError::corrupt(
            "the journal does not end at the recorded serial",
        ));
    }
    for entry in &journal {
        check_records(&entry.difference.removed)?;
        check_records(&entry.difference.added)?;
    }
    if row.storage == ZoneStorage::Store {
        let behind = (row.last - row.base) as usize;
        let after_base = &journal[journal.len().saturating_sub(behind)..];
        let mut zone = match build(connection, row.id, name)? {
            Some(zone) => Arc::new(zone),
            None => return Ok(journal.len()),
        };
        for entry in after_base {
            zone = Arc::new(zone.apply(&entry.difference).map_err(StateError::corrupt)?);
        }
        if zone.serial() != row.serial {
            return Err(StateError::corrupt(
                "the contents do not have the recorded serial",
            ));
        }
    }
    Ok(journal.len())
}

/// Builds the zone from its contents; `None` if there are none yet.
fn build(connection: &Connection, id: i64, name: &NameBuf) -> Result<Option<Zone>, StateError> {
    let sql = "SELECT records FROM contents WHERE zone = ?1 ORDER BY part";
    let mut statement = connection.prepare_cached(sql)?;
    let mut parts = statement.query(params![id])?;
    let mut builder = ZoneBuilder::new(name.as_name());
    let mut is_empty = true;
    while let Some(part) = parts.next()? {
        is_empty = false;
        let part = RecordList::from_bytes(part.get(0)?).map_err(StateError::corrupt)?;
        check_records(&part)?;
        builder.add_list(&part);
    }
    if is_empty {
        return Ok(None);
    }
    let (zone, findings) = builder.finish();
    let first = findings.into_iter().next();
    let fault = || {
        first.map_or("the contents are not a valid zone".into(), |finding| {
            finding.message
        })
    };
    zone.map(Some).ok_or_else(|| StateError::corrupt(fault()))
}

fn check_records(list: &RecordList) -> Result<(), StateError> {
    let invalid = list
        .iter()
        .find(|record| validate(record.rtype, record.rdata).is_err());
    match invalid {
        Some(record) => Err(StateError::corrupt(format_args!(
            "invalid record: {record:?}"
        ))),
        None => Ok(()),
    }
}
