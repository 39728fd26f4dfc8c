//! Zone file changes by commands while no server runs.

use std::{path::PathBuf, sync::Arc};

use nameward_control::operations::{Outcome, ZoneFiles};
use nameward_files::{FileSource, sources_of};
use nameward_maintain::{
    Commits,
    follow::{FileFollower, ServedFile, StoreVersion},
    policy::PolicyTable,
};
use nameward_wire::{Name, NameBuf};
use nameward_zone::Zone;

use crate::config::location;

pub struct StoredFiles {
    pub sources: Vec<FileSource>,
    /// Commits contents to the zone table.
    pub commits: Arc<Commits>,
    pub policies: Arc<PolicyTable>,
    /// The configuration file.
    pub config: PathBuf,
}

impl StoredFiles {
    fn follower(&self, zone: &NameBuf) -> FileFollower {
        let commits = Arc::clone(&self.commits);
        let mut files = FileFollower::unwatched(commits).judged_by(&self.policies);
        let sources = sources_of(&self.sources, &[*zone]);
        if !sources.is_empty() {
            files.read_some(&sources);
        }
        files
    }
}

impl ZoneFiles for StoredFiles {
    fn create(&self, zone: &NameBuf, backend: Option<u16>, text: Vec<u8>) -> Outcome<ServedFile> {
        let created = self
            .follower(zone)
            .create_file(&self.sources, (zone, backend), &text);
        Ok(created?)
    }

    fn find(&self, zone: &NameBuf) -> Outcome<Option<ServedFile>> {
        Ok(self.follower(zone).find_file(&self.sources, zone))
    }

    fn remove(&self, zone: &NameBuf, path: PathBuf, rank: u16) -> Outcome<Option<Arc<Zone>>> {
        Ok(self.follower(zone).remove_file(zone, &path, rank)?)
    }

    fn set_aside(&self, zone: &NameBuf, file: ServedFile, store: StoreVersion) -> Outcome<PathBuf> {
        let mut files = self.follower(zone);
        Ok(files.set_file_aside(&self.sources, (zone, &file), store)?)
    }

    fn declared_at(&self, zone: Name<'_>) -> Option<String> {
        location::zone_declaration(&self.config, zone)
    }
}
