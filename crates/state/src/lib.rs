//! The state store: everything this server must not lose and that is stored nowhere else, in one SQLite file.
//!
//! ```text
//! zone       the zones with stored state: where their contents are stored, the serial the journal ends at
//! journal    differences, a chain from serial to serial for each zone (IXFR, RFC 1995), bounded in size and number
//! rebase     changes missing in zone files that were edited while they lacked changes
//! contents   whole zones that are stored nowhere else (secondaries), as of one position of the journal
//! timer      when a zone was refreshed, is checked next, and expires
//! file_copy  the last versions of zone files without errors
//! deleted_zone  copies of zones that operators deleted, for some days
//! audit      the last changes that were requested, with who requested them and how they ended
//! item       small values by kind and name: keys, TSIG secrets, members of catalogs
//! ```
//! The file is in WAL mode with `synchronous=FULL`. One thread writes; pending changes are grouped into one
//! transaction, and each caller gets its own result after the transaction is on disk. So nothing that was
//! acknowledged is lost by kill -9 or by a full disk, and a change that was not acknowledged is applied completely or
//! not at all. Reads use their own connection and never wait.

#![deny(unsafe_code)]

mod audit;
mod change;
mod condition;
mod contents;
mod deleted;
mod digest;
mod durable;
mod error;
mod file_copy;
mod journal;
mod journal_rows;
mod key_register;
mod lock;
mod read;
mod rebase;
mod schema;
pub mod sqlite_file;
mod stored_zones;
mod upkeep;
mod writer;
mod zone_rows;

use nameward_base::sync::Mutex;
use rusqlite::Connection;
use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

pub use audit::{AUDIT_ENTRIES_MAX, AuditEntry, AuditFilter};
pub use change::{RebasedVersion, StateChange, Written};
use condition::StoreCondition;
pub use condition::StoreFault;
pub use deleted::{CopyBounds, CopyBoundsInForce, DeletedCopy, DeletedZone};
pub use digest::ContentsDigest;
pub use durable::Durable;
pub use error::{LossCause, StateError, StoreUser};
pub use file_copy::{FileCopy, ListedFileCopy};
pub use journal_rows::{JournalBounds, JournalEntry, JournalOrigin, ZoneStorage, ZoneTimers};
use key_register::KeyRegister;
pub use key_register::{KEY_ELSEWHERE, ZONE_KEY_ITEM};
use lock::StoreLock;
pub use read::{JournalVersion, JournaledZone, StoredItem};
pub use stored_zones::StoredZoneSink;
pub use upkeep::{CompactReport, StateCheckReport};
use writer::StateWriter;
pub use writer::WrittenDone;

/// The file name of the store in the state directory.
const FILE: &str = "state.db";
/// Kept locked by the server or command that writes to the store.
const LOCK: &str = "state.lock";
/// How long a statement waits for another process, a backup or a check, to release the file.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which the lock is tried while another process ends.
const LOCK_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of idle read connections.
const IDLE_READERS: usize = 8;

/// An open state store; clones share it.
#[derive(Clone)]
pub struct StateStore {
    inner: Arc<OpenStore>,
}

struct OpenStore {
    path: PathBuf,
    writer: StateWriter,
    readers: Mutex<Vec<Connection>>,
    condition: Arc<StoreCondition>,
    /// Set by [`StateStore::close`].
    is_closed: AtomicBool,
    /// Set by [`StateStore::pause`].
    is_paused: AtomicBool,
    /// Locked as long as the store is open and not paused.
    lock: Mutex<Option<StoreLock>>,
}

/// A store that waits for another process. Without [`PausedStore::resume`] it accepts no further changes.
pub struct PausedStore {
    store: StateStore,
    resume: SyncSender<()>,
}

impl PausedStore {
    /// Takes the store back, and writes what has been waiting.
    pub fn resume(self) -> Result<(), StateError> {
        let inner = &self.store.inner;
        let path = inner.path.with_file_name(LOCK);
        let started = Instant::now();
        // A process that was killed holds the lock until the system has closed its files.
        let lock = loop {
            match lock::lock(&path, StoreUser::Server) {
                Err(StateError::InUse(..)) if started.elapsed() < TIMEOUT => {
                    thread::sleep(LOCK_INTERVAL);
                }
                other => break other?,
            }
        };
        *inner.lock.lock() = Some(lock);
        inner.is_paused.store(false, Ordering::Release);
        self.resume.send(()).map_err(|_| StateError::Closed)
    }
}

impl StateStore {
    /// Opens the store of a state directory for a server, creates it if it does not exist, and migrates it to the
    /// schema of this version.
    pub fn open(directory: &Path, bounds: JournalBounds) -> Result<Self, StateError> {
        Self::open_as(StoreUser::Server, directory, bounds)
    }

