//! Owns zone files that commands create and remove in the directory of a file backend.
//!
//! A new file is complete and on the disk before it has its name, and never takes the place of another one. A file that is
//! removed is gone from the disk before the journal of its zone is dropped. A file whose zone becomes a secondary is kept
//! under another name, and the zone is served without a gap.

use super::FileFollower;
use crate::commit::Commits;
use crate::contents::contents_of;
use crate::policy::{StoredPolicyError, UNCONFIGURED_RANK};
use crate::sync::{SyncMode, whole_text};
use nameward_base::file::{DurableFile, sync_directory};
use nameward_files::{FileSource, LoadEvent};
use nameward_state::StateChange;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{TableChange, Zone};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The mode of a new zone file, which the umask restricts.
const MODE: u32 = 0o644;

/// The file that a zone is served from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedFile {
    /// Its path.
    pub path: PathBuf,
    /// The rank of its backend.
    pub rank: u16,
    /// It was found by its name in a directory; the configuration does not list it.
    pub is_in_directory: bool,
    /// The text, if it matches the served version.
    pub text: Option<Vec<u8>>,
}

/// How many names are tried for the copy of a file that is set aside.
const COPY_NAMES_MAX: u32 = 100;

/// Stores the last version of a zone whose file is set aside, with the settings of the secondary that it becomes.
pub type StoreVersion = Box<dyn FnOnce(&Zone) -> Result<(), StoredPolicyError> + Send>;

/// Why a zone file was not created, removed or set aside.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, thiserror::Error)]
pub enum ZoneFileError {
    /// No file backend has a directory, or not the named one.
    #[error("{}", no_directory(*.0))]
    NoDirectory(Option<u16>),
    #[error(
        "the root zone cannot be a file in a zone directory: declare it in a [[zone]] table with its file"
    )]
    Root,
    #[error("{} already exists", .0.display())]
    Exists(PathBuf),
    /// The zone cannot be served.
    #[error("{}", .0.join("; "))]
    Wrong(Vec<String>),
    /// The file has errors or is not served.
    #[error("{} is not served: fix it and `nameward reload`", .0.display())]
    NotServed(PathBuf),
    #[error("the zone has just been changed: try again")]
    Changed,
    /// The version or the settings of the zone cannot be stored.
    #[error(transparent)]
    NotStored(StoredPolicyError),
    #[error("the zone is a secondary now, but its file could not be removed, remove it: {}: {error}", path.display())]
    NotRemoved { path: PathBuf, error: io::Error },
    /// The file cannot be written or removed.
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
}

fn no_directory(rank: Option<u16>) -> String {
    match rank {
        Some(rank) => {
            format!(
                "backend {rank} cannot store new zones: it is neither a database nor a file backend with a \
                     directory"
            )
        }
        None => {
            "no backend can store new zones: add a [[backend]] of type \"file\" with a `directory`"
                .into()
        }
    }
}

impl FileFollower {
    /// Writes the file of a new zone into the directory of a backend, by default the first that has one, and serves
    /// the zone.
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
        let errors = self.check_path(sources, path.clone()).errors;
        let served = self.target.commits.table().version(zone.as_name(), rank);
        if served.is_none_or(|served| served.is_stub()) {
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

    /// Finds the file that a zone is served from, with the changes of the journal written into it if its layout
    /// allows.
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

    /// Removes the file of a zone, which is no longer served, and its journal. Returns the last served version: no
    /// change is acknowledged after it.
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
        commits.write_state(zone, forget);
        Ok(last)
    }

