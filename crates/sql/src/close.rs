//! Closing a database at shutdown, leaving a SQLite file that can be copied on its own.

use super::{DatabaseAddress, Driver, SqlBackend, SqlError};
use nameward_state::sqlite_file::beside;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// How long shutdown waits for other users of a SQLite file.
const TIMEOUT: Duration = Duration::from_secs(2);

impl SqlBackend {
    /// Closes unused connections. Changes in the write-ahead log of a SQLite file are written into the file itself, and
    /// the log is truncated, so that a copy of the file is complete. May block.
    pub fn close(&self) -> Result<(), SqlError> {
        self.inner.writer.close();
        if let Driver::Sqlite(reads) = &self.inner.reads {
            reads.close();
        }
        match &self.inner.options.address {
            DatabaseAddress::Sqlite(path) => empty_log(path),
            DatabaseAddress::Postgres(_) | DatabaseAddress::Mysql(_) => Ok(()),
        }
    }
}

fn empty_log(path: &Path) -> Result<(), SqlError> {
    let log = beside(path, "-wal");
    // A different journal mode, or an empty log.
    if std::fs::metadata(log).map_or(0, |log| log.len()) == 0 {
        return Ok(());
    }
    let failed = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            SqlError::Timeout(TIMEOUT.as_millis())
        }
        _ => SqlError::Unavailable(format!("{}: {error}", path.display())),
    };
    // Never created: a deleted file stays deleted.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let file = Connection::open_with_flags(path, flags).map_err(failed)?;
    file.busy_timeout(TIMEOUT).map_err(failed)?;
    let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
    let is_busy: i64 = file.query_row(sql, [], |row| row.get(0)).map_err(failed)?;
    match is_busy {
        0 => Ok(()),
        _ => Err(SqlError::Timeout(TIMEOUT.as_millis())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SqlOptions, db};

    #[tokio::test]
    async fn a_closed_file_holds_all_changes_by_itself() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("zones.db");
        let address = DatabaseAddress::Sqlite(path.clone());
        db::init(&address).await.unwrap();
        let backend = SqlBackend::new(SqlOptions::for_tests(address)).unwrap();
        // A reader of ours and one of another process, which keep the log in place.
        assert!(backend.zones().await.unwrap().is_empty());
        let other = Connection::open(&path).unwrap();
        other
            .execute_batch("INSERT INTO domains (name, type) VALUES ('one.test', 'NATIVE')")
            .unwrap();
        let copied = |to: &str| -> i64 {
            let copy = directory.path().join(to);
            std::fs::copy(&path, &copy).unwrap();
            let sql = "SELECT count(*) FROM domains";
            let connection = Connection::open(&copy).unwrap();
            let count = connection.query_row(sql, [], |row| row.get(0));
            count.unwrap_or(0)
        };
        assert_eq!(copied("before.db"), 0, "the log is needed");
        backend.close().unwrap();
        assert_eq!(copied("after.db"), 1);
        assert_eq!(backend.zones().await.unwrap().len(), 1, "it reopens");
    }
}
