//! Copies of zone files: the last version of each without errors, served if the file is broken when the server
//! starts.
//!
//! A large zone is written in chunks, so that no change waits long for it; its new copy takes effect with the last
//! chunk, and replaces the previous one. Chunks are identified by the digest of the whole.

use super::StateStore;
use super::digest::ContentsDigest;
use super::error::StateError;
use super::journal_rows::{list, read_rows, run, stored_name};
use nameward_wire::NameBuf;
use nameward_zone::{RecordList, Serial};
use rusqlite::{Connection, params};

/// The copy of a zone file.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCopy {
    pub serial: Serial,
    pub digest: ContentsDigest,
    /// Size of all chunks in octets.
    pub octets: u64,
    /// Number of chunks.
    pub parts: u32,
}

/// The copy of a zone, by the name of the zone in wire format and lower case.
pub type ListedFileCopy = (Vec<u8>, FileCopy);

/// Writes one chunk of a copy.
pub(super) fn write_part(
    connection: &Connection,
    (zone, digest): (&NameBuf, ContentsDigest),
    (part, records): (u32, &RecordList),
) -> Result<(), StateError> {
    let sql = "INSERT OR REPLACE INTO file_copy_part (name, digest, part, records) VALUES (?1, ?2, ?3, ?4)";
    let values = params![stored_name(zone), digest.number(), part, records.as_bytes()];
    run(connection, sql, values)
}

/// Activates a copy whose chunks are all written; remains of others are deleted.
pub(super) fn complete(
    connection: &Connection,
    zone: &NameBuf,
    copy: &FileCopy,
) -> Result<(), StateError> {
    let name = stored_name(zone);
    let sql = "INSERT OR REPLACE INTO file_copy (name, serial, digest, octets, parts) \
               VALUES (?1, ?2, ?3, ?4, ?5)";
    let values = params![
        name,
        copy.serial.0,
        copy.digest.number(),
        copy.octets as i64,
        copy.parts
    ];
    run(connection, sql, values)?;
    let sql = "DELETE FROM file_copy_part WHERE name = ?1 AND (digest <> ?2 OR part >= ?3)";
    let values = params![name, copy.digest.number(), copy.parts];
    run(connection, sql, values)
}

pub(super) fn remove(connection: &Connection, zone: &NameBuf) -> Result<(), StateError> {
    let name = stored_name(zone);
    for sql in [
        "DELETE FROM file_copy WHERE name = ?1",
        "DELETE FROM file_copy_part WHERE name = ?1",
    ] {
        run(connection, sql, [&name])?;
    }
    Ok(())
}

fn read_copy(row: &rusqlite::Row<'_>) -> Result<FileCopy, StateError> {
    Ok(FileCopy {
        serial: Serial(row.get(1)?),
        digest: ContentsDigest::from_number(row.get(2)?),
        octets: row.get::<_, i64>(3)? as u64,
        parts: row.get(4)?,
    })
}

const COPIES: &str = "SELECT name, serial, digest, octets, parts FROM file_copy";

impl StateStore {
    /// Lists the copies of zone files, without their records.
    pub fn file_copies(&self) -> Result<Vec<ListedFileCopy>, StateError> {
        self.read(|connection| {
            read_rows(connection, COPIES, [], |row| {
                Ok((row.get(0)?, read_copy(row)?))
            })
        })
    }

    /// Reads the copy of a zone file: calls `part` with its records in chunks. `None` if there is none.
    pub fn file_copy(
        &self,
        zone: &NameBuf,
        mut part: impl FnMut(RecordList),
    ) -> Result<Option<FileCopy>, StateError> {
        self.read(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let name = stored_name(zone);
            let sql = format!("{COPIES} WHERE name = ?1");
            let copy = read_rows(&transaction, &sql, [&name], read_copy)?.pop();
            let Some(copy) = copy else {
                return Ok(None);
            };
            let sql =
                "SELECT records FROM file_copy_part WHERE name = ?1 AND digest = ?2 ORDER BY part";
            let mut statement = transaction.prepare_cached(sql)?;
            let mut rows = statement.query(params![name, copy.digest.number()])?;
            let mut count = 0;
            while let Some(row) = rows.next()? {
                part(list(row, 0)?);
                count += 1;
            }
            if count == copy.parts {
                Ok(Some(copy))
            } else {
                Err(StateError::corrupt("incomplete copy of a zone file"))
            }
        })
    }
}
