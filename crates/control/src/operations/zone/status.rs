//! The status of a zone: its serials, its transfers, its signing and its secondaries.

use serde::{Deserialize, Serialize};

use crate::operations::{ListedSecondary, ListedSigning};

/// The status of a zone: its serial and, for a zone with primaries, its refresh status. Times are in seconds since
/// 1970.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListedZoneStatus {
    /// The name, with its final dot.
    pub name: String,
    /// The kind: native, primary, secondary, producer, consumer.
    pub kind: String,
    /// `current`, `empty` (never transferred), `expired`, `not ready`, or `live` (looked up in a database).
    pub state: String,
    /// The serial here.
    pub serial: Option<u32>,
    /// The primary that was queried last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,
    /// The serial last reported by a primary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial_at_primary: Option<u32>,
    /// When a primary was last queried since the start of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_check: Option<u64>,
    /// When a primary last confirmed the contents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_refresh: Option<u64>,
    /// When the next check starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_check: Option<u64>,
    /// When the contents are no longer served unless a primary confirms them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Whether a check or transfer is in progress.
    pub is_checking: bool,
    /// Whether it waits in the queue for transfers.
    #[serde(default)]
    pub is_queued: bool,
    /// Number of consecutive failed checks.
    pub failures: u32,
    /// Why the last check failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The running transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer: Option<RunningTransferStatus>,
    /// How this server signs it, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing: Option<Box<ListedSigning>>,
    /// Its secondaries and their serials, if they were queried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secondaries: Option<Vec<ListedSecondary>>,
    /// The server's clock.
    pub now: u64,
}

/// A running transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningTransferStatus {
    /// The primary.
    pub primary: String,
    /// Number of records received.
    pub records: u64,
    /// Octets of these records.
    pub octets: u64,
    /// Seconds since it started.
    pub seconds: u64,
}
