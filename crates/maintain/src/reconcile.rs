//! Compares the journal of a zone with its storage when its source publishes it for the first time: when the server
//! starts, when a missing file is back, and when the zone moves to another backend.
//!
//! A storage that has the serial of the journal and other records was edited without a new serial: the digest stored
//! with the journal shows it, and the journal restarts. Zones that no storage has any longer are forgotten.
//!
//! A zone file may lack the last changes of the journal (they were made through this server and are not written to
//! the file yet): these are applied to the contents of the file. If a storage has changed by itself while the server
//! was down, the journal restarts. Changes that the file lacks and that no longer fit it stay in the journal and are
//! logged: nothing that was acknowledged is dropped.

use crate::commit::{Commits, ConflictSide};
use crate::merge::{Merge, merge_journal};
use crate::table::lower_case;
use nameward_base::sync::Mutex;
use nameward_base::text::counted;
use nameward_state::{ContentsDigest, JournalEntry, JournaledZone, StateChange, ZoneStorage};
use nameward_wire::NameBuf;
use nameward_zone::{TableChange, Zone, ZoneTable};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// If more zones than this are published at one time, the list of all journals is read.
const FEW: usize = 100;

/// Zones with a journal in the state store, by name in lower case.
type JournaledByName = HashMap<Box<[u8]>, JournaledZone>;

/// Compares zones of one kind of storage with their journals.
pub(crate) struct Reconciler {
    commits: Arc<Commits>,
    storage: ZoneStorage,
    /// The journals as of the start, without those of zones published since.
    journaled: Mutex<JournaledByName>,
    /// Zones published for the first time are looked up in the state store: the journals read at the start are
    /// outdated.
    is_started: AtomicBool,
}

impl Reconciler {
    /// Reads which zones have a journal.
    pub(crate) fn new(commits: &Arc<Commits>, storage: ZoneStorage) -> Self {
        Reconciler {
            commits: Arc::clone(commits),
            storage,
            journaled: Mutex::new(read_all(commits, storage)),
            is_started: AtomicBool::new(false),
        }
    }

    /// Records that all zones were published once: from now on journals are read when a zone without a version in the
    /// table is published.
    pub(crate) fn end_start(&self) {
        self.is_started.store(true, Ordering::Relaxed);
    }

    /// Reads the journals of published zones without a version in the table.
    fn read_new(&self, changes: &mut [TableChange], table: &ZoneTable) -> JournaledByName {
        let new: Vec<_> = first_versions(changes, table)
            .map(|zone| NameBuf::from(zone.id()))
            .collect();
        let (false, Some(store)) = (new.is_empty(), self.commits.store()) else {
            return JournaledByName::new();
        };
        // Everything submitted before the zone was withdrawn is on disk now.
        if let Err(error) = store.write(Vec::new()) {
            tracing::error!("cannot read the journals: {error}");
            return JournaledByName::new();
        }
        if new.len() > FEW {
            return read_all(&self.commits, self.storage);
        }
        let mut journaled = JournaledByName::new();
        for name in &new {
            match store.zone(name) {
                Ok(Some(zone)) if zone.storage == self.storage => {
                    journaled.insert(lower_case(zone.name.as_name()), zone);
                }
                Ok(_) => {}
                Err(error) => tracing::error!("zone {name}: cannot read the journal: {error}"),
            }
        }
        journaled
    }

    /// Applies the journal changes that the storage lacks to zones published for the first time. A later version is only
    /// what the storage has: the commit path knows which changes it lacks.
    pub(crate) fn bring_forward(&self, changes: &mut [TableChange]) {
        let table = self.commits.table().load();
        let mut at_start = self.journaled.lock();
        let mut new;
        let journaled = if self.is_started.load(Ordering::Relaxed) {
            new = self.read_new(changes, &table);
            &mut new
        } else {
            &mut *at_start
        };
        if journaled.is_empty() {
            return;
        }
        for zone in first_versions(changes, &table) {
            if let Some(journaled) = journaled.remove(&lower_case(zone.id()))
                && let Some(newer) = self.reconcile(zone, &journaled)
            {
                *zone = newer;
            }
        }
    }

