//! Durable files: written under a temporary name, forced to disk, then renamed.
//!
//! A reader sees the old contents or the new ones. After a power failure the same holds: the contents are on disk before the
//! name points to them, and the directory is forced to disk too, or the name might still point to the old file after the
//! caller has reported success.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file under a temporary name beside its final path; removed when dropped unfinished.
#[derive(Debug)]
pub struct DurableFile {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
}

impl DurableFile {
    /// Creates the file with a mode, less the umask. The name starts with a dot, so that no directory scan reads it. One
    /// that a killed process left behind is removed.
    pub fn create(path: &Path, mode: u32) -> io::Result<Self> {
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(".nameward-new");
        let temporary = path.with_file_name(name);
        let _ = fs::remove_file(&temporary);
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(mode);
        Ok(DurableFile {
            file: options.open(&temporary)?,
            temporary,
            path: path.into(),
        })
    }

    /// Returns the file, to write to.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Moves the file to its path, in place of a file that is there.
    pub fn replace(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.path)?;
        sync_directory(&self.path)
    }

    /// Moves the file to its path; fails if there is a file.
    pub fn publish_new(self) -> io::Result<()> {
        self.file.sync_all()?;
        // Unlike a rename, a link does not replace a file. Dropping removes the temporary name.
        fs::hard_link(&self.temporary, &self.path)?;
        sync_directory(&self.path)
    }
}

impl Drop for DurableFile {
    fn drop(&mut self) {
        // Gone after a rename.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Replaces the contents of a file, or creates it.
pub fn replace(path: &Path, mode: u32, contents: &[u8]) -> io::Result<()> {
    let mut new = DurableFile::create(path, mode)?;
    new.file().write_all(contents)?;
    new.replace()
}

/// Writes a file that must not exist.
pub fn write_new(path: &Path, mode: u32, contents: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(contents)?;
    file.sync_all()
}

/// Forces the directory of a file to disk: names that were added, replaced or removed.
pub fn sync_directory(file: &Path) -> io::Result<()> {
    File::open(opened(file.parent().unwrap_or(Path::new(""))))?.sync_all()
}

/// Returns the path by which a directory is opened: an empty one is the current directory.
pub fn opened(directory: &Path) -> &Path {
    if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_with_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for contents in ["one", "two"] {
            replace(&path, 0o600, contents.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), contents);
        }
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(names(directory.path()), ["file"]);
    }

    #[test]
    fn an_unfinished_file_is_removed_and_the_old_one_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "old").unwrap();
        // As a killed process leaves it.
        fs::write(directory.path().join(".file.nameward-new"), "half").unwrap();
        let mut new = DurableFile::create(&path, 0o644).unwrap();
        new.file().write_all(b"new").unwrap();
        drop(new);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(directory.path()), ["file"]);
    }

    #[test]
    fn a_new_file_never_replaces_another() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for (contents, is_published) in [("one", true), ("two", false)] {
            let mut new = DurableFile::create(&path, 0o644).unwrap();
            new.file().write_all(contents.as_bytes()).unwrap();
            assert_eq!(new.publish_new().is_ok(), is_published);
            assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        }
        assert_eq!(names(directory.path()), ["file"]);
    }
}
