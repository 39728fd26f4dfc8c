//! The directories that zone files refer to: by symbolic links, and by `$INCLUDE`.
//!
//! They are found before the sandbox is entered, by reading all files once more than a load does: several threads, which
//! end before that, search them for the directive and parse nothing else. Directories that files refer to later need a
//! restart.

use std::{
    collections::{BTreeSet, HashSet},
    ffi::OsString,
    fs::{self, File},
    io::Read,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    thread,
};

use nameward_base::sync::Mutex;
use nameward_files::FileSource;
use nameward_import::{OnDisk, bind};

/// Limits as for a load: depth of directories and of includes.
const DEPTH_MAX: usize = 32;
const INCLUDE_DEPTH_MAX: usize = 16;
/// Files that are searched together.
const BATCH: usize = 8192;
/// Octets of a file that are searched at once.
const BLOCK: usize = 64 << 10;
/// The longest directive that is found where two blocks meet.
const DIRECTIVE_MAX: usize = 4096;
const DIRECTIVE: &[u8] = b"$INCLUDE";

/// Directories outside those that the configuration names.
#[derive(Default)]
pub(super) struct ReferredDirectories {
    pub(super) included: BTreeSet<PathBuf>,
    /// Directories of files that links point to, which are written in place of the links.
    pub(super) linked: BTreeSet<PathBuf>,
}

/// Returns the directories that the zone files of all sources refer to.
pub(super) fn referred_directories(sources: &[FileSource]) -> ReferredDirectories {
    let mut search = Search::default();
    for source in sources {
        if let Some(directory) = &source.directory {
            search.walk(directory, DEPTH_MAX);
        }
        for listed in source.zones.iter() {
            search.add(listed.path());
        }
        if let Some(path) = &source.named_conf {
            let zones = bind::read(path, &mut OnDisk).take().zones;
            zones
                .into_iter()
                .filter_map(|zone| zone.file)
                .for_each(|file| search.add(file));
        }
    }
    search.finish()
}

/// Returns the directories of a BIND configuration, of its includes, and of its zone files.
pub(super) fn named_conf_directories(path: &Path) -> ReferredDirectories {
    let found = bind::read(path, &mut OnDisk);
    let directories = |files: &mut dyn Iterator<Item = PathBuf>| {
        let parents: BTreeSet<_> = files
            .filter_map(|file| Some(file.parent()?.to_path_buf()))
            .collect();
        parents
            .into_iter()
            .filter_map(|parent| parent.canonicalize().ok())
            .collect()
    };
    ReferredDirectories {
        included: directories(&mut found.files.clone().into_iter()),
        linked: directories(&mut found.take().zones.into_iter().filter_map(|zone| zone.file)),
    }
}

/// A search through many files.
#[derive(Default)]
struct Search {
    waiting: Vec<PathBuf>,
    found: ReferredDirectories,
    /// Included files that were searched.
    seen: Mutex<HashSet<PathBuf>>,
}

impl Search {
    /// Adds the zone files below a directory, as a load finds them.
    fn walk(&mut self, directory: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(directory) else {
            return;
        };
        for entry in entries.flatten() {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let path = entry.path();
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if is_directory && depth > 1 {
                self.walk(&path, depth - 1);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "zone")
            {
                self.add(path);
            }
        }
    }

    fn add(&mut self, path: PathBuf) {
        self.waiting.push(path);
        if self.waiting.len() >= BATCH {
            self.search();
        }
    }

    fn finish(mut self) -> ReferredDirectories {
        self.search();
        self.found
    }

    /// Searches the waiting files with all cores.
    fn search(&mut self) {
        let files = std::mem::take(&mut self.waiting);
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let seen = &self.seen;
        let found = thread::scope(|scope| {
            let share = files.len().div_ceil(threads).max(1);
            let shares = files.chunks(share).map(|share| {
                scope.spawn(move || {
                    let mut found = ReferredDirectories::default();
                    let mut block = vec![0; BLOCK];
                    for file in share {
                        search_file(file, (&mut found, seen), &mut block, INCLUDE_DEPTH_MAX);
                    }
                    found
                })
            });
            let shares: Vec<_> = shares.collect();
            shares
                .into_iter()
                .filter_map(|one| one.join().ok())
                .collect::<Vec<_>>()
        });
        for one in found {
            self.found.included.extend(one.included);
            self.found.linked.extend(one.linked);
        }
    }
}

/// Adds what a file refers to, and the files it includes.
fn search_file(
    path: &Path,
    (found, seen): (&mut ReferredDirectories, &Mutex<HashSet<PathBuf>>),
    block: &mut [u8],
    depth: usize,
) {
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    if is_link
        && let Ok(target) = path.canonicalize()
        && let Some(parent) = target.parent()
    {
        found.linked.insert(parent.to_path_buf());
    }
    for include in includes(path, block) {
        let Ok(real) = include.canonicalize() else {
            continue;
        };
        if let Some(parent) = real.parent() {
            found.included.insert(parent.to_path_buf());
        }
        if depth > 1 && seen.lock().insert(real.clone()) {
            search_file(&real, (found, seen), block, depth - 1);
        }
    }
}

fn includes(path: &Path, block: &mut [u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // Opening a FIFO would wait for its writer.
    let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
    let Some(mut file) = is_file.then(|| File::open(path).ok()).flatten() else {
        return found;
    };
    let base = path.parent().unwrap_or(Path::new(""));
    let mut kept = 0;
    while let Ok(read @ 1..) = file.read(&mut block[kept..]) {
        let filled = kept + read;
        let text = &block[..filled];
        for at in memchr::memchr_iter(b'$', text) {
            let start = text[at..].get(..DIRECTIVE.len());
            if start.is_some_and(|start| start.eq_ignore_ascii_case(DIRECTIVE)) {
                found.extend(argument(&text[at + DIRECTIVE.len()..]).map(|file| base.join(file)));
            }
        }
        // A directive may continue in the next block. Finding one twice does no harm.
        kept = filled.min(DIRECTIVE_MAX);
        block.copy_within(filled - kept..filled, 0);
    }
    found
}

/// Returns the first word after the directive; escapes other than of a single character are not resolved.
fn argument(text: &[u8]) -> Option<PathBuf> {
    let text = text
        .strip_prefix(b" ")
        .or_else(|| text.strip_prefix(b"\t"))?;
    let text = text.trim_ascii_start();
    let (text, quoted) = match text.strip_prefix(b"\"") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let mut word = Vec::new();
    let mut rest = text.iter();
    while let Some(&octet) = rest.next() {
        match octet {
            b'\\' => word.push(*rest.next()?),
            b'"' if quoted => break,
            b' ' | b'\t' | b';' if !quoted => break,
            b'\n' | b'\r' | 0 => break,
            octet => word.push(octet),
        }
    }
    (!word.is_empty()).then(|| OsString::from_vec(word).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_are_found_in_any_case_and_across_blocks() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.zone");
        let filler = "; a comment\n".repeat(BLOCK / 12);
        let text = format!(
            "$TTL 300\n$INCLUDE one.inc\n{filler}$include \"two words.inc\" example.\n{filler}\
             $Include\tthree.inc;x\n$INCLUDES no\n$INCLUDE"
        );
        fs::write(&path, text).unwrap();
        let mut block = vec![0; BLOCK];
        let found: BTreeSet<_> = includes(&path, &mut block).into_iter().collect();
        let names = ["one.inc", "two words.inc", "three.inc"];
        let expected: BTreeSet<_> = names
            .iter()
            .map(|name| directory.path().join(name))
            .collect();
        assert_eq!(found, expected);
    }
}
