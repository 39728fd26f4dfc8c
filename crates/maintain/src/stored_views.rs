//! Views and networks that operators set by command or API, as in PowerDNS 5. They are kept in the state store, and add to
//! the views of the configuration.
//!
//! A network has one view, and a view has one version of each zone. What the configuration says about a network, or about
//! a zone in a view, takes precedence. Changes are on disk before they take effect, which is at once.

use crate::policy::StoredPolicyError;
use crate::table::TableWriter;
use ipnet::IpNet;
use nameward_base::sync::Mutex;
use nameward_state::{StateChange, StateStore, StoredItem};
use nameward_wire::name::is_variant;
use nameward_wire::{Name, NameBuf};
use nameward_zone::{ViewId, ViewRule, ViewSource};
use std::sync::Arc;

/// The item kind for zone versions in views: the name of the view, 0, and the zone.
const ZONES: &str = "view-zone";
/// The item kind for networks.
const NETWORKS: &str = "view-network";
/// The value format.
const FORM: u8 = 1;
/// Maximum number of views, stored and configured.
const VIEWS_MAX: usize = 10_000;
/// Maximum number of stored networks.
const NETWORKS_MAX: usize = 100_000;

/// Why views and networks cannot be changed.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoredViewError {
    /// There is no state store, or it failed.
    #[error(transparent)]
    Store(#[from] StoredPolicyError),
    #[error("invalid view name {0:?}: expected lower-case letters, digits, \"-\" and \"_\"")]
    Name(String),
    #[error(
        "{0} is the common version, which all views have: expected a version such as {0}.inside"
    )]
    Common(Box<NameBuf>),
    #[error("view {view}: the configuration has {version} for this zone: change it there")]
    ConfiguredZone { view: String, version: Box<NameBuf> },
    #[error("network {network} is in view {view} of the configuration: change it there")]
    ConfiguredNetwork { network: IpNet, view: String },
    #[error("more than {0} {1}")]
    TooMany(usize, &'static str),
}

/// The views that operators set.
pub struct StoredViews {
    store: Option<StateStore>,
    table: Arc<TableWriter>,
    /// The views of the configuration. Locked during every change.
    configured: Mutex<Vec<ViewRule>>,
}

impl StoredViews {
    /// Takes the store, if there is one, and the table that views are published in.
    pub fn new(store: Option<StateStore>, table: Arc<TableWriter>) -> Self {
        StoredViews {
            store,
            table,
            configured: Mutex::default(),
        }
    }

    /// Publishes the views of a configuration, with the stored ones.
    pub fn configure(&self, rules: Vec<ViewRule>) {
        let mut configured = self.configured.lock();
        *configured = rules;
        if let Err(error) = self.publish(&configured) {
            tracing::error!("cannot read the stored views: {error}");
            self.table
                .set_views(ViewSource::Configured, configured.clone());
        }
    }

    /// Gives a view its own version of a zone, in place of another version that it had.
    pub fn add_zone(&self, view: &str, version: &NameBuf) -> Result<(), StoredViewError> {
        check_view(view)?;
        let zone = version.as_name().zone();
        if version.as_name().variant().is_none() {
            return Err(StoredViewError::Common(Box::new(*version)));
        }
        let configured = self.configured.lock();
        let has_zone = |known: &&NameBuf| known.as_name().zone() == zone;
        let own = configured.iter().find(|rule| rule.name == view);
        if let Some(own) = own.and_then(|rule| rule.zones.iter().find(has_zone)) {
            return Err(StoredViewError::ConfiguredZone {
                view: view.to_owned(),
                version: Box::new(*own),
            });
        }
        self.check_views(&configured, view)?;
        let value = [&[FORM], version.as_name().as_wire()].concat();
        let name = zone_item(view, zone);
        self.write(StateChange::set_item(ZONES, name, value))?;
        Ok(self.publish(&configured)?)
    }

    /// Removes a zone version from a view; false if the view does not have it. A zone without a variant stands for any version.
    pub fn remove_zone(&self, view: &str, version: &NameBuf) -> Result<bool, StoredViewError> {
        let zone = version.as_name().zone();
        let configured = self.configured.lock();
        let kept = self.stored_zones()?;
        let is_it = |(known, stored): &(String, NameBuf)| {
            let is_version = version.as_name().variant().is_none() || stored == version;
            known == view && stored.as_name().zone() == zone && is_version
        };
        if !kept.iter().any(is_it) {
            let has = |rule: &&ViewRule| rule.name == view && rule.zones.contains(version);
            return match configured.iter().find(has) {
                Some(_) => Err(StoredViewError::ConfiguredZone {
                    view: view.to_owned(),
                    version: Box::new(*version),
                }),
                None => Ok(false),
            };
        }
        let name = zone_item(view, zone);
        self.write(StateChange::remove_item(ZONES, name))?;
        self.publish(&configured)?;
        Ok(true)
    }

