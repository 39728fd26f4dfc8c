//! Commits of large versions, on a separate thread: computing the difference to the previous version takes a second,
//! and no other zone should wait for that.
//!
//! At most [`WAITING`] commits wait. Then the driver of secondary zones waits too: this thread never waits for it, and
//! commits of a zone stay in order.

use nameward_base::sync::{Condvar, Mutex};
use nameward_base::worker::{self, Popped, Queue, QueueOwner, panic_guard_item};
use nameward_wire::NameBuf;
use std::collections::HashSet;
use std::sync::Arc;

/// A pending commit.
type CommitWork = Box<dyn FnOnce() + Send>;

/// Commits that may wait: each holds a whole zone in memory.
const WAITING: usize = 64;

/// The thread, which stops when this is dropped.
pub(super) struct CommitThread {
    work: QueueOwner<(NameBuf, CommitWork)>,
    under_way: Arc<ZonesInProgress>,
}

#[derive(Default)]
struct ZonesInProgress {
    zones: Mutex<HashSet<NameBuf>>,
    ended: Condvar,
}

impl CommitThread {
    /// Starts the thread; without one, commits run on the caller's thread.
    pub(super) fn start() -> Self {
        let queue = Queue::new("large-zones", WAITING);
        let work = QueueOwner::new(&queue);
        let under_way = Arc::new(ZonesInProgress::default());
        let zones = Arc::clone(&under_way);
        let run = move || {
            while let Popped::Item((zone, work)) = queue.pop(None) {
                let work: CommitWork = work;
                panic_guard_item("committing a large zone", work);
                // After a panic too: a caller that waits for the zone must not wait forever.
                zones.zones.lock().remove(&zone);
                zones.ended.notify_all();
            }
        };
        if worker::start("large-zones", run).is_err() {
            work.close();
        }
        CommitThread { work, under_way }
    }

    /// Queues a commit of a zone; commits run one after the other.
    pub(super) fn run(&self, zone: NameBuf, work: impl FnOnce() + Send + 'static) {
        self.under_way.zones.lock().insert(zone);
        if let Err(unsent) = self.work.push((zone, Box::new(work))) {
            self.under_way.zones.lock().remove(&zone);
            unsent.into_item().1();
        }
    }

    /// Waits until no commit of a zone is in progress here.
    pub(super) fn wait_for(&self, zone: &NameBuf) {
        let mut zones = self.under_way.zones.lock();
        while zones.contains(zone) {
            zones = self.under_way.ended.wait(zones);
        }
    }
}
