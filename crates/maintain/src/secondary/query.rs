//! Questions to primaries and their answers.

use crate::policy::RemoteServer;
use crate::schedule::ZoneNumber;
use crate::transfer::{MemoryShare, WholeZone};
use nameward_wire::NameBuf;
use nameward_zone::Serial;
use nameward_zone::change::Difference;
use std::time::Duration;

#[cfg(doc)]
use super::Secondaries;

/// Asks primaries; the answer comes back by [`Secondaries::answered`].
pub trait AskPrimary {
    /// Begins to ask. It must not wait.
    fn ask(&mut self, ask: Ask);
}

/// The way in which a newer version is transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferWay {
    /// By its differences (IXFR), if the primary has them.
    Incremental,
    /// As a whole (AXFR).
    Whole,
}

/// A request to a primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskStep {
    /// Its serial, over UDP: no transfer has to end for that.
    Serial,
    /// The version that it has, over TCP.
    Transfer(TransferWay),
}

/// A question to a primary: whether it has a newer version of a zone, or for that version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// To be given back with the answer.
    pub ticket: AskTicket,
    /// The zone.
    pub zone: NameBuf,
    /// The server to ask.
    pub primary: RemoteServer,
    /// The version that is here.
    pub have: Option<Serial>,
    /// The request.
    pub step: AskStep,
    /// Octets of memory that a transferred version may take.
    pub octets_max: u64,
}

/// Identifies a question. An answer to one that is not under way any more is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AskTicket {
    pub(super) zone: ZoneNumber,
    pub(super) number: u64,
}

/// The answer of a primary.
pub enum PrimaryAnswer {
    /// The serial it has, which is not newer.
    Same(Serial),
    /// It has this newer serial, or does not say over UDP: the zone has to be transferred.
    Newer(Option<Serial>),
    /// The differences that lead from the version that is here to a newer one (RFC 1995).
    Differences(Vec<Difference>),
    /// A whole version (RFC 5936).
    Whole(Box<WholeZone>),
}

/// The answer of a primary with its size and time.
pub struct PrimaryReply {
    /// The answer.
    pub answer: PrimaryAnswer,
    /// How long the primary's own copy is good, if it says so (RFC 7314).
    pub expire: Option<Duration>,
    /// Records that were transferred.
    pub records: u64,
    /// Octets of these.
    pub octets: u64,
    /// The time from the question to the end of the answer.
    pub took: Duration,
    /// The memory of a transferred version, until it is committed.
    pub memory: Option<Box<MemoryShare>>,
}

impl From<PrimaryAnswer> for PrimaryReply {
    fn from(answer: PrimaryAnswer) -> Self {
        PrimaryReply {
            answer,
            expire: None,
            records: 0,
            octets: 0,
            took: Duration::ZERO,
            memory: None,
        }
    }
}

/// Why a primary did not answer, in words for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PrimaryError(pub String);
