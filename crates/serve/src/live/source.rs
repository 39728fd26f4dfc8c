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

/// A look-up in progress.
pub type Lookup<'a> = Pin<Box<dyn Future<Output = Result<Fetched, LookupError>> + Send + 'a>>;

/// Where the contents of live zones come from.
pub trait LiveSource: Send + Sync + 'static {
    /// Looks a name up.
    fn lookup<'a>(&'a self, wanted: &'a Wanted) -> Lookup<'a>;

    /// Whether look-ups run on the calling thread, and may block it for a moment.
    fn is_blocking(&self) -> bool;

    /// Whether it answered the last time.
    fn is_up(&self) -> bool;
}
