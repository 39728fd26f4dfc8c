//! Deletion and restoration of zones: `zone delete` stores a copy in the state store, `zone undelete` restores it.

use nameward_base::sync::Mutex;
use nameward_base::time::now_seconds;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nameward_maintain::follow::place_of_rank;
use nameward_maintain::policy::UNCONFIGURED_RANK;
use nameward_sql::write::{CopyOrder, WriteError, ZoneCopy};
use nameward_state::{CopyBounds, DeletedCopy, DeletedZone, StateChange, StateError, StateStore};
use nameward_wire::NameBuf;
use nameward_zone::Serial;
use serde::{Deserialize, Serialize};

use super::list::shown_backend;
use super::local_copy::{self, state_store_error, zone_changed_error};
use crate::operations::{
    Database, ItemSink, OperationError, OperationResult, Operations, Outcome, list_all, or_dash,
    table_row, zone_name,
};
use nameward_base::text::utc_text;

/// A deleted zone that can be restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedDeletedZone {
    /// The name, with its final dot.
    pub name: String,
    /// The kind.
    pub kind: String,
    /// The number of its former backend.
    pub backend: u32,
    /// Its serial; none if it had no SOA.
    pub serial: Option<u32>,
    /// Number of its records.
    pub records: u64,
    /// Size of the copy in octets.
    pub octets: u64,
    /// When it was deleted, in seconds since 1970.
    pub deleted: u64,
    /// Until when it can be restored, in seconds since 1970.
    pub kept_until: u64,
}

table_row! { ListedDeletedZone as item:
    "ZONE" = item.name,
    "KIND" = item.kind,
    "BACKEND" = item.backend,
    "SERIAL" = or_dash(item.serial),
    "RECORDS" = item.records,
    "DELETED" = utc_text(item.deleted),
    "KEPT UNTIL" = utc_text(item.kept_until),
}

/// Stores the copy of a zone within the transaction that deletes it.
struct CopyRecorder<'k> {
    store: &'k StateStore,
    bounds: CopyBounds,
    backend: u32,
    /// The number of the stored copy: a transaction may be retried.
    stored_copy: Mutex<Option<i64>>,
}

impl CopyRecorder<'_> {
    fn store(&self, copy: ZoneCopy) -> Result<(), StateError> {
        let mut changes: Vec<StateChange> = self.removal().into_iter().collect();
        changes.push(StateChange::KeepCopy {
            zone: DeletedZone {
                name: copy.name,
                kind: copy.kind.word().into(),
                backend: self.backend,
                serial: copy.serial,
                records: copy.records,
                time: now_seconds(),
            },
            rows: Arc::new(copy.octets),
            bounds: self.bounds,
        });
        let written = self.store.write(changes)?;
        *self.stored_copy.lock() = written.copy;
        Ok(())
    }

    /// Deletes the copy of a zone that was not deleted.
    fn discard(&self) {
        if let Some(removal) = self.removal()
            && let Err(error) = self.store.write(vec![removal])
        {
            tracing::warn!("cannot remove the copy of a zone that was not deleted: {error}");
        }
    }

    fn removal(&self) -> Option<StateChange> {
        let mut stored_copy = self.stored_copy.lock();
        stored_copy
            .take()
            .map(|number| StateChange::RemoveCopy { number })
    }
}

impl Operations {
    /// Deletes a zone with its records, comments, metadata and keys, and stores a copy of them by default.
    pub fn delete_zone(&self, name: &str, no_copy: bool, serial: Option<u32>) -> Outcome {
        let name = zone_name(name)?;
        if !self.has_row(&name)? {
            return self.delete_local(&name, no_copy, serial);
        }
        let (database, row) = self.locate(&name)?;
        let keeping = match (no_copy, self.commits.store()) {
            (false, Some(store)) if self.copies.now().octets_max() > 0 => Some(CopyRecorder {
                store,
                bounds: self.copies.now(),
                backend: database.number(),
                stored_copy: Mutex::default(),
            }),
            _ => None,
        };
        // The copy is written within the transaction, so its serial is that of the deleted zone.
        let is_outdated = AtomicBool::new(false);
        let keep = |copy: ZoneCopy| {
            if serial.is_some_and(|wanted| copy.serial != Some(Serial(wanted))) {
                is_outdated.store(true, Ordering::Relaxed);
                return Err(StateError::Closed);
            }
            keeping
                .as_ref()
                .map_or(Ok(()), |keeping| keeping.store(copy))
        };
        let order = (keeping.is_some() || serial.is_some()).then_some(CopyOrder {
            octets_max: if keeping.is_some() {
                self.copies.now().octets_max()
            } else {
                u64::MAX
            },
            keep: &keep,
        });
        let committed = self
            .runtime
            .block_on(database.backend.delete_zone(row.id, order));
        // If it is unknown whether the zone was deleted, the copy may be the only one.
        if let (Some(keeping), Err(error)) = (&keeping, &committed)
            && !matches!(error, WriteError::Unknown(_))
        {
            keeping.discard();
        }
        let committed = committed.map_err(|error| match error {
            WriteError::NoCopy(_) if is_outdated.load(Ordering::Relaxed) => zone_changed_error(&name),
            WriteError::NoCopy(reason) => OperationError::refused(format!(
                "zone {name} was not deleted: cannot store a copy of it: {reason}; use `--no-copy` to delete it \
                 without one"
            )),
            error => database.error(&error),
        })?;
        let mut warnings = self.publish(database, &committed)?;
        let kept_until = keeping.map(|_| now_seconds().saturating_add(self.copies.now().seconds));
        if kept_until.is_none() && !no_copy {
            warnings.push(self.why_no_copy().into());
        }
        let (number, engine) = (database.number(), database.address().engine());
        tracing::info!("deleted zone {name} from backend {number} ({engine})");
        let changed = database.changed(&committed, warnings);
        Ok(OperationResult::ZoneDeleted {
            changed,
            kept_until,
        })
    }

