//! Configuration files and the files they include: read with limits, each with its name for locations.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use nameward_wire::zonefile::{Diagnostic, MAX_ERRORS, Severity};

use super::ConfigLocation;
use crate::files::{Files, has_wildcards, reason_of};

/// Maximum nesting depth of included files.
const DEPTH_MAX: usize = 16;
/// Maximum number of files, and of their bytes.
const FILES_MAX: usize = 20_000;
const BYTES_MAX: u64 = 256 << 20;

/// Reads the files of one configuration and collects its errors.
pub(super) struct ConfigTexts<'f> {
    pub(super) files: &'f mut dyn Files,
    open: Vec<PathBuf>,
    count: usize,
    bytes: u64,
    pub(super) errors: Vec<Diagnostic>,
}

impl<'f> ConfigTexts<'f> {
    pub(super) fn new(files: &'f mut dyn Files) -> Self {
        Self {
            files,
            open: Vec::new(),
            count: 0,
            bytes: 0,
            errors: Vec::new(),
        }
    }

    /// Checks whether there are so many errors that reading stops.
    pub(super) fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    pub(super) fn error(&mut self, location: &ConfigLocation, message: impl Into<String>) {
        if !self.is_full() {
            self.errors.push(Diagnostic {
                severity: Severity::Error,
                file: Arc::clone(&location.file),
                line: location.line,
                column: 0,
                message: message.into(),
            });
        }
    }

    /// Opens a file; the caller closes it after reading. A file that cannot be read is an error at `from`.
    pub(super) fn open(
        &mut self,
        path: &Path,
        from: &ConfigLocation,
    ) -> Option<(Arc<str>, String)> {
        match self.text(path) {
            Ok(text) => {
                self.open.push(path.to_path_buf());
                Some((Arc::from(&*path.to_string_lossy()), text))
            }
            Err(error) => {
                let reason = reason_of(&error);
                self.error(from, format!("cannot read {}: {reason}", path.display()));
                None
            }
        }
    }

    /// Closes the file that was opened last.
    pub(super) fn close(&mut self) {
        self.open.pop();
    }

    fn text(&mut self, path: &Path) -> io::Result<String> {
        let refused = |message: String| Err(io::Error::other(message));
        if self.open.iter().any(|open| open == path) {
            return refused("includes itself".into());
        }
        if self.open.len() >= DEPTH_MAX {
            return refused(format!("includes nested more than {DEPTH_MAX} levels deep"));
        }
        self.count += 1;
        if self.count > FILES_MAX {
            return refused(format!("more than {FILES_MAX} files"));
        }
        let octets = self.files.read(path, BYTES_MAX - self.bytes)?;
        self.bytes += octets.len() as u64;
        String::from_utf8(octets).or_else(|_| refused("not UTF-8 text".into()))
    }

    /// Returns the files that an include refers to; a pattern without a match is not an error.
    pub(super) fn included(&mut self, path: &Path, from: &ConfigLocation) -> Vec<PathBuf> {
        use std::os::unix::ffi::OsStrExt;
        if !has_wildcards(path.as_os_str().as_bytes()) {
            return vec![path.to_path_buf()];
        }
        self.files.matching(path).unwrap_or_else(|error| {
            let reason = reason_of(&error);
            self.error(from, format!("cannot list {}: {reason}", path.display()));
            Vec::new()
        })
    }
}

/// Returns the directory that contains a file.
pub(super) fn directory_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_path_buf()
}
