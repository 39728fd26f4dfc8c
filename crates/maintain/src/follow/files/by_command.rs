//! Owns zone files that commands create and remove in the directory of a file backend.
//!
//! A new file is complete and on the disk before it has its name, and never takes the place of another one. A file that is
//! removed is gone from the disk before the journal of its zone is dropped.

use super::{FileFollower, LoadLog};
use crate::commit::Commits;
use crate::sync::{SyncMode, sync_directory};
use nameward_store::file::{FileSource, LoadEvent};
use nameward_store::state::StateChange;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{TableChange, Zone};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The mode of a new zone file, which the umask narrows.
const MODE: u32 = 0o644;

/// The file that a zone is served from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedFile {
    /// Its path.
    pub path: PathBuf,
    /// The rank of its backend.
    pub rank: u16,
    /// It is there by its name in a directory; the configuration does not list it.
    pub is_in_directory: bool,
    /// The text, if it says what is served.
    pub text: Option<Vec<u8>>,
}

/// Why a zone file was not created or removed.
#[derive(Debug, thiserror::Error)]
pub enum ZoneFileError {
    /// No file backend has a directory, or not the one that was named.
    #[error("{}", no_directory(*.0))]
    NoDirectory(Option<u16>),
    /// A file name cannot be made of the zone's name.
    #[error(
        "the root zone cannot be a file of a directory: declare it in a [[zone]] table with its file"
    )]
    Root,
    /// There is such a file.
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    /// The zone cannot be served.
    #[error("{}", .0.join("; "))]
    Wrong(Vec<String>),
    /// The file cannot be written or removed.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

fn no_directory(rank: Option<u16>) -> String {
    match rank {
        Some(rank) => {
            format!("backend {rank} is neither a database nor a file backend with a directory")
        }
        None => {
            "no backend can have new zones: add a [[backend]] of type \"file\" with a `directory`"
                .into()
        }
    }
}

impl FileFollower {
    /// Writes the file of a new zone into the directory of a backend, the first that has one unless it is named, and
    /// serves the zone.
    pub fn create_file(
        &mut self,
        sources: &[FileSource],
        (zone, rank): (&NameBuf, Option<u16>),
        text: &[u8],
    ) -> Result<ServedFile, ZoneFileError> {
        let mut possible = sources
            .iter()
            .filter(|source| rank.is_none_or(|rank| source.rank == rank));
        let found = possible.find_map(|source| Some((source.rank, source.directory.as_deref()?)));
        let (rank, directory) = found.ok_or(ZoneFileError::NoDirectory(rank))?;
        let path = directory.join(file_name(zone.as_name()).ok_or(ZoneFileError::Root)?);
        write_new(&path, text).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => ZoneFileError::Exists(path.clone()),
            _ => ZoneFileError::File {
                path: path.clone(),
                error,
            },
        })?;
        let errors = self.load_file(sources, &path);
        let served = self.target.commits.table().version(zone.as_name(), rank);
        if served.is_none_or(|served| served.is_stand_in()) {
            let _ = self.remove_file(zone, &path, rank);
            return Err(ZoneFileError::Wrong(errors));
        }
        if let Some(copies) = &self.copies {
            copies.compare(&[*zone]);
        }
        Ok(ServedFile {
            path,
            rank,
            is_in_directory: true,
            text: None,
        })
    }

    /// Finds the file that a zone is served from, with the changes of the journal written into it if its layout allows.
    pub fn find_file(&mut self, sources: &[FileSource], zone: &NameBuf) -> Option<ServedFile> {
        let (path, rank) = self.backend.file_of(sources, zone.as_name())?;
        let is_written = self.sync(sources, zone, SyncMode::KeepLayout).is_ok();
        let text = is_written.then(|| fs::read(&path).ok()).flatten();
        let is_in_directory = self
            .backend
            .is_found(sources, zone.as_name(), (&path, rank));
        Some(ServedFile {
            path,
            rank,
            is_in_directory,
            text,
        })
    }

    /// Removes the file of a zone, which is not served from then on, and its journal. Returns the version that was served
    /// last: no change is acknowledged after it.
    pub fn remove_file(
        &mut self,
        zone: &NameBuf,
        path: &Path,
        rank: u16,
    ) -> Result<Option<Arc<Zone>>, ZoneFileError> {
        let commits: &Arc<Commits> = &self.target.commits;
        let last = commits.withdraw(zone.as_name(), rank);
        let removed = match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| sync_directory(path)),
        };
        if let Err(error) = removed {
            let offer = last.map(TableChange::Offer);
            commits.table().publish(offer.as_slice());
            let path = path.into();
            return Err(ZoneFileError::File { path, error });
        }
        self.backend.forget(zone.as_name());
        self.faults.note(&LoadEvent::Removed(zone.as_name()));
        let zone = *zone;
        let mut forget = vec![StateChange::RemoveZone { zone }];
        match &self.copies {
            Some(copies) => copies.forget(vec![zone]),
            None => forget.push(StateChange::RemoveFileCopy { zone }),
        }
        commits.keep(zone, forget);
        Ok(last)
    }

    /// Loads one file, and returns what is wrong with it.
    fn load_file(&mut self, sources: &[FileSource], path: &Path) -> Vec<String> {
        let mut log = LoadLog::default();
        let faults = &self.faults;
        let each = &mut |event: LoadEvent<'_>| {
            faults.note(&event);
            log.write(&event);
        };
        self.backend
            .look_at_file(&self.target, sources, path.into(), each);
        log.finish();
        log.errors
    }
}

/// Returns the name of the file that a directory has for a zone; none for the root, whose file would be hidden.
fn file_name(zone: Name<'_>) -> Option<String> {
    let mut lower = NameBuf::from(zone);
    lower.make_lowercase();
    let text = lower.to_string();
    let bare = text.strip_suffix('.').filter(|bare| !bare.is_empty())?;
    // A slash is part of names by RFC 2317, and not of file names.
    Some(format!("{}.zone", bare.replace('/', "\\047")))
}

/// Writes a file that is not there yet: under another name first, so that nobody sees a part of it.
fn write_new(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".nameward-new");
    let temporary = path.with_file_name(name);
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(MODE)
        .open(&temporary)?;
    let written = file
        .write_all(text)
        .and_then(|()| file.sync_all())
        // A link does not take the place of a file, as renaming would.
        .and_then(|()| fs::hard_link(&temporary, path));
    let _ = fs::remove_file(&temporary);
    written.and_then(|()| sync_directory(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_in_lower_case_and_have_no_slash() {
        for (zone, expected) in [
            ("Example.ORG.", Some("example.org.zone")),
            (
                "0/25.2.0.192.in-addr.arpa.",
                Some("0\\04725.2.0.192.in-addr.arpa.zone"),
            ),
            (".", None),
        ] {
            let name: NameBuf = zone.parse().unwrap();
            assert_eq!(file_name(name.as_name()).as_deref(), expected);
        }
    }

    #[test]
    fn a_new_file_never_takes_the_place_of_another() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.test.zone");
        write_new(&path, b"one").unwrap();
        let error = write_new(&path, b"two").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
