//! Running transfers, as shown to operators, and the results of finished ones.

use nameward_base::sync::Mutex;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::transfer_in::{TransferAnswer, TransferReader};
use nameward_wire::NameBuf;

use super::failure::QueryFailure;

/// The progress of a running transfer.
#[derive(Debug)]
pub struct TransferProgress {
    /// The primary.
    pub primary: SocketAddr,
    /// When it started.
    pub started: Instant,
    records: AtomicU64,
    octets: AtomicU64,
    expire: OnceLock<u32>,
}

impl TransferProgress {
    /// Returns the number of records received.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Returns the octets of these records.
    pub fn octets(&self) -> u64 {
        self.octets.load(Ordering::Relaxed)
    }

    /// Returns the remaining lifetime of the primary's own copy, if it sent one (RFC 7314).
    pub(super) fn expire(&self) -> Option<Duration> {
        let seconds = self.expire.get().copied();
        seconds.map(|seconds| Duration::from_secs(seconds.into()))
    }

    pub(super) fn update(&self, reader: &TransferReader) {
        self.records.store(reader.records(), Ordering::Relaxed);
        self.octets.store(reader.octets(), Ordering::Relaxed);
        if let Some(seconds) = reader.expire() {
            self.expire.get_or_init(|| seconds);
        }
    }
}

/// Counts of finished transfers by result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransferResults {
    /// Whole zones received.
    pub whole: u64,
    /// Incremental transfers received.
    pub incremental: u64,
    /// The primary turned out to have no newer version.
    pub not_newer: u64,
    /// Transfers rejected for their content.
    pub refused: u64,
    /// Transfers that failed in the network.
    pub failed: u64,
}

/// The transfers of a server.
#[derive(Default)]
pub struct Transfers {
    running: Mutex<HashMap<NameBuf, Arc<TransferProgress>>>,
    results: Mutex<TransferResults>,
}

impl Transfers {
    /// Returns the progress of a zone's transfer, if one is running.
    pub fn get(&self, zone: &NameBuf) -> Option<Arc<TransferProgress>> {
        self.running.lock().get(zone).cloned()
    }

    /// Returns the number of running transfers.
    pub fn running(&self) -> usize {
        self.running.lock().len()
    }

    /// Returns the results so far.
    pub fn results(&self) -> TransferResults {
        *self.results.lock()
    }

    pub(super) fn begin(self: &Arc<Self>, zone: NameBuf, primary: SocketAddr) -> RunningTransfer {
        let progress = Arc::new(TransferProgress {
            primary,
            started: Instant::now(),
            records: AtomicU64::new(0),
            octets: AtomicU64::new(0),
            expire: OnceLock::new(),
        });
        self.running.lock().insert(zone, Arc::clone(&progress));
        RunningTransfer {
            zone,
            progress,
            transfers: Arc::clone(self),
        }
    }

    pub(super) fn count(&self, result: &Result<TransferAnswer, QueryFailure>) {
        let mut results = self.results.lock();
        let count = match result {
            Ok(TransferAnswer::Whole(_)) => &mut results.whole,
            Ok(TransferAnswer::Differences(_)) => &mut results.incremental,
            Ok(TransferAnswer::NotNewer(_)) => &mut results.not_newer,
            Err(QueryFailure::Peer(_)) => &mut results.refused,
            Err(_) => &mut results.failed,
        };
        *count += 1;
    }
}

/// Keeps a transfer registered as running until it is dropped.
pub(super) struct RunningTransfer {
    zone: NameBuf,
    progress: Arc<TransferProgress>,
    transfers: Arc<Transfers>,
}

impl Deref for RunningTransfer {
    type Target = TransferProgress;

    fn deref(&self) -> &TransferProgress {
        &self.progress
    }
}

impl Drop for RunningTransfer {
    fn drop(&mut self) {
        self.transfers.running.lock().remove(&self.zone);
    }
}
