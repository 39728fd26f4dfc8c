//! Failures of queries to primaries, worded for the log and for `nameward zone status`.

use std::io;
use std::time::Duration;

use crate::transfer_in::{MemoryRefused, TransferFailure};

use crate::connections::{ConnectFailure, ExchangeFailure};

/// Why a query to a primary failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QueryFailure {
    #[error("{0}: {1}")]
    Network(&'static str, io::Error),
    /// A timeout.
    #[error("{0}")]
    Timeout(&'static str),
    #[error(
        "the transfer is too slow: {octets} octets in {seconds:.0} s, transfer_rate_min is {least} octets per second"
    )]
    TooSlow {
        octets: u64,
        seconds: f64,
        least: u64,
    },
    /// The memory limit for incoming transfers is reached.
    #[error("{}", memory_text(*.0))]
    Memory(MemoryRefused),
    /// There is no connection to the primary.
    #[error("{0}")]
    Connect(ConnectFailure),
    #[error("the primary does not respond")]
    NoAnswer,
    #[error("the primary did not respond {} s ago", .0.as_secs())]
    Silent(Duration),
    /// Its response was rejected.
    #[error("{0}")]
    Peer(#[from] TransferFailure),
    #[error("unknown TSIG key {0}; add a [[key]] with this name")]
    NoKey(String),
}

impl QueryFailure {
    /// Checks whether nothing at all was received from the primary.
    pub(super) fn is_unresponsive(&self) -> bool {
        matches!(self, QueryFailure::NoAnswer)
    }
}

impl From<ConnectFailure> for QueryFailure {
    fn from(failure: ConnectFailure) -> Self {
        match failure {
            ConnectFailure::TimedOut => QueryFailure::NoAnswer,
            other => QueryFailure::Connect(other),
        }
    }
}

impl From<ExchangeFailure> for QueryFailure {
    fn from(failure: ExchangeFailure) -> Self {
        match failure {
            ExchangeFailure::Connect(failure) => failure.into(),
            ExchangeFailure::Lost(error) => QueryFailure::Network("connection lost", error),
        }
    }
}

fn memory_text(refused: MemoryRefused) -> &'static str {
    match refused {
        MemoryRefused::TooLarge => {
            "the zone needs more than half of the memory for incoming transfers; raise transfers_in_memory_mb"
        }
        MemoryRefused::UsedUp => {
            "the memory for incoming transfers is in use by other transfers (transfers_in_memory_mb)"
        }
    }
}
