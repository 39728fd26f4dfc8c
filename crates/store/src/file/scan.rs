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

/// A file that should hold a zone.
pub(super) struct Candidate {
    /// The zone's name, wire form in lower case.
    pub name: Box<[u8]>,
    /// Its file.
    pub path: Box<Path>,
}

/// What a search found.
pub(super) struct Scanned {
    pub candidates: Vec<Candidate>,
    /// Everything could be looked at: a zone that is not among the candidates is gone.
    pub complete: bool,
}

/// Looks at all sources, in their order, listed zones first.
pub(super) fn scan(sources: &[Source], trouble: &mut dyn FnMut(&str)) -> Scanned {
    let mut scanned = Scanned {
        candidates: Vec::new(),
        complete: true,
    };
    for source in sources {
        for (name, path) in &source.zones {
            scanned.candidates.push(Candidate {
                name: lower_cased(name.as_name()),
                path: path.as_path().into(),
            });
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
        scanned.complete = false;
        trouble(&format!(
            "cannot read {}: {}",
            directory.display(),
            plain(&error)
        ));
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
            Some(Ok(name)) => scanned.candidates.push(Candidate {
                name: lower_cased(name.as_name()),
                path: entry.path().into(),
            }),
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

fn lower_cased(name: Name<'_>) -> Box<[u8]> {
    // Length octets are at most 63, below the letters.
    name.as_wire().to_ascii_lowercase().into()
}

/// The text of an I/O error without its number.
pub(super) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().into()
}