    /// Returns the version after applying the journal to a zone, if its storage lacks something.
    fn reconcile(&self, zone: &Arc<Zone>, journaled: &JournaledZone) -> Option<Arc<Zone>> {
        let (name, serial) = (NameBuf::from(zone.id()), zone.serial());
        self.commits.forget_conflict(name.as_name());
        let store = self.commits.store()?;
        if serial == journaled.serial && self.matches_journal(zone, journaled) {
            let settle = StateChange::Settle { zone: name, serial };
            self.commits.write_state(name, vec![settle]);
            return None;
        }
        let missing = match store.journal_after_base(&name) {
            Ok(missing) => missing,
            Err(error) => {
                tracing::error!("zone {name}: cannot read the journal: {error}");
                return None;
            }
        };
        if serial == journaled.serial && missing.is_empty() {
            tracing::warn!(
                "zone {name}: changed while the server was down, but the serial is still {serial}: secondaries will \
                 not transfer it; journal restarted"
            );
            return self.restart_journal(zone, journaled);
        }
        let from = missing.iter().position(|entry| entry.from == serial);
        match from.and_then(|from| apply(zone, &missing[from..])) {
            // The file was edited without a new serial: the edit gets one, so that secondaries notice it.
            Some(newer) if !self.matches_journal(&newer, journaled) => {
                self.merge(zone, journaled, &missing)
            }
            Some(newer) => {
                let count = counted(missing.len(), "change");
                tracing::info!(
                    "zone {name}: applied {count} from the journal, serial {}",
                    newer.serial()
                );
                self.commits.file_lacks_changes(zone);
                Some(newer)
            }
            None if missing.is_empty() => {
                // It has changed by itself: the journal does not lead to it.
                self.restart_journal(zone, journaled)
            }
            None => self.merge(zone, journaled, &missing),
        }
    }

    /// Restarts the journal at the version of the storage, which is served as it is.
    fn restart_journal(&self, zone: &Zone, journaled: &JournaledZone) -> Option<Arc<Zone>> {
        let (name, serial) = (NameBuf::from(zone.id()), zone.serial());
        let restart = StateChange::RestartJournal {
            zone: name,
            storage: journaled.storage,
            serial,
        };
        self.commits.write_state(name, vec![restart]);
        None
    }

    /// Merges the changes of the journal with a file that was edited while the server was down.
    fn merge(
        &self,
        zone: &Arc<Zone>,
        journaled: &JournaledZone,
        missing: &[JournalEntry],
    ) -> Option<Arc<Zone>> {
        let (name, serial, count) = (
            NameBuf::from(zone.id()),
            zone.serial(),
            counted(missing.len(), "change"),
        );
        match merge_journal(zone, missing, journaled.serial, SystemTime::now()) {
            Ok(Merge::Both(rebased)) => {
                tracing::info!(
                    "zone {name}: the file was edited; applied {count} from the journal to it, serial {}",
                    rebased.merged.serial()
                );
                self.commits.write_state(name, rebased.restarted_journal());
                self.commits.file_lacks_changes(zone);
                Some(rebased.merged)
            }
            Ok(Merge::AsFile | Merge::Unchanged) => self.restart_journal(zone, journaled),
            Err(error) => {
                tracing::error!(
                    "zone {name}: {count} in the journal up to serial {} cannot be applied to the file with serial {serial}: kept, but not served: {error}",
                    journaled.serial
                );
                self.commits
                    .note_clash(name.as_name(), ConflictSide::File, &error);
                None
            }
        }
    }

    /// Checks whether a zone has the records that its journal ends with, as far as known.
    fn matches_journal(&self, zone: &Zone, journaled: &JournaledZone) -> bool {
        let is_same = journaled
            .digest
            .map(|digest| digest == ContentsDigest::from_zone(zone));
        if is_same == Some(true) {
            self.commits.note_digest(zone.id(), zone.rank());
        }
        is_same.unwrap_or(true)
    }

    /// Drops the journals of zones that no source has published. Call when all sources of the kind were read without
    /// errors: an unreadable file or database is not a removed one.
    pub(crate) fn forget_vanished(&self, storage: ZoneStorage) {
        let journaled = std::mem::take(&mut *self.journaled.lock());
        let table = self.commits.table().load();
        let gone = journaled.into_values().map(|zone| zone.name);
        let gone = gone.filter(|name| table.exact(name.as_name()).is_none());
        self.commits.forget_vanished(gone, storage);
    }
}

/// Returns the zones among the changes that have contents, and no contents from their source in the table yet.
fn first_versions<'c>(
    changes: &'c mut [TableChange],
    table: &ZoneTable,
) -> impl Iterator<Item = &'c mut Arc<Zone>> {
    let zones = changes.iter_mut().filter_map(|change| match change {
        TableChange::Offer(zone) | TableChange::Move(zone, _) => Some(zone),
        _ => None,
    });
    zones.filter(|zone| {
        let offered = table.offered_by(zone.id(), zone.rank());
        !zone.is_stub() && offered.is_none_or(|version| version.stored().is_stub())
    })
}

/// Reads the list of all journals of zones with this storage.
fn read_all(commits: &Commits, storage: ZoneStorage) -> JournaledByName {
    match commits.store().map(|store| store.zones()) {
        Some(Ok(zones)) => {
            let own = zones.into_iter().filter(|zone| zone.storage == storage);
            own.map(|zone| (lower_case(zone.name.as_name()), zone))
                .collect()
        }
        Some(Err(error)) => {
            tracing::error!("cannot read the journals: {error}");
            JournaledByName::new()
        }
        None => JournaledByName::new(),
    }
}

fn apply(zone: &Arc<Zone>, entries: &[JournalEntry]) -> Option<Arc<Zone>> {
    let mut zone = Arc::clone(zone);
    for entry in entries {
        zone = Arc::new(zone.apply(&entry.difference).ok()?);
    }
    Some(zone)
}
