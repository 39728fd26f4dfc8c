//! Owns the requests and results about what is written down: the query log.

use serde::{Deserialize, Serialize};

/// The answers that are to be logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryLogTemplate {
    /// About names at and below these; all if there are none.
    #[serde(default)]
    pub zones: Vec<String>,
    /// To clients in these networks; all if there are none.
    #[serde(default)]
    pub clients: Vec<String>,
    /// Of these, one in so many.
    #[serde(default = "one")]
    pub share: u32,
}

fn one() -> u32 {
    1
}

/// The state of the query log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryLogStatus {
    /// It is on.
    pub is_on: bool,
    /// Where lines go: a file, or `stderr`.
    pub output: String,
    /// About names at and below these; all if there are none.
    pub zones: Vec<String>,
    /// To clients in these networks; all if there are none.
    pub clients: Vec<String>,
    /// Of these, one in so many.
    pub share: u32,
    /// Lines that were written since the start.
    pub written: u64,
    /// Lines that were dropped since the start.
    pub dropped: u64,
    /// Why lines could not be written the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}
