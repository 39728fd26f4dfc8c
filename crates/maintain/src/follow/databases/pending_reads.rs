//! The reads that a follower still has to make, in order of urgency.

use nameward_sql::Change;
use std::collections::HashMap;

/// Maximum number of single-zone changes; more become a change of all.
const MOST: usize = 1000;

#[derive(Default)]
pub(super) struct PendingReads {
    /// Zones known to have changed, each with the minimum version that a read from now on has: before all others.
    pub(super) zones: HashMap<i64, i64>,
    /// Resident zones that may have changed, the next one last. It is processed to its end even if more changes
    /// arrive: a database that is written all the time would delay the last ones forever.
    pub(super) sweep: Vec<i64>,
    /// The zone list.
    pub(super) list: bool,
    /// Contents of any zone may have changed, not only the list.
    pub(super) contents: bool,
}

impl PendingReads {
    /// Returns the reads that a follower without any knowledge makes.
    pub(super) fn everything() -> Self {
        PendingReads {
            list: true,
            contents: true,
            ..PendingReads::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.zones.is_empty() && self.sweep.is_empty() && !self.list
    }

    /// Checks whether a zone is going to be read because it changed.
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
