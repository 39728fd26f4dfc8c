//! SQLite: a few connections to one file, with prepared statements.
//!
//! A lookup in a file that is in memory takes a few microseconds, less than handing it to another thread, so it runs
//! where it is called and its future never waits. Callers that must not block at all call it from their own thread. A
//! lookup that exceeds the time limit is interrupted.

use super::SqlOptions;
use super::connection::keep_plans;
use super::dialect::{SqlEngine, Statement, StatementTexts};
use super::error::SqlError;
use super::row::Cells;
use nameward_base::sync::{Mutex, MutexGuard};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// Minimum page cache per connection, in KiB.
const CACHE_KIB_MIN: usize = 4 * 1024;
/// Number of virtual machine steps after which a statement checks the time: a few milliseconds.
const STEPS: i32 = 100_000;
/// The time from which deadlines are counted.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Rows of one statement after which the page cache is emptied: those of most lists of zones are far fewer.
const ROWS_CACHED: usize = 100_000;

/// An open connection.
struct SqliteSession {
    connection: Connection,
    /// When its statement is interrupted, in milliseconds since [`START`].
    deadline: Arc<AtomicU64>,
}

pub(crate) struct Sqlite {
    path: PathBuf,
    timeout: Duration,
    /// Page cache per connection, in KiB. If the file is larger, reading a page from the system's cache costs as much
    /// as the rest of a lookup.
    cache_kib: usize,
    connections: Box<[Mutex<Option<SqliteSession>>]>,
    next: AtomicUsize,
    statements: StatementTexts,
}

impl Sqlite {
    pub(crate) fn new(path: &Path, options: &SqlOptions) -> Self {
        let connections = options.concurrency.connections.max(1);
        Sqlite {
            path: path.into(),
            timeout: options.timeout,
            cache_kib: (options.page_cache_kib / connections).max(CACHE_KIB_MIN),
            connections: (0..connections).map(|_| Mutex::default()).collect(),
            next: AtomicUsize::new(0),
            statements: StatementTexts::new(SqlEngine::Sqlite),
        }
    }

    /// Closes all connections; each is reopened when it is used. All at once: as long as one is open, new ones share
    /// its write-ahead log index, which belongs to a different file.
    pub(crate) fn reopen(&self) {
        let slots = self.connections.iter();
        let mut slots: Vec<_> = slots.map(|slot| slot.lock()).collect();
        slots.iter_mut().for_each(|slot| **slot = None);
    }

    /// Closes unused connections.
    pub(crate) fn close(&self) {
        for slot in &self.connections {
            if let Some(mut slot) = slot.try_lock() {
                *slot = None;
            }
        }
    }

    /// Runs a statement and passes each row on.
    pub(crate) fn query(
        &self,
        statement: Statement,
        zone: Option<i64>,
        names: &[&str],
        each: &mut dyn FnMut(&dyn Cells) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let mut slot = self.slot();
        if slot.is_none() {
            *slot = Some(self.open()?);
        }
        let Some(session) = slot.as_ref() else {
            return Err(SqlError::Unavailable("no connection".into()));
        };
        let limit = if statement.reads_little() {
            (START.elapsed() + self.timeout).as_millis() as u64
        } else {
            u64::MAX
        };
        session.deadline.store(limit, Ordering::Relaxed);
        let mut rows = 0_usize;
        let each = &mut |row: &dyn Cells| {
            rows += 1;
            each(row)
        };
        let result = self.run(&session.connection, statement, zone, names, each);
        if rows > ROWS_CACHED {
            // They have displaced what is looked up, and are not looked up themselves.
            let _ = session.connection.release_memory();
        }
        let is_suspect = match &result {
            Err(SqlError::Unavailable(_)) => true,
            // A table that every schema has is missing; tables of changes, keys or metadata are optional.
            Err(SqlError::Refused(_)) => statement.reads_zones(),
            _ => false,
        };
        if is_suspect {
            // The file may have been replaced: reopen it next time.
            *slot = None;
        }
        result
    }

    fn open(&self) -> Result<SqliteSession, SqlError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let fail = |error: rusqlite::Error| self.error(&error);
        let mut connection = Connection::open_with_flags(&self.path, flags).map_err(fail)?;
        connection.set_prepared_statement_cache_capacity(32);
        let deadline = Arc::new(AtomicU64::new(u64::MAX));
        let limit = Arc::clone(&deadline);
        let is_over = move || START.elapsed().as_millis() as u64 > limit.load(Ordering::Relaxed);
        connection
            .busy_timeout(self.timeout)
            .and_then(|()| keep_plans(&connection))
            .and_then(|()| connection.pragma_update(None, "cache_size", -(self.cache_kib as i64)))
            .and_then(|()| connection.progress_handler(STEPS, Some(is_over)))
            .map_err(fail)?;
        Ok(SqliteSession {
            connection,
            deadline,
        })
    }

    fn run(
        &self,
        connection: &Connection,
        statement: Statement,
        zone: Option<i64>,
        names: &[&str],
        each: &mut dyn FnMut(&dyn Cells) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let (sql, filled) = self.statements.find(statement, names.len());
        let fail = |error: rusqlite::Error| self.error(&error);
        let mut prepared = connection.prepare_cached(sql).map_err(fail)?;
        let mut parameter = 0;
        if let Some(zone) = zone {
            parameter += 1;
            prepared.raw_bind_parameter(parameter, zone).map_err(fail)?;
        }
        for i in 0..filled {
            parameter += 1;
            // Padding entries repeat the last name.
            let name = names.get(i).or(names.last()).copied().unwrap_or_default();
            prepared.raw_bind_parameter(parameter, name).map_err(fail)?;
        }
        let mut rows = prepared.raw_query();
        while let Some(row) = rows.next().map_err(fail)? {
            each(row)?;
        }
        Ok(())
    }

    /// Returns an unused connection, or the next one to become free.
    fn slot(&self) -> MutexGuard<'_, Option<SqliteSession>> {
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        let count = self.connections.len();
        for i in 0..count {
            if let Some(slot) = self.connections[(start + i) % count].try_lock() {
                return slot;
            }
        }
        self.connections[start % count].lock()
    }

    fn error(&self, error: &rusqlite::Error) -> SqlError {
        match error.sqlite_error_code() {
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::OperationInterrupted,
            ) => SqlError::Timeout(self.timeout.as_millis()),
            Some(ErrorCode::Unknown) => SqlError::Refused(error.to_string()),
            _ => SqlError::Unavailable(format!("{}: {error}", self.path.display())),
        }
    }
}

impl Cells for rusqlite::Row<'_> {
    fn int(&self, column: usize) -> Option<i64> {
        match self.get_ref(column).ok()? {
            ValueRef::Integer(value) => Some(value),
            ValueRef::Real(value) => Some(value as i64),
            ValueRef::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok(),
            ValueRef::Null | ValueRef::Blob(_) => None,
        }
    }

    fn text(&self, column: usize) -> Option<&[u8]> {
        match self.get_ref(column).ok()? {
            ValueRef::Text(text) | ValueRef::Blob(text) => Some(text),
            _ => None,
        }
    }
}
