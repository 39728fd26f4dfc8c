//! The process ID file: created under a new name and renamed, so that a symbolic link in its place
//! is replaced and never followed (CVE-2020-28935).

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nameward_base::file;

use crate::config::error::plain;

/// A process ID file that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {}", path.display(), plain(source))]
pub struct PidFileError {
    path: PathBuf,
    source: io::Error,
}

/// A written process ID file, removed when it is dropped.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Continues with a file that another process has written, and that this one will write to.
    pub fn inherit(path: &Path) -> Self {
        Self(path.to_path_buf())
    }

    /// Writes the ID of this process to `path`.
    pub fn write(path: &Path) -> Result<Self, PidFileError> {
        let text = format!("{}\n", std::process::id());
        match file::replace(path, 0o644, text.as_bytes()) {
            Ok(()) => Ok(Self(path.to_path_buf())),
            Err(source) => Err(PidFileError {
                path: path.to_path_buf(),
                source,
            }),
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // After a change of user this may not be permitted; a stale file does no harm.
        let ours = fs::read_to_string(&self.0)
            .is_ok_and(|text| text.trim() == std::process::id().to_string());
        if ours {
            let _ = fs::remove_file(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_at_the_path_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let path = dir.path().join("nameward.pid");
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let file = PidFile::write(&path).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        let id = std::process::id().to_string();
        assert_eq!(fs::read_to_string(&path).unwrap().trim(), id);
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_missing_directory_is_one_line() {
        let error = PidFile::write(Path::new("/nonexistent/pid")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot write /nonexistent/pid: No such file or directory"
        );
    }
}
