//! The table of zones that serving reads, and its only writer.
//!
//! Readers load a snapshot without a lock. Whoever maintains zones hands changes in here; they are made one group at a
//! time, each on the table as it is then, and become visible together by swapping one pointer.

use arc_swap::ArcSwap;
use nameward_wire::Name;
use nameward_zone::{AccessRules, AccessSource, Contest, TableChange, Zone, ZoneTable};
use std::sync::{Arc, Mutex, PoisonError};

/// Where the snapshot of all zones stands that serving reads.
pub type Snapshot = Arc<ArcSwap<ZoneTable>>;

/// The table of zones.
#[derive(Default)]
pub struct TableWriter {
    snapshot: Snapshot,
    writing: Mutex<()>,
}

impl TableWriter {
    /// Becomes the writer of a snapshot, which nobody else may write.
    pub fn over(snapshot: Snapshot) -> Self {
        TableWriter {
            snapshot,
            writing: Mutex::default(),
        }
    }

    /// The place that serving reads from.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The table as it is now.
    pub fn load(&self) -> Arc<ZoneTable> {
        self.snapshot.load_full()
    }

    /// Makes changes visible, all at the same moment. Returns the offered zones that another source has too.
    pub fn publish(&self, changes: &[TableChange]) -> Vec<Contest> {
        match changes.is_empty() {
            true => Vec::new(),
            false => self.write(|table| table.make(changes)),
        }
    }

    /// Makes a new version of a zone visible, unless its source has withdrawn the zone meanwhile; false if it has.
    pub fn replace(&self, zone: Arc<Zone>) -> bool {
        self.write(|table| {
            let is_there = table.offered_by(zone.apex_name(), zone.rank()).is_some();
            if is_there {
                table.offer(zone);
            }
            is_there
        })
    }

    /// Puts access lists in force.
    pub fn set_access(&self, source: AccessSource, rules: AccessRules) {
        if **self.snapshot.load().access(source) != rules {
            self.write(|table| table.set_access(source, Arc::new(rules)));
        }
    }

    /// The version of a zone that the source of this rank has offered.
    pub fn version(&self, name: Name<'_>, rank: u16) -> Option<Arc<Zone>> {
        self.snapshot.load().offered_by(name, rank).cloned()
    }

    fn write<T>(&self, change: impl FnOnce(&mut ZoneTable) -> T) -> T {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = ZoneTable::clone(&self.snapshot.load());
        let result = change(&mut table);
        self.snapshot.store(Arc::new(table));
        result
    }
}
