//! What a backend has to offer for zones that are looked up at query time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use nameward_answer::BackendFailure;
use nameward_wire::NameBuf;
use nameward_zone::Zone;

/// A look-up: which zone of the backend, and the name.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// What the backend knows the zone by.
    pub zone: i64,
    /// The zone's name.
    pub apex: NameBuf,
    /// A name at or below it, in lower case.
    pub name: NameBuf,
}

/// The part of a zone that answers every question for one name.
pub struct Fetched {
    /// An ordinary zone with the few names that matter.
    pub zone: Zone,
    /// How often the backend was asked for it.
    pub statements: u32,
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

/// How many zones a backend keeps facts about.
#[derive(Debug, Clone, Copy, Default)]
pub struct Kept {
    /// Their keys.
    pub keys: usize,
    /// Their metadata.
    pub metadata: usize,
}

/// What came of one look-up of a batch.
pub enum Ended {
    /// It is complete, or failed.
    Done(Result<Fetched, LookupError>),
    /// It would keep the others waiting: [`LiveSource::lookup`] does it by itself.
    Alone,
}

/// What one round of a batch brought.
pub struct Round {
    /// Look-ups that ended, each with its place in the batch.
    pub ended: Vec<(usize, Ended)>,
    /// How often the backend was asked.
    pub statements: u32,
}

/// Look-ups that share what the backend is asked. Every look-up ends after a bounded number of rounds.
pub trait LookupBatch: Send {
    /// Asks the backend once for all that is missing.
    fn round<'a>(&'a mut self) -> Pin<Box<dyn Future<Output = Round> + Send + 'a>>;
}

/// A look-up in progress.
pub type Lookup<'a> = Pin<Box<dyn Future<Output = Result<Fetched, LookupError>> + Send + 'a>>;

/// Where the contents of live zones come from.
pub trait LiveSource: Send + Sync + 'static {
    /// Looks a name up.
    fn lookup<'a>(&'a self, wanted: &'a Wanted) -> Lookup<'a>;

    /// How many batches of look-ups it takes at one time; 0: each look-up goes by itself.
    fn batches(&self) -> usize {
        0
    }

    /// Begins look-ups that go together; `None` if it has no batches.
    fn batch<'a>(&'a self, wanted: &[Wanted]) -> Option<Box<dyn LookupBatch + 'a>> {
        let _ = wanted;
        None
    }

    /// Whether look-ups run on the calling thread, and may block it for a moment.
    fn is_blocking(&self) -> bool;

    /// Whether it answered the last time.
    fn is_up(&self) -> bool;

    /// How much it keeps about zones.
    fn kept(&self) -> Kept {
        Kept::default()
    }

    /// Drops what it keeps about a zone (`None`: about all); returns how many entries that were.
    fn forget(&self, _zone: Option<i64>) -> usize {
        0
    }
}
