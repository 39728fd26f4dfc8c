//! Lists in a knot.conf that zones refer to by identifier: `acl:`, `remote:` and `remotes:`.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
};

use super::{
    super::{
        ImportedRemote, ImportedScope, ImportedSettings, ImportedTls, ImportedUpdateRule,
        full_name, peers,
    },
    ConfigEntry, ConfigSection,
};

/// Items by section and identifier.
pub(super) struct KnotIndex<'i> {
    items: HashMap<(&'i str, &'i str), &'i ConfigSection>,
    /// The last item of each section.
    sections: HashMap<&'i str, &'i ConfigSection>,
    /// The items that a zone, or another item, refers to.
    used: RefCell<HashSet<(&'i str, &'i str)>>,
}

/// A dangling reference, or something that cannot be converted: the entry and the reason.
pub(super) struct KnotRefusal {
    pub entry: ConfigEntry,
    pub reason: String,
    /// It is an error, not just unsupported here.
    pub is_mistake: bool,
}

fn mistake(entry: &ConfigEntry, expected: &str, found: &str) -> KnotRefusal {
    KnotRefusal {
        entry: entry.clone(),
        reason: format!("{}: expected {expected}, found {found:?}", entry.key),
        is_mistake: true,
    }
}

pub(super) fn impossible(entry: &ConfigEntry, reason: impl Into<String>) -> KnotRefusal {
    KnotRefusal {
        entry: entry.clone(),
        reason: reason.into(),
        is_mistake: false,
    }
}

impl<'i> KnotIndex<'i> {
    pub(super) fn new(items: &'i [ConfigSection]) -> Self {
        let key = |item: &'i ConfigSection| (item.section.as_str(), item.id());
        Self {
            items: items.iter().map(|item| (key(item), item)).collect(),
            sections: items
                .iter()
                .map(|item| (item.section.as_str(), item))
                .collect(),
            used: RefCell::default(),
        }
    }

