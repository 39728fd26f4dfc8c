//! Background jobs on zones that no change waits for, on a separate thread: packing, computing digests, and keeping
//! their journals within limits. A large zone takes a second.

use super::Commits;
use super::outcome::VersionSource;
use super::pending::InProgress;
use crate::contents::contents_of;
use nameward_base::worker::{self, Queue};
use nameward_state::{ContentsDigest, StateChange, ZoneStorage};
use nameward_wire::{Name, NameBuf};
use std::sync::{Arc, Weak};

/// Maximum number of waiting jobs; a rejected one is requested again by the next change of its zone.
const WAITING: usize = 64;

/// The kind of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BackgroundTask {
    /// Repacks a zone with many changes.
    Pack,
    /// Computes the digest of a zone's contents, for its journal.
    Digest,
    /// Writes the contents of a zone stored in the state store whose journal has become long.
    WriteContents,
}

/// A zone, the rank of its source, and the job.
pub(super) type TaskRequest = (NameBuf, u16, BackgroundTask);

/// Creates the queue of the jobs.
pub(super) fn queue() -> Queue<TaskRequest> {
    Queue::new("background", WAITING)
}

/// Starts the thread. It must not keep the commits alive that it works for.
pub(super) fn start(queue: Queue<TaskRequest>, commits: &Arc<Commits>) -> std::io::Result<()> {
    let commits: Weak<Commits> = Arc::downgrade(commits);
    worker::start("background", move || {
        queue.work("packing or writing a zone", |(zone, rank, task)| {
            let Some(commits) = commits.upgrade() else {
                return;
            };
            match task {
                BackgroundTask::Pack => commits.pack(zone.as_name(), rank),
                BackgroundTask::Digest => commits.keep_digest(zone, rank),
                BackgroundTask::WriteContents => commits.write_contents(zone, rank),
            }
        });
    })
    .map(drop)
}

impl Commits {
    /// Requests a job on a zone; false if the queue is full, and the next change must request it again.
    pub(super) fn request(&self, zone: NameBuf, rank: u16, task: BackgroundTask) -> bool {
        self.background.try_push((zone, rank, task)).is_ok()
    }

    /// Packs a zone with many changes in the background, and replaces the last version by it with the changes made in
    /// the meantime.
    pub(crate) fn pack(&self, zone: Name<'_>, rank: u16) {
        let place = self.zone(zone, rank);
        let mut under_way = place.lock();
        let snapshot = match self.last(&under_way, zone, rank) {
            Some(snapshot) if snapshot.is_worth_packing() => snapshot,
            _ => return,
        };
        under_way.changed = Some(Vec::new());
        drop(under_way);
        let packed = snapshot.pack();
        let mut under_way = place.lock();
        let (Some(changed), Some(packed)) = (under_way.changed.take(), packed) else {
            return;
        };
        let Some(current) = self.last(&under_way, zone, rank) else {
            return;
        };
        let owners = changed
            .iter()
            .filter_map(|owner| Name::from_wire(owner).ok());
        let caught_up = Arc::new(Arc::new(packed).caught_up(&current, owners));
        match &mut under_way.tip {
            // Pending versions are published as they are; the next is based on this one.
            Some(tip) => *tip = caught_up,
            None => {
                self.table.replace(caught_up);
            }
        }
    }

    /// Requests the digest of a zone whose journal starts, unless the state store has it. Call with the zone's lock.
    pub(super) fn want_digest(
        &self,
        source: &VersionSource,
        under_way: &mut InProgress,
        changes: &[StateChange],
    ) {
        let is_new = |change: &StateChange| matches!(change, StateChange::RestartJournal { .. });
        let is_kept =
            |change: &StateChange| is_new(change) || matches!(change, StateChange::Append { .. });
        under_way.has_digest &= !changes.iter().any(is_new);
        if source.storage != ZoneStorage::Store
            && !under_way.has_digest
            && changes.iter().any(is_kept)
        {
            let (zone, rank) = (source.zone, source.rank);
            under_way.has_digest = self.request(zone, rank, BackgroundTask::Digest);
        }
    }

    /// Records that the state store has the digest of a zone.
    pub(crate) fn note_digest(&self, zone: Name<'_>, rank: u16) {
        self.zone(zone, rank).lock().has_digest = true;
    }

    /// Computes the digest of the last version of a zone, and stores it with the journal.
    pub(crate) fn keep_digest(&self, zone: NameBuf, rank: u16) {
        // The difference that led to a version is passed to the journal under this lock.
        let place = self.zone(zone.as_name(), rank);
        let under_way = place.lock();
        let Some(version) = self.last(&under_way, zone.as_name(), rank) else {
            return;
        };
        drop(under_way);
        let (serial, digest) = (version.serial(), ContentsDigest::from_zone(&version));
        let set = StateChange::SetDigest {
            zone,
            serial,
            digest,
        };
        self.write_state(zone, vec![set]);
    }

    /// Handles a journal that exceeds its limits because its storage lacks the oldest changes.
    pub(super) fn relieve_journal(&self, source: &VersionSource) {
        let place = self.zone(source.zone.as_name(), source.rank);
        let mut under_way = place.lock();
        if under_way.is_writing {
            return;
        }
        under_way.is_writing = match source.storage {
            ZoneStorage::Store => {
                let task = BackgroundTask::WriteContents;
                self.request(source.zone, source.rank, task)
            }
            ZoneStorage::File => {
                let zone = source.zone;
                tracing::warn!(
                    "zone {zone}: journal exceeds its size limit: its changes are not in the zone file; run `nameward \
                     zone sync {zone}` to write them"
                );
                true
            }
            // A database has every change.
            ZoneStorage::Database => false,
        };
    }

    /// Records that the storage of a zone has all changes: the next oversized journal is logged again.
    pub(crate) fn note_settled(&self, zone: Name<'_>, rank: u16) {
        self.zone(zone, rank).lock().is_writing = false;
    }

    /// Writes the contents of a zone stored in the state store, so that its journal can be shortened.
    pub(crate) fn write_contents(&self, zone: NameBuf, rank: u16) {
        // A published version is durable: the journal leads to it.
        if let Some(version) = self.table.version(zone.as_name(), rank) {
            let serial = version.serial();
            let parts = Arc::new(contents_of(&version));
            let set = StateChange::RefreshContents {
                zone,
                serial,
                parts,
            };
            self.write_state(zone, vec![set]);
        }
        self.note_settled(zone.as_name(), rank);
    }
}
