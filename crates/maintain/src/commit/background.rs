//! Background jobs on zones that no change waits for, on a separate thread: a large zone takes a second.

use super::Commits;
use nameward_base::worker::{self, Queue, QueueOwner};
use nameward_wire::NameBuf;
use std::sync::{Arc, Weak};

/// Maximum number of waiting jobs; a rejected one is requested again by the next change of its zone.
const WAITING: usize = 64;

/// The kind of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BackgroundTask {
    /// Repacks a zone with many changes.
    Pack,
    /// Computes the digest of a zone's contents, for its journal.
    Digest,
    /// Writes the contents of a zone stored in the state store whose journal has become long.
    WriteContents,
}

/// A zone, the rank of its source, and the job.
pub(super) type TaskRequest = (NameBuf, u16, BackgroundTask);

/// The handle of the thread, which ends when this is dropped.
pub(super) struct BackgroundWork {
    requests: QueueOwner<TaskRequest>,
}

impl BackgroundWork {
    pub(super) fn new() -> (Self, Queue<TaskRequest>) {
        let queue = Queue::new("background", WAITING);
        let requests = QueueOwner::new(&queue);
        (BackgroundWork { requests }, queue)
    }

    /// Requests a job on a zone; false if the queue is full, and the next change must request it again.
    pub(super) fn request(&self, zone: NameBuf, rank: u16, task: BackgroundTask) -> bool {
        self.requests.try_push((zone, rank, task)).is_ok()
    }
}

/// Starts the thread. It must not keep the commits alive that it works for.
pub(super) fn start(queue: Queue<TaskRequest>, commits: &Arc<Commits>) -> std::io::Result<()> {
    let commits: Weak<Commits> = Arc::downgrade(commits);
    worker::start("background", move || {
        queue.work("packing or writing a zone", |(zone, rank, task)| {
            let Some(commits) = commits.upgrade() else {
                return;
            };
            match task {
                BackgroundTask::Pack => commits.pack(zone.as_name(), rank),
                BackgroundTask::Digest => commits.keep_digest(zone, rank),
                BackgroundTask::WriteContents => commits.write_contents(zone, rank),
            }
        });
    })
    .map(drop)
}