    pub(super) fn find(&self, section: &str, id: &str) -> Option<&'i ConfigSection> {
        let item = *self.items.get(&(section, id))?;
        let key = (item.section.as_str(), item.id());
        self.used.borrow_mut().insert(key);
        Some(item)
    }

    /// Returns a section that has a single item without an identifier.
    pub(super) fn find_section(&self, section: &str) -> Option<&'i ConfigSection> {
        self.sections.get(section).copied()
    }

    /// Checks whether a zone, or something that a zone uses, refers to an item.
    pub(super) fn is_used(&self, section: &str, id: &str) -> bool {
        self.used.borrow().contains(&(section, id))
    }

    /// Returns the servers that an entry refers to, including groups.
    pub(super) fn remotes(&self, entry: &ConfigEntry) -> Result<Vec<ImportedRemote>, KnotRefusal> {
        let mut all = Vec::new();
        for id in &entry.values {
            let group = self.find("remotes", id);
            let members = match group {
                Some(group) => group.values("remote"),
                None => std::slice::from_ref(id),
            };
            for member in members {
                let remote = self.find("remote", member);
                let remote = remote.ok_or_else(|| mistake(entry, "a remote", member))?;
                all.extend(self.remote(remote)?);
            }
        }
        Ok(all)
    }

    fn remote(&self, item: &ConfigSection) -> Result<Vec<ImportedRemote>, KnotRefusal> {
        // Knot refuses both together.
        let is_quic = item.is_on("quic");
        let tls = (is_quic || item.is_on("tls")).then(|| remote_tls(item, is_quic));
        let tls = tls.transpose()?;
        let default_port = if tls.is_some() { 853 } else { 53 };
        let key = item.entry("key").and_then(|key| full_name(key.value()));
        let sources = item.values("via");
        let Some(addresses) = item.entry("address") else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        for text in &addresses.values {
            let found = peers::at_port(text, default_port);
            let (address, port) = found.ok_or_else(|| mistake(addresses, "an address", text))?;
            let sources = sources.iter().filter_map(|via| peers::at_port(via, 0));
            let mut sources = sources.map(|(source, _)| source);
            let source = sources.find(|source| source.is_ipv4() == address.is_ipv4());
            all.push(ImportedRemote {
                address: peers::of_server(address, port, tls.as_ref()),
                key: key.clone(),
                source: source.map(|source| source.to_string()),
                tls: tls.clone(),
            });
        }
        Ok(all)
    }

    /// Adds the permissions of an `acl` entry to the settings of a zone.
    pub(super) fn add_acl(
        &self,
        entry: &ConfigEntry,
        terms: &mut ImportedSettings,
    ) -> Result<(), KnotRefusal> {
        for id in &entry.values {
            let acl = self
                .find("acl", id)
                .ok_or_else(|| mistake(entry, "an acl", id))?;
            self.add_rules(acl, terms)?;
        }
        Ok(())
    }

    fn add_rules(
        &self,
        acl: &ConfigSection,
        terms: &mut ImportedSettings,
    ) -> Result<(), KnotRefusal> {
        for key in ["protocol", "cert-key", "cert-hostname"] {
            if let Some(entry) = acl.entry(key) {
                let reason = format!("{key} of acl {} is not supported", acl.id());
                return Err(impossible(entry, reason));
            }
        }
        let peers = self.peers(acl)?;
        let sign = if acl.is_on("deny") { "!" } else { "" };
        let signed: Vec<String> = peers.iter().map(|peer| format!("{sign}{peer}")).collect();
        let Some(actions) = acl.entry("action") else {
            // An acl without an action denies, and is not a rule for anything unnamed.
            return Ok(());
        };
        for action in &actions.values {
            let list = match action.as_str() {
                "transfer" => &mut terms.allow_transfer,
                "notify" => &mut terms.allow_notify,
                "query" if signed.iter().any(|peer| peer.contains("key:")) => {
                    return Err(impossible(actions, "query access cannot depend on a key"));
                }
                "query" => &mut terms.allow_query,
                "update" => {
                    self.add_update(acl, actions, &signed, terms)?;
                    continue;
                }
                other => return Err(mistake(actions, "an action", other)),
            };
            list.get_or_insert_default().extend(signed.clone());
        }
        Ok(())
    }

    /// Returns the peers of an acl: each address with each key, as access list entries.
    fn peers(&self, acl: &ConfigSection) -> Result<Vec<String>, KnotRefusal> {
        let mut all = Vec::new();
        if let Some(remotes) = acl.entry("remote") {
            for remote in self.remotes(remotes)? {
                all.push(peer_of(&remote));
            }
            return Ok(all);
        }
        let mut addresses = Vec::new();
        if let Some(entry) = acl.entry("address") {
            for text in &entry.values {
                let networks = peers::networks(text);
                let networks =
                    networks.ok_or_else(|| mistake(entry, "an address or network", text))?;
                addresses.extend(networks);
            }
        }
        let mut keys = Vec::new();
        if let Some(entry) = acl.entry("key") {
            for text in &entry.values {
                let name = full_name(text).ok_or_else(|| mistake(entry, "a key", text))?;
                keys.push(format!("key:{name}"));
            }
        }
        match (addresses.is_empty(), keys.is_empty()) {
            (true, true) => all.push("any".into()),
            (true, false) => all = keys,
            (false, true) => all = addresses,
            (false, false) => {
                for address in &addresses {
                    all.extend(keys.iter().map(|key| format!("{address} {key}")));
                }
            }
        }
        Ok(all)
    }

    /// Converts an acl that allows updates: all of them, or those to certain names and types for
    /// its keys.
    fn add_update(
        &self,
        acl: &ConfigSection,
        actions: &ConfigEntry,
        peers: &[String],
        terms: &mut ImportedSettings,
    ) -> Result<(), KnotRefusal> {
        let types = acl.values("update-type");
        let owner = acl.entry("update-owner").map(ConfigEntry::value);
        if types.is_empty() && owner.is_none() {
            terms
                .allow_update
                .get_or_insert_default()
                .extend(peers.iter().cloned());
            return Ok(());
        }
        let matched = acl.value_or("update-owner-match", "sub-or-equal");
        let names = acl.values("update-owner-name");
        let keys: Vec<&str> = peers
            .iter()
            .filter_map(|peer| peer.strip_prefix("key:"))
            .collect();
        if keys.len() != peers.len() {
            let reason = format!(
                "acl {}: rules for names and types need a key and no addresses",
                acl.id()
            );
            return Err(impossible(actions, reason));
        }
        let full_names = names.iter().filter_map(|name| full_name(name));
        let scopes: Vec<ImportedScope> = match (owner, matched) {
            (None | Some("zone"), "sub-or-equal") => vec![ImportedScope::WholeZone],
            (Some("key"), "equal") => vec![ImportedScope::KeyItself],
            (Some("name"), "sub-or-equal") => full_names.map(ImportedScope::Subtree).collect(),
            (Some("name"), "equal") => full_names.map(ImportedScope::OneName).collect(),
            _ => {
                let reason = format!(
                    "acl {}: update-owner with update-owner-match {matched} is not supported",
                    acl.id()
                );
                return Err(impossible(actions, reason));
            }
        };
        // Names without a final dot are relative to the zone, which is not known here.
        let is_relative = |name: &String| !name.ends_with('.');
        if names.iter().any(is_relative) {
            let reason = format!(
                "acl {}: write update-owner-name in full, with a trailing dot",
                acl.id()
            );
            return Err(impossible(actions, reason));
        }
        for key in keys {
            for scope in &scopes {
                terms.update_policy.push(ImportedUpdateRule {
                    key: key.to_string(),
                    scope: scope.clone(),
                    types: types.to_vec(),
                });
            }
        }
        Ok(())
    }
}

/// Returns the TLS settings of a remote over QUIC (Knot 3.3 and later) or TLS (3.4): verified by pins, by names, or not at all.
fn remote_tls(item: &ConfigSection, is_quic: bool) -> Result<ImportedTls, KnotRefusal> {
    let names = item.values("cert-hostname");
    if let (Some(entry), [_, _, ..]) = (item.entry("cert-hostname"), names) {
        let reason = format!("remote {} has several cert-hostname", item.id());
        return Err(impossible(entry, reason));
    }
    Ok(ImportedTls {
        name: names.first().cloned(),
        pins: item.values("cert-key").to_vec(),
        is_quic,
        ..ImportedTls::default()
    })
}

/// Returns a server as an access list entry: its address, and its key if it has one.
pub(super) fn peer_of(remote: &ImportedRemote) -> String {
    let address = match remote.address.parse::<std::net::SocketAddr>() {
        Ok(address) => address.ip().to_string(),
        Err(_) => remote.address.clone(),
    };
    match &remote.key {
        Some(key) => format!("{address} key:{key}"),
        None => address,
    }
}
