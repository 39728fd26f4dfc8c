//! Views: which version of a zone a client gets.
//!
//! A view is a set of zone versions ([`Name::variant`]) that some clients see in place of the common versions of these
//! zones; all other zones are the same for all clients. A request is in the view of its TSIG key; otherwise in that of the
//! listener it was sent to; otherwise in that of the narrowest network that contains its client. Views with a list of
//! clients, as BIND has them, come before all that: the first one whose list has the client.
//!
//! The zone table has the zones of the views ([`crate::ViewTables`]).

use crate::access::{AccessClient, AccessList};
use crate::key::{NameKey, lower_case};
use crate::zone::Zone;
use nameward_base::networks::NetworkTable;
use nameward_wire::{Name, NameBuf};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Identifies a view, as long as the process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ViewId(pub u16);

impl ViewId {
    /// The common versions of all zones.
    pub const DEFAULT: ViewId = ViewId(0);
}

/// Where views are configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewSource {
    /// Our own configuration, and operators.
    Configured,
    /// The configuration of another server whose zones are served.
    Imported,
}

/// A view as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewRule {
    /// Its number, which no other view has or had.
    pub id: ViewId,
    /// Its name.
    pub name: String,
    /// Clients in these networks are in it, unless a narrower network is in another view.
    pub networks: Vec<(IpAddr, u8)>,
    /// Requests signed with these TSIG keys are in it.
    pub keys: Vec<NameBuf>,
    /// Requests sent to these addresses are in it. An unspecified address means all addresses, with its port.
    pub listen: Vec<SocketAddr>,
    /// Requests of these clients are in it, before any other rule; the first view whose list has the client counts. The
    /// addresses in `listen` are then a condition, too.
    pub match_clients: Option<AccessList>,
    /// The names of its zone versions, each with its variant.
    pub zones: Vec<NameBuf>,
}

/// A request, as far as views distinguish requests.
pub struct ViewClient<'c> {
    /// Its sender, with the TSIG key that it was signed with.
    pub sender: AccessClient<'c>,
    /// The address that it was sent to.
    pub local: Option<SocketAddr>,
    /// The client that it is answered for.
    pub address: IpAddr,
    /// How many leading bits of the address are known.
    pub known_bits: u8,
}

/// The view of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelectedView {
    /// The view.
    pub view: ViewId,
    /// Clients that share this many leading bits of the address are in the same view.
    pub bits: u8,
}

/// The rules of all views, prepared for finding the view of a request.
pub(crate) struct ViewSelection {
    rules: Box<[ViewRule]>,
    /// By key name in lower case.
    keys: HashMap<Box<[u8]>, ViewId>,
    listen: HashMap<SocketAddr, ViewId>,
    networks: NetworkTable<ViewId>,
    /// The views with a list of clients, by their positions in `rules`.
    in_order: Vec<usize>,
}

impl ViewSelection {
    /// Prepares the rules for searches.
    pub(crate) fn new(rules: &[ViewRule]) -> Self {
        let mut selection = ViewSelection {
            rules: rules.into(),
            keys: HashMap::new(),
            listen: HashMap::new(),
            in_order: (0..rules.len())
                .filter(|at| rules[*at].match_clients.is_some())
                .collect(),
            networks: NetworkTable::new(rules.iter().flat_map(|rule| {
                let networks = rule.networks.iter();
                networks.map(|(address, prefix)| (*address, *prefix, rule.id))
            })),
        };
        for rule in rules {
            for key in &rule.keys {
                let key = lower_case(key.as_name());
                selection.keys.entry(key).or_insert(rule.id);
            }
            for address in rule.listen.iter().filter(|_| rule.match_clients.is_none()) {
                selection.listen.entry(*address).or_insert(rule.id);
            }
        }
        selection
    }

    /// Returns the views as they are configured.
    pub(crate) fn rules(&self) -> &[ViewRule] {
        &self.rules
    }

    /// Finds the view of a request.
    pub(crate) fn select(&self, client: &ViewClient<'_>) -> SelectedView {
        if let Some(view) = self.first_match(client) {
            return SelectedView { view, bits: 0 };
        }
        let by_key = client.sender.key.filter(|_| !self.keys.is_empty());
        let by_key = by_key.and_then(|key| {
            let key = NameKey::new(key);
            self.keys.get(key.suffix(key.labels()).as_wire())
        });
        if let Some(view) = by_key.or_else(|| self.listener(client.local?)) {
            return SelectedView {
                view: *view,
                bits: 0,
            };
        }
        let found = self
            .networks
            .find(client.address.to_canonical(), client.known_bits);
        SelectedView {
            view: found.value.unwrap_or_default(),
            bits: found.bits,
        }
    }

    /// Returns the view of a listener.
    fn listener(&self, local: SocketAddr) -> Option<&ViewId> {
        if self.listen.is_empty() {
            return None;
        }
        let [local, any] = listeners(local);
        let found = self.listen.get(&local);
        found.or_else(|| self.listen.get(&any))
    }

    /// Returns the first view whose list has the client.
    fn first_match(&self, client: &ViewClient<'_>) -> Option<ViewId> {
        let rules = self.in_order.iter().map(|at| &self.rules[*at]);
        let mut matching = rules.filter(|rule| {
            let list = rule.match_clients.as_ref();
            let is_listed = list.is_some_and(|list| list.allows(&client.sender));
            is_listed && (rule.listen.is_empty() || rule.has_listener(client.local))
        });
        matching.next().map(|rule| rule.id)
    }
}

impl ViewRule {
    /// Returns the views from before a change without the versions that no view has after it.
    pub fn without_removed(mut before: Vec<ViewRule>, after: &[ViewRule]) -> Vec<ViewRule> {
        let kept: HashSet<_> = after.iter().flat_map(|view| &view.zones).collect();
        for view in &mut before {
            view.zones.retain(|zone| kept.contains(zone));
        }
        before
    }

    /// Checks whether a request was sent to an address of the view. Port 0 means all ports.
    fn has_listener(&self, local: Option<SocketAddr>) -> bool {
        let Some(local) = local else {
            return false;
        };
        let [local, any] = listeners(local);
        let mut listen = self.listen.iter();
        listen.any(|own| {
            (own.ip() == local.ip() || own.ip() == any.ip())
                && (own.port() == local.port() || own.port() == 0)
        })
    }
}

/// Returns an address, and the unspecified address with its port.
fn listeners(local: SocketAddr) -> [SocketAddr; 2] {
    let local = SocketAddr::new(local.ip().to_canonical(), local.port());
    let any: IpAddr = match local {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    [local, SocketAddr::new(any, local.port())]
}

impl Zone {
    /// Returns the name of this version of the zone ([`Name::variant`]), by which everything except answers knows it: the
    /// zone name, unless it is a version for some views.
    pub fn id(&self) -> Name<'_> {
        self.version_id().unwrap_or_else(|| self.apex_name())
    }

    /// Returns [`Zone::id`] if this is a version for some views.
    pub fn version_id(&self) -> Option<Name<'_>> {
        if let Some(live) = self.live() {
            return Some(live.name()).filter(|name| name.variant().is_some());
        }
        let id = { self.indexes_if_made() }.and_then(|indexes| indexes.id.get());
        id.map(|id| Name::from_valid_wire(id))
    }

    /// Sets the name of the version, once.
    pub fn set_id(&self, id: Name<'_>) {
        if id.variant().is_some() && self.live().is_none() {
            self.indexes().id.get_or_init(|| id.as_wire().into());
        }
    }
}

#[cfg(test)]
mod tests;
