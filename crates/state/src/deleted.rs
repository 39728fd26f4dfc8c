//! Copies of zones that operators deleted: kept for some days, so that a zone can be restored, limited in octets and
//! number.
//!
//! The rows of a copy are octets that the zone's storage reads and writes; here they are opaque.

use super::StateStore;
use super::error::StateError;
use super::journal_rows::{read_rows, run, stored_name};
use nameward_base::sync::Mutex;
use nameward_wire::{Name, NameBuf};
use nameward_zone::Serial;
use rusqlite::{Connection, Row, params};
use std::sync::Arc;

/// How much is kept of deleted zones, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyBounds {
    /// Maximum size of all copies in octets.
    pub octets: u64,
    /// Maximum number of copies.
    pub copies: u64,
    /// Seconds for which a copy is kept.
    pub seconds: u64,
}

impl CopyBounds {
    /// Maximum size of a copy: less than what SQLite accepts as one value.
    const COPY_MAX: u64 = 512 << 20;

    /// Returns the maximum size of one copy in octets; 0 if none are kept.
    pub fn octets_max(&self) -> u64 {
        if self.copies == 0 || self.seconds == 0 {
            0
        } else {
            self.octets.min(Self::COPY_MAX)
        }
    }
}

/// The current limits, which a reload changes.
#[derive(Debug, Default)]
pub struct CopyBoundsInForce(Mutex<CopyBounds>);

impl CopyBoundsInForce {
    /// Creates the limits.
    pub fn new(bounds: CopyBounds) -> Arc<Self> {
        Arc::new(Self(Mutex::new(bounds)))
    }

    /// Returns the current limits.
    pub fn now(&self) -> CopyBounds {
        *self.0.lock()
    }

    /// Sets new limits.
    pub fn set(&self, bounds: CopyBounds) {
        *self.0.lock() = bounds;
    }
}

/// A deleted zone of which a copy is kept.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedZone {
    pub name: NameBuf,
    /// The keyword for the kind of the zone.
    pub kind: String,
    /// The number of the backend that it was deleted from.
    pub backend: u32,
    pub serial: Option<Serial>,
    pub records: u64,
    /// When it was deleted, in seconds since 1970.
    pub time: u64,
}

/// A stored copy.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedCopy {
    pub number: i64,
    pub zone: DeletedZone,
    /// Size of its rows in octets.
    pub octets: u64,
}

/// Stores a copy; expired copies and those over the limits are dropped, the oldest first. Returns its number.
pub(super) fn insert(
    connection: &Connection,
    zone: &DeletedZone,
    rows: &[u8],
    bounds: &CopyBounds,
) -> Result<i64, StateError> {
    drop_older(connection, zone.time.saturating_sub(bounds.seconds))?;
    let sql = "SELECT id, octets FROM deleted_zone ORDER BY time DESC, id DESC";
    let mut statement = connection.prepare_cached(sql)?;
    let mut newest_first = statement.query([])?;
    let (mut octets, mut copies) = (rows.len() as u64, 1);
    let mut over = Vec::new();
    while let Some(row) = newest_first.next()? {
        octets = octets.saturating_add(row.get::<_, i64>(1)? as u64);
        copies += 1;
        if octets > bounds.octets || copies > bounds.copies {
            over.push(row.get::<_, i64>(0)?);
        }
    }
    drop(newest_first);
    over.iter().try_for_each(|id| remove(connection, *id))?;
    let sql = "INSERT INTO deleted_zone (name, time, kind, backend, serial, records, octets, copy) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let values = params![
        stored_name(&zone.name),
        zone.time as i64,
        zone.kind,
        zone.backend,
        zone.serial.map(|serial| serial.0),
        zone.records as i64,
        rows.len() as i64,
        rows
    ];
    Ok(connection.prepare_cached(sql)?.insert(values)?)
}

pub(super) fn remove(connection: &Connection, number: i64) -> Result<(), StateError> {
    run(
        connection,
        "DELETE FROM deleted_zone WHERE id = ?1",
        [number],
    )
}

/// Deletes copies of zones that were deleted before a time.
pub(super) fn drop_older(connection: &Connection, time: u64) -> Result<(), StateError> {
    let sql = "DELETE FROM deleted_zone WHERE time < ?1";
    run(connection, sql, [time as i64])
}

const COLUMNS: &str = "id, name, time, kind, backend, serial, records, octets";

impl StateStore {
    /// Lists the copies of zones that were deleted at a time or after it, the newest first.
    pub fn deleted_zones(&self, since: u64) -> Result<Vec<DeletedCopy>, StateError> {
        self.read(|connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM deleted_zone WHERE time >= ?1 ORDER BY time DESC, id DESC"
            );
            read_rows(connection, &sql, [since as i64], kept_copy)
        })
    }

    /// Reads the rows of the last copy of a zone that was deleted at a time or after it.
    pub fn deleted_zone(
        &self,
        name: &NameBuf,
        since: u64,
    ) -> Result<Option<(DeletedCopy, Vec<u8>)>, StateError> {
        self.read(|connection| {
            let sql = format!(
                "SELECT {COLUMNS}, copy FROM deleted_zone WHERE name = ?1 AND time >= ?2 \
                 ORDER BY time DESC, id DESC LIMIT 1"
            );
            let values = params![stored_name(name), since as i64];
            let read = |row: &Row<'_>| Ok((kept_copy(row)?, row.get(8)?));
            Ok(read_rows(connection, &sql, values, read)?.pop())
        })
    }
}

fn kept_copy(row: &Row<'_>) -> Result<DeletedCopy, StateError> {
    let name: Vec<u8> = row.get(1)?;
    let name = Name::from_wire(&name).map_err(StateError::corrupt)?;
    Ok(DeletedCopy {
        number: row.get(0)?,
        octets: row.get::<_, i64>(7)? as u64,
        zone: DeletedZone {
            name: name.into(),
            time: row.get::<_, i64>(2)? as u64,
            kind: row.get(3)?,
            backend: row.get(4)?,
            serial: row.get::<_, Option<u32>>(5)?.map(Serial),
            records: row.get::<_, i64>(6)? as u64,
        },
    })
}
