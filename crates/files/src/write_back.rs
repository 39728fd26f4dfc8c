//! The files that this server itself writes into zone directories.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Files that are written, not read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WrittenFiles {
    paths: HashSet<PathBuf>,
    /// The file names of the paths: most files of a directory do not even match these.
    names: HashSet<OsString>,
}

impl WrittenFiles {
    /// Adds a file, which need not exist yet.
    pub fn add(&mut self, file: &Path) {
        self.paths.insert(resolved(file));
        self.names.extend(file.file_name().map(OsString::from));
    }

    /// Checks whether a file is among them, however its path is spelled.
    pub(super) fn has(&self, file: &Path) -> bool {
        let name = file.file_name().unwrap_or_default();
        self.names.contains(name) && self.paths.contains(&resolved(file))
    }
}

/// Returns the path of a file with the links of its directory resolved.
fn resolved(file: &Path) -> PathBuf {
    let directory = file.parent().and_then(|parent| parent.canonicalize().ok());
    match (directory, file.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        _ => file.into(),
    }
}
