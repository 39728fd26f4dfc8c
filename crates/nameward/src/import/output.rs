//! Writes the files of an import: no file of an operator is replaced, and the server's user can read what it needs.
//!
//! ```text
//! nameward.toml            root:nameward 0640   it may hold the password of a database
//! keys/*.secret            nameward      0600   as the server requires
//! zones/, zones/*.zone     root:nameward 2775   zone sync writes beside the file
//! STATE/dnssec-keys/       nameward      0700
//! ```
//! Ownership is set when root imports and the user exists; otherwise all files belong to the user who runs the
//! command.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown},
    path::{Path, PathBuf},
};

use nameward_import::migrate::{ImportedServer, secret_file_name};

use crate::{
    command_error::{CommandError, CommandResult},
    privileges::{self, UserAndGroup},
};

/// The configuration that the package installs.
const SAMPLE: &str = include_str!("../../../../contrib/debian/configuration");
pub const FILE_NAME: &str = "nameward.toml";
/// The directory for TSIG secrets, next to the configuration.
pub const KEYS: &str = "keys";

pub struct NewFile {
    pub path: PathBuf,
    pub contents: Vec<u8>,
    pub mode: u32,
}

/// Destination and owner of the files.
pub struct ImportOutput<'o> {
    /// The directory for the configuration.
    pub out: &'o Path,
    pub dnssec_keys: &'o Path,
    /// The server's user, if files can be given to it.
    pub user: Option<UserAndGroup>,
}

/// Returns the server's user: the given one, or the package's, if root runs the command.
pub fn server_user(name: Option<&str>) -> CommandResult<Option<UserAndGroup>> {
    match name {
        Some(name) => {
            privileges::find(name, "").map_err(|error| CommandError::ImportUser(error.to_string()))
        }
        None if privileges::own_user() == 0 => Ok(privileges::find("nameward", "").ok().flatten()),
        None => Ok(None),
    }
}

