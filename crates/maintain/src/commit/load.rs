//! Versions that a source has read, and zones that a source no longer has.

use super::Commits;
use super::conflicts::{ConflictSide, FileConflicts};
use super::outcome::{CommitError, CommittedVersion, VersionSource};
use crate::table::lower_case;
use nameward_state::{JournalOrigin, StateChange, StateError, Written, ZoneStorage};
use nameward_wire::{Name, NameBuf};
use nameward_zone::change::Difference;
use nameward_zone::{Contest, TableChange, Zone};
use std::sync::Arc;

impl Commits {
    /// Applies changes that a source of zones has found. A zone that replaces an older version is committed, so that
    /// their difference is journalled; without a state store the difference is not needed. Returns the zones that
    /// another source has too.
    pub fn load(
        self: &Arc<Self>,
        mut changes: Vec<TableChange>,
        storage: ZoneStorage,
    ) -> Vec<Contest> {
        let table = self.table.load();
        let is_newer = |change: &TableChange| match change {
            TableChange::Offer(zone) if !zone.is_stub() => table
                .offered_by(zone.id(), zone.rank())
                .is_some_and(|older| !older.stored().is_stub()),
            _ => false,
        };
        if self.durable.is_none() {
            let newer = changes.iter().filter(|change| is_newer(change));
            let newer: Vec<_> = newer.filter_map(offered).map(Arc::clone).collect();
            let contests = self.table.publish(&changes);
            for zone in newer {
                let older = table.offered_by(zone.id(), zone.rank());
                if older.is_some_and(|older| zone.serial().is_after(older.stored().serial())) {
                    let difference = Arc::new(Difference::default());
                    self.report(&CommittedVersion {
                        zone,
                        difference,
                        is_first: false,
                        origin: JournalOrigin::Storage,
                        author: None,
                    });
                }
            }
            return contests;
        }
        let newer: Vec<_> = changes.extract_if(.., |change| is_newer(change)).collect();
        let contests = self.table.publish(&changes);
        self.forget_sources(&changes);
        self.forget_withdrawn(&changes, storage);
        for change in newer {
            let TableChange::Offer(zone) = change else {
                continue;
            };
            let name = NameBuf::from(zone.id());
            let origin = JournalOrigin::Storage;
            let source = VersionSource::new(name, zone.rank(), storage, origin);
            let commits = Arc::clone(self);
            let done = move |result: Result<CommittedVersion, CommitError>| match result {
                Ok(_) => commits.conflicts.forget(name.as_name()),
                Err(error) => {
                    tracing::error!("zone {name}: new version rejected: {error}");
                    commits.note_clash(name.as_name(), ConflictSide::Changes, &error);
                }
            };
            self.shared_version(source, zone, None, Box::new(done));
        }
        contests
    }

    /// Forgets the file versions of zones that their source no longer publishes: when it does again, the journal
    /// shows what its file lacks.
    fn forget_sources(&self, changes: &[TableChange]) {
        let left = changes.iter().filter_map(|change| match change {
            TableChange::Withdraw(name, rank) => Some((name.to_ascii_lowercase().into(), *rank)),
            TableChange::Move(zone, rank) => Some((lower_case(zone.id()), *rank)),
            TableChange::Offer(_) => None,
        });
        let mut zones = self.zones.lock();
        left.for_each(|key: (Box<[u8]>, u16)| {
            self.conflicts.forget(Name::from_valid_wire(&key.0));
            zones.remove(&key);
        });
    }

    /// Notes a zone whose file and changes contradict each other, if that is the error.
    pub(crate) fn note_clash(&self, zone: Name<'_>, side: ConflictSide, error: &CommitError) {
        if let CommitError::Clash { owner, rtype } = error {
            let text = || format!("both change {owner} {rtype}");
            self.conflicts.note(zone, side, text);
        }
    }

    /// Forgets that the file and the changes of a zone contradict each other.
    pub(crate) fn forget_conflict(&self, zone: Name<'_>) {
        self.conflicts.forget(zone);
    }

    /// Lists the zones whose files contradict changes made through this server.
    pub fn conflicts(&self) -> FileConflicts {
        self.conflicts.list()
    }

    /// Withdraws a zone that an operator deletes, and returns the last served version. A commit that is not published
    /// yet fails.
    pub(crate) fn withdraw(&self, zone: Name<'_>, rank: u16) -> Option<Arc<Zone>> {
        let last = self.table.withdraw(zone, rank);
        // A zone created later under this name starts from nothing.
        self.forget_sources(&[TableChange::Withdraw(zone.as_wire().into(), rank)]);
        last
    }

    /// Deletes the state of zones that their source has withdrawn, if no other source has them.
    fn forget_withdrawn(&self, changes: &[TableChange], storage: ZoneStorage) {
        let table = self.table.load();
        let withdrawn = changes.iter().filter_map(|change| match change {
            TableChange::Withdraw(name, _) => Name::from_wire(name).ok(),
            _ => None,
        });
        let gone = withdrawn.filter(|name| table.exact(*name).is_none());
        self.forget_vanished(gone.map(NameBuf::from), storage);
    }

    /// Deletes the state of zones that their storage no longer has. Acknowledged changes that are not in the storage
    /// are never deleted.
    pub(crate) fn forget_vanished(
        &self,
        zones: impl Iterator<Item = NameBuf>,
        storage: ZoneStorage,
    ) {
        let remove = |zone| StateChange::RemoveVanished { zone, storage };
        let changes: Vec<_> = zones.map(remove).collect();
        let (false, Some(durable)) = (changes.is_empty(), &self.durable) else {
            return;
        };
        let done = |result: Result<Written, StateError>| match result {
            Ok(written) => {
                for zone in &written.removed {
                    tracing::info!("zone {zone}: removed, journal deleted");
                }
                for zone in &written.unsettled {
                    tracing::warn!(
                        "zone {zone}: removed, journal kept: it has changes that were not written to the zone file"
                    );
                }
            }
            Err(error) => tracing::error!("cannot delete the journals of removed zones: {error}"),
        };
        durable.submit(changes, Box::new(done));
    }
}

fn offered(change: &TableChange) -> Option<&Arc<Zone>> {
    match change {
        TableChange::Offer(zone) => Some(zone),
        _ => None,
    }
}
