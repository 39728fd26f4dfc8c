//! Views and networks as pdnsutil prints them.

use nameward_control::operations::{OperationError, OperationRequest};

use crate::{
    command_error::CommandResult,
    config::Overrides,
    remote::{self, only},
};

pub(super) fn list_all(overrides: &Overrides) -> CommandResult<String> {
    let views = remote::list(OperationRequest::ViewList, overrides, only!(View))?;
    Ok(views.into_iter().map(|view| view.name + "\n").collect())
}

/// Prints the zone versions of a view.
pub(super) fn list(name: &str, overrides: &Overrides) -> CommandResult<String> {
    let views = remote::list(OperationRequest::ViewList, overrides, only!(View))?;
    match views.into_iter().find(|view| view.name == name) {
        Some(view) => Ok(view.zones.iter().map(|zone| format!("{zone}\n")).collect()),
        None => Err(OperationError::not_found(format!("view {name} not found")).into()),
    }
}

/// Prints the networks with their views.
pub(super) fn list_networks(overrides: &Overrides) -> CommandResult<String> {
    let networks = remote::list(OperationRequest::NetworkList, overrides, only!(Network))?;
    let lines = networks.iter().map(|network| {
        let view = network.view.as_deref().unwrap_or_default();
        format!("{}\t{view}\n", network.network)
    });
    Ok(lines.collect())
}
