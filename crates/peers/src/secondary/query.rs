//! Queries to primaries and their answers.

use crate::transfer_in::{MemoryShare, WholeZone};
use nameward_maintain::policy::RemoteServer;
use nameward_maintain::schedule::ZoneNumber;
use nameward_wire::NameBuf;
use nameward_zone::Serial;
use nameward_zone::change::Difference;
use std::time::Duration;

#[cfg(doc)]
use super::Secondaries;

/// Queries primaries; the answer comes back through [`Secondaries::answered`].
pub trait QueryPrimary {
    /// Starts a query. It must not block.
    fn query(&mut self, request: PrimaryRequest);
}

/// The transfer method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferWay {
    /// Incremental (IXFR), if the primary has the differences.
    Incremental,
    /// The whole zone (AXFR).
    Whole,
}

/// A request to a primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrimaryRequestStep {
    /// Its serial, over UDP: this does not wait for transfers.
    Serial,
    /// Its version, over TCP.
    Transfer(TransferWay),
}

/// A query to a primary: whether it has a newer version of a zone, or for that version.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrimaryRequest {
    /// Returned with the answer.
    pub request_id: PrimaryRequestId,
    pub zone: NameBuf,
    pub primary: RemoteServer,
    /// The serial of our version.
    pub have: Option<Serial>,
    pub step: PrimaryRequestStep,
    /// Maximum memory for a transferred version in octets.
    pub octets_max: u64,
}

/// Identifies a query. An answer to one that is no longer in flight is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PrimaryRequestId {
    pub(super) zone: ZoneNumber,
    pub(super) number: u64,
}

/// The answer of a primary.
pub enum PrimaryAnswer {
    /// Its serial, which is not newer.
    Same(Serial),
    /// It has this newer serial, or did not give one over UDP: the zone must be transferred.
    Newer(Option<Serial>),
    /// The differences from our version to a newer one (RFC 1995).
    Differences(Vec<Difference>),
    /// A whole version (RFC 5936).
    Whole(Box<WholeZone>),
}

/// The answer of a primary with its size and time.
pub struct PrimaryReply {
    /// The answer.
    pub answer: PrimaryAnswer,
    /// The remaining lifetime of the primary's own copy, if it sent one (RFC 7314).
    pub expire: Option<Duration>,
    /// Number of transferred records.
    pub records: u64,
    /// Size of these records in octets.
    pub octets: u64,
    /// The time from the query to the end of the answer.
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

/// Why a primary did not answer, worded for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PrimaryError(pub String);
