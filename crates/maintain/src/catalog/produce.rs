//! Produced catalogs: built from the zones configured as members, committed, and withdrawn.

use super::follow::{CatalogFollower, ProducedMembers};
use super::make::make_catalog;
use crate::commit::VersionSource;
use crate::leases::LeaseTask;
use crate::policy::{CONFIGURED_RANK, PolicySource};
use crate::read_contents;
use nameward_base::text::counted;
use nameward_base::time::now_seconds_32;
use nameward_state::{JournalOrigin, StateChange, StateError, StateStore, ZoneStorage};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{Serial, TableChange, Zone};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long another server has to decide about the next serial of a catalog.
const DECISION_TIME: Duration = Duration::from_secs(15);

impl CatalogFollower {
    /// Builds a produced catalog and commits it, unless it is unchanged; returns whether it is
    /// published.
    pub(super) fn produce(&mut self, catalog: &[u8], members: &ProducedMembers) -> bool {
        let name = Name::from_valid_wire(catalog);
        let commits = Arc::clone(&self.commits);
        let Some(store) = commits.store() else {
            tracing::error!(
                "catalog {name}: not generated: its serial is kept in the state store; set state_directory"
            );
            return true;
        };
        let policies = self.policies.load();
        let declared_by = policies.get(name).declared_by;
        let found = self.storage_of(&policies, catalog);
        let (rank, storage) = found.unzip();
        if storage.is_none() && matches!(declared_by, PolicySource::Backend(_)) {
            // Its database is not known yet.
            return false;
        }
        let before = match self.version_before(name, store) {
            Ok(before) => before,
            Err(error) => {
                tracing::error!("catalog {name}: not generated: {error}");
                return false;
            }
        };
        let make = |serial| {
            let members = members.iter();
            let members =
                members.map(|(zone, properties)| (Name::from_valid_wire(zone), properties));
            make_catalog(name, members, serial)
        };
        let is_same = |before: &Arc<Zone>| {
            let same = make(before.serial());
            same.is_some_and(|same| same.difference_from(before).is_empty())
        };
        if before.as_ref().is_some_and(is_same) {
            self.awaited.remove(catalog);
            return true;
        }
        // Another server on the database may have produced it before.
        let stored = storage.and_then(|storage| storage.serial(&name.into()));
        let serials = (before.map(|zone| zone.serial()), stored);
        let storage = storage.map(Arc::clone);
        let Some(serial) = self.decide_serial((catalog, rank), serials) else {
            return false;
        };
        let Some(zone) = make(serial) else {
            tracing::error!("catalog {name}: not generated: its name is too long");
            return true;
        };
        let (storage_kind, origin) = (ZoneStorage::Store, JournalOrigin::Change);
        let source = VersionSource::new(name.into(), CONFIGURED_RANK, storage_kind, origin);
        let (owned, count) = (NameBuf::from(name), counted(members.len(), "member"));
        let storage = storage.filter(|_| Some(serial) != stored);
        let (handle, key) = (self.handle.clone(), Box::<[u8]>::from(catalog));
        self.failed.remove(catalog);
        self.committing.insert(catalog.into());
        commits.version(source, zone, None, move |result| {
            let is_made = result.is_ok();
            match result {
                Ok(_) => {
                    tracing::info!("catalog {owned}: generated serial {serial}, {count}");
                    if let Some(storage) = storage {
                        storage.set_serial(owned, serial);
                    }
                }
                Err(error) => tracing::error!("catalog {owned}: not generated: {error}"),
            }
            handle.end_commit(key, is_made);
        });
        true
    }

    /// Returns the serial of the next version; `None` if another server has not decided yet. `before` is the serial here, `stored`
    /// the one in the database.
    fn decide_serial(
        &mut self,
        (catalog, rank): (&[u8], Option<u16>),
        (before, stored): (Option<Serial>, Option<Serial>),
    ) -> Option<Serial> {
        let is_ours = rank.is_none_or(|rank| self.leases.holds(rank, LeaseTask::Catalogs));
        let decided = stored.filter(|stored| before.is_none_or(|before| stored.is_after(before)));
        let serial = match decided.filter(|_| !is_ours) {
            Some(decided) => decided,
            // The server that decides is given some time, after which it may have seen other members than this one.
            None if !is_ours && !self.is_overdue(catalog) => return None,
            None => {
                let last = [before, stored].into_iter().flatten().reduce(later);
                next_serial(last, now_seconds_32())
            }
        };
        self.awaited.remove(catalog);
        Some(serial)
    }

    /// Notes that another server decides about the next serial of a catalog; returns whether it has had its time.
    fn is_overdue(&mut self, catalog: &[u8]) -> bool {
        let since = self.awaited.entry(catalog.into());
        since.or_insert_with(Instant::now).elapsed() >= DECISION_TIME
    }

    /// Returns the last version of a produced catalog: in the table, or from the state store, which puts the catalog in
    /// the table.
    fn version_before(
        &self,
        name: Name<'_>,
        store: &StateStore,
    ) -> Result<Option<Arc<Zone>>, StateError> {
        let table = self.commits.table();
        let offered = table.version(name, CONFIGURED_RANK);
        if let Some(zone) = offered.filter(|zone| !zone.is_stub()) {
            return Ok(Some(zone));
        }
        let kept = read_contents(store, &name.into())?;
        let is_kept = kept.is_some();
        let mut zone = kept.unwrap_or_else(|| Zone::not_ready(name));
        zone.set_rank(CONFIGURED_RANK);
        let zone = Arc::new(zone);
        table.publish(&[TableChange::Offer(Arc::clone(&zone))]);
        Ok(is_kept.then_some(zone))
    }

    /// Withdraws a catalog that is no longer produced here.
    pub(super) fn end_production(&self, catalog: &[u8]) {
        let name = Name::from_valid_wire(catalog);
        let commits = &self.commits;
        let withdrawn = TableChange::Withdraw(catalog.into(), CONFIGURED_RANK);
        commits.table().publish(&[withdrawn]);
        let zone = NameBuf::from(name);
        commits.write_state(zone, vec![StateChange::RemoveZone { zone }]);
        tracing::info!("catalog {name}: no longer generated");
    }
}

fn later(one: Serial, other: Serial) -> Serial {
    if other.is_after(one) { other } else { one }
}

/// Returns the serial after a change: the time, or one more if that would not be forward (RFC 1982).
fn next_serial(before: Option<Serial>, now: u32) -> Serial {
    match before {
        Some(before) if !Serial(now).is_after(before) => Serial(before.0.wrapping_add(1)),
        _ => Serial(now),
    }
}
