//! The first read of all databases at the start: their zones are compared with the journals.

use crate::commit::Commits;
use crate::reconcile::Reconciler;
use nameward_state::ZoneStorage;
use nameward_zone::TableChange;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) struct FirstRead {
    journals: Reconciler,
    /// Databases whose zone list was not read yet.
    unlisted: AtomicUsize,
}

impl FirstRead {
    pub(super) fn new(commits: &Arc<Commits>, databases: usize) -> Arc<Self> {
        let first_read = Arc::new(FirstRead {
            journals: Reconciler::new(commits, ZoneStorage::Database),
            unlisted: AtomicUsize::new(databases),
        });
        if databases == 0 {
            first_read.journals.forget_vanished(ZoneStorage::Database);
        }
        first_read
    }

    /// Records that the list of one database was read. After the last, zones that none has are considered removed; as
    /// long as one is down, that is unknown.
    pub(super) fn note_listed(&self) {
        if self.unlisted.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.journals.forget_vanished(ZoneStorage::Database);
        }
    }

    /// Compares zones that are about to be published with their journals.
    pub(super) fn bring_forward(&self, changes: &mut [TableChange]) {
        self.journals.bring_forward(changes);
    }
}
