//! Requests and results for the query log.

use serde::{Deserialize, Serialize};

/// The responses to log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryLogTemplate {
    /// For names at and below these; all if empty.
    #[serde(default)]
    pub zones: Vec<String>,
    /// To clients in these networks; all if empty.
    #[serde(default)]
    pub clients: Vec<String>,
    /// Sampling: one in this many.
    #[serde(default = "one")]
    pub share: u32,
}

fn one() -> u32 {
    1
}

/// The state of the query log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryLogStatus {
    /// Whether it is on.
    pub is_on: bool,
    /// Where lines are written: a file, or `stderr`.
    pub output: String,
    /// For names at and below these; all if empty.
    pub zones: Vec<String>,
    /// To clients in these networks; all if empty.
    pub clients: Vec<String>,
    /// Sampling: one in this many.
    pub share: u32,
    /// Lines written since the start.
    pub written: u64,
    /// Lines dropped since the start.
    pub dropped: u64,
    /// The last write error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// Formats the state of the query log.
pub(crate) fn query_log_text(status: &QueryLogStatus) -> String {
    let QueryLogStatus {
        output,
        share,
        written,
        dropped,
        ..
    } = status;
    let state = if status.is_on { "on" } else { "off" };
    let all_or = |list: &[String]| {
        if list.is_empty() {
            "all".to_string()
        } else {
            list.join(", ")
        }
    };
    let (zones, clients) = (all_or(&status.zones), all_or(&status.clients));
    let mut text = format!(
        "query log      {state}\noutput         {output}\nzones          {zones}\nclients        {clients}\nshare     \
             1 in {share}\nwritten        {written} lines since start\ndropped        {dropped} lines since start\n"
    );
    if let Some(error) = &status.last_error {
        text.push_str(&format!("last error     {error}\n"));
    }
    text
}
