//! The `[[view]]` tables: versions of zones for some clients.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;

use ipnet::IpNet;
use nameward_wire::NameBuf;
use nameward_wire::name::is_variant;
use nameward_zone::{ViewId, ViewRule};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::clients::Peers;
use super::read::{Read, Wrong};
use super::setting::{ConfigTable, section};
use super::settings::{ZoneName, ZoneSettings};
use super::zone_tables::distinct_name;
use super::zone_values::InheritedSetting;
use super::{Config, ConfigReader};

/// Maximum number of views.
const VIEWS_MAX: usize = 10_000;

section! {
    /// Versions of zones for some clients ([views.md](views.md)). May be given several times. A request is in the view of
    /// its TSIG key; otherwise in that of the listener it was sent to; otherwise in that of the longest matching network
    /// for the client. The common versions are used for clients without a view, and for zones that a view does not
    /// contain. Changes take effect on reload.
    ViewSettings = "view" {
        /// Name of the view: lower-case letters, digits, "-" and "_".
        name: String = r#""""#;
        /// Networks whose clients are in the view. If a client subnet is trusted (`[client_subnet]`), it is used instead
        /// of the client's address.
        networks: Vec<IpNet> = "[]";
        /// TSIG keys: requests that are signed with one of them are in the view.
        keys: Vec<ZoneName> = "[]";
        /// Addresses of the server, as `192.0.2.1:53`: requests that are sent to one of them are in the view. With `0.0.0.0` or
        /// `[::]` the port decides.
        listen: Vec<SocketAddr> = "[]";
        /// Clients in the order of BIND: a client is in the first view with such a list that matches it (by address, key
        /// or connection, as in `allow_query`), before any other rule; with `listen` only for requests to these
        /// addresses. `import bind` uses this setting.
        match_clients: InheritedSetting<Peers> = r#""""#;
        /// The zones of which the view has its own version, each a table with the settings of a `[[zone]]`: `{ name =
        /// "example.org", file = "internal/example.org.zone" }`. In a database the version is the zone
        /// `example.org..inside`, for `variant = "inside"`; the default variant is the name of the view.
        zones: ViewZoneTables = "[]";
    }
}

/// The zones of a view; read by [`ConfigReader::views`], because they need the rest of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ViewZoneTables(pub Vec<NameBuf>);

impl Read for ViewZoneTables {
    fn expected() -> String {
        "a list of tables such as { name = \"example.org\", file = \"path\" }".into()
    }

    fn read(value: &Spanned<DeValue<'_>>, _: &Path) -> Result<Self, Wrong> {
        let list = value.get_ref().as_array();
        let list = list.ok_or_else(|| Wrong::expected(&Self::expected(), value))?;
        match list
            .iter()
            .find(|entry| entry.get_ref().as_table().is_none())
        {
            Some(entry) => Err(Wrong::expected(&Self::expected(), entry)),
            None => Ok(Self::default()),
        }
    }
}

/// Returns the views for the zone table, which assigns their numbers.
pub fn rules(config: &Config) -> Vec<ViewRule> {
    let rule = |view: &ViewSettings| ViewRule {
        id: ViewId::DEFAULT,
        name: view.name.clone(),
        networks: { view.networks.iter() }
            .map(|network| (network.addr(), network.prefix_len()))
            .collect(),
        keys: view.keys.iter().map(|key| key.0).collect(),
        listen: view.listen.clone(),
        match_clients: view.match_clients.0.as_ref().map(|list| list.0.clone()),
        zones: view.zones.0.clone(),
    };
    config.views.iter().map(rule).collect()
}

/// Lists the versions that have only the names that differ from the common versions of their zones.
pub fn layers(config: &Config) -> Vec<NameBuf> {
    let layers = config.zones.iter().filter(|zone| zone.base);
    layers.map(|zone| zone.name.0).collect()
}

/// Lists the addresses of views that no listener has: nothing is ever sent to them.
pub fn unknown_listeners(config: &Config) -> Vec<String> {
    let server = &config.server;
    let encrypted = server.listen_tls.iter().chain(&server.listen_https);
    let listeners: Vec<SocketAddr> = { config.listen_addresses().into_iter() }
        .chain(encrypted.map(|entry| entry.0.address))
        .chain(server.listen_quic.iter().map(|entry| entry.0.address))
        .collect();
    let is_served = |address: &SocketAddr| {
        listeners.iter().any(|listener| {
            let same_host = listener.ip() == address.ip()
                || listener.ip().is_unspecified()
                || address.ip().is_unspecified();
            // Port 0 of a listener is chosen by the kernel.
            same_host
                && (listener.port() == address.port()
                    || listener.port() == 0
                    || address.port() == 0)
        })
    };
    let of_view = |view: &ViewSettings| {
        let unknown = view.listen.iter().filter(|address| !is_served(address));
        let text = |address| {
            format!(
                "view {:?}: the server does not listen on {address}",
                view.name
            )
        };
        unknown.map(text).collect::<Vec<_>>()
    };
    config.views.iter().flat_map(of_view).collect()
}

/// Names, networks, keys and addresses of the views so far, each with the view that has it.
#[derive(Default)]
struct ViewOwners {
    names: HashSet<String>,
    networks: HashMap<IpNet, String>,
    keys: HashMap<NameBuf, String>,
    listen: HashMap<SocketAddr, String>,
}

