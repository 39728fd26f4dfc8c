//! The health of pool members and of targets that LUA records name: what the checks find, and what an operator forces.

use std::fmt;

use nameward_base::text::counted;
use serde::{Deserialize, Serialize};

/// A state that an operator sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForcedTarget {
    /// Up, whatever checks find.
    Up,
    /// Down, whatever checks find.
    Down,
    /// As checks find.
    Auto,
}

/// How many servers find a target up and down, this one included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetVotes {
    /// Servers that find it up.
    pub up: u16,
    /// Servers that find it down.
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
    /// `up`, `down` or `unknown`, as the checks of this server find, or those of all servers that share their results.
    pub state: String,
    /// How many servers find it up and down, if others share their results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<TargetVotes>,
    /// The state that an operator set, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
pub(in crate::operations) fn health_text(targets: &[HealthTarget]) -> String {
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
