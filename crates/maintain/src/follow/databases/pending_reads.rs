//! The reads that a follower still has to make of its database, in the order of urgency.

use nameward_store::sql::Change;
use std::collections::HashMap;

/// Changes of single zones that are kept apart; more are a change of all.
const MOST: usize = 1000;

/// Reads that are to be made.
#[derive(Default)]
pub(super) struct PendingReads {
    /// Zones that are known to have changed, each with the version that a read from now on has at least: before all
    /// others.
    pub(super) zones: HashMap<i64, i64>,
    /// Zones in memory that may have changed, the next one last. It is gone through to its end even if more
    /// changes come meanwhile: a database that is written all the time would keep the last ones waiting for ever.
    pub(super) sweep: Vec<i64>,
    /// The list of zones.
    pub(super) list: bool,
    /// Contents of any zone may have changed, not only the list.
    pub(super) contents: bool,
}

impl PendingReads {
    /// Returns the reads that a follower makes if it knows nothing.
    pub(super) fn of_everything() -> Self {
        PendingReads {
            list: true,
            contents: true,
            ..PendingReads::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.zones.is_empty() && self.sweep.is_empty() && !self.list
    }

    /// Whether a zone is going to be read because it changed.
    pub(super) fn include(&self, zone: i64) -> bool {
        self.list || self.zones.contains_key(&zone)
    }

    pub(super) fn add(&mut self, change: Change) {
        match change {
            Change::Zone(id, version) if self.zones.len() < MOST => {
                let least = self.zones.entry(id).or_default();
                *least = version.map_or(*least, |version| version.max(*least));
            }
            Change::List => self.list = true,
            Change::Own(id) => self.add(Change::Zone(id, None)),
            Change::Zone(..) | Change::All => {
                self.list = true;
                self.contents = true;
            }
        }
    }
}
