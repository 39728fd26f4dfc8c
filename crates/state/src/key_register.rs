//! The zones whose keys are in the store, recorded in a file next to it: a store that was deleted or replaced must
//! not lead to new keys for a zone whose parent has a DS for the old ones.
//!
//! The file has a line for each zone that got its first key (`+example.org.`) or lost its last one (`-example.org.`).
//! It is written after a first key is stored and before a last one is removed, and compacted when the store is
//! opened, so that a crash in between never leaves a zone in it whose keys the store does not have.

use super::change::StateChange;
use super::error::StateError;
use nameward_wire::Name;
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The item kind for zone keys: the item name is the zone's name in wire format and a number of four octets.
pub const ZONE_KEY_ITEM: &str = "dnssec-key";
/// The first octet of such an item if the private key is in a file elsewhere.
pub const KEY_ELSEWHERE: u8 = 3;

const FILE: &str = "signed-zones";
const NUMBER: usize = 4;
/// Maximum number of zones named in an error.
const NAMED_MAX: usize = 3;
/// Maximum size of the file in octets: more than ten million zones.
const SIZE_MAX: u64 = 1 << 30;

/// The zones whose keys are in the store.
pub(super) struct KeyRegister {
    path: PathBuf,
    zones: BTreeSet<String>,
    /// Zones whose keys are removed by the uncommitted transaction.
    leaving: Vec<String>,
}

impl KeyRegister {
    /// Returns the zones whose keys were in the store of a directory.
    fn read(path: &Path) -> Result<BTreeSet<String>, StateError> {
        let found = match path.metadata() {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
            Err(error) => return Err(StateError::from_io(path, &error)),
        };
        if !found.is_file() || found.len() > SIZE_MAX {
            return Err(StateError::NotAFile(path.into()));
        }
        let text = std::fs::read(path).map_err(|error| StateError::from_io(path, &error))?;
        let mut zones = BTreeSet::new();
        for line in text.split(|octet| *octet == b'\n') {
            let line = std::str::from_utf8(line).unwrap_or_default();
            match line.split_at_checked(1) {
                // A line truncated by a crash has no final dot.
                Some((_, name)) if !name.ends_with('.') => {}
                Some(("+", name)) => drop(zones.insert(name.into())),
                Some(("-", name)) => drop(zones.remove(name)),
                _ => {}
            }
        }
        Ok(zones)
    }

    /// Refuses to create an empty store in place of one that had keys.
    pub(super) fn check_new(store: &Path) -> Result<(), StateError> {
        let path = store.with_file_name(FILE);
        let zones = Self::read(&path)?;
        lost(store, &path, zones.iter())
    }

    /// Compares the recorded zones with those whose keys are in a store, and records the result.
    pub(super) fn open(store: &Path, connection: &Connection) -> Result<Self, StateError> {
        let path = store.with_file_name(FILE);
        let noted = Self::read(&path)?;
        // A key of an unknown zone is reported where keys are read.
        let zones = match stored(connection)? {
            Some(zones) => {
                lost(store, &path, noted.difference(&zones))?;
                zones
            }
            None => noted.clone(),
        };
        let register = KeyRegister {
            path,
            zones,
            leaving: Vec::new(),
        };
        if noted != register.zones
            && let Err(error) = register.write_whole()
        {
            tracing::warn!("{}: cannot write: {error}", register.path.display());
        }
        Ok(register)
    }

    /// Writes all zones to a new file that replaces the old one.
    fn write_whole(&self) -> std::io::Result<()> {
        let mut text = Vec::new();
        for zone in &self.zones {
            writeln!(text, "+{zone}")?;
        }
        nameward_base::file::replace(&self.path, 0o600, &text)
    }