    /// Opens the store of a state directory like [`StateStore::open`], for a server or for a command.
    pub fn open_as(
        user: StoreUser,
        directory: &Path,
        bounds: JournalBounds,
    ) -> Result<Self, StateError> {
        let path = directory.join(FILE);
        make_directory(directory);
        let was_used = directory.join(LOCK).exists();
        let lock = lock::lock(&directory.join(LOCK), user)?;
        condition::require_regular(&path)?;
        if path.metadata().map_or(0, |found| found.len()) == 0 {
            KeyRegister::check_new(&path)?;
            if was_used {
                tracing::warn!(
                    "state store {} is missing, but existed before: starting with an empty one; changes that were not \
                     written to zone files are lost",
                    path.display()
                );
            }
        }
        let mut connection = open_to_write(&path)?;
        schema::migrate(&mut connection, schema::MIGRATIONS)
            .map_err(|error| error.with_path(&path))?;
        let keys = KeyRegister::open(&path, &connection).map_err(|error| error.with_path(&path))?;
        let condition = Arc::<StoreCondition>::default();
        let writer = StateWriter::start(connection, keys, Arc::clone(&condition), &path, bounds)?;
        Ok(StateStore {
            inner: Arc::new(OpenStore {
                path,
                writer,
                readers: Mutex::default(),
                condition,
                is_closed: AtomicBool::new(false),
                is_paused: AtomicBool::new(false),
                lock: Mutex::new(Some(lock)),
            }),
        })
    }

    /// Returns the path of the store.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Returns why the store currently accepts no changes, if that is the case.
    pub fn fault(&self) -> Option<StoreFault> {
        self.inner.condition.fault(&self.inner.path)
    }

    /// Closes the store: everything submitted is written, and the file is complete without its write-ahead log. Later
    /// requests are refused.
    pub fn close(&self) {
        self.inner.is_closed.store(true, Ordering::Release);
        self.inner.readers.lock().clear();
        // A paused store is another process's.
        if !self.inner.is_paused.load(Ordering::Acquire) {
            self.inner.writer.close();
        }
    }

    /// Writes everything submitted, and releases the store for a server that takes over. Later changes wait until it is
    /// resumed; reads continue.
    pub fn pause(&self) -> Result<PausedStore, StateError> {
        let resume = self.inner.writer.pause().ok_or(StateError::Closed)?;
        self.inner.is_paused.store(true, Ordering::Release);
        *self.inner.lock.lock() = None;
        Ok(PausedStore {
            store: self.clone(),
            resume,
        })
    }

    /// Reads on a connection that sees a consistent snapshot.
    fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        if self.inner.is_closed.load(Ordering::Acquire) {
            return Err(StateError::Closed);
        }
        // A new connection would open a different file.
        if let Some(error) = self.inner.condition.lost() {
            return Err(error);
        }
        let idle = self.inner.readers.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => open_to_read(&self.inner.path)?,
        };
        let result = work(&connection).map_err(|error| error.with_path(&self.inner.path))?;
        let mut readers = self.inner.readers.lock();
        let is_open = !self.inner.is_closed.load(Ordering::Acquire);
        if is_open && readers.len() < IDLE_READERS {
            readers.push(connection);
        }
        Ok(result)
    }
}

/// Creates a missing state directory, accessible to its owner only. A failure is reported when the lock file is
/// created.
pub fn make_directory(directory: &Path) {
    let _ = DirBuilder::new().mode(0o700).create(directory);
}

/// Opens the file for its single writer.
fn open_to_write(path: &Path) -> Result<Connection, StateError> {
    // The store contains secrets: created here, because SQLite would use the default mode.
    let mut options = OpenOptions::new();
    let made = options
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path);
    made.map_err(|error| StateError::from_io(path, &error))?;
    let prepare = || -> rusqlite::Result<Connection> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(TIMEOUT)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        // A checkpoint every four megabytes. Later commits then overwrite the earlier ones, which costs a fraction of
        // growing the file: the file system has no metadata to write.
        connection.pragma_update(None, "wal_autocheckpoint", 1000)?;
        connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    };
    prepare().map_err(|error| StateError::from(error).with_path(path))
}

/// Opens the file for reading; it must exist.
fn open_to_read(path: &Path) -> Result<Connection, StateError> {
    use rusqlite::OpenFlags;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let prepare = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(TIMEOUT)?;
        Ok(connection)
    };
    prepare().map_err(|error| StateError::from(error).with_path(path))
}

#[cfg(test)]
mod tests;
