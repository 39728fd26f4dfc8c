//! The health of pool members and of targets in LUA records: the results of checks, and states forced by an operator.

use std::fmt;

use nameward_base::text::counted;
use serde::{Deserialize, Serialize};

/// A state that an operator sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForcedTarget {
    /// Up, regardless of checks.
    Up,
    /// Down, regardless of checks.
    Down,
    /// As the checks report.
    Auto,
}

/// How many servers, this one included, consider a target up or down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetVotes {
    /// Servers that consider it up.
    pub up: u16,
    /// Servers that consider it down.
    pub down: u16,
}

/// "up at 1 of 3 servers".
impl fmt::Display for TargetVotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = usize::from(self.up) + usize::from(self.down);
        write!(f, "up at {} of {}", self.up, counted(all, "server"))
    }
}

/// A target and the state of its check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthTarget {
    /// The target and how it is checked.
    pub target: String,
    /// `up`, `down` or `unknown`: the result of this server's checks, or of all servers that share their results.
    pub state: String,
    /// How many servers consider it up and down, if others share their results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<TargetVotes>,
    /// The state that an operator set, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forced: Option<ForcedTarget>,
    /// Since when it is in this state, in seconds since 1970.
    pub since: u64,
    /// When it was last checked, in seconds since 1970; 0 if never.
    pub last_checked: u64,
    /// Why the last check failed; empty if it did not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// Formats the state of all targets.
pub(crate) fn health_text(targets: &[HealthTarget]) -> String {
    if targets.is_empty() {
        return "no targets are checked\n".to_owned();
    }
    let lines = targets.iter().map(|target| {
        let HealthTarget {
            target: name,
            state,
            error,
            ..
        } = target;
        let forced = match target.forced {
            Some(ForcedTarget::Up) => ", forced up",
            Some(ForcedTarget::Down) => ", forced down",
            Some(ForcedTarget::Auto) | None => "",
        };
        let votes = { target.servers }.map_or_else(String::new, |votes| format!(", {votes}"));
        let reason = if error.is_empty() {
            String::new()
        } else {
            format!(" ({error})")
        };
        format!("{state:<8} {name}{forced}{votes}{reason}\n")
    });
    lines.collect()
}
