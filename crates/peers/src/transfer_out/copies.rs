//! Signed copies for secondaries: one per version of a zone, shared by all clients that request it.
//!
//! ```text
//! request -> the stored version                         sent before, and nothing has changed: no work at all
//!         -> the copy in progress                       another client's: its pieces are sent from the first one on
//!         -> a new copy, queued for the signers         pieces are sent as they are signed
//! last piece signed -> the version is stored            the next client gets it, or its difference to the one before (sent)
//! last reader left  -> the copy is cancelled            signatures made so far stay in the signature cache
//! ```
//! A copy is signed a bounded number of pieces ahead of the fastest client, unless all of it is needed: for an IXFR
//! that a difference could answer, or for the digest in answers (ZONEMD).

use nameward_base::sync::Mutex;
use nameward_serve::seconds_since_1970;
use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::transfer_out::encode::{CopyDigest, SignedCopy, SignedCopyError};
use nameward_stats::Counter;
use nameward_wire::NameBuf;
use nameward_zone::Zone;
use tokio::sync::Notify;

use super::TransferCounters;
use super::copy_job::{CopyJob, CopySource, CopyStep, JobFault};
use super::fault::PrepareFault;
use super::sent::SentVersions;
use super::signers::SignerQueue;
use super::version_state::VersionState;

/// Number of pieces signed ahead of the fastest client. At sixteen names each, that is about a megabyte.
const LEAD: usize = 256;
/// All pieces.
const ALL: usize = usize::MAX;

/// The signed copies of a server.
pub(super) struct OutgoingCopies {
    /// The versions that were sent last.
    pub(super) sent: SentVersions,
    pub(super) queue: Arc<SignerQueue>,
    counters: Arc<TransferCounters>,
    newest: Mutex<HashMap<NameBuf, NewestCopy>>,
}

/// The newest requested version of a zone, which is in use, or kept to compute differences.
struct NewestCopy {
    state: VersionState,
    job: Weak<CopyJob>,
    version: Weak<Zone>,
}

/// A copy that can be sent.
pub(super) enum OpenedCopy {
    /// A complete version.
    Version(Arc<Zone>),
    /// A copy in progress, piece by piece.
    Reader(CopyReader),
}

/// A client of a copy. Dropping the last reader cancels the copy.
pub(super) struct CopyReader {
    copies: Arc<OutgoingCopies>,
    job: Arc<CopyJob>,
    wake: Arc<Notify>,
}

impl OutgoingCopies {
    pub(super) fn new(sent: SentVersions, counters: Arc<TransferCounters>) -> Arc<Self> {
        Arc::new(OutgoingCopies {
            sent,
            queue: Arc::default(),
            counters,
            newest: Mutex::default(),
        })
    }

    pub(super) fn in_progress(&self) -> usize {
        let newest = self.newest.lock();
        let jobs = newest.values().filter_map(|copy| copy.job.upgrade());
        jobs.filter(|job| job.end.get().is_none()).count()
    }

    /// Returns the version of a zone in this state, if it is complete.
    pub(super) fn find(&self, name: &NameBuf, state: &VersionState) -> Option<Arc<Zone>> {
        let newest = self.newest.lock();
        let copy = newest.get(name).filter(|copy| copy.state.is_same(state));
        copy?.version.upgrade()
    }

    /// Remembers a complete version.
    pub(super) fn remember(&self, name: NameBuf, state: VersionState, version: &Arc<Zone>) {
        let copy = NewestCopy {
            state,
            job: Weak::new(),
            version: Arc::downgrade(version),
        };
        self.insert(&mut self.newest.lock(), name, copy);
    }

    fn insert(&self, newest: &mut HashMap<NameBuf, NewestCopy>, name: NameBuf, copy: NewestCopy) {
        newest.retain(|_, copy| copy.job.strong_count() + copy.version.strong_count() > 0);
        newest.insert(name, copy);
    }

