//! Errors of the state store, worded so that an operator knows what to do.

use nameward_zone::Serial;
use rusqlite::ErrorCode;
use std::io;
use std::path::{Path, PathBuf};

/// The kind of process that has a state store open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreUser {
    /// A server, which holds it permanently.
    Server,
    /// A command that works on the store itself, which holds it briefly.
    Command,
}

/// Why something cannot be read from the state store or written to it.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The file or its directory is not writable.
    #[error(
        "state store {0} is read-only: give the server's user write permission for the file and its directory"
    )]
    ReadOnly(PathBuf),
    /// The disk is full.
    #[error("state store {0}: no space left on the disk; nothing was changed")]
    Full(PathBuf),
    /// A write has not been completed for a while.
    #[error("state store {0}: the disk does not complete a write")]
    Stalled(PathBuf),
    /// The file is damaged, or not a state store.
    #[error(
        "state store {path} is corrupt ({reason}): restore it from a backup, or move it away to start with an empty \
         one"
    )]
    Corrupt {
        path: PathBuf,
        /// The message from SQLite.
        reason: String,
    },
    /// The file was written by a later version of Nameward.
    #[error(
        "state store {path} has schema version {found}, this server supports up to {known}: use a newer server, or \
         restore a backup"
    )]
    Newer {
        path: PathBuf,
        /// The version of its schema.
        found: i64,
        /// The latest version known here.
        known: i64,
    },
    /// Another server or command uses the state directory.
    #[error("{} is locked: {}", .0.display(), match .1 {
        StoreUser::Server => "another server is using this state directory",
        StoreUser::Command => "a command is using this state directory",
    })]
    InUse(PathBuf, StoreUser),
    /// The path is not a regular file.
    #[error("{0} is not a regular file: move it away, then restart the server")]
    NotAFile(PathBuf),
    /// The file was removed or changed while it was open.
    #[error("state store {path} {how}{}", match .rescued {
        Some(copy) => format!("; its contents are saved in {}", copy.display()),
        None => String::new(),
    })]
    Lost {
        path: PathBuf,
        how: LossCause,
        /// A copy of its contents, if one could be made.
        rescued: Option<PathBuf>,
    },
    /// The store lacks the keys of zones that were signed with keys stored in it.
    #[error(
        "state store {path} has lost the DNSSEC keys of {zones}: restore it from a backup; to sign these zones with \
         new keys, delete {register}"
    )]
    KeysLost {
        path: PathBuf,
        /// The first of these zones.
        zones: String,
        /// The file that lists all of them.
        register: PathBuf,
    },
    /// There is no store.
    #[error("state store {0} does not exist")]
    Missing(PathBuf),
    /// A difference does not continue the journal of its zone.
    #[error(
        "zone {zone}: the journal ends at serial {tip}, but the difference starts at serial {from}"
    )]
    Gap {
        zone: String,
        /// The serial the journal ends at.
        tip: Serial,
        /// The serial the difference starts at.
        from: Serial,
    },
    /// A difference that does not change the serial cannot be journalled.
    #[error("zone {0}: the difference does not change the serial")]
    NoSerial(String),
    /// As many changes wait to be written as may.
    #[error("the state store has {0} changes waiting to be written; try again later")]
    Busy(usize),
    /// The writer thread has ended.
    #[error("the state store is closed")]
    Closed,
    /// Any other error from SQLite or the system.
    #[error("state store {path}: {reason}")]
    Other { path: PathBuf, reason: String },
}

/// How the file of an open store was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LossCause {
    /// It was deleted.
    #[error("was deleted while the server was running")]
    Deleted,
    /// Another file has its name.
    #[error("was replaced by another file while the server was running")]
    Replaced,
    /// It was truncated.
    #[error("was emptied while the server was running")]
    Emptied,
    /// It has other contents.
    #[error("was overwritten while the server was running")]
    Overwritten,
    /// A server that was to take over has written to it, and failed.
    #[error("was changed by a new server that has failed since")]
    TakenOver,
}

impl StateError {
    /// Checks whether the file of the open store is no longer the store.
    pub fn is_lost(&self) -> bool {
        matches!(self, StateError::Lost { .. })
    }

    /// Checks whether the store itself accepts no changes, rather than just this one.
    pub(super) fn is_of_store(&self) -> bool {
        !matches!(
            self,
            StateError::Gap { .. }
                | StateError::NoSerial(_)
                | StateError::Busy(_)
                | StateError::Closed
        )
    }

    /// Sets the path if it was unknown.
    pub(super) fn with_path(mut self, file: &Path) -> Self {
        let place = match &mut self {
            StateError::ReadOnly(path)
            | StateError::Full(path)
            | StateError::Missing(path)
            | StateError::Corrupt { path, .. }
            | StateError::Newer { path, .. }
            | StateError::Other { path, .. } => Some(path),
            _ => None,
        };
        if let Some(path) = place.filter(|path| path.as_os_str().is_empty()) {
            *path = file.into();
        }
        self
    }

    pub(super) fn from_io(path: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StateError::ReadOnly(path.into())
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                StateError::Full(path.into())
            }
            io::ErrorKind::NotFound => StateError::Missing(path.into()),
            _ => StateError::Other {
                path: path.into(),
                reason: error.to_string(),
            },
        }
    }

    pub(super) fn corrupt(reason: impl ToString) -> Self {
        StateError::Corrupt {
            path: PathBuf::new(),
            reason: reason.to_string(),
        }
    }
}

impl From<rusqlite::Error> for StateError {
    fn from(error: rusqlite::Error) -> Self {
        let path = PathBuf::new();
        match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StateError::ReadOnly(path),
            Some(ErrorCode::DiskFull) => StateError::Full(path),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                StateError::corrupt(error)
            }
            _ => StateError::Other {
                path,
                reason: error.to_string(),
            },
        }
    }
}
