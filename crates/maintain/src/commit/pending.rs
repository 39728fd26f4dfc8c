//! Commits that are under way: the last version of each zone that has any, and a bound for all.

use super::{NewVersion, VersionSource};
use nameward_base::sync::{Condvar, Mutex};
use nameward_store::state::{JournalOrigin, ZoneHome};
use nameward_zone::Zone;
use nameward_zone::change::Difference;
use std::sync::Arc;

/// Commits that may wait for the disk at one time; whoever has one more waits.
const WAITING: usize = 4096;
/// Records that may change while their zone is packed aside; with more it is packed another time.
const CHANGED_WHILE_PACKING: usize = 100_000;

/// A zone with changes under way.
#[derive(Default)]
pub(super) struct UnderWay {
    /// The last version that was handed to the journal, while any is not durable yet.
    pub(super) tip: Option<Arc<Zone>>,
    pub(super) count: usize,
    /// The version that the zone's file has, while it lacks changes.
    pub(super) home: Option<Arc<Zone>>,
    /// While the zone is packed aside: the owners of all records that went or came since.
    pub(super) changed: Option<Vec<Box<[u8]>>>,
    /// The state store has the digest of its contents, or will.
    pub(super) has_digest: bool,
    /// Its contents are about to be written.
    pub(super) is_writing: bool,
}

impl UnderWay {
    /// Takes note of what the zone's file has after a new version was made.
    pub(super) fn note_home(&mut self, source: &VersionSource, tip: &Arc<Zone>, made: &NewVersion) {
        if source.home != ZoneHome::File || made.zone.is_none() {
            return;
        }
        match (&made.rebased, source.origin) {
            (Some(rebased), _) => self.home = Some(Arc::clone(&rebased.file)),
            (None, JournalOrigin::Home) => self.home = None,
            (None, _) => {
                self.home.get_or_insert_with(|| Arc::clone(tip));
            }
        }
    }

    /// Takes note of a new version for the one who packs.
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

/// Lets so many commits wait for the disk at one time.
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
