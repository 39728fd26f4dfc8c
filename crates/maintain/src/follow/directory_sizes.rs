//! The number of zones in each directory of zone files, kept in the state store: a directory that is empty at the next start has
//! lost them, and has not always been empty.

use crate::commit::Commits;
use nameward_state::{StateChange, StateStore};
use nameward_wire::NameBuf;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The kind of the items.
const ITEMS: &str = "zone_directory";

/// The numbers as they were last written.
#[derive(Default)]
pub(in crate::follow) struct DirectorySizes(HashMap<PathBuf, usize>);

impl DirectorySizes {
    /// Returns how many zones a directory had; 0 if that is not known.
    pub(in crate::follow) fn read(store: &StateStore, directory: &Path) -> usize {
        let value = store.item(ITEMS, directory.as_os_str().as_bytes());
        let value = value.ok().flatten();
        let number = value.and_then(|value| <[u8; 8]>::try_from(&value.reveal()[..]).ok());
        number.map_or(0, |number| u64::from_be_bytes(number) as usize)
    }

    /// Notes how many zones a directory has.
    pub(in crate::follow) fn note(&mut self, commits: &Commits, directory: &Path, zones: usize) {
        if self.0.get(directory) == Some(&zones) {
            return;
        }
        self.0.insert(directory.into(), zones);
        let name = directory.as_os_str().as_bytes().into();
        let set = StateChange::set_item(ITEMS, name, (zones as u64).to_be_bytes().to_vec());
        commits.write_state(NameBuf::root(), vec![set]);
    }
}