/// Checks whether a user can read a file, by the modes of the file and of all directories above it.
pub fn is_readable(path: &Path, user: UserAndGroup) -> bool {
    let allows = |path: &Path, bit: u32| match fs::metadata(path) {
        Ok(metadata) => {
            let shift = match () {
                () if metadata.uid() == user.uid => 6,
                () if metadata.gid() == user.gid => 3,
                () => 0,
            };
            metadata.mode() >> shift & bit != 0
        }
        // A missing file is reported when zones are loaded.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    let mut above = path.ancestors().skip(1);
    user.uid == 0 || (allows(path, 4) && above.all(|directory| allows(directory, 1)))
}

/// Checks whether a file exists with these contents. One with other contents is an error.
fn is_there(path: &Path, contents: &[u8], otherwise: &'static str) -> CommandResult<bool> {
    let error = match fs::read(path) {
        Ok(found) if found == contents => return Ok(true),
        Ok(_) => io::Error::other(otherwise),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => error,
    };
    Err(CommandError::Import(path.into(), error))
}

fn keep_sample(target: &Path) -> CommandResult<PathBuf> {
    let mut name = OsString::from(target);
    name.push(".sample");
    let backup = PathBuf::from(name);
    fs::rename(target, &backup).map_err(|error| CommandError::Import(backup.clone(), error))?;
    Ok(backup)
}

impl ImportOutput<'_> {
    /// Writes all files, the configuration last. Returns the name under which the package's sample was kept.
    pub fn write(
        &self,
        text: &str,
        moved: &ImportedServer,
        files: &[NewFile],
    ) -> CommandResult<Option<PathBuf>> {
        let target = self.out.join(FILE_NAME);
        // The packaged sample may be replaced, and nothing else.
        let there =
            "the file exists and is not the packaged sample: move it away, or use another --out";
        let is_sample = is_there(&target, SAMPLE.as_bytes(), there)?;
        let secrets = moved.keys.iter().map(|key| NewFile {
            path: self.out.join(KEYS).join(secret_file_name(&key.name)),
            contents: format!("{}\n", key.secret).into_bytes(),
            mode: 0o600,
        });
        let secrets: Vec<NewFile> = secrets.collect();
        let all = || secrets.iter().chain(files);
        for file in all() {
            // An import that failed halfway can be repeated.
            let there = "the file exists: move it away, or use another --out";
            is_there(&file.path, &file.contents, there)?;
        }
        self.directory(self.out, 0o750, false)?;
        for file in all() {
            let parent = file.path.parent().unwrap_or(self.out);
            let is_zones = file.mode == 0o644 && parent.starts_with(self.out);
            match () {
                () if is_zones => self.directory(parent, 0o2775, false)?,
                () if parent == self.dnssec_keys => {
                    let state = parent.parent().unwrap_or(parent);
                    self.directory(state, 0o750, true)?;
                    self.directory(parent, 0o700, true)?;
                }
                () => self.directory(parent, 0o750, false)?,
            }
            self.file(file, file.mode == 0o600 || parent == self.dnssec_keys)?;
        }
        let backup = is_sample.then(|| keep_sample(&target)).transpose()?;
        let config = NewFile {
            path: target,
            contents: text.as_bytes().to_vec(),
            mode: 0o640,
        };
        self.file(&config, false)?;
        Ok(backup)
    }

    /// Creates a directory; an existing one stays as it is.
    fn directory(&self, path: &Path, mode: u32, is_own: bool) -> CommandResult<()> {
        if path.is_dir() {
            return Ok(());
        }
        let failed = |error| CommandError::Import(path.into(), error);
        fs::create_dir_all(path).map_err(failed)?;
        self.give(path, is_own).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)
    }

    fn file(&self, file: &NewFile, is_own: bool) -> CommandResult<()> {
        let path = &file.path;
        let write = || {
            if path.exists() {
                return Ok(());
            }
            let mut options = OpenOptions::new();
            let mut new = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)?;
            new.write_all(&file.contents)?;
            self.give(path, is_own)?;
            new.set_permissions(fs::Permissions::from_mode(file.mode))?;
            new.sync_all()
        };
        write().map_err(|error| CommandError::Import(path.clone(), error))
    }

    /// Gives a path to the server's group, and to its user where only the owner may read it.
    fn give(&self, path: &Path, is_own: bool) -> io::Result<()> {
        match self.user {
            Some(user) if privileges::own_user() == 0 => {
                let owner = if is_own { user.uid } else { 0 };
                chown(path, Some(owner), Some(user.gid))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(dir: &Path) -> (PathBuf, PathBuf) {
        (dir.join("etc"), dir.join("state/dnssec-keys"))
    }

    #[test]
    fn the_packaged_sample_is_replaced_and_backed_up_and_other_files_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let (out, dnssec_keys) = output(dir.path());
        let output = ImportOutput {
            out: &out,
            dnssec_keys: &dnssec_keys,
            user: None,
        };
        fs::create_dir(&out).unwrap();
        let target = out.join(FILE_NAME);
        fs::write(&target, SAMPLE).unwrap();
        let moved = ImportedServer::default();
        let backup = output.write("# new\n", &moved, &[]).unwrap();
        assert_eq!(backup, Some(out.join("nameward.toml.sample")));
        assert_eq!(
            fs::read_to_string(out.join("nameward.toml.sample")).unwrap(),
            SAMPLE
        );
        assert_eq!(fs::read_to_string(&target).unwrap(), "# new\n");
        let refused = output.write("# other\n", &moved, &[]).unwrap_err();
        assert!(
            refused.to_string().contains("not the packaged sample"),
            "{refused}"
        );
        assert_eq!(fs::read_to_string(&target).unwrap(), "# new\n");
    }

    #[test]
    fn a_file_that_the_user_cannot_reach_is_found_by_the_modes_above_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("zone");
        fs::write(&file, "").unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let nobody = UserAndGroup {
            uid: 65_534,
            gid: 65_534,
        };
        mode(dir.path(), 0o755);
        mode(&file, 0o644);
        assert!(is_readable(&file, nobody));
        mode(&file, 0o600);
        assert!(!is_readable(&file, nobody));
        mode(&file, 0o644);
        mode(dir.path(), 0o700);
        assert!(!is_readable(&file, nobody));
    }
}
