//! The audit log: the last changes that were requested, with who requested them, from where, and how they ended.
//!
//! Bounded by number; each text is bounded by its writer. An entry does not wait for the disk on its own: it survives the end of the
//! process, and a power failure may lose the entries of the last moments.

use super::StateStore;
use super::error::StateError;
use super::journal_rows::run;
use rusqlite::{Connection, Row, params};

/// Maximum number of entries; the oldest are dropped. About 15 MiB with usual texts.
pub const AUDIT_ENTRIES_MAX: u64 = 50_000;

/// A requested change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its number, which rises with time; given by the store.
    pub number: i64,
    /// Seconds since 1970.
    pub time: u64,
    /// The author, as in the history of a zone.
    pub who: String,
    /// The client's address; none for commands on this machine.
    pub address: Option<String>,
    /// The ID of the API key; none for commands on this machine.
    pub key: Option<String>,
    /// The operation.
    pub operation: String,
    /// The zone in lower case, with its final dot; none if it concerns no zone.
    pub zone: Option<String>,
    /// The change, in short.
    pub detail: String,
    /// The serial afterwards.
    pub serial: Option<u32>,
    /// Why it failed; none if it was done.
    pub error: Option<String>,
    /// The reason given by the author.
    pub message: Option<String>,
}

/// The entries to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only of this zone, in lower case with its final dot.
    pub zone: Option<String>,
    /// Only of this API key.
    pub key: Option<String>,
    /// Not older than this, in seconds since 1970.
    pub since: Option<u64>,
    /// Only with lower numbers than this one.
    pub before: Option<i64>,
}

pub(super) fn insert(connection: &Connection, entry: &AuditEntry) -> Result<(), StateError> {
    let sql = "INSERT INTO audit (time, who, address, key, operation, zone, detail, serial, error, message) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let values = params![
        entry.time as i64,
        entry.who,
        entry.address,
        entry.key,
        entry.operation,
        entry.zone,
        entry.detail,
        entry.serial,
        entry.error,
        entry.message,
    ];
    run(connection, sql, values)?;
    let oldest = connection.last_insert_rowid() - AUDIT_ENTRIES_MAX as i64;
    let sql = "DELETE FROM audit WHERE number <= ?1";
    run(connection, sql, [oldest])
}

impl StateStore {
    /// Passes entries on, newest first, until `take` returns false.
    pub fn audit(
        &self,
        filter: &AuditFilter,
        mut take: impl FnMut(AuditEntry) -> bool,
    ) -> Result<(), StateError> {
        self.read(|connection| {
            let sql = "SELECT number, time, who, address, key, operation, zone, detail, serial, error, message FROM audit \
                       WHERE (?1 IS NULL OR zone = ?1) AND (?2 IS NULL OR key = ?2) AND time >= ?3 AND number < ?4 \
                       ORDER BY number DESC";
            let mut statement = connection.prepare_cached(sql)?;
            let since = filter.since.map_or(0, |since| i64::try_from(since).unwrap_or(i64::MAX));
            let before = filter.before.unwrap_or(i64::MAX);
            let mut rows = statement.query(params![filter.zone, filter.key, since, before])?;
            while let Some(row) = rows.next()? {
                if !take(entry(row)?) {
                    break;
                }
            }
            Ok(())
        })
    }
}

fn entry(row: &Row<'_>) -> Result<AuditEntry, StateError> {
    Ok(AuditEntry {
        number: row.get(0)?,
        time: row.get::<_, i64>(1)? as u64,
        who: row.get(2)?,
        address: row.get(3)?,
        key: row.get(4)?,
        operation: row.get(5)?,
        zone: row.get(6)?,
        detail: row.get(7)?,
        serial: row.get(8)?,
        error: row.get(9)?,
        message: row.get(10)?,
    })
}
