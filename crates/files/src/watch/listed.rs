//! Watches long lists of files: one lock for all files in one directory, and four octets for each.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use nameward_base::file::opened;

use super::{Interest, WatchedFiles, Watcher};
use crate::list::{FileList, ListedFile};

/// Below this number of files in a directory each is checked for being a link; above it the directory is
/// listed.
const FEW: usize = 32;
/// Maximum number of directory entries per file of interest for which listing is worthwhile.
const OTHERS: usize = 4;

impl Watcher {
    /// Watches the files of a list, and their link targets.
    pub(crate) fn listed(&self, list: &FileList) {
        let mut zones = list.iter().peekable();
        let mut group = Vec::new();
        while let Some(first) = zones.next() {
            group.clear();
            group.push(first);
            while let Some(next) = zones.next_if(|next| next.number == first.number) {
                group.push(next);
            }
            self.listed_in(first.directory, &group);
        }
    }

    /// Watches files in one directory.
    fn listed_in(&self, directory: &Path, files: &[ListedFile<'_>]) {
        if files.len() >= FEW {
            // Before it is listed, so that no new link is missed.
            self.directory(directory, WatchedFiles::Named);
            if let Ok(Some(links)) = links_in(directory, files.len() * OTHERS) {
                let is_link = |listed: &&ListedFile<'_>| links.contains(listed.file);
                self.plain_files(directory, files.iter().map(|listed| listed.file));
                return self.each_of(files.iter().filter(is_link));
            }
        }
        self.each_of(files.iter());
    }

    fn each_of<'f>(&self, files: impl Iterator<Item = &'f ListedFile<'f>>) {
        let mut path = PathBuf::new();
        for listed in files {
            listed.path_into(&mut path);
            self.file(&path, Interest::Zone);
        }
    }

    /// Adds files of a directory that is already watched.
    fn plain_files<'f>(&self, directory: &Path, files: impl Iterator<Item = &'f OsStr>) {
        let mut hashes: Vec<u32> = files
            .map(|file| self.0.name_hash(file.as_bytes()))
            .collect();
        let parent = self.0.directory_key(directory);
        let mut state = self.0.state.lock();
        let round = state.round;
        state.parents.insert(parent, round);
        let mut known = state.directories.values_mut().flatten();
        if let Some(known) = known.find(|known| known.path == directory) {
            // Files of one directory may appear at several positions in a list.
            hashes.append(&mut known.listed);
            hashes.sort_unstable();
            hashes.dedup();
            hashes.shrink_to_fit();
            known.listed = hashes;
        }
    }
}

/// Returns the names of all links in a directory, unless it has more than `most` entries.
fn links_in(directory: &Path, most: usize) -> io::Result<Option<HashSet<OsString>>> {
    let mut links = HashSet::new();
    for (count, entry) in fs::read_dir(opened(directory))?.enumerate() {
        if count >= most {
            return Ok(None);
        }
        let entry = entry?;
        if entry.file_type()?.is_symlink() {
            links.insert(entry.file_name());
        }
    }
    Ok(Some(links))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_among_many_files_are_found_by_listing_their_directory() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..5 {
            fs::write(dir.path().join(n.to_string()), "").unwrap();
        }
        std::os::unix::fs::symlink("0", dir.path().join("link")).unwrap();
        let found = links_in(dir.path(), 6).unwrap().unwrap();
        assert_eq!(found, HashSet::from(["link".into()]));
        assert_eq!(links_in(dir.path(), 5).unwrap(), None);
        links_in(&dir.path().join("missing"), 5).unwrap_err();
    }
}
