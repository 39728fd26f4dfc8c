//! Views and networks: the rules that select each view, its zone versions, and changes of those in the state store.

use ipnet::IpNet;
use nameward_maintain::stored_views::StoredViewError;
use nameward_wire::NameBuf;
use serde::{Deserialize, Serialize};

use super::result::dash_if_empty;
use super::tsig::stored_policy_error;
use super::{
    ItemSink, OperationError, OperationResult, Operations, Outcome, list_all, table_row, zone_name,
};

/// A zone version that was added to or removed from a view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedView {
    /// The view.
    pub view: String,
    /// The zone version.
    pub zone: String,
    /// Whether the view now has it.
    pub is_there: bool,
}

impl ChangedView {
    /// Formats the change.
    pub(super) fn text(&self) -> String {
        let word = if self.is_there { "added" } else { "removed" };
        format!("view {}: {word} {}\n", self.view, self.zone)
    }
}

/// A network with its view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedNetwork {
    /// The network, such as `10.0.0.0/8`.
    pub network: String,
    /// The view of its clients; none if it was removed.
    pub view: Option<String>,
}

table_row! { ListedNetwork as item:
    "NETWORK" = item.network,
    "VIEW" = dash_if_empty(item.view.as_deref().unwrap_or_default()),
}

impl ListedNetwork {
    /// Formats its change.
    pub(super) fn change_text(&self) -> String {
        match &self.view {
            Some(view) => format!("network {}: view {view}\n", self.network),
            None => format!("network {}: removed\n", self.network),
        }
    }
}

/// A view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedView {
    /// Its name.
    pub name: String,
    /// The networks whose clients see it.
    pub networks: Vec<String>,
    /// The TSIG keys that select it.
    pub keys: Vec<String>,
    /// The addresses of the server that select it.
    pub listen: Vec<String>,
    /// Whether it has a list of clients (`match_clients`), which takes precedence over all other rules.
    pub has_client_list: bool,
    /// Requests answered from it since it was added.
    #[serde(default)]
    pub requests: u64,
    /// Its zone versions, such as `example.org..internal`.
    pub zones: Vec<String>,
}

table_row! { ListedView as item:
    "VIEW" = item.name,
    "NETWORKS" = dash_if_empty(&item.networks.join(",")),
    "KEYS" = dash_if_empty(&item.keys.join(",")),
    "LISTEN" = dash_if_empty(&item.listen.join(",")),
    "ZONES" = item.zones.len(),
    "REQUESTS" = item.requests,
}

impl ListedView {
    /// Formats it as one line.
    pub(super) fn line(&self) -> String {
        format!("{}: {}", self.name, self.zones.join(" "))
    }
}

impl Operations {
    /// Lists the views.
    pub fn list_views(&self, items: ItemSink<'_>) -> Outcome {
        let table = self.commits.table().load();
        let views = table.views();
        let rules = views.map_or(&[][..], |views| views.rules());
        let listed = rules.iter().map(|rule| {
            let networks = rule.networks.iter();
            ListedView {
                name: rule.name.clone(),
                networks: networks
                    .map(|(address, prefix)| format!("{address}/{prefix}"))
                    .collect(),
                keys: rule.keys.iter().map(ToString::to_string).collect(),
                listen: rule.listen.iter().map(ToString::to_string).collect(),
                has_client_list: rule.match_clients.is_some(),
                requests: views.map_or(0, |views| views.requests(rule.id)),
                zones: rule.zones.iter().map(ToString::to_string).collect(),
            }
        });
        list_all(listed, items)
    }

    /// Lists the networks of all views, in the order of their addresses.
    pub fn list_networks(&self, items: ItemSink<'_>) -> Outcome {
        let table = self.commits.table().load();
        let rules = table.views().map_or(&[][..], |views| views.rules());
        let of_view = |rule: &nameward_zone::ViewRule| {
            let name = rule.name.clone();
            let networks = rule.networks.clone().into_iter();
            networks.map(move |network| (network, name.clone()))
        };
        let mut networks: Vec<_> = rules.iter().flat_map(of_view).collect();
        networks.sort();
        let listed = networks.into_iter().map(|((address, prefix), view)| {
            let network = format!("{address}/{prefix}");
            ListedNetwork {
                network,
                view: Some(view),
            }
        });
        list_all(listed, items)
    }

    /// Adds a zone version to a view.
    pub fn add_view_zone(&self, view: &str, zone: &str) -> Outcome {
        let version = zone_name(zone)?;
        let added = self.views.add_zone(view, &version);
        added.map_err(stored_view_error)?;
        tracing::info!("view {view}: added {version}");
        Ok(view_changed(view, &version, true))
    }

    /// Removes a zone version from a view.
    pub fn remove_view_zone(&self, view: &str, zone: &str) -> Outcome {
        let version = zone_name(zone)?;
        let removed = self.views.remove_zone(view, &version);
        if !removed.map_err(stored_view_error)? {
            return Err(OperationError::not_found(format!(
                "view {view} does not have {version}"
            )));
        }
        tracing::info!("view {view}: removed {version}");
        Ok(view_changed(view, &version, false))
    }

    /// Sets the view of a network.
    pub fn set_network(&self, network: &str, view: Option<&str>) -> Outcome {
        let read = network.parse::<IpNet>();
        let network = read
            .map_err(|_| {
                OperationError::invalid(format!(
                    "invalid network {network:?}: expected an address and a prefix length, as 10.0.0.0/8"
                ))
            })?
            .trunc();
        // An empty name removes a network, as in PowerDNS.
        let view = view.filter(|view| !view.is_empty());
        let is_set = self.views.set_network(network, view);
        if !is_set.map_err(stored_view_error)? {
            return Err(OperationError::not_found(format!(
                "network {network} has no view"
            )));
        }
        let changed = ListedNetwork {
            network: network.to_string(),
            view: view.map(str::to_owned),
        };
        tracing::info!("{}", changed.change_text().trim_end());
        Ok(OperationResult::NetworkChanged(changed))
    }
}

fn view_changed(view: &str, version: &NameBuf, is_there: bool) -> OperationResult {
    OperationResult::ViewChanged(ChangedView {
        view: view.to_owned(),
        zone: version.to_string(),
        is_there,
    })
}

fn stored_view_error(error: StoredViewError) -> OperationError {
    let text = error.to_string();
    match error {
        StoredViewError::Store(error) => stored_policy_error(error),
        StoredViewError::ConfiguredZone { .. } | StoredViewError::ConfiguredNetwork { .. } => {
            OperationError::conflict(text)
        }
        StoredViewError::Name(_) | StoredViewError::Common(_) | StoredViewError::TooMany(..) => {
            OperationError::invalid(text)
        }
    }
}
