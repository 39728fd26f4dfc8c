//! Conversion of a zone that is not in a database from a zone file to a secondary and back, without interrupting its
//! service.

use std::sync::Arc;

use nameward_maintain::follow::ServedFile;
use nameward_maintain::policy::{DeclaredSettings, UNCONFIGURED_RANK};
use nameward_maintain::read_contents;
use nameward_state::{StateChange, ZoneStorage};
use nameward_wire::NameBuf;
use nameward_zone::Zone;

use super::local::{declared, in_file, no_store};
use super::local_copy::{stored_contents, text_of};
use crate::operations::{OperationError, OperationResult, Operations, Outcome, ZoneChanged};

impl Operations {
    /// Converts a secondary to a zone file with its current contents.
    pub(crate) fn promote(&self, name: &NameBuf, settings: &DeclaredSettings) -> Outcome {
        let served = self
            .commits
            .table()
            .version(name.as_name(), UNCONFIGURED_RANK);
        let served = served.filter(|served| !served.is_stub());
        let stored = || {
            // An expired zone is not served.
            let store = self.commits.store()?;
            read_contents(store, name).ok().flatten().map(Arc::new)
        };
        let zone = served.or_else(stored).ok_or_else(|| {
            OperationError::refused(format!(
                "zone {name} has no data: it has not been transferred yet"
            ))
        })?;
        let file = self.files.create(name, None, text_of(&zone))?;
        if let Err(error) = self.declare(name, settings) {
            self.files.remove(name, file.path, file.rank)?;
            return Err(error);
        }
        let mut warnings = Vec::new();
        if zone.signing().is_signed() {
            warnings.push(format!(
                "zone {name} is presigned: its signatures are not renewed by this server and will expire"
            ));
        }
        tracing::info!(
            "zone {name}: changed from secondary to {}",
            settings.kind.word()
        );
        Ok(OperationResult::ZoneChanged(ZoneChanged {
            serial: Some(zone.serial().0),
            ..in_file(name, file.rank, warnings)
        }))
    }

    /// Converts a zone file to a secondary: the file is renamed, and its contents are served from the state store
    /// until the first transfer.
    pub(crate) fn demote(
        &self,
        name: &NameBuf,
        file: &ServedFile,
        settings: DeclaredSettings,
    ) -> Outcome {
        if self.commits.store().is_none() {
            return Err(no_store(name));
        }
        let mut warnings = self.key_warnings(&settings);
        let served = self.commits.table().version(name.as_name(), file.rank);
        let (zone, stored_policies) = (*name, Arc::clone(&self.stored_policies));
        let store = move |version: &Zone| {
            let restart = StateChange::RestartJournal {
                zone,
                storage: ZoneStorage::Store,
                serial: version.serial(),
            };
            let mut changes = vec![restart];
            changes.extend(stored_contents(&zone, version));
            stored_policies.set_zone_with(zone.as_name(), &settings, changes)
        };
        let copy = self
            .files
            .set_aside(name, file.clone(), Box::new(store))
            .map_err(|error| OperationError {
                message: format!("zone {name}: {}", error.message),
                ..error
            })?;
        let copy = copy.display();
        warnings.push(format!("zone {name}: the zone file is kept as {copy}"));
        tracing::info!("zone {name}: changed to secondary; the zone file is kept as {copy}");
        Ok(OperationResult::ZoneChanged(ZoneChanged {
            serial: served.map(|zone| zone.serial().0),
            ..declared(name, warnings)
        }))
    }
}
