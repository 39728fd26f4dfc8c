//! The targets of health checks for operators.

use std::net::IpAddr;

use nameward_control::operations::{
    ForcedTarget, HealthTarget, OperationError, OperationResult, Outcome, TargetVotes,
};
use nameward_steering::Steering;
use nameward_steering::health::{ForcedHealth, TargetHealth, TargetReport};

use super::core::ServerCore;

/// Returns all targets and their state.
pub fn list(steering: &Steering) -> OperationResult {
    OperationResult::Health {
        targets: all(steering),
    }
}

pub fn all(steering: &Steering) -> Vec<HealthTarget> {
    let reports = steering.health().reports();
    reports.into_iter().map(target).collect()
}

/// Forces the state of the targets with an address.
pub fn force(core: &ServerCore, address: IpAddr, state: ForcedTarget) -> Outcome {
    let forced = match state {
        ForcedTarget::Up => ForcedHealth::Up,
        ForcedTarget::Down => ForcedHealth::Down,
        ForcedTarget::Auto => ForcedHealth::No,
    };
    if core.shared_health.force(&core.steering, (address, forced)) == 0 {
        return Err(OperationError::not_found(format!(
            "{address} is not checked: no pool has it, and no LUA record that was run names it"
        )));
    }
    tracing::info!("health of {address} set by an operator: {state:?}");
    Ok(list(&core.steering))
}

fn target(report: TargetReport) -> HealthTarget {
    let state = match report.health {
        TargetHealth::Unknown => "unknown",
        TargetHealth::Down => "down",
        TargetHealth::Up(_) => "up",
    };
    let (others, is_up) = (report.others, |own| matches!(own, TargetHealth::Up(_)));
    let votes = TargetVotes {
        up: others.up + u16::from(is_up(report.own)),
        down: others.down + u16::from(report.own == TargetHealth::Down),
    };
    HealthTarget {
        target: report.check.to_string(),
        state: state.to_owned(),
        forced: match report.forced {
            ForcedHealth::No => None,
            ForcedHealth::Up => Some(ForcedTarget::Up),
            ForcedHealth::Down => Some(ForcedTarget::Down),
        },
        servers: (others.up + others.down > 0).then_some(votes),
        since: report.since,
        last_checked: report.last_checked,
        error: report.error,
    }
}
