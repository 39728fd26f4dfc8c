//! The schema of the state store and its migrations.
//!
//! The version is in `user_version`. Each migration is one transaction, so a store has one version or the next and
//! nothing in between. A store of an unknown version is left alone.

use super::error::StateError;
use rusqlite::{Connection, TransactionBehavior};
use std::path::PathBuf;

/// The application ID of Nameward's SQLite files: "NWst".
const APPLICATION: i64 = 0x4e57_7374;

/// Migrations in order; the first creates version 1 in an empty file.
pub(super) const MIGRATIONS: &[&str] = &[
    VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_6, VERSION_7,
];

/// Names are in wire format and lower case, serials and times are unsigned, records are lists in wire format.
const VERSION_1: &str = "
CREATE TABLE zone (
    id INTEGER PRIMARY KEY,
    name BLOB NOT NULL UNIQUE,
    -- Where the contents are at home: 0 in a database, 1 in a file, 2 in this store.
    home INTEGER NOT NULL,
    -- The serial that the journal ends at.
    serial INTEGER NOT NULL,
    -- The last entry of the journal, and the last one that the home has.
    last INTEGER NOT NULL,
    base INTEGER NOT NULL,
    -- Entries of the journal and their octets.
    entries INTEGER NOT NULL,
    octets INTEGER NOT NULL
);
CREATE TABLE journal (
    zone INTEGER NOT NULL REFERENCES zone (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    from_serial INTEGER NOT NULL,
    to_serial INTEGER NOT NULL,
    origin INTEGER NOT NULL,
    time INTEGER NOT NULL,
    removed BLOB NOT NULL,
    added BLOB NOT NULL
);
CREATE UNIQUE INDEX journal_number ON journal (zone, number);
CREATE INDEX journal_from ON journal (zone, from_serial);
CREATE TABLE contents (
    zone INTEGER NOT NULL REFERENCES zone (id) ON DELETE CASCADE,
    part INTEGER NOT NULL,
    records BLOB NOT NULL
);
CREATE UNIQUE INDEX contents_part ON contents (zone, part);
CREATE TABLE timer (
    zone INTEGER PRIMARY KEY REFERENCES zone (id) ON DELETE CASCADE,
    refreshed INTEGER NOT NULL,
    next_check INTEGER NOT NULL,
    expires INTEGER NOT NULL
);
CREATE TABLE item (
    kind TEXT NOT NULL,
    name BLOB NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
";

/// The digest of the contents that the journal of a zone ends with; NULL if unknown.
const VERSION_2: &str = "ALTER TABLE zone ADD COLUMN digest INTEGER";

/// The journal in one tree, so that a change writes one page less, and what edited files lack.
const VERSION_3: &str = "
CREATE TABLE new_journal (
    zone INTEGER NOT NULL REFERENCES zone (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    from_serial INTEGER NOT NULL,
    to_serial INTEGER NOT NULL,
    origin INTEGER NOT NULL,
    time INTEGER NOT NULL,
    removed BLOB NOT NULL,
    added BLOB NOT NULL,
    PRIMARY KEY (zone, number)
) WITHOUT ROWID;
INSERT INTO new_journal SELECT zone, number, from_serial, to_serial, origin, time, removed, added FROM journal ORDER BY zone, number;
DROP TABLE journal;
ALTER TABLE new_journal RENAME TO journal;
CREATE INDEX journal_from ON journal (zone, from_serial);
CREATE TABLE rebase (
    zone INTEGER PRIMARY KEY REFERENCES zone (id) ON DELETE CASCADE,
    -- The serial of the file, and that of the version which has its edits and the changes that it lacks.
    from_serial INTEGER NOT NULL,
    to_serial INTEGER NOT NULL,
    time INTEGER NOT NULL,
    removed BLOB NOT NULL,
    added BLOB NOT NULL
);
";

/// Copies of deleted zones.
const VERSION_4: &str = "
CREATE TABLE deleted_zone (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name BLOB NOT NULL,
    time INTEGER NOT NULL,
    kind TEXT NOT NULL,
    backend INTEGER NOT NULL,
    serial INTEGER,
    records INTEGER NOT NULL,
    -- Octets of the copy, before it: whoever adds them up does not read the copies.
    octets INTEGER NOT NULL,
    copy BLOB NOT NULL
);
CREATE INDEX deleted_zone_name ON deleted_zone (name, time);
CREATE INDEX deleted_zone_time ON deleted_zone (time);
";

/// The author of each change, and the reason; NULL if unknown.
const VERSION_5: &str = "
ALTER TABLE journal ADD COLUMN who TEXT;
ALTER TABLE journal ADD COLUMN message TEXT;
";

/// The last versions of zone files without errors.
const VERSION_6: &str = "
CREATE TABLE file_copy (
    name BLOB PRIMARY KEY,
    serial INTEGER NOT NULL,
    digest INTEGER NOT NULL,
    octets INTEGER NOT NULL,
    parts INTEGER NOT NULL
) WITHOUT ROWID;
-- A copy that is being written has parts under its digest, and no row of its own yet.
CREATE TABLE file_copy_part (
    name BLOB NOT NULL,
    digest INTEGER NOT NULL,
    part INTEGER NOT NULL,
    records BLOB NOT NULL
);
CREATE UNIQUE INDEX file_copy_part_number ON file_copy_part (name, digest, part);
";

/// The audit log.
const VERSION_7: &str = "
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    time INTEGER NOT NULL,
    who TEXT NOT NULL,
    address TEXT,
    key TEXT,
    operation TEXT NOT NULL,
    zone TEXT,
    detail TEXT NOT NULL,
    serial INTEGER,
    error TEXT,
    message TEXT
);
CREATE INDEX audit_zone ON audit (zone, number);
";

/// Returns the version of a store: 0 if it is empty.
pub(super) fn version(connection: &Connection) -> Result<i64, StateError> {
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get(0));
    let (version, application): (i64, i64) = (number("user_version")?, number("application_id")?);
    let tables = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = connection.query_row(tables, [], |row| row.get(0))?;
    match (application, tables) {
        (APPLICATION, _) => Ok(version),
        (0, 0) => Ok(0),
        _ => Err(StateError::corrupt(
            "it is an SQLite database of another program",
        )),
    }
}

/// Migrates a store to the latest version.
pub(super) fn migrate(connection: &mut Connection, migrations: &[&str]) -> Result<(), StateError> {
    let known = migrations.len() as i64;
    let found = version(connection)?;
    if !(0..=known).contains(&found) {
        return Err(StateError::Newer {
            path: PathBuf::new(),
            found,
            known,
        });
    }
    for (number, migration) in (1..).zip(migrations).skip(found as usize) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", number)?;
        transaction.commit()?;
        if found > 0 {
            tracing::info!("state store: migrated to version {number}");
        }
    }
    Ok(())
}
