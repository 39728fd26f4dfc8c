//! Owns the status of a zone: its serials, its transfers, its signing and its secondaries.

use serde::{Deserialize, Serialize};

use crate::operations::{ListedSecondary, ListedSigning};

/// The status of a zone: its serial, and where it comes from primaries, how it fares with them. Times are in seconds since
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,
    /// The serial that a primary had when it last said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial_at_primary: Option<u32>,
    /// When a primary was last asked, since the start of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_check: Option<u64>,
    /// When a primary last confirmed the contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refresh: Option<u64>,
    /// When the next check starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_check: Option<u64>,
    /// When the contents are not served any more unless a primary confirms them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Whether a check or transfer is under way.
    pub is_checking: bool,
    /// Whether it waits for its turn to be transferred.
    #[serde(default)]
    pub is_queued: bool,
    /// Number of consecutive failed checks.
    pub failures: u32,
    /// Why the last check failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The running transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<RunningTransferStatus>,
    /// How it is signed by this server, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing: Option<Box<ListedSigning>>,
    /// Its secondaries and their serials, if they were queried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// Octets of these.
    pub octets: u64,
    /// Seconds since it began.
    pub seconds: u64,
}
