//! The condition of the open state store: whether its file is still the one that was opened, and whether it is
//! writable.
//!
//! A store whose file is deleted, replaced or truncated under a running server accepts no further changes: SQLite
//! would continue writing to a file that is lost after a restart, and acknowledged changes with it.

use super::error::{LossCause, StateError};
use crate::sqlite_file::{DatabaseFile, FileChange, beside};
use nameward_base::sync::Mutex;
use rusqlite::Connection;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Size of the header of an SQLite file in octets (https://www.sqlite.org/fileformat.html section 1.3).
const HEADER: usize = 100;
/// File name for the copy of a store whose file was deleted or replaced.
const RESCUED: &str = "state.db.rescued";

/// A state store that accepts no changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFault {
    /// The reason.
    pub error: StateError,
    /// Start time of the fault.
    pub since: SystemTime,
}

/// Duration of a write from which on it is a fault: a disk that hangs reports no error.
const STALLED: Duration = Duration::from_secs(5);

/// The current fault of an open store, if any.
#[derive(Default)]
pub(super) struct StoreCondition {
    fault: Mutex<Option<StoreFault>>,
    /// When the transaction that is being written was started.
    writing: Mutex<Option<(Instant, SystemTime)>>,
}

impl StoreCondition {
    /// Returns the current fault of the store in this file.
    pub(super) fn fault(&self, path: &Path) -> Option<StoreFault> {
        let found = self.fault.lock().clone();
        found.or_else(|| {
            let (begun, since) = (*self.writing.lock())?;
            let error = StateError::Stalled(path.into());
            (begun.elapsed() >= STALLED).then_some(StoreFault { error, since })
        })
    }

    /// Checks whether a write has failed and none has succeeded since.
    pub(super) fn is_failing(&self) -> bool {
        let fault = self.fault.lock();
        fault.as_ref().is_some_and(|fault| !fault.error.is_lost())
    }

    pub(super) fn begin_write(&self) {
        *self.writing.lock() = Some((Instant::now(), SystemTime::now()));
    }

    pub(super) fn end_write(&self) {
        *self.writing.lock() = None;
    }

    /// Returns the error with which everything is refused once the file is lost.
    pub(super) fn lost(&self) -> Option<StateError> {
        let fault = self.fault.lock();
        let error = fault.as_ref().map(|fault| &fault.error);
        error.filter(|error| error.is_lost()).cloned()
    }

    /// Records why the store accepts no changes; the time of an earlier fault stays.
    pub(super) fn fail(&self, error: StateError) {
        let mut fault = self.fault.lock();
        match &mut *fault {
            Some(fault) if fault.error.is_lost() => {}
            Some(fault) => fault.error = error,
            None => {
                tracing::error!("{error}");
                *fault = Some(StoreFault {
                    error,
                    since: SystemTime::now(),
                });
            }
        }
    }

    /// Records that the store accepts changes. One whose file is lost never does again.
    pub(super) fn recover(&self) {
        let mut fault = self.fault.lock();
        if fault.as_ref().is_some_and(|fault| !fault.error.is_lost()) {
            tracing::info!("state store: writable again");
            *fault = None;
        }
    }
}

/// The file of the store, with what is needed to recognize it.
pub(super) struct StoreFile {
    path: PathBuf,
    /// Stays open: closing any descriptor of the file releases all locks of the process on it.
    file: Option<File>,
    header: [u8; HEADER],
    follower: DatabaseFile,
}

impl StoreFile {
    /// Remembers the file that a connection has just opened.
    pub(super) fn new(path: &Path) -> Self {
        let mut follower = DatabaseFile::new(path);
        follower.check();
        let mut found = StoreFile {
            path: path.into(),
            file: File::open(path).ok(),
            header: [0; HEADER],
            follower,
        };
        found.header = found.read_header().unwrap_or([0; HEADER]);
        found
    }

    fn read_header(&self) -> Option<[u8; HEADER]> {
        let mut header = [0; HEADER];
        let file = self.file.as_ref()?;
        file.read_exact_at(&mut header, 0).ok()?;
        Some(header)
    }

    /// Checks whether the file is still the store.
    pub(super) fn inspect(&mut self) -> Option<LossCause> {
        let Ok(found) = self.path.metadata() else {
            return Some(LossCause::Deleted);
        };
        let opened = self.file.as_ref().and_then(|file| file.metadata().ok());
        let is_same =
            |opened: &std::fs::Metadata| (opened.dev(), opened.ino()) == (found.dev(), found.ino());
        if !opened.as_ref().is_some_and(is_same) {
            return Some(LossCause::Replaced);
        }
        if found.len() == 0 {
            return Some(LossCause::Emptied);
        }
        let change = self.follower.check();
        let header = self.read_header();
        let is_other = header != Some(self.header);
        self.header = header.unwrap_or([0; HEADER]);
        // Only its last connection removes the write-ahead log.
        let has_lost_log = || !beside(&self.path, "-wal").exists();
        match change {
            // A new time alone, as set by `touch`, does not mean other contents.
            FileChange::Replaced if is_other || has_lost_log() => Some(LossCause::Overwritten),
            _ => None,
        }
    }

    /// Renames the write-ahead log: SQLite would apply it to whatever file has the store's name at the next start.
    pub(super) fn set_log_aside(&self) {
        let _ = std::fs::rename(beside(&self.path, "-wal"), beside(&self.path, "-wal.lost"));
        let _ = std::fs::remove_file(beside(&self.path, "-shm"));
    }

    /// Copies the contents of a store whose file is lost to a file next to it. Returns the path of the copy.
    pub(super) fn rescue(&self, connection: &Connection) -> Option<PathBuf> {
        let to = self.path.with_file_name(RESCUED);
        // It contains secrets. An older copy is never overwritten.
        let mut options = OpenOptions::new();
        options.create_new(true).write(true).mode(0o600);
        options.open(&to).ok()?;
        match connection.execute("VACUUM INTO ?1", [to.to_string_lossy()]) {
            Ok(_) => Some(to),
            Err(error) => {
                tracing::error!("state store: cannot copy it to {}: {error}", to.display());
                // A partial copy is worse than none.
                let _ = std::fs::remove_file(&to);
                None
            }
        }
    }
}

/// Rejects files that cannot belong to a store: opening a FIFO would wait for a process that may never come.
pub(super) fn require_regular(path: &Path) -> Result<(), StateError> {
    for end in ["", "-wal", "-shm", "-journal"] {
        let path = beside(path, end);
        match path.metadata() {
            Ok(found) if !found.is_file() => return Err(StateError::NotAFile(path)),
            _ => {}
        }
    }
    Ok(())
}