    /// Puts the clients of a network into a view, or with `None` into that of the next wider network. Returns false if the
    /// network to remove is not there.
    pub fn set_network(&self, network: IpNet, view: Option<&str>) -> Result<bool, StoredViewError> {
        let network = network.trunc();
        let configured = self.configured.lock();
        let has = |rule: &&ViewRule| {
            let own = (network.addr(), network.prefix_len());
            rule.networks.contains(&own)
        };
        if let Some(rule) = configured.iter().find(has) {
            let view = rule.name.clone();
            return Err(StoredViewError::ConfiguredNetwork { network, view });
        }
        let name = network.to_string().into_bytes();
        let store = self.store.as_ref().ok_or(StoredPolicyError::NoStore)?;
        let is_there = store
            .item(NETWORKS, &name)
            .map_err(StoredPolicyError::from)?;
        let change = match view {
            Some(view) => {
                check_view(view)?;
                self.check_views(&configured, view)?;
                if is_there.is_none() && self.items(NETWORKS)?.len() >= NETWORKS_MAX {
                    return Err(StoredViewError::TooMany(NETWORKS_MAX, "networks"));
                }
                StateChange::set_item(NETWORKS, name, [&[FORM], view.as_bytes()].concat())
            }
            None if is_there.is_none() => return Ok(false),
            None => StateChange::remove_item(NETWORKS, name),
        };
        self.write(change)?;
        self.publish(&configured)?;
        Ok(true)
    }

    /// Checks that there is room for one more view.
    fn check_views(&self, configured: &[ViewRule], view: &str) -> Result<(), StoredViewError> {
        let rules = self.all(configured)?;
        let is_known = rules.iter().any(|rule| rule.name == view);
        if is_known || rules.len() < VIEWS_MAX {
            Ok(())
        } else {
            Err(StoredViewError::TooMany(VIEWS_MAX, "views"))
        }
    }

    fn write(&self, change: StateChange) -> Result<(), StoredPolicyError> {
        let store = self.store.as_ref().ok_or(StoredPolicyError::NoStore)?;
        store.write(vec![change])?;
        Ok(())
    }

    fn items(&self, kind: &str) -> Result<Vec<StoredItem>, StoredPolicyError> {
        Ok(match &self.store {
            Some(store) => store.items(kind)?,
            None => Vec::new(),
        })
    }

    /// Reads the stored versions, each with its view.
    fn stored_zones(&self) -> Result<Vec<(String, NameBuf)>, StoredPolicyError> {
        let items = self.items(ZONES)?;
        Ok(items.iter().filter_map(read_zone).collect())
    }

    fn publish(&self, configured: &[ViewRule]) -> Result<(), StoredPolicyError> {
        self.table
            .set_views(ViewSource::Configured, self.all(configured)?);
        Ok(())
    }

    /// Returns the views of the configuration with the stored ones.
    fn all(&self, configured: &[ViewRule]) -> Result<Vec<ViewRule>, StoredPolicyError> {
        let mut rules = configured.to_vec();
        for (view, version) in self.stored_zones()? {
            let rule = rule_of(&mut rules, &view);
            let zone = version.as_name().zone();
            if !rule.zones.iter().any(|own| own.as_name().zone() == zone) {
                rule.zones.push(version);
            }
        }
        for (network, view) in self.items(NETWORKS)?.iter().filter_map(read_network) {
            let network = (network.addr(), network.prefix_len());
            let is_configured = |rule: &ViewRule| rule.networks.contains(&network);
            if !configured.iter().any(is_configured) {
                rule_of(&mut rules, &view).networks.push(network);
            }
        }
        Ok(rules)
    }
}

/// Returns the view of a name; a new one if there is none.
fn rule_of<'r>(rules: &'r mut Vec<ViewRule>, name: &str) -> &'r mut ViewRule {
    let at = rules.iter().position(|rule| rule.name == name);
    let at = at.unwrap_or_else(|| {
        rules.push(ViewRule {
            id: ViewId::DEFAULT,
            name: name.to_owned(),
            networks: Vec::new(),
            keys: Vec::new(),
            listen: Vec::new(),
            match_clients: None,
            zones: Vec::new(),
        });
        rules.len() - 1
    });
    &mut rules[at]
}

fn check_view(view: &str) -> Result<(), StoredViewError> {
    if is_variant(view) {
        Ok(())
    } else {
        Err(StoredViewError::Name(view.to_owned()))
    }
}

