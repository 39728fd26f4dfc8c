//! Commits of large versions, on a separate thread: computing the difference to the previous version takes a second,
//! and no other zone should wait for that.
//!
//! The number of waiting commits is bounded by the number of concurrent transfers.

use crate::panic_guard::spare_thread;
use nameward_base::sync::{Condvar, Mutex, MutexGuard};
use nameward_wire::NameBuf;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// A pending commit.
type CommitWork = Box<dyn FnOnce() + Send>;

/// The thread, which ends when this is dropped.
pub(super) struct CommitThread {
    work: Option<Sender<(NameBuf, CommitWork)>>,
    under_way: Arc<UnderWayZones>,
}

#[derive(Default)]
struct UnderWayZones {
    zones: Mutex<HashSet<NameBuf>>,
    ended: Condvar,
}

impl UnderWayZones {
    fn lock(&self) -> MutexGuard<'_, HashSet<NameBuf>> {
        self.zones.lock()
    }
}

impl CommitThread {
    /// Starts the thread; without one, commits run on the caller's thread.
    pub(super) fn start() -> Self {
        let (work, queue) = channel::<(NameBuf, CommitWork)>();
        let under_way = Arc::new(UnderWayZones::default());
        let zones = Arc::clone(&under_way);
        let started = thread::Builder::new()
            .name("large-zones".into())
            .spawn(move || {
                while let Ok((zone, work)) = queue.recv() {
                    // A caller that waits for the zone must not wait forever.
                    spare_thread("a large zone was committed", work);
                    zones.lock().remove(&zone);
                    zones.ended.notify_all();
                }
            });
        CommitThread {
            work: started.is_ok().then_some(work),
            under_way,
        }
    }

    /// Queues a commit of a zone; commits run one after the other.
    pub(super) fn run(&self, zone: NameBuf, work: impl FnOnce() + Send + 'static) {
        let Some(queue) = &self.work else {
            return work();
        };
        self.under_way.lock().insert(zone);
        if let Err(unsent) = queue.send((zone, Box::new(work))) {
            self.under_way.lock().remove(&zone);
            unsent.0.1();
        }
    }

    /// Waits until no commit of a zone is in progress here.
    pub(super) fn wait_for(&self, zone: &NameBuf) {
        let mut zones = self.under_way.lock();
        while zones.contains(zone) {
            let waited = self.under_way.ended.wait(zones);
            zones = waited;
        }
    }
}
