//! Owns the search for zone files: names of files to names of zones.
//!
//! Directories are walked without following links to directories, so a walk ends; hidden files are
//! those of editors and of mounts being replaced, and are passed over.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use nameward_wire::{Name, NameBuf};

use super::Source;

/// Directories in directories, at most.
const DEPTH_MAX: usize = 32;

/// Files that should hold a zone. Names and paths stand in one buffer: there may be a hundred
/// thousand of them, and they are needed for as long as a load takes.
#[derive(Default)]
pub(super) struct Candidates {
    bytes: Vec<u8>,
    directories: Vec<PathBuf>,
    list: Vec<Entry>,
    /// The rank of the source that is looked at.
    rank: u16,
}

struct Entry {
    /// Where the zone's name and then the file's name begin.
    start: usize,
    /// Length of the zone's name, in wire form and lower case.
    zone: u8,
    /// Length of the file's name.
    file: u32,
    /// Index of its directory; listed files stand in none.
    directory: Option<u32>,
    /// Rank of its source.
    rank: u16,
}

impl Candidates {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The zone's name, in lower case.
    pub(super) fn name(&self, index: usize) -> Name<'_> {
        let entry = &self.list[index];
        Name::from_valid_wire(&self.bytes[entry.start..entry.start + usize::from(entry.zone)])
    }

    /// Puts the path of the file into a buffer that is used again.
    pub(super) fn path_into(&self, index: usize, path: &mut PathBuf) {
        let entry = &self.list[index];
        let start = entry.start + usize::from(entry.zone);
        let file = OsStr::from_bytes(&self.bytes[start..start + entry.file as usize]);
        path.as_mut_os_string().clear();
        if let Some(directory) = entry.directory {
            path.push(&self.directories[directory as usize]);
        }
        path.push(file);
    }

    pub(super) fn path(&self, index: usize) -> PathBuf {
        let mut path = PathBuf::new();
        self.path_into(index, &mut path);
        path
    }

    fn push(&mut self, zone: Name<'_>, file: &OsStr, directory: Option<u32>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(zone.as_wire());
        // Length octets are at most 63, below the letters.
        self.bytes[start..].make_ascii_lowercase();
        self.bytes.extend_from_slice(file.as_bytes());
        self.list.push(Entry {
            start,
            zone: zone.as_wire().len() as u8,
            file: file.len() as u32,
            directory,
            rank: self.rank,
        });
    }

    /// The rank of the source it is from.
    pub(super) fn rank(&self, index: usize) -> u16 {
        self.list[index].rank
    }
}

/// What a search found.
#[derive(Default)]
pub(super) struct Scanned {
    pub candidates: Candidates,
    /// Not everything could be looked at: a zone that is not among the candidates may be there.
    pub incomplete: bool,
}

/// Looks at all sources, in their order, listed zones first.
pub(super) fn scan(sources: &[Source], trouble: &mut dyn FnMut(&str)) -> Scanned {
    let mut scanned = Scanned::default();
    for source in sources {
        scanned.candidates.rank = source.rank;
        for (name, path) in &source.zones {
            let candidates = &mut scanned.candidates;
            candidates.push(name.as_name(), path.as_os_str(), None);
        }
        if let Some(directory) = &source.directory {
            walk(directory, DEPTH_MAX, &mut scanned, trouble);
        }
    }
    scanned
}

fn walk(directory: &Path, depth: usize, scanned: &mut Scanned, trouble: &mut dyn FnMut(&str)) {
    let mut subdirectories = Vec::new();
    if let Err(error) = list(directory, &mut subdirectories, scanned, trouble) {
        scanned.incomplete = true;
        let reason = plain(&error);
        trouble(&format!("cannot read {}: {reason}", directory.display()));
    }
    for subdirectory in subdirectories {
        if depth > 1 {
            walk(&subdirectory, depth - 1, scanned, trouble);
        } else {
            let path = subdirectory.display();
            trouble(&format!(
                "{path}: more than {DEPTH_MAX} directories deep: ignored"
            ));
        }
    }
}

fn list(
    directory: &Path,
    subdirectories: &mut Vec<PathBuf>,
    scanned: &mut Scanned,
    trouble: &mut dyn FnMut(&str),
) -> io::Result<()> {
    let candidates = &mut scanned.candidates;
    let number = candidates.directories.len() as u32;
    candidates.directories.push(directory.to_path_buf());
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let file_name = entry.file_name();
        if file_name.as_bytes().starts_with(b".") {
            continue;
        }
        if entry.file_type()?.is_dir() {
            subdirectories.push(entry.path());
            continue;
        }
        match zone_name(&file_name) {
            None => {}
            Some(Ok(name)) => candidates.push(name.as_name(), &file_name, Some(number)),
            Some(Err(error)) => {
                let path = entry.path();
                trouble(&format!(
                    "{}: no zone has this name: {error}",
                    path.display()
                ));
            }
        }
    }
    Ok(())
}

/// The zone that a file name stands for; `None` when it is no zone file.
fn zone_name(file_name: &OsStr) -> Option<Result<NameBuf, nameward_wire::NameError>> {
    let stem = file_name.as_bytes().strip_suffix(b".zone")?;
    Some(NameBuf::from_text(stem, Name::ROOT))
}

/// The text of an I/O error without its number.
pub(super) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().into()
}
