//! Owns what an operator does to zones: once, whoever asks (the control socket now).
//!
//! An operation finds the database that serves the zone, makes the change there, and returns when this server
//! answers with it. Zones that come from files are never changed. Everything here may block.

mod record;
mod request;
mod words;
mod zone;

pub use request::run;
pub use words::{decode, encode};

use nameward_store::sql::write::{Committed, WriteError};
use nameward_store::sql::{SqlBackend, ZoneRow};
use nameward_wire::{Name, NameBuf};
use tokio::runtime::Handle;

/// Lines of a reply at the most; a zone or a list may have more.
const LINES_MAX: usize = 200_000;

/// A database of the server.
pub struct Database {
    /// Its place among the backends of the configuration, from 0.
    pub rank: u16,
    /// `live` or `resident`.
    pub mode: &'static str,
    /// The database.
    pub backend: SqlBackend,
    /// Makes the server answer with what the database has of a zone, and returns when it does.
    pub publish: Box<dyn Fn(i64) -> Result<(), String> + Send + Sync>,
}

impl Database {
    /// As an operator names it: from 1.
    fn number(&self) -> u32 {
        u32::from(self.rank) + 1
    }
}

/// Hands the name and the rank of every zone over that the server serves.
pub type EachZone = Box<dyn Fn(&mut dyn FnMut(Name<'_>, u16)) + Send + Sync>;
/// The rank of the backend that serves a zone.
pub type RankOf = Box<dyn Fn(Name<'_>) -> Option<u16> + Send + Sync>;

/// The zones of a server and how to change them.
pub struct Operations {
    /// The databases, in the order of the configuration.
    pub databases: Vec<Database>,
    /// Which backend serves a zone.
    pub rank_of: RankOf,
    /// All zones.
    pub each_zone: EachZone,
    /// Drives the connections of the databases.
    pub runtime: Handle,
}

impl Operations {
    /// The database that serves a zone, and the zone's row there.
    fn locate(&self, name: &NameBuf) -> Result<(&Database, ZoneRow), String> {
        let find = |database: &Database| {
            let find = database.backend.find_zone(name.as_name());
            self.runtime
                .block_on(find)
                .map_err(|error| describe(database, &error))
        };
        if let Some(rank) = (self.rank_of)(name.as_name()) {
            let serves = self.databases.iter().find(|database| database.rank == rank);
            let database = serves.ok_or_else(|| {
                let number = u32::from(rank) + 1;
                format!(
                    "the zone {name} comes from a file (backend {number}): change the file, then `nameward reload`"
                )
            })?;
            let row = find(database)?;
            let row =
                row.ok_or_else(|| format!("the zone {name} is not in the database any more"))?;
            return Ok((database, row));
        }
        // One that cannot be served yet, for want of a SOA perhaps.
        for database in &self.databases {
            if let Some(row) = find(database)? {
                return Ok((database, row));
            }
        }
        Err(format!(
            "there is no zone {name}; `nameward zone list` prints those there are"
        ))
    }

    /// Makes a committed change visible; returns lines for the one who asked.
    fn publish(&self, database: &Database, committed: &Committed) -> Result<String, String> {
        let waiting = database.backend.await_replica(committed);
        let is_there = self.runtime.block_on(waiting);
        (database.publish)(committed.zone).map_err(|error| {
            format!(
                "the change is in the database, but not in the answers of this server yet: {error}"
            )
        })?;
        let warnings = committed.warnings.iter();
        let mut lines: String = warnings.map(|text| format!("warning: {text}\n")).collect();
        if !is_there {
            lines
                .push_str("warning: the replica does not show the change yet; answers follow it\n");
        }
        Ok(lines)
    }
}

fn describe(database: &Database, error: &WriteError) -> String {
    match error {
        // It is about what was asked for, not about the database.
        WriteError::Refused(_) | WriteError::NoSuchZone => error.to_string(),
        _ => format!("{}: {error}", database.backend.options().address),
    }
}

/// Reads the name of a zone; a final dot is not needed.
fn zone_name(text: &str) -> Result<NameBuf, String> {
    check_ascii(text)?;
    NameBuf::from_text(text.as_bytes(), Name::ROOT)
        .map_err(|error| format!("{text:?} is no zone name: {error}"))
}

/// Names of other scripts have a form in ASCII (RFC 5891), and only that is looked up.
fn check_ascii(text: &str) -> Result<(), String> {
    match text.is_ascii() {
        true => Ok(()),
        false => Err(format!(
            "{text:?} is not in ASCII: write the name in its xn-- form"
        )),
    }
}