    pub(crate) fn why_no_copy(&self) -> &'static str {
        match self.commits.store() {
            None => "no copy is stored for `zone undelete`: set server.state_directory",
            Some(_) => {
                "no copy is stored for `zone undelete`: disabled by the journal.deleted_* settings"
            }
        }
    }

    /// Returns the store of the copies, and the time of the oldest copies that are retained.
    fn copy_store(&self) -> Outcome<(&StateStore, u64)> {
        let store = self.commits.store().ok_or_else(|| {
            OperationError::refused(
                "no copies of deleted zones are stored: set server.state_directory",
            )
        })?;
        Ok((
            store,
            now_seconds().saturating_sub(self.copies.now().seconds),
        ))
    }

    /// Lists the deleted zones that can be restored, newest first.
    pub fn list_deleted(&self, items: ItemSink<'_>) -> Outcome {
        let (store, since) = self.copy_store()?;
        let copies = store.deleted_zones(since).map_err(state_store_error)?;
        let listed = copies.into_iter().map(|copy| {
            let DeletedCopy { zone, octets, .. } = copy;
            ListedDeletedZone {
                name: zone.name.to_string(),
                kind: zone.kind,
                backend: shown_backend(zone.backend),
                serial: zone.serial.map(|serial| serial.0),
                records: zone.records,
                octets,
                deleted: zone.time,
                kept_until: zone.time.saturating_add(self.copies.now().seconds),
            }
        });
        list_all(listed, items)
    }

    /// Restores a deleted zone as it was, in its original database or the given one.
    pub fn undelete_zone(&self, name: &str, backend: Option<u32>) -> Outcome {
        let name = zone_name(name)?;
        let (store, since) = self.copy_store()?;
        if let Some(rank) = (self.rank_of)(name.as_name()) {
            let location = place_of_rank(rank);
            return Err(OperationError::conflict(format!(
                "zone {name} already exists in {location}: not restored"
            )));
        }
        let found = store
            .deleted_zone(&name, since)
            .map_err(state_store_error)?;
        let (copy, rows) = found.ok_or_else(|| {
            OperationError::not_found(format!(
                "there is no copy of zone {name}; see `nameward zone list --deleted`"
            ))
        })?;
        let changed = if local_copy::is_local(&rows) {
            let was_file = copy.zone.backend != u32::from(UNCONFIGURED_RANK);
            let before = was_file.then_some(copy.zone.backend);
            self.restore_local(&name, &rows, backend.or(before))?
        } else {
            let database = self.database(Some(backend.unwrap_or(copy.zone.backend)))?;
            self.restore(database, &name, &rows)?
        };
        // The zone is restored: nothing is lost, even if the copy cannot be deleted.
        let number = copy.number;
        if let Err(error) = store.write(vec![StateChange::RemoveCopy { number }]) {
            tracing::warn!("cannot remove the copy of zone {name}: {error}");
        }
        Ok(changed)
    }

    fn restore(&self, database: &Database, name: &NameBuf, rows: &[u8]) -> Outcome {
        let committed = self.wait(database, database.backend.restore_zone(name, rows))?;
        let warnings = self.publish(database, &committed)?;
        let (number, engine) = (database.number(), database.address().engine());
        tracing::info!("restored zone {name} in backend {number} ({engine})");
        Ok(OperationResult::ZoneUndeleted(
            database.changed(&committed, warnings),
        ))
    }
}