    /// Records the zones whose keys are about to be removed, before a transaction with `changes` is committed;
    /// returns the zones to record after it.
    pub(super) fn begin<'c>(
        &mut self,
        connection: &Connection,
        changes: impl Iterator<Item = &'c StateChange>,
    ) -> Result<Vec<String>, StateError> {
        let mut touched: Vec<Vec<u8>> = changes.filter_map(zone_of).collect();
        touched.sort_unstable();
        touched.dedup();
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        for zone in touched {
            let Some(name) = text_of(&zone) else {
                continue;
            };
            let is_noted = self.zones.contains(&name);
            match (has_keys(connection, &zone)?, is_noted) {
                (true, false) => new.push(name),
                (false, true) => gone.push(name),
                _ => {}
            }
        }
        self.note('-', &gone);
        gone.iter().for_each(|zone| {
            self.zones.remove(zone);
        });
        self.leaving = gone;
        Ok(new)
    }

    /// Records again the removals of a transaction that was not committed.
    pub(super) fn undo(&mut self) {
        let stay = std::mem::take(&mut self.leaving);
        self.end(stay);
    }

    /// Records the zones that got keys, after the transaction was committed.
    pub(super) fn end(&mut self, new: Vec<String>) {
        self.leaving.clear();
        self.note('+', &new);
        self.zones.extend(new);
    }

    fn note(&self, sign: char, zones: &[String]) {
        if zones.is_empty() {
            return;
        }
        let text: String = zones.iter().map(|zone| format!("{sign}{zone}\n")).collect();
        let append = || -> std::io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file = options
                .create(true)
                .append(true)
                .mode(0o600)
                .open(&self.path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        if let Err(error) = append() {
            tracing::warn!("{}: cannot write: {error}", self.path.display());
        }
    }
}

/// Returns the zone of a change that adds or removes a key.
fn zone_of(change: &StateChange) -> Option<Vec<u8>> {
    let name = match change {
        StateChange::SetItem { kind, name, .. } | StateChange::RemoveItem { kind, name }
            if *kind == ZONE_KEY_ITEM =>
        {
            name
        }
        _ => return None,
    };
    let (zone, _) = name.split_last_chunk::<NUMBER>()?;
    Some(zone.to_vec())
}

/// Converts a name in wire format and lower case to the text of a line.
fn text_of(zone: &[u8]) -> Option<String> {
    Some(Name::from_wire(zone).ok()?.to_string())
}

const IS_KEPT_HERE: &str = "kind = ?1 AND substr(value, 1, 1) <> ?2";

/// Reads the zones whose keys are in the store; `None` if a key's zone is unknown.
fn stored(connection: &Connection) -> Result<Option<BTreeSet<String>>, StateError> {
    let sql = format!("SELECT name FROM item WHERE {IS_KEPT_HERE}");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query(rusqlite::params![ZONE_KEY_ITEM, [KEY_ELSEWHERE]])?;
    let mut zones = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let name: Vec<u8> = row.get(0)?;
        let zone = name.split_last_chunk::<NUMBER>();
        let Some(zone) = zone.and_then(|(zone, _)| text_of(zone)) else {
            return Ok(None);
        };
        zones.insert(zone);
    }
    Ok(Some(zones))
}

fn has_keys(connection: &Connection, zone: &[u8]) -> Result<bool, StateError> {
    let last = [zone, &[0xff; NUMBER]].concat();
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM item WHERE {IS_KEPT_HERE} AND name BETWEEN ?3 AND ?4)"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let values = rusqlite::params![ZONE_KEY_ITEM, [KEY_ELSEWHERE], zone, last];
    Ok(statement.query_row(values, |row| row.get(0))?)
}

/// Returns the error about zones whose keys are lost, if there are any.
fn lost<'z>(
    store: &Path,
    register: &Path,
    zones: impl Iterator<Item = &'z String>,
) -> Result<(), StateError> {
    let zones: Vec<&String> = zones.collect();
    if zones.is_empty() {
        return Ok(());
    }
    let named: Vec<&str> = zones
        .iter()
        .take(NAMED_MAX)
        .map(|zone| zone.as_str())
        .collect();
    let more = match zones.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(StateError::KeysLost {
        path: store.into(),
        zones: format!("{}{more}", named.join(", ")),
        register: register.into(),
    })
}
