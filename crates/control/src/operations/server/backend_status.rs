//! The state of a source of zones, as `nameward status` shows it.

use serde::{Deserialize, Serialize};

/// The state of a source of zones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendStatus {
    /// The number of the backend; 0 for zones that `[[zone]]` declares.
    pub backend: u32,
    /// `file`, `sqlite`, `postgres` or `mysql`.
    pub engine: String,
    /// The address of a database, without its password; the location of files.
    pub address: String,
    /// `live` or `resident`; files are always in memory.
    pub mode: String,
    /// It responds, or can be read.
    pub is_up: bool,
    /// Since when.
    pub since: u64,
    /// The last failure, even if it is up again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error_at: Option<u64>,
    /// Why changes made by others are not visible, if that is the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unseen_changes: Option<UnseenChanges>,
    /// How far the server that is read lags behind the one that is written, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<BackendLag>,
    /// Servers of the database that do not respond, if it has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_servers: Vec<FailedBackendServer>,
    /// Number of zones that it serves.
    pub zones: usize,
    /// None of its zones can be answered, except from the caches.
    #[serde(default)]
    pub is_lost: bool,
}

/// How far a database server lags behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendLag {
    /// Number of changes that it does not have yet.
    pub changes: u64,
    /// Age of the oldest of them, in seconds.
    pub seconds: u64,
    /// Tolerated lag in seconds.
    pub seconds_max: u64,
}

/// A database server that does not respond, while others of the same database may.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedBackendServer {
    /// Its address.
    pub server: String,
    /// Why.
    pub error: String,
    /// Since when.
    pub since: u64,
}

/// A failure to receive changes of a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnseenChanges {
    /// The last failure.
    pub error: String,
    /// When changes were last seen.
    pub since: u64,
}

impl BackendStatus {
    /// Returns the number of zones whose data is in an unreachable database. Resident zones without data are counted
    /// as not ready anyway.
    pub(super) fn unreachable_zones(&self) -> usize {
        let is_unreachable = self.is_lost && self.mode == "live";
        if is_unreachable { self.zones } else { 0 }
    }
}
