//! Commits in progress: the last version of each zone that has any, and a limit for all.

use super::{CommittedVersion, Done, NewVersion, VersionSource};
use nameward_base::sync::{Condvar, Mutex};
use nameward_state::{JournalOrigin, ZoneStorage};
use nameward_zone::Zone;
use nameward_zone::change::Difference;
use std::sync::Arc;

/// Maximum number of commits waiting for the disk; further ones block.
const WAITING: usize = 4096;
/// Maximum number of records that may change while their zone is packed in the background; beyond
/// it, packing is retried another time.
const CHANGED_WHILE_PACKING: usize = 100_000;

/// A zone with changes in progress.
#[derive(Default)]
pub(super) struct InProgress {
    /// The last version passed to the journal, while any is not durable yet.
    pub(super) tip: Option<Arc<Zone>>,
    pub(super) count: usize,
    /// The version in the zone's file, while it lacks changes.
    pub(super) file_version: Option<Arc<Zone>>,
    /// While the zone is packed in the background: the owners of all records removed or added
    /// since.
    pub(super) changed: Option<Vec<Box<[u8]>>>,
    /// The state store has the digest of its contents, or will.
    pub(super) has_digest: bool,
    /// Its contents are about to be written.
    pub(super) is_writing: bool,
}

impl InProgress {
    /// Records what the zone's file has after a new version was made.
    pub(super) fn note_file_version(
        &mut self,
        source: &VersionSource,
        tip: &Arc<Zone>,
        made: &NewVersion,
    ) {
        if source.storage != ZoneStorage::File || made.zone.is_none() {
            return;
        }
        match (&made.rebased, source.origin) {
            (Some(rebased), _) => self.file_version = Some(Arc::clone(&rebased.file)),
            (None, JournalOrigin::Storage) => self.file_version = None,
            (None, _) => {
                self.file_version.get_or_insert_with(|| Arc::clone(tip));
            }
        }
    }

    /// Records names changed while a repack is running.
    pub(super) fn note(&mut self, difference: &Difference, is_packed: bool) {
        let Some(changed) = &mut self.changed else {
            return;
        };
        let records = difference.removed.iter().chain(&difference.added);
        changed.extend(records.map(|record| record.owner.as_wire().into()));
        if is_packed || changed.len() > CHANGED_WHILE_PACKING {
            self.changed = None;
        }
    }
}

/// A version on its way to the disk.
pub(super) struct PendingCommit {
    pub(super) source: VersionSource,
    pub(super) committed: CommittedVersion,
    pub(super) place: Arc<Mutex<InProgress>>,
    /// Its storage has it already.
    pub(super) is_storage_first: bool,
    pub(super) is_published: bool,
    /// The version in the zone's file before, for a commit that fails.
    pub(super) file_version_before: Option<Arc<Zone>>,
    pub(super) done: Done,
}

/// Limits the number of commits that wait for the disk.
#[derive(Default)]
pub(super) struct Gate {
    inside: Mutex<usize>,
    left: Condvar,
}

impl Gate {
    pub(super) fn enter(&self) {
        let inside = self.inside.lock();
        let is_full = |inside: &mut usize| *inside >= WAITING;
        let mut inside = self.left.wait_while(inside, is_full);
        *inside += 1;
    }

    pub(super) fn leave(&self) {
        *self.inside.lock() -= 1;
        self.left.notify_one();
    }
}
