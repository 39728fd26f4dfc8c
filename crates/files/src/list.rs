//! Lists of zones with their files: a hundred thousand of them in one buffer, for as long as the server runs.
//!
//! An entry is the zone's name in wire format, the number of the directory, the length of the file's name, the file's
//! name. Consecutive files of one directory share its path. A list is only ever read from its beginning.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use nameward_wire::Name;

/// Zones with their files, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileList {
    bytes: Vec<u8>,
    /// Paths up to and including the last slash; empty for a file without one.
    directories: Vec<PathBuf>,
    len: usize,
}

/// One zone of a list, and its file.
#[derive(Debug, Clone, Copy)]
pub struct ListedFile<'l> {
    /// The name of the zone.
    pub zone: Name<'l>,
    /// The number of the directory within the list.
    pub(super) number: usize,
    /// The path up to and including the last slash.
    pub directory: &'l Path,
    /// The rest of the path.
    pub file: &'l OsStr,
}

impl ListedFile<'_> {
    /// Writes the whole path into a reusable buffer.
    pub fn path_into(&self, path: &mut PathBuf) {
        let whole = path.as_mut_os_string();
        whole.clear();
        whole.push(self.directory);
        whole.push(self.file);
    }

    /// Returns the whole path.
    pub fn path(&self) -> PathBuf {
        let mut path = PathBuf::new();
        self.path_into(&mut path);
        path
    }
}

impl FileList {
    /// Adds a zone at the end.
    pub fn push(&mut self, zone: Name<'_>, path: &Path) {
        let path = path.as_os_str().as_bytes();
        let split = path.iter().rposition(|&octet| octet == b'/');
        let (directory, file) = path.split_at(split.map_or(0, |at| at + 1));
        let directory = Path::new(OsStr::from_bytes(directory));
        if self.directories.last().map(|last| last.as_os_str()) != Some(directory.as_os_str()) {
            self.directories.push(directory.to_path_buf());
        }
        let number = self.directories.len() as u32 - 1;
        self.bytes.extend_from_slice(zone.as_wire());
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self.bytes
            .extend_from_slice(&(file.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(file);
        self.len += 1;
    }

    /// Frees the unused capacity.
    pub fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.directories.shrink_to_fit();
    }

    /// Returns the number of zones.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Checks whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the paths of the directories; some may appear twice.
    pub(super) fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// Returns all zones, in order.
    pub fn iter(&self) -> impl Iterator<Item = ListedFile<'_>> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let (zone, after) = split_name(rest)?;
            let (number, after) = split_number(after)?;
            let (length, after) = split_number(after)?;
            let (file, after) = after.split_at_checked(length)?;
            rest = after;
            Some(ListedFile {
                zone,
                number,
                directory: self.directories.get(number)?,
                file: OsStr::from_bytes(file),
            })
        })
    }

    /// Returns the zones stored in this file.
    pub fn zones_in<'l>(&'l self, path: &'l Path) -> impl Iterator<Item = Name<'l>> {
        // The end is compared first: a list may have a hundred thousand of them.
        let end = path.file_name().unwrap_or_default().as_bytes();
        let found = self.iter().filter(move |listed| {
            listed.file.as_bytes().ends_with(end) && listed.path().as_path() == path
        });
        found.map(|listed| listed.zone)
    }
}

impl<'z> FromIterator<(Name<'z>, &'z Path)> for FileList {
    fn from_iter<I: IntoIterator<Item = (Name<'z>, &'z Path)>>(zones: I) -> Self {
        let mut list = Self::default();
        zones
            .into_iter()
            .for_each(|(zone, path)| list.push(zone, path));
        list
    }
}

/// Splits off the leading name, which ends with the root label.
fn split_name(bytes: &[u8]) -> Option<(Name<'_>, &[u8])> {
    let mut at = 0;
    while let &label @ 1.. = bytes.get(at)? {
        at += 1 + usize::from(label);
    }
    let (name, rest) = bytes.split_at_checked(at + 1)?;
    Some((Name::from_valid_wire(name), rest))
}

fn split_number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*number) as usize, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_wire::NameBuf;

    fn list(zones: &[(&str, &str)]) -> FileList {
        let mut list = FileList::default();
        for (zone, path) in zones {
            let zone: NameBuf = zone.parse().unwrap();
            list.push(zone.as_name(), Path::new(path));
        }
        list
    }

    #[test]
    fn zones_come_back_in_order_with_the_paths_they_were_given() {
        let zones = [
            (".", "root.zone"),
            ("one.example.", "/srv/zones/one"),
            ("two.example.", "/srv/zones/two"),
            ("three.example.", "/srv//other/../three/"),
            ("four.example.", "/srv/zones/one"),
        ];
        let list = list(&zones);
        let back = list.iter().map(|listed| {
            let path = listed.path();
            (listed.zone.to_string(), path.to_str().unwrap().to_string())
        });
        let expected = zones.map(|(zone, path)| (zone.to_string(), path.to_string()));
        assert_eq!(back.collect::<Vec<_>>(), expected);
        assert_eq!((list.len(), list.directories().len()), (5, 4));
    }

    #[test]
    fn zones_of_a_file_are_found_however_its_path_is_written() {
        let list = list(&[
            ("one.example.", "/srv/zones/one"),
            ("two.example.", "/srv/zones//one"),
            ("other.example.", "/srv/one"),
        ]);
        let found = list.zones_in(Path::new("/srv/zones/one"));
        let found: Vec<String> = found.map(|zone| zone.to_string()).collect();
        assert_eq!(found, ["one.example.", "two.example."]);
    }
}
