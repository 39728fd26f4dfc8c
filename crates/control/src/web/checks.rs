//! Health checks on the status page: a table that exists only while there are targets.

use nameward_base::calendar::UtcTime;
use nameward_base::text::counted;

use crate::operations::{ForcedTarget, HealthTarget};

/// Maximum number of targets listed.
const ROWS: usize = 100;

/// The table of health checks.
pub struct ChecksTable {
    /// The entry of the jump list.
    pub short: String,
    /// Targets that are down first.
    pub rows: Vec<CheckRow>,
    /// The number of targets that are not listed.
    pub more: usize,
}

/// A target and its state.
pub struct CheckRow {
    pub target: String,
    pub state: &'static str,
    pub since: String,
    /// Why the last check failed, or that an operator set the state.
    pub note: String,
}

/// The state that answers depend on.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum EffectiveState {
    Down,
    Unknown,
    Up,
}

fn effective(target: &HealthTarget) -> EffectiveState {
    match (target.forced, &target.state[..]) {
        (Some(ForcedTarget::Up), _) => EffectiveState::Up,
        (Some(ForcedTarget::Down), _) => EffectiveState::Down,
        (_, "up") => EffectiveState::Up,
        (_, "down") => EffectiveState::Down,
        _ => EffectiveState::Unknown,
    }
}

impl ChecksTable {
    /// Builds the table; `None` if nothing is checked.
    pub fn new(targets: &[HealthTarget]) -> Option<Self> {
        if targets.is_empty() {
            return None;
        }
        let mut sorted: Vec<&HealthTarget> = targets.iter().collect();
        sorted.sort_by_key(|target| effective(target));
        let is_down = |target: &&HealthTarget| effective(target) == EffectiveState::Down;
        let short = match targets.iter().filter(is_down).count() {
            0 => counted(targets.len(), "health check"),
            down => format!("{}, {down} down", counted(targets.len(), "health check")),
        };
        Some(ChecksTable {
            short,
            rows: sorted.iter().take(ROWS).map(|target| row(target)).collect(),
            more: targets.len().saturating_sub(ROWS),
        })
    }
}

fn row(target: &HealthTarget) -> CheckRow {
    let note = match target.forced {
        Some(ForcedTarget::Up | ForcedTarget::Down) => {
            format!("set by an operator; checks find it {}", target.state)
        }
        Some(ForcedTarget::Auto) | None => match (target.servers, target.error.is_empty()) {
            (None, _) => target.error.clone(),
            (Some(votes), true) => votes.to_string(),
            (Some(votes), false) => format!("{votes}; here: {}", target.error),
        },
    };
    CheckRow {
        target: target.target.clone(),
        state: match effective(target) {
            EffectiveState::Down => "down",
            EffectiveState::Unknown => "not checked yet",
            EffectiveState::Up => "up",
        },
        since: UtcTime::from_unix(target.since).to_string(),
        note,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::TargetVotes;

    fn target(number: usize, state: &str) -> HealthTarget {
        HealthTarget {
            target: format!("192.0.2.1 port {number}"),
            state: state.into(),
            servers: None,
            forced: None,
            since: 0,
            last_checked: 0,
            error: String::new(),
        }
    }

    #[test]
    fn targets_that_are_down_come_first() {
        assert!(ChecksTable::new(&[]).is_none());
        let mut targets: Vec<_> = (0..150).map(|number| target(number, "up")).collect();
        targets[149] = target(149, "down");
        targets[120].forced = Some(ForcedTarget::Down);
        targets[110] = target(110, "unknown");
        let table = ChecksTable::new(&targets).unwrap();
        assert_eq!(table.short, "150 health checks, 2 down");
        assert_eq!((table.rows.len(), table.more), (100, 50));
        let first: Vec<_> = { table.rows.iter() }
            .map(|row| (&row.target[10..], row.state))
            .take(4)
            .collect();
        targets[149].servers = Some(TargetVotes { up: 1, down: 2 });
        targets[149].error = "timed out".into();
        let shared = ChecksTable::new(&targets).unwrap();
        assert_eq!(shared.rows[1].note, "up at 1 of 3 servers; here: timed out");
        let expected = [
            ("port 120", "down"),
            ("port 149", "down"),
            ("port 110", "not checked yet"),
            ("port 0", "up"),
        ];
        assert_eq!(first, expected);
        assert_eq!(table.rows[0].note, "set by an operator; checks find it up");
    }
}
