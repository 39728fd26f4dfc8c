//! The interface between zones that are looked up and the backends that have their contents.
//!
//! A backend answers a [`LookupRequest`] with a [`ZonePart`]: an ordinary zone with the few names that every question for
//! one name may need. Requests that wait together go in a [`LookupBatch`], which asks the backend once for all of them.

use crate::zone::Zone;
use nameward_wire::NameBuf;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A request for a name of a zone that a backend has.
#[derive(Debug, Clone, Copy)]
pub struct LookupRequest {
    /// The number by which the backend knows the zone.
    pub zone: i64,
    /// The zone's name.
    pub apex: NameBuf,
    /// A name at or below it, in lower case.
    pub name: NameBuf,
}

/// The part of a zone that answers every question for one name.
#[derive(Clone)]
pub struct ZonePart {
    /// An ordinary zone with the few names that matter.
    pub zone: Arc<Zone>,
    /// How often the backend was asked for it.
    pub statements: u32,
    /// The backend gave the same zone for other names too, so keeping it for one more takes no memory.
    pub is_shared: bool,
}

/// Why a backend gave no contents, for the extended error (RFC 8914).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendFailure {
    /// It does not answer.
    Unreachable,
    /// Its data cannot be used.
    BadData,
    /// It has not given them yet, or never could; the zone is known by its name only.
    NotReady,
}

/// Why a look-up brought nothing.
#[derive(Debug, Clone)]
pub struct LookupError {
    /// Whether it is the backend or its data.
    pub kind: BackendFailure,
    /// For the log.
    pub reason: String,
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for LookupError {}

/// How many zones a backend keeps keys and metadata of.
#[derive(Debug, Clone, Copy, Default)]
pub struct CacheSizes {
    /// Zones whose keys are kept.
    pub keys: usize,
    /// Zones whose metadata is kept.
    pub metadata: usize,
}

/// The end of one look-up of a batch.
pub enum LookupEnd {
    /// It is complete, or failed.
    Done(Result<ZonePart, LookupError>),
    /// It would keep the others waiting: [`LiveSource::lookup`] does it by itself.
    Alone,
}

/// The look-ups that one round of a batch brought to an end.
#[derive(Default)]
pub struct BatchRound {
    /// Look-ups that ended, each with its place in the batch.
    pub ended: Vec<(usize, LookupEnd)>,
    /// How often the backend was asked.
    pub statements: u32,
}

/// Look-ups that share what the backend is asked. Every look-up ends after a bounded number of rounds.
pub trait LookupBatch: Send {
    /// Asks the backend once for all that is missing.
    fn round<'a>(&'a mut self) -> Pin<Box<dyn Future<Output = BatchRound> + Send + 'a>>;
}

/// A look-up in progress.
pub type LookupFuture<'a> =
    Pin<Box<dyn Future<Output = Result<ZonePart, LookupError>> + Send + 'a>>;

/// A zone that is being read as a whole.
pub type ZoneFuture<'a> = Pin<Box<dyn Future<Output = Result<Zone, LookupError>> + Send + 'a>>;

/// A backend that has the contents of live zones.
pub trait LiveSource: Send + Sync + 'static {
    /// Looks a name up.
    fn lookup<'a>(&'a self, request: &'a LookupRequest) -> LookupFuture<'a>;

    /// How many batches of look-ups it takes at one time; 0: each look-up goes by itself.
    fn batches(&self) -> usize {
        0
    }

    /// Begins look-ups that go together; `None` if it has no batches.
    fn batch<'a>(&'a self, requests: &[&LookupRequest]) -> Option<Box<dyn LookupBatch + 'a>> {
        let _ = requests;
        None
    }

    /// Reads a zone as a whole, as one version; the request's name does not matter.
    fn read_zone<'a>(&'a self, request: &'a LookupRequest) -> ZoneFuture<'a> {
        let apex = request.apex;
        Box::pin(async move {
            Err(LookupError {
                kind: BackendFailure::NotReady,
                reason: format!("{apex} cannot be read as a whole"),
            })
        })
    }

    /// Whether look-ups run on the calling thread, and may block it for a moment.
    fn is_blocking(&self) -> bool;

    /// Whether it answered the last time.
    fn is_up(&self) -> bool;

    /// How many zones it keeps facts about.
    fn cache_sizes(&self) -> CacheSizes {
        CacheSizes::default()
    }

    /// Drops what it keeps about a zone (`None`: about all); returns how many entries that were.
    fn forget(&self, _zone: Option<i64>) -> usize {
        0
    }
}
