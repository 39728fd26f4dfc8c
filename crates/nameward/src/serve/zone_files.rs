//! Zone file changes by commands to the running server, performed on the maintenance thread.

use std::{path::PathBuf, sync::Arc};

use nameward_control::operations::{Outcome, ZoneFiles};
use nameward_maintain::follow::{ServedFile, StoreVersion};
use nameward_wire::{Name, NameBuf};
use nameward_zone::Zone;

use super::maintenance::Maintenance;
use crate::config::location;

/// The zone files of the running server.
pub struct FollowedFiles {
    /// The thread that follows them.
    pub maintenance: Maintenance,
    /// The configuration file.
    pub config: Option<PathBuf>,
}

impl ZoneFiles for FollowedFiles {
    fn create(&self, zone: &NameBuf, backend: Option<u16>, text: Vec<u8>) -> Outcome<ServedFile> {
        let zone = *zone;
        let created = self
            .maintenance
            .on_files(move |files, sources| files.create_file(sources, (&zone, backend), &text))?;
        Ok(created?)
    }

    fn find(&self, zone: &NameBuf) -> Outcome<Option<ServedFile>> {
        let zone = *zone;
        self.maintenance
            .on_files(move |files, sources| files.find_file(sources, &zone))
    }

    fn remove(&self, zone: &NameBuf, path: PathBuf, rank: u16) -> Outcome<Option<Arc<Zone>>> {
        let zone = *zone;
        let removed = self
            .maintenance
            .on_files(move |files, _| files.remove_file(&zone, &path, rank))?;
        Ok(removed?)
    }

    fn set_aside(&self, zone: &NameBuf, file: ServedFile, store: StoreVersion) -> Outcome<PathBuf> {
        let zone = *zone;
        let moved = self
            .maintenance
            .on_files(move |files, sources| files.set_file_aside(sources, (&zone, &file), store))?;
        Ok(moved?)
    }

    fn declared_at(&self, zone: Name<'_>) -> Option<String> {
        location::zone_declaration(self.config.as_deref()?, zone)
    }
}
