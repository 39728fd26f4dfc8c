//! Owns the way of zones from files into the table: reconciled with their journals, then committed.

use super::super::directory_sizes::DirectorySizes;
use super::super::file_copies::last_good;
use crate::commit::Commits;
use crate::policy::PolicyTable;
use crate::reconcile::Reconciler;
use nameward_files::ZoneTarget;
use nameward_state::ZoneStorage;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{
    AccessRules, AccessSource, Contest, TableChange, ViewRule, ViewSource, Zone, ZoneTable,
};
use std::path::Path;
use std::sync::Arc;

/// Publishes zones that were read from files.
pub(super) struct FileTarget {
    pub(super) commits: Arc<Commits>,
    pub(super) reconciler: Reconciler,
    pub(super) policies: Arc<PolicyTable>,
    /// Set where copies of zone files are kept.
    pub(super) directories: Option<DirectorySizes>,
}

impl ZoneTarget for FileTarget {
    fn table(&self) -> Arc<ZoneTable> {
        self.commits.table().load()
    }

    fn publish(&self, mut changes: Vec<TableChange>) -> Vec<Contest> {
        self.reconciler.bring_forward(&mut changes);
        self.commits.load(changes, ZoneStorage::File)
    }

    fn set_access(&self, rules: AccessRules) {
        let table = self.commits.table();
        table.set_access(AccessSource::Imported, rules);
    }

    fn set_views(&self, rules: Vec<ViewRule>) {
        let table = self.commits.table();
        table.set_views(ViewSource::Imported, rules);
    }

    fn objection(&self, zone: &Zone) -> Option<String> {
        let policies = self.policies.load();
        let digest = policies.get(zone.id()).zonemd.objection(zone);
        digest.or_else(|| self.commits.memory_objection(zone))
    }

    fn file_version(&self, zone: Name<'_>, rank: u16) -> Option<Arc<Zone>> {
        self.commits.stored_version(zone, rank)
    }

    fn zones_before(&self, directory: &Path) -> usize {
        let store = self.directories.as_ref().and(self.commits.store());
        store.map_or(0, |store| DirectorySizes::read(store, directory))
    }

    fn zones_without_source(&self) -> Vec<NameBuf> {
        let table = self.commits.table().load();
        let copies = self.commits.store().map(|store| store.file_copies());
        match copies {
            None => Vec::new(),
            Some(Ok(copies)) => {
                let names = copies
                    .iter()
                    .filter_map(|(name, _)| Name::from_wire(name).ok());
                let names = names.filter(|name| table.exact(*name).is_none());
                names.map(NameBuf::from).collect()
            }
            Some(Err(error)) => {
                tracing::error!("copies of zone files cannot be listed: {error}");
                Vec::new()
            }
        }
    }

    fn last_good(&self, name: Name<'_>) -> Option<Zone> {
        let good = last_good(self.commits.store()?, name);
        good.unwrap_or_else(|error| {
            tracing::error!("zone {name}: cannot read the copy of its file: {error}");
            None
        })
    }
}