impl ConfigReader<'_> {
    /// Reads `[[view]]`, after everything that zones refer to; the versions of zones are added to the zones.
    pub(super) fn views(&mut self, config: &mut Config, value: Option<&Spanned<DeValue<'_>>>) {
        let Some(value) = value else {
            return;
        };
        let mut owners = ViewOwners::default();
        let known: HashSet<_> = config.zones.iter().map(distinct_name).collect();
        let (mut views, mut zones, mut versions) = (Vec::new(), Vec::new(), known.clone());
        self.each(value, |reader, entry, mut view: ViewSettings| {
            if let Some(message) = owners.objection(&view) {
                return reader.problem(entry.span(), message);
            }
            reader.view_keys(config, &view, entry);
            let table = entry.get_ref().as_table();
            let list = table.and_then(|table| table.get("zones")?.get_ref().as_array());
            for entry in list.into_iter().flatten() {
                if let Some(zone) = reader.view_zone(config, &mut view, entry)
                    && (versions.insert(distinct_name(&zone)) || has_settings(entry))
                {
                    zones.push((zone, entry.span()));
                }
            }
            views.push(view);
        });
        let mut defined = known;
        for (zone, span) in zones {
            if defined.insert(distinct_name(&zone)) {
                config.zones.push(zone);
            } else {
                let message = format!("zone {} is defined twice", zone.name.0);
                self.problem(span, message);
            }
        }
        if views.len() > VIEWS_MAX {
            self.problem(value.span(), format!("more than {VIEWS_MAX} views"));
        }
        config.views = views;
    }

    fn view_zone(
        &mut self,
        config: &Config,
        view: &mut ViewSettings,
        entry: &Spanned<DeValue<'_>>,
    ) -> Option<ZoneSettings> {
        let mut zone = ZoneSettings::defaults();
        let before = self.problems.len();
        self.section(&mut zone, entry);
        if self.problems.len() > before {
            return None;
        }
        let table = entry.get_ref().as_table()?;
        if !table.contains_key("name") {
            self.problem(entry.span(), "a zone of a view needs a name".into());
            return None;
        }
        if zone.variant.is_empty() {
            zone.variant.clone_from(&view.name);
        }
        let name = zone.name.0;
        if let Err(error) = zone.take_variant() {
            self.problem(entry.span(), error.to_string());
            return None;
        }
        let has_zone = |version: &NameBuf| version.as_name().zone() == name.as_name();
        if view.zones.0.iter().any(has_zone) {
            let message = format!("view {:?} has zone {name} twice", view.name);
            self.problem(entry.span(), message);
            return None;
        }
        view.zones.0.push(zone.name.0);
        self.zone(config, &zone, entry);
        Some(zone)
    }

    /// Checks that the keys of a view exist, if they could only be defined in the configuration.
    fn view_keys(&mut self, config: &Config, view: &ViewSettings, entry: &Spanned<DeValue<'_>>) {
        if config.state_directory().is_some() || config.databases().next().is_some() {
            return;
        }
        for key in &view.keys {
            if !config.keys.iter().any(|known| known.name == *key) {
                self.problem(entry.span(), format!("unknown [[key]] {}", key.0));
            }
        }
    }
}

impl ViewOwners {
    /// Returns why a view is not possible besides those before it.
    fn objection(&mut self, view: &ViewSettings) -> Option<String> {
        let name = &view.name;
        if !is_variant(name) {
            return Some(format!(
                "invalid view name {name:?}: expected lower-case letters, digits, \"-\" and \"_\""
            ));
        }
        if !self.names.insert(name.clone()) {
            return Some(format!("duplicate view {name:?}"));
        }
        let is_selected = view.match_clients.0.is_some()
            || !(view.networks.is_empty() && view.keys.is_empty() && view.listen.is_empty());
        if !is_selected {
            return Some(format!(
                "view {name:?} is never selected: set networks, keys or listen"
            ));
        }
        let both = |what: String, other: &str| Some(format!("{what} is in view {other:?}, too"));
        for network in &view.networks {
            if let Some(other) = self.networks.insert(network.trunc(), name.clone()) {
                return both(format!("view {name:?}: network {network}"), &other);
            }
        }
        for key in &view.keys {
            if let Some(other) = self.keys.insert(key.0, name.clone()) {
                return both(format!("view {name:?}: key {}", key.0), &other);
            }
        }
        // In the order of BIND, an address may be a condition of several views.
        for address in view
            .listen
            .iter()
            .filter(|_| view.match_clients.0.is_none())
        {
            if let Some(other) = self.listen.insert(*address, name.clone()) {
                return both(format!("view {name:?}: listener {address}"), &other);
            }
        }
        None
    }
}

/// Checks whether a zone of a view has settings besides its name and variant.
fn has_settings(entry: &Spanned<DeValue<'_>>) -> bool {
    let is_other = |key: &str| !matches!(key, "name" | "variant");
    let table: Option<&DeTable<'_>> = entry.get_ref().as_table();
    table.is_some_and(|table| table.keys().any(|key| is_other(key.get_ref())))
}

#[cfg(test)]
mod tests;
