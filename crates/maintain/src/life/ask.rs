//! Questions to primaries and their answers, and the status of a zone for people.

use crate::schedule::ZoneNumber;
use crate::zone::ZoneState;
use nameward_store::state::ZoneTimers;
use nameward_wire::NameBuf;
use nameward_zone::change::Difference;
use nameward_zone::{Serial, Zone};
use std::net::SocketAddr;

#[cfg(doc)]
use super::Secondaries;

/// Asks primaries; the answer comes back by [`Secondaries::answered`].
pub trait AskPrimary {
    /// Begins to ask. It must not wait.
    fn ask(&mut self, ask: Ask);
}

/// A question to a primary: whether it has a newer version of a zone, and what that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// To be given back with the answer.
    pub ticket: AskTicket,
    /// The zone.
    pub zone: NameBuf,
    /// Whom to ask.
    pub primary: SocketAddr,
    /// The version that is here.
    pub have: Option<Serial>,
}

/// Tells one question from another. An answer to one that is not under way any more is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AskTicket {
    pub(super) zone: ZoneNumber,
    pub(super) number: u64,
}

/// The answer of a primary.
pub enum PrimaryAnswer {
    /// The serial it has, which is not newer.
    Same(Serial),
    /// The differences that lead from the version that is here to a newer one (RFC 1995).
    Differences(Vec<Difference>),
    /// A whole version (RFC 5936).
    Whole(Box<Zone>),
}

/// Why a primary did not answer, in words for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PrimaryError(pub String);

/// The status of a zone, as people are shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondaryStatus {
    /// Its state.
    pub state: ZoneState,
    /// The serial that is here.
    pub serial: Option<Serial>,
    /// Its times.
    pub timers: ZoneTimers,
    /// Why the last check failed, if it did.
    pub last_error: Option<String>,
}
