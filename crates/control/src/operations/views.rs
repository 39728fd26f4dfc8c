//! The list of views: what selects each, and the zone versions that it has.

use serde::{Deserialize, Serialize};

use super::result::dash_if_empty;
use super::{Columns, ItemSink, ListedItem, OperationError, OperationResult, Operations, TableRow};

/// A view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedView {
    /// Its name.
    pub name: String,
    /// The networks whose clients are in it.
    pub networks: Vec<String>,
    /// The TSIG keys that select it.
    pub keys: Vec<String>,
    /// The addresses of the server that select it.
    pub listen: Vec<String>,
    /// Whether it has a list of clients (`match_clients`), which is tried before all other rules.
    pub has_client_list: bool,
    /// Requests that were in it since it was added.
    #[serde(default)]
    pub requests: u64,
    /// The zone versions that it has, such as `example.org..internal`.
    pub zones: Vec<String>,
}

impl TableRow for ListedView {
    const COLUMNS: Columns = &["VIEW", "NETWORKS", "KEYS", "LISTEN", "ZONES", "REQUESTS"];

    fn cells(&self) -> Vec<String> {
        let joined = |list: &[String]| dash_if_empty(&list.join(","));
        vec![
            self.name.clone(),
            joined(&self.networks),
            joined(&self.keys),
            joined(&self.listen),
            self.zones.len().to_string(),
            self.requests.to_string(),
        ]
    }
}

impl ListedView {
    /// Formats it as one line.
    pub(super) fn line(&self) -> String {
        format!("{}: {}", self.name, self.zones.join(" "))
    }
}

impl Operations {
    /// Lists the views.
    pub fn list_views(&self, items: ItemSink<'_>) -> Result<OperationResult, OperationError> {
        let table = self.commits.table().load();
        let views = table.views();
        let rules = views.map_or(&[][..], |views| views.rules());
        let _ = rules.iter().all(|rule| {
            let networks = rule.networks.iter();
            items(ListedItem::View(ListedView {
                name: rule.name.clone(),
                networks: networks
                    .map(|(address, prefix)| format!("{address}/{prefix}"))
                    .collect(),
                keys: rule.keys.iter().map(ToString::to_string).collect(),
                listen: rule.listen.iter().map(ToString::to_string).collect(),
                has_client_list: rule.match_clients.is_some(),
                requests: views.map_or(0, |views| views.requests(rule.id)),
                zones: rule.zones.iter().map(ToString::to_string).collect(),
            }))
        });
        Ok(OperationResult::Listed {
            items: rules.len() as u64,
        })
    }
}