    /// Sets the file of a zone aside that becomes a secondary, and returns its new name. The version that the file has is
    /// stored by `store` and served until the first transfer; if that fails, everything is as before.
    pub fn set_file_aside(
        &mut self,
        sources: &[FileSource],
        (zone, file): (&NameBuf, &ServedFile),
        store: StoreVersion,
    ) -> Result<PathBuf, ZoneFileError> {
        let (path, rank) = (&file.path, file.rank);
        let not_served = || ZoneFileError::NotServed(path.clone());
        let is_complete = self.sync(sources, zone, SyncMode::KeepLayout).is_ok();
        let commits = Arc::clone(&self.target.commits);
        let table = commits.table();
        let version = table.version(zone.as_name(), rank);
        let version = version.filter(|version| !version.is_stub());
        let version = version.ok_or_else(not_served)?;
        let mut copy = version.pack().ok_or_else(not_served)?;
        copy.set_rank(UNCONFIGURED_RANK);
        let failed = |error| ZoneFileError::File {
            path: path.clone(),
            error,
        };
        let mut kept = vec![link_copy(path).map_err(failed)?];
        if !is_complete {
            // The file lacks changes that its layout has no place for: they are kept in a copy of their own.
            let text = whole_text(&contents_of(&version));
            let written = new_copy(path, |copy| write_new(copy, &text));
            kept.push(written.map_err(failed)?);
        }
        // Behind the file's version until that is withdrawn: the zone is never out of service.
        table.publish(&[TableChange::Offer(Arc::new(copy))]);
        let last = commits.withdraw(zone.as_name(), rank).unwrap_or(version);
        let serial = table
            .version(zone.as_name(), UNCONFIGURED_RANK)
            .map(|copy| copy.serial());
        let stored = if serial == Some(last.serial()) {
            store(&last).map_err(ZoneFileError::NotStored)
        } else {
            Err(ZoneFileError::Changed)
        };
        if let Err(error) = stored {
            let name = zone.as_name().as_wire().into();
            let back = TableChange::Withdraw(name, UNCONFIGURED_RANK);
            table.publish(&[back, TableChange::Offer(last)]);
            for copy in kept {
                let _ = fs::remove_file(copy);
            }
            return Err(error);
        }
        self.backend.forget(zone.as_name());
        self.faults.note(&LoadEvent::Removed(zone.as_name()));
        if let Some(copies) = &self.copies {
            copies.forget(vec![*zone]);
        }
        let removed = fs::remove_file(path).and_then(|()| sync_directory(path));
        match removed {
            Ok(()) => Ok(kept.pop().unwrap_or_default()),
            Err(error) => Err(ZoneFileError::NotRemoved {
                path: path.clone(),
                error,
            }),
        }
    }
}

/// Returns the file name of a zone in a directory; none for the root, whose file would be hidden.
fn file_name(zone: Name<'_>) -> Option<String> {
    let mut lower = NameBuf::from(zone);
    lower.make_lowercase();
    let text = lower.to_string();
    // The text of a version ends with its variant.
    let bare = text.strip_suffix('.').unwrap_or(&text);
    if zone.zone().is_root() {
        return None;
    }
    // RFC 2317 names contain slashes, which file names must not.
    Some(format!("{}.zone", bare.replace('/', "\\047")))
}

/// Gives a zone file a second name.
fn link_copy(path: &Path) -> io::Result<PathBuf> {
    new_copy(path, |copy| {
        fs::hard_link(path, copy).and_then(|()| sync_directory(copy))
    })
}

/// Makes a copy beside a zone file, under a name that is not one of a zone file: `example.org.zone.kept-1`, or the next free
/// number.
fn new_copy(path: &Path, make: impl Fn(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".kept-{number}"));
        let copy = path.with_file_name(name);
        match make(&copy) {
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && number < COPY_NAMES_MAX =>
            {
                number += 1;
            }
            made => return made.map(|()| copy),
        }
    }
}

/// Writes a file that does not exist yet: under another name first, so that a partial file is never visible.
fn write_new(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = DurableFile::create(path, MODE)?;
    file.file().write_all(text)?;
    file.publish_new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_in_lower_case_and_have_no_slash() {
        for (zone, expected) in [
            ("Example.ORG.", Some("example.org.zone")),
            ("Example.ORG..inside", Some("example.org..inside.zone")),
            ("..inside", None),
            (
                "0/25.2.0.192.in-addr.arpa.",
                Some("0\\04725.2.0.192.in-addr.arpa.zone"),
            ),
            (".", None),
        ] {
            let name = NameBuf::zone_from_text(zone).unwrap();
            assert_eq!(file_name(name.as_name()).as_deref(), expected);
        }
    }

    #[test]
    fn each_copy_of_a_file_has_a_name_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.test.zone");
        for (text, expected) in [("one", "a.test.zone.kept-1"), ("two", "a.test.zone.kept-2")] {
            fs::write(&path, text).unwrap();
            let copy = link_copy(&path).unwrap();
            assert_eq!(copy, directory.path().join(expected));
            fs::remove_file(&path).unwrap();
            assert_eq!(fs::read_to_string(copy).unwrap(), text);
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