    /// Returns the copy of a version, starting one if there is none. The signers must be running.
    pub(super) fn open(
        self: &Arc<Self>,
        state: VersionState,
        source: impl FnOnce() -> Result<CopySource, PrepareFault>,
        name: NameBuf,
    ) -> Result<OpenedCopy, PrepareFault> {
        let mut newest = self.newest.lock();
        if let Some(found) = newest.get(&name).filter(|copy| copy.state.is_same(&state)) {
            if let Some(version) = found.version.upgrade() {
                return Ok(OpenedCopy::Version(version));
            }
            let job = found.job.upgrade();
            let in_use = job.filter(|job| !matches!(job.end.get(), Some(Err(_))));
            if let Some(job) = in_use {
                return Ok(OpenedCopy::Reader(self.read(job)));
            }
        }
        let job = Arc::new(CopyJob::new(name, source()?, LEAD));
        let copy = NewestCopy {
            state,
            job: Arc::downgrade(&job),
            version: Weak::new(),
        };
        self.insert(&mut newest, name, copy);
        let reader = self.read(job);
        drop(newest);
        self.queue.push(&reader.job);
        Ok(OpenedCopy::Reader(reader))
    }

    /// Adds a reader. The caller holds the lock of `newest`, under which copies are cancelled.
    fn read(self: &Arc<Self>, job: Arc<CopyJob>) -> CopyReader {
        let wake = Arc::new(Notify::new());
        job.readers.lock().push(Arc::clone(&wake));
        CopyReader {
            copies: Arc::clone(self),
            job,
            wake,
        }
    }

    /// Starts the signing threads, unless they are running. They do not keep the copies alive: the owner of the
    /// copies closes the queue.
    pub(super) fn start_signers(self: &Arc<Self>, threads: (usize, f64)) -> io::Result<()> {
        let copies = Arc::downgrade(self);
        self.queue.start(threads, move |job, step, pause| {
            let Some(copies) = copies.upgrade() else {
                return false;
            };
            let run = AssertUnwindSafe(|| copies.run(job, step, pause));
            if catch_unwind(run).is_err() {
                job.finish(Err(JobFault::Panicked));
            }
            true
        })
    }

    /// Performs a step of the work. `pause` keeps the thread to its share of the CPU.
    fn run(&self, job: &Arc<CopyJob>, step: CopyStep, pause: &mut dyn FnMut()) {
        let done = match step {
            CopyStep::Prepare => self.prepare(job),
            CopyStep::Sign(piece) => self.sign(job, piece, pause),
        };
        if let Err(fault) = done {
            job.finish(Err(JobFault::Copy(fault)));
        }
        self.queue.push(job);
    }

    fn prepare(&self, job: &CopyJob) -> Result<(), SignedCopyError> {
        let CopySource {
            zone,
            signing,
            digest,
        } = &job.source;
        let now = seconds_since_1970();
        let copy = SignedCopy::new(Arc::clone(zone), Arc::clone(signing), now, *digest)?;
        let copy = copy.with_previous(self.sent.newest(zone));
        let _ = job.copy.set(Arc::new(copy));
        job.wake_readers();
        Ok(())
    }

    fn sign(
        &self,
        job: &CopyJob,
        piece: usize,
        pause: &mut dyn FnMut(),
    ) -> Result<(), SignedCopyError> {
        let Some(copy) = job.copy.get() else {
            return Ok(());
        };
        // If the copy was cancelled in between and has a reader again, the piece is signed once more.
        loop {
            let made = copy.sign(piece, &mut || {
                pause();
                job.is_read()
            })?;
            self.counters.add(Counter::Signatures, made.into());
            if copy.has(piece) {
                break;
            }
            if job.end.get().is_some() || self.cancel_unread(job) {
                return Ok(());
            }
        }
        let signed = job.signed.fetch_add(1, Ordering::AcqRel) + 1;
        if signed == copy.pieces() {
            self.complete(job, copy)?;
        }
        job.wake_readers();
        Ok(())
    }

