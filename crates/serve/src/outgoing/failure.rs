//! Failures of queries to primaries, worded for the log and for `nameward zone status`.

use std::io;
use std::time::Duration;

use nameward_maintain::transfer::{MemoryRefused, TransferFailure};

/// Why a query to a primary failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskFailure {
    /// A network error.
    #[error("{0}: {1}")]
    Network(&'static str, io::Error),
    /// A timeout.
    #[error("{0}")]
    Timeout(&'static str),
    /// The primary sends less than the minimum rate.
    #[error(
        "the primary sends too slowly: {octets} octets in {seconds:.0} s, and transfer_rate_min is {least} octets a second"
    )]
    TooSlow {
        /// Octets received.
        octets: u64,
        /// The time they took in seconds.
        seconds: f64,
        /// The minimum rate.
        least: u64,
    },
    /// The memory limit for incoming transfers is reached.
    #[error("{}", memory_text(*.0))]
    Memory(MemoryRefused),
    /// The primary does not answer.
    #[error("the primary does not answer")]
    NoAnswer,
    /// The primary did not answer another query a moment ago.
    #[error("the primary did not answer {} s ago", .0.as_secs())]
    Silent(Duration),
    /// Its response was rejected.
    #[error("{0}")]
    Peer(#[from] TransferFailure),
    /// The primary's TSIG key is unknown.
    #[error("the TSIG key {0} is not known: add a [[key]] of that name")]
    NoKey(String),
}

impl AskFailure {
    /// Checks whether nothing at all was received from the primary.
    pub(super) fn is_silence(&self) -> bool {
        matches!(self, AskFailure::NoAnswer)
    }
}

fn memory_text(refused: MemoryRefused) -> &'static str {
    match refused {
        MemoryRefused::TooLarge => {
            "the zone needs more than half of the memory of incoming transfers: raise transfers_in_memory_mb"
        }
        MemoryRefused::UsedUp => {
            "the memory of incoming transfers is used up by others (transfers_in_memory_mb)"
        }
    }
}
