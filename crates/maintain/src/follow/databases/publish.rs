//! Changes of the zone table by a database follower.

use super::{follower::DatabaseFollower, read::LINES_MAX};
use crate::commit::Commits;
use crate::follow::contested;
use crate::policy::CONFIGURED_RANK;
use crate::reconcile::Reconciler;
use nameward_store::state::ZoneStorage;
use nameward_zone::{Contest, TableChange};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Comparison of journals with the databases when they are read for the first time.
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
}

impl DatabaseFollower {
    /// Applies changes to the table.
    pub(super) fn publish(&mut self, mut changes: Vec<TableChange>) {
        if changes.is_empty() {
            return;
        }
        self.first_read.journals.bring_forward(&mut changes);
        for contest in self.commits.load(changes, ZoneStorage::Database) {
            self.log_contest(&contest);
        }
    }

    /// Logs that another source has a zone too, once per zone.
    fn log_contest(&mut self, contest: &Contest) {
        let name = contest.name.as_name();
        // A catalog of this database that is built from its members is in the table as produced here.
        if contest.served == CONFIGURED_RANK && self.policies.is_made_of_members(name) {
            return;
        }
        if self.logged_contests.len() < LINES_MAX && self.logged_contests.insert(contest.name) {
            tracing::warn!("{}", contested(name, contest.served, contest.other));
        }
    }
}
