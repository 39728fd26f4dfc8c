//! The reasons why a primary was asked in vain, in words for the log and for `nameward zone status`.

use std::io;
use std::time::Duration;

use nameward_maintain::transfer::{MemoryRefused, TransferFailure};

/// The reason why a primary was asked in vain.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskFailure {
    /// The network says no.
    #[error("{0}: {1}")]
    Network(&'static str, io::Error),
    /// Something takes too long.
    #[error("{0}")]
    Timeout(&'static str),
    /// The primary sends less than the lowest rate.
    #[error(
        "the primary sends too slowly: {octets} octets in {seconds:.0} s, and transfer_rate_min is {least} octets a second"
    )]
    TooSlow {
        /// Octets that arrived.
        octets: u64,
        /// The time they took.
        seconds: f64,
        /// The lowest rate.
        least: u64,
    },
    /// The memory of incoming transfers does not suffice.
    #[error("{}", memory_text(*.0))]
    Memory(MemoryRefused),
    /// The primary does not answer.
    #[error("the primary does not answer")]
    NoAnswer,
    /// The primary did not answer another question a moment ago.
    #[error("the primary did not answer {} s ago", .0.as_secs())]
    Silent(Duration),
    /// Its answer is not taken.
    #[error("{0}")]
    Peer(#[from] TransferFailure),
    /// The key of the primary is not known.
    #[error("the TSIG key {0} is not known: add a [[key]] of that name")]
    NoKey(String),
}

impl AskFailure {
    /// Returns whether nothing at all was heard of the primary.
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
