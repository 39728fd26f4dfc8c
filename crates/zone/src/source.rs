//! The interface between looked-up zones and the backends that hold their contents.
//!
//! A backend answers a [`LookupRequest`] with a [`ZoneFragment`]: an ordinary zone with the few names that any query for
//! one name may need. Pending requests are combined into a [`LookupBatch`], which queries the backend once for all of
//! them.

use crate::zone::Zone;
use nameward_wire::{Name, NameBuf};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A lookup of one name in a zone that a backend has.
#[derive(Debug, Clone, Copy)]
pub struct LookupRequest<'n> {
    /// The zone ID in the backend.
    pub zone: i64,
    /// The zone name.
    pub apex: Name<'n>,
    /// A name at or below the apex, in lower case.
    pub name: Name<'n>,
}

/// The fragment of a zone that answers every query for one name.
#[derive(Clone)]
pub struct ZoneFragment {
    /// An ordinary zone with the few names that matter.
    pub zone: Arc<Zone>,
    /// The number of backend queries it took.
    pub statements: u32,
    /// The backend returned the same zone for other names too, so caching it for one more takes no memory.
    pub is_shared: bool,
}

/// The reason why a backend returned no contents, for the extended DNS error (RFC 8914).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendFailure {
    /// The backend does not respond.
    Unreachable,
    /// The backend's data is unusable.
    BadData,
    /// The contents have not been delivered yet, or never can be; only the zone name is known.
    NotReady,
}

/// The reason why a lookup failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub struct LookupError {
    /// Whether the backend or its data is at fault.
    pub kind: BackendFailure,
    /// The reason in words, for the log.
    pub reason: String,
}

/// The number of zones for which a backend caches keys and metadata.
#[derive(Debug, Clone, Copy, Default)]
pub struct CacheSizes {
    /// Zones whose keys are cached.
    pub keys: usize,
    /// Zones whose metadata is cached.
    pub metadata: usize,
}

/// The outcome of one lookup in a batch.
pub enum LookupEnd {
    /// The lookup is complete, or has failed.
    Done(Result<ZoneFragment, LookupError>),
    /// The lookup would delay the others: the caller runs it separately with [`LiveSource::lookup`].
    Alone,
}

/// The lookups that one round of a batch completed.
#[derive(Default)]
pub struct BatchRound {
    /// Completed lookups, each with its index in the batch.
    pub ended: Vec<(usize, LookupEnd)>,
    /// The number of backend queries.
    pub statements: u32,
}

/// Lookups that share backend queries. Every lookup completes after a bounded number of rounds.
pub trait LookupBatch: Send {
    /// Queries the backend once for everything that is missing.
    fn round<'a>(&'a mut self) -> Pin<Box<dyn Future<Output = BatchRound> + Send + 'a>>;
}

/// A lookup in progress.
pub type LookupFuture<'a> =
    Pin<Box<dyn Future<Output = Result<ZoneFragment, LookupError>> + Send + 'a>>;

/// A full zone read in progress.
pub type ZoneFuture<'a> = Pin<Box<dyn Future<Output = Result<Zone, LookupError>> + Send + 'a>>;

/// A backend that holds the contents of live zones.
pub trait LiveSource: Send + Sync + 'static {
    /// Looks up a name.
    fn lookup<'a>(&'a self, request: LookupRequest<'a>) -> LookupFuture<'a>;

    /// Returns how many batches of lookups can run at the same time; 0 if each lookup runs separately.
    fn batches(&self) -> usize {
        0
    }

    /// Starts a batch of lookups; `None` if batches are not supported.
    fn batch<'a>(&'a self, requests: &[LookupRequest<'a>]) -> Option<Box<dyn LookupBatch + 'a>> {
        let _ = requests;
        None
    }

    /// Reads a whole zone as one version; the name in the request is ignored.
    fn read_zone<'a>(&'a self, request: LookupRequest<'a>) -> ZoneFuture<'a> {
        let apex = NameBuf::from(request.apex);
        Box::pin(async move {
            Err(LookupError {
                kind: BackendFailure::NotReady,
                reason: format!("{apex} is a live zone and cannot be read as a whole"),
            })
        })
    }

    /// Checks whether lookups run on the calling thread, and may briefly block it.
    fn is_blocking(&self) -> bool;

    /// Checks whether the last request to the backend succeeded.
    fn is_up(&self) -> bool;

    /// Returns the number of zones with cached keys and metadata.
    fn cache_sizes(&self) -> CacheSizes {
        CacheSizes::default()
    }

    /// Drops cached data about a zone (`None`: about all zones); returns the number of entries dropped.
    fn forget(&self, _zone: Option<i64>) -> usize {
        0
    }
}
