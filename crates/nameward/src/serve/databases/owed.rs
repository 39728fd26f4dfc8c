//! Owns what a follower still has to read of its database, in the order of urgency.

use std::collections::HashSet;

use nameward_store::sql::Change;

/// Changes of single zones that are kept apart; more are a change of all.
const MOST: usize = 1000;

/// What is to be read.
#[derive(Default)]
pub(super) struct Owed {
    /// Zones that are known to have changed: before all others.
    pub(super) zones: HashSet<i64>,
    /// Zones in memory that may have changed, the next one last. It is gone through to its end even if more
    /// changes come meanwhile: a database that is written all the time would keep the last ones waiting for ever.
    pub(super) sweep: Vec<i64>,
    /// The list of zones.
    pub(super) list: bool,
    /// Contents of any zone may have changed, not only the list.
    pub(super) contents: bool,
}

impl Owed {
    pub(super) fn is_nothing(&self) -> bool {
        self.zones.is_empty() && self.sweep.is_empty() && !self.list
    }

    pub(super) fn note(&mut self, change: Change) {
        match change {
            Change::Zone(id) if self.zones.len() < MOST => {
                self.zones.insert(id);
            }
            Change::Zone(_) | Change::All => {
                self.list = true;
                self.contents = true;
            }
        }
    }
}
