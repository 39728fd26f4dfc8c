//! Why the state store cannot be used, in words that say what an operator can do.

use super::lock::StoreUser;
use nameward_zone::Serial;
use rusqlite::ErrorCode;
use std::io;
use std::path::{Path, PathBuf};

/// Why something cannot be read from the state store or written to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The file or its directory cannot be written.
    #[error(
        "state store {0} is read-only: give the server's user the right to write to it and to its directory"
    )]
    ReadOnly(PathBuf),
    /// There is no room on the disk.
    #[error("state store {0}: the disk is full; nothing was changed")]
    Full(PathBuf),
    /// The file is damaged, or it is no state store.
    #[error(
        "state store {path} is damaged ({reason}): restore it from a backup, or move it away to begin with an empty one"
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The message of SQLite.
        reason: String,
    },
    /// The file was written by a later version of Nameward.
    #[error(
        "state store {path} has version {found} and this server knows versions up to {known}: use the newer server, or restore a backup"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its schema.
        found: i64,
        /// The latest version known here.
        known: i64,
    },
    /// Another server or command uses the state directory.
    #[error("{} is locked: {}", .0.display(), match .1 {
        StoreUser::Server => "another server uses this state directory",
        StoreUser::Command => "a command works on this state directory",
    })]
    InUse(PathBuf, StoreUser),
    /// Something else is in the place of the file.
    #[error("{0} is not a regular file: move it away, then start the server again")]
    NotAFile(PathBuf),
    /// The file was taken away or changed while it was open.
    #[error("state store {path} {how}{}", match .rescued {
        Some(copy) => format!("; its contents are saved in {}", copy.display()),
        None => String::new(),
    })]
    Lost {
        /// The file.
        path: PathBuf,
        /// Its state.
        how: LostHow,
        /// A copy of its contents, where one could be made.
        rescued: Option<PathBuf>,
    },
    /// The store has no keys of zones that were signed with keys of it.
    #[error(
        "state store {path} has no keys of {zones}, although these zones were signed with keys kept in it: restore it from a \
         backup; to give the zones new keys, delete {register}"
    )]
    KeysLost {
        /// The file.
        path: PathBuf,
        /// The first of these zones.
        zones: String,
        /// The file that names all of them.
        register: PathBuf,
    },
    /// There is no store.
    #[error("state store {0} does not exist")]
    Missing(PathBuf),
    /// A difference does not continue the journal of its zone.
    #[error(
        "the journal of {zone} ends at serial {tip}, and a difference from {from} does not continue it"
    )]
    Gap {
        /// The zone.
        zone: String,
        /// The serial the journal ends at.
        tip: Serial,
        /// The serial the difference begins at.
        from: Serial,
    },
    /// A difference without a change of the serial cannot stand in a journal.
    #[error("a difference of {0} does not change the serial")]
    NoSerial(String),
    /// The writing thread is gone.
    #[error("the state store is closed")]
    Closed,
    /// Anything else that SQLite or the system says.
    #[error("state store {path}: {reason}")]
    Other {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// State of the file of an open store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostHow {
    /// It is gone.
    Deleted,
    /// Another file has its name.
    Replaced,
    /// It has no contents any more.
    Emptied,
    /// It has other contents.
    Overwritten,
}

impl std::fmt::Display for LostHow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LostHow::Deleted => "was deleted while the server was running",
            LostHow::Replaced => "was replaced by another file while the server was running",
            LostHow::Emptied => "was emptied while the server was running",
            LostHow::Overwritten => "was overwritten while the server was running",
        })
    }
}

impl StateError {
    /// Whether the file of the open store is not the store any more.
    pub fn is_lost(&self) -> bool {
        matches!(self, StateError::Lost { .. })
    }

    /// Whether the store as such takes no changes, and not only this one.
    pub(super) fn is_of_store(&self) -> bool {
        !matches!(
            self,
            StateError::Gap { .. } | StateError::NoSerial(_) | StateError::Closed
        )
    }

    /// Puts the path in, where it was not known.
    pub(super) fn of(mut self, file: &Path) -> Self {
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

    pub(super) fn of_io(path: &Path, error: &io::Error) -> Self {
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
