//! Access to zone files and the configuration for operations: provided by the server and by offline commands.

use std::path::PathBuf;
use std::sync::Arc;

use nameward_maintain::follow::{ServedFile, StoreVersion, ZoneFileError};
use nameward_wire::{Name, NameBuf};
use nameward_zone::Zone;

use crate::operations::{OperationError, Outcome};

/// Zone files and the configuration.
pub trait ZoneFiles: Send + Sync {
    /// Writes the file of a new zone into the directory of a backend, and serves the zone.
    fn create(&self, zone: &NameBuf, backend: Option<u16>, text: Vec<u8>) -> Outcome<ServedFile>;

    /// Finds the file that a zone is served from.
    fn find(&self, zone: &NameBuf) -> Outcome<Option<ServedFile>>;

    /// Removes the file of a zone. Returns the last served version.
    fn remove(&self, zone: &NameBuf, path: PathBuf, rank: u16) -> Outcome<Option<Arc<Zone>>>;

    /// Moves the file of a zone that becomes a secondary out of the way, and returns its new name.
    fn set_aside(&self, zone: &NameBuf, file: ServedFile, store: StoreVersion) -> Outcome<PathBuf>;

    /// Returns the file and line of the configuration that declares a zone.
    fn declared_at(&self, zone: Name<'_>) -> Option<String>;
}

impl From<ZoneFileError> for OperationError {
    fn from(error: ZoneFileError) -> Self {
        let text = error.to_string();
        match error {
            ZoneFileError::NoDirectory(_) | ZoneFileError::Root | ZoneFileError::NotServed(_) => {
                OperationError::refused(text)
            }
            ZoneFileError::Exists(_) | ZoneFileError::Changed => OperationError::conflict(text),
            ZoneFileError::Wrong(_) => OperationError::invalid(text),
            ZoneFileError::File { .. }
            | ZoneFileError::NotStored(_)
            | ZoneFileError::NotRemoved { .. } => OperationError::backend(text),
        }
    }
}