    /// Stores a completely signed copy for later clients.
    fn complete(&self, job: &CopyJob, copy: &SignedCopy) -> Result<(), SignedCopyError> {
        let has_digest = job.source.digest == CopyDigest::Made;
        if copy.octets() > self.sent.octets_max() {
            tracing::warn!(
                "zone {}: its signed version takes {} MiB, more than server.transfers_out_kept_mb: the next transfer \
                 is an AXFR and is signed again",
                job.name,
                copy.octets().div_ceil(1 << 20)
            );
        }
        if !has_digest && copy.octets() > self.sent.octets_max() {
            job.finish(Ok(None));
            return Ok(());
        }
        let (version, made) = copy.finish()?;
        self.counters.add(Counter::Signatures, made.into());
        let is_newest = |copy: &NewestCopy| std::ptr::eq(copy.job.as_ptr(), job);
        // A version older than the newest requested one must not become the base of differences.
        let is_noted = self.newest.lock().get(&job.name).is_some_and(is_newest);
        let version = if is_noted {
            self.sent.record(version)
        } else {
            version
        };
        let mut newest = self.newest.lock();
        if let Some(copy) = newest.get_mut(&job.name).filter(|copy| is_newest(copy)) {
            copy.version = Arc::downgrade(&version);
        }
        drop(newest);
        job.finish(Ok(Some(version)));
        Ok(())
    }

    /// Cancels a copy that has no reader; returns whether it did.
    fn cancel_unread(&self, job: &CopyJob) -> bool {
        let mut newest = self.newest.lock();
        if job.is_read() {
            return false;
        }
        if newest
            .get(&job.name)
            .is_some_and(|copy| std::ptr::eq(copy.job.as_ptr(), job))
        {
            newest.remove(&job.name);
        }
        job.finish(Err(JobFault::GivenUp));
        true
    }
}

impl CopyReader {
    /// Replaces the notification that signals further pieces.
    pub(super) fn wake_by(&mut self, wake: Arc<Notify>) {
        let mut readers = self.job.readers.lock();
        if let Some(own) = readers.iter_mut().find(|own| Arc::ptr_eq(own, &self.wake)) {
            *own = Arc::clone(&wake);
        }
        drop(readers);
        self.wake = wake;
        // Covers an event in between.
        self.wake.notify_one();
    }

    /// Records that the client has reached this piece.
    pub(super) fn advance(&self, position: usize) {
        self.job.need(position.saturating_add(LEAD));
        self.copies.queue.push(&self.job);
    }

    /// Returns why the copy cannot be completed.
    pub(super) fn fault(&self) -> Option<PrepareFault> {
        let fault = self.job.end.get()?.as_ref().err()?;
        Some(match fault {
            JobFault::Copy(error) => PrepareFault::Unsigned(error.clone()),
            JobFault::Panicked | JobFault::GivenUp => PrepareFault::SigningEnded,
        })
    }

    /// Waits until sending from the copy can start.
    pub(super) async fn started(&self) -> Result<Arc<SignedCopy>, PrepareFault> {
        loop {
            if let Some(fault) = self.fault() {
                return Err(fault);
            }
            if let Some(copy) = self.job.copy.get() {
                return Ok(Arc::clone(copy));
            }
            self.wake.notified().await;
        }
    }

    /// Waits for the complete version; `None` if it is too large to be stored.
    pub(super) async fn completed(&self) -> Result<Option<Arc<Zone>>, PrepareFault> {
        self.job.need(ALL);
        self.copies.queue.push(&self.job);
        loop {
            if let Some(fault) = self.fault() {
                return Err(fault);
            }
            if let Some(Ok(version)) = self.job.end.get() {
                return Ok(version.clone());
            }
            self.wake.notified().await;
        }
    }
}

impl Drop for CopyReader {
    fn drop(&mut self) {
        self.job
            .readers
            .lock()
            .retain(|own| !Arc::ptr_eq(own, &self.wake));
        // A completely signed copy is stored even without readers.
        let is_whole = self.job.copy.get().is_some_and(|copy| copy.is_whole());
        if !is_whole && self.copies.cancel_unread(&self.job) {
            self.copies.queue.remove(&self.job);
        }
    }
}
