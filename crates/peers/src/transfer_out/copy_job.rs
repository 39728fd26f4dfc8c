//! A signed copy in progress: its input, its progress, and its readers.

use nameward_base::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::transfer_out::encode::{CopyDigest, SignedCopy, SignedCopyError};
use nameward_dnssec::Signing;
use nameward_wire::NameBuf;
use nameward_zone::Zone;
use tokio::sync::Notify;

/// Input of a copy.
pub(super) struct CopySource {
    pub(super) zone: Arc<Zone>,
    pub(super) signing: Arc<Signing>,
    pub(super) digest: CopyDigest,
}

/// A copy in progress.
pub(super) struct CopyJob {
    pub(super) name: NameBuf,
    pub(super) source: CopySource,
    pub(super) copy: OnceLock<Arc<SignedCopy>>,
    is_started: AtomicBool,
    /// The next piece that no thread has taken.
    next: AtomicUsize,
    pub(super) signed: AtomicUsize,
    /// The number of pieces that readers need by now.
    needed: AtomicUsize,
    pub(super) readers: Mutex<Vec<Arc<Notify>>>,
    pub(super) end: OnceLock<JobEnd>,
}

/// The version, if it is stored or has a digest.
pub(super) type JobEnd = Result<Option<Arc<Zone>>, JobFault>;

/// Why a copy was not completed.
#[derive(Debug, Clone)]
pub(super) enum JobFault {
    Copy(SignedCopyError),
    Panicked,
    GivenUp,
}

/// A step of the work on a copy.
pub(super) enum CopyStep {
    Prepare,
    Sign(usize),
}

impl CopyJob {
    /// Creates the job for a copy of which this many pieces are needed at first.
    pub(super) fn new(name: NameBuf, source: CopySource, needed: usize) -> Self {
        CopyJob {
            name,
            source,
            copy: OnceLock::new(),
            is_started: AtomicBool::new(false),
            next: AtomicUsize::new(0),
            signed: AtomicUsize::new(0),
            needed: AtomicUsize::new(needed),
            readers: Mutex::default(),
            end: OnceLock::new(),
        }
    }

    pub(super) fn is_read(&self) -> bool {
        !self.readers.lock().is_empty()
    }

    pub(super) fn finish(&self, end: JobEnd) {
        let _ = self.end.set(end);
        self.wake_readers();
    }

    pub(super) fn wake_readers(&self) {
        for wake in self.readers.lock().iter() {
            wake.notify_one();
        }
    }

    /// Checks whether no thread has worked on the copy yet.
    pub(super) fn is_new(&self) -> bool {
        !self.is_started.load(Ordering::Acquire)
    }

    /// Checks whether a thread could continue with the copy now.
    pub(super) fn has_work(&self) -> bool {
        if self.end.get().is_some() || !self.is_read() {
            return false;
        }
        match self.copy.get() {
            None => self.is_new(),
            Some(copy) => {
                let end = self.needed.load(Ordering::Acquire).min(copy.pieces());
                self.next.load(Ordering::Acquire) < end
            }
        }
    }

    /// Takes the next step. Called under the lock of the queue.
    pub(super) fn take_step(&self) -> Option<CopyStep> {
        if !self.has_work() {
            return None;
        }
        if self.copy.get().is_none() {
            self.is_started.store(true, Ordering::Release);
            return Some(CopyStep::Prepare);
        }
        Some(CopyStep::Sign(self.next.fetch_add(1, Ordering::AcqRel)))
    }

    pub(super) fn need(&self, pieces: usize) {
        self.needed.fetch_max(pieces, Ordering::AcqRel);
    }
}
