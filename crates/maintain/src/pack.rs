//! Packs zones with many changes anew, on a thread of its own: a large one takes a second, and no change waits for it.

use crate::commit::Commits;
use nameward_wire::NameBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;

/// Zones that may wait to be packed; one that finds no room is asked for again by its next change.
const WAITING: usize = 16;

/// A zone to be packed, and the rank of its source.
pub(crate) type PackRequest = (NameBuf, u16);

/// The way to the packing thread, which ends when this is dropped.
pub(crate) struct Packer {
    requests: SyncSender<PackRequest>,
}

impl Packer {
    pub(crate) fn new() -> (Self, Receiver<PackRequest>) {
        let (requests, queue) = sync_channel(WAITING);
        (Packer { requests }, queue)
    }

    /// Asks to pack a zone some time soon.
    pub(crate) fn request(&self, zone: NameBuf, rank: u16) {
        // Without room the next change asks again.
        let _ = self.requests.try_send((zone, rank));
    }
}

/// Starts the packing thread. It must not keep the commits alive that it works for.
pub(crate) fn start(queue: Receiver<PackRequest>, commits: &Arc<Commits>) -> std::io::Result<()> {
    let commits: Weak<Commits> = Arc::downgrade(commits);
    let thread = thread::Builder::new().name("pack".into());
    thread.spawn(move || {
        while let Ok((zone, rank)) = queue.recv() {
            if let Some(commits) = commits.upgrade() {
                commits.pack(zone.as_name(), rank);
            }
        }
    })?;
    Ok(())
}