fn zone_item(view: &str, zone: Name<'_>) -> Vec<u8> {
    let zone = zone.as_wire().to_ascii_lowercase();
    [view.as_bytes(), &[0], &zone].concat()
}

fn read_zone((name, value): &StoredItem) -> Option<(String, NameBuf)> {
    let end = name.iter().position(|octet| *octet == 0)?;
    let view = std::str::from_utf8(&name[..end]).ok()?;
    let [FORM, version @ ..] = &value.reveal()[..] else {
        return None;
    };
    let version = Name::from_wire(version).ok()?;
    (is_variant(view) && version.variant().is_some()).then(|| (view.to_owned(), version.into()))
}

fn read_network((name, value): &StoredItem) -> Option<(IpNet, String)> {
    let network = std::str::from_utf8(name).ok()?.parse().ok()?;
    let [FORM, view @ ..] = &value.reveal()[..] else {
        return None;
    };
    let view = std::str::from_utf8(view).ok()?;
    is_variant(view).then(|| (network, view.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> NameBuf {
        NameBuf::zone_from_text(text).unwrap()
    }

    fn network(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn rule(name: &str, networks: &[&str], zones: &[&str]) -> ViewRule {
        let mut rules = Vec::new();
        let mut rule = rule_of(&mut rules, name).clone();
        rule.networks = { networks.iter() }
            .map(|text| (network(text).addr(), network(text).prefix_len()))
            .collect();
        rule.zones = zones.iter().map(|text| version(text)).collect();
        rule
    }

    /// The views in force, as text.
    fn shown(table: &TableWriter) -> Vec<String> {
        let table = table.load();
        let rules = table.views().map_or(&[][..], |views| views.rules());
        let mut shown: Vec<_> = { rules.iter() }
            .map(|rule| {
                let networks: Vec<_> = { rule.networks.iter() }
                    .map(|(address, prefix)| format!("{address}/{prefix}"))
                    .collect();
                let zones: Vec<_> = rule.zones.iter().map(ToString::to_string).collect();
                format!("{} {} {}", rule.name, networks.join(","), zones.join(","))
            })
            .collect();
        shown.sort();
        shown
    }

    #[test]
    fn stored_views_add_to_the_configured_ones_and_outlive_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let open = || {
            let bounds = nameward_state::JournalBounds {
                octets: 1 << 20,
                entries: 10,
            };
            let store = StateStore::open(directory.path(), bounds).unwrap();
            let table = Arc::new(TableWriter::default());
            let views = StoredViews::new(Some(store.clone()), Arc::clone(&table));
            views.configure(vec![rule("inside", &["10.0.0.0/8"], &["a.test..inside"])]);
            (store, table, views)
        };
        let (store, table, views) = open();
        views.add_zone("inside", &version("b.test..x")).unwrap();
        views.add_zone("lab", &version("a.test..y")).unwrap();
        // One version of a zone in a view: the next replaces it.
        views.add_zone("lab", &version("a.test..z")).unwrap();
        let set = |text, view| views.set_network(network(text), view);
        assert_eq!(set("192.0.2.77/24", Some("lab")), Ok(true));
        assert_eq!(set("2001:db8::/32", Some("inside")), Ok(true));
        assert_eq!(set("198.51.100.0/24", None), Ok(false));
        let expected = [
            "inside 10.0.0.0/8,2001:db8::/32 a.test..inside,b.test..x",
            "lab 192.0.2.0/24 a.test..z",
        ];
        assert_eq!(shown(&table), expected);
        assert!(matches!(
            set("10.0.0.0/8", Some("lab")),
            Err(StoredViewError::ConfiguredNetwork { .. })
        ));
        assert!(matches!(
            views.add_zone("inside", &version("a.test..y")),
            Err(StoredViewError::ConfiguredZone { .. })
        ));
        assert!(matches!(
            views.add_zone("Lab", &version("a.test..y")),
            Err(StoredViewError::Name(_))
        ));
        assert!(matches!(
            views.add_zone("lab", &version("a.test")),
            Err(StoredViewError::Common(_))
        ));
        drop(views);
        store.close();
        drop(store);
        let (_store, table, views) = open();
        assert_eq!(shown(&table), expected);
        assert_eq!(
            views.remove_zone("lab", &version("a.test..other")),
            Ok(false)
        );
        assert_eq!(views.remove_zone("lab", &version("a.test..z")), Ok(true));
        assert_eq!(views.set_network(network("192.0.2.0/24"), None), Ok(true));
        assert_eq!(shown(&table), expected[..1]);
    }
}
