//! The files of a new database, made once and copied: MariaDB takes five seconds to make them, and hundreds of tests need some.
//!
//! They are in `databases` beside the test programs, for each version of the server. A change of how they are made
//! (`Database::initialize`) takes effect when that directory is deleted.

use super::{Database, check, program, server_program, user};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

impl Database {
    /// Creates the files of a new database: copies of those that an earlier test has made, if there are any.
    pub(super) fn make_files(&self) -> io::Result<()> {
        let user = user(self.kind);
        check(Command::new("chown").arg(user).arg(self.directory.path()))?;
        let template = self.template();
        if let Some(template) = template.as_deref().filter(|path| path.is_dir()) {
            return copy(template, &self.data());
        }
        self.initialize()?;
        match template {
            Some(template) => publish(&self.data(), &template),
            None => Ok(()),
        }
    }

    /// Returns the place of the files that are copied: in the directory of what is built, for this version of the server.
    fn template(&self) -> Option<PathBuf> {
        let server = fs::metadata(program(self.kind, server_program(self.kind))?).ok()?;
        let own = std::env::current_exe().ok()?;
        let built = own.ancestors().find(|path| path.ends_with("deps"))?;
        let version = format!("{:?}-{}-{}", self.kind, server.len(), server.mtime());
        Some(built.parent()?.join("databases").join(version))
    }
}

/// Copies a directory with its owners; a hole stays a hole.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut command = Command::new("cp");
    command.args(["-a", "--reflink=auto", "--sparse=always"]);
    check(command.arg(from).arg(to))
}

/// Makes the files available to other tests: all of them, or none.
fn publish(data: &Path, template: &Path) -> io::Result<()> {
    let directory = template.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(directory)?;
    let copied = tempfile::Builder::new()
        .prefix("new-")
        .tempdir_in(directory)?;
    copy(data, &copied.path().join("data"))?;
    match fs::rename(copied.path().join("data"), template) {
        // Another test was faster.
        Err(_) if template.is_dir() => Ok(()),
        renamed => renamed,
    }
}
