//! Views and networks as pdnsutil prints them.

use nameward_control::operations::{ListedItem, OperationError, OperationRequest};

use super::PdnsStep;
use crate::{command_error::CommandError, config::Overrides, remote};

/// A list of views or networks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ViewStep {
    /// The names of all views.
    ListAll,
    /// The zone versions of a view.
    List(String),
    /// The networks with their views.
    ListNetworks,
}

/// Maps commands for views and networks; `None` if it is not one of them, or the arguments are wrong.
pub(super) fn plan(verb: &str, arguments: &[&str]) -> Option<Vec<PdnsStep>> {
    let step = match (verb, arguments) {
        ("view-list-all", []) => ViewStep::ListAll,
        ("view-list", [view]) => ViewStep::List((*view).into()),
        ("network-list", []) => ViewStep::ListNetworks,
        _ => return None,
    };
    Some(vec![PdnsStep::View(step)])
}

impl ViewStep {
    /// Returns the text.
    pub(super) fn run(&self, overrides: &Overrides) -> Result<String, CommandError> {
        let request = match self {
            ViewStep::ListNetworks => OperationRequest::NetworkList,
            ViewStep::ListAll | ViewStep::List(_) => OperationRequest::ViewList,
        };
        let (mut lines, mut is_known) = (String::new(), false);
        remote::send(request, overrides, &mut |item| match (self, item) {
            (ViewStep::ListAll, ListedItem::View(view)) => lines += &(view.name + "\n"),
            (ViewStep::List(name), ListedItem::View(view)) if view.name == *name => {
                is_known = true;
                view.zones.iter().for_each(|zone| {
                    lines += zone;
                    lines.push('\n');
                });
            }
            (ViewStep::ListNetworks, ListedItem::Network(network)) => {
                let view = network.view.unwrap_or_default();
                lines += &format!("{}\t{view}\n", network.network);
            }
            _ => {}
        })?;
        match self {
            ViewStep::List(name) if !is_known => {
                Err(OperationError::not_found(format!("view {name} not found")).into())
            }
            _ => Ok(lines),
        }
    }
}
