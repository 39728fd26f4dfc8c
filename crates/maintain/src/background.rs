//! Background jobs on zones that no change waits for, on a separate thread: a large zone takes a second.

use crate::commit::Commits;
use crate::panic_guard::spare_thread;
use nameward_wire::NameBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;

/// Maximum number of waiting jobs; a rejected one is requested again by the next change of its zone.
const WAITING: usize = 64;

/// The kind of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BackgroundTask {
    /// Repacks a zone with many changes.
    Pack,
    /// Computes the digest of a zone's contents, for its journal.
    Digest,
    /// Writes the contents of a zone stored in the state store whose journal has become long.
    WriteContents,
}

/// A zone, the rank of its source, and the job.
pub(crate) type TaskRequest = (NameBuf, u16, BackgroundTask);

/// The handle of the thread, which ends when this is dropped.
pub(crate) struct BackgroundWork {
    requests: SyncSender<TaskRequest>,
}

impl BackgroundWork {
    pub(crate) fn new() -> (Self, Receiver<TaskRequest>) {
        let (requests, queue) = sync_channel(WAITING);
        (BackgroundWork { requests }, queue)
    }

    /// Requests a job on a zone; false if the queue is full, and the next change must request it again.
    pub(crate) fn request(&self, zone: NameBuf, rank: u16, task: BackgroundTask) -> bool {
        self.requests.try_send((zone, rank, task)).is_ok()
    }
}

/// Starts the thread. It must not keep the commits alive that it works for.
pub(crate) fn start(queue: Receiver<TaskRequest>, commits: &Arc<Commits>) -> std::io::Result<()> {
    let commits: Weak<Commits> = Arc::downgrade(commits);
    let thread = thread::Builder::new().name("background".into());
    thread.spawn(move || {
        while let Ok((zone, rank, task)) = queue.recv() {
            let Some(commits) = commits.upgrade() else {
                return;
            };
            spare_thread("a zone was packed or written", || match task {
                BackgroundTask::Pack => commits.pack(zone.as_name(), rank),
                BackgroundTask::Digest => commits.keep_digest(zone, rank),
                BackgroundTask::WriteContents => commits.write_contents(zone, rank),
            });
        }
    })?;
    Ok(())
}
