//! Converts settings to zone policies.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use nameward_maintain::policy::{
    Autoprimary, Policies, PolicyFragment, PolicySet, PolicySource, StoredPolicies,
};
use nameward_wire::{Name, NameBuf};

use crate::config::{
    Config, clients::Peers, settings::AutoprimarySettings, zone_policy::octets_of_mib,
};

/// Returns the policies that the configuration sets.
pub fn set(config: &Config) -> PolicySet {
    let defaults = &config.zone_defaults;
    let mut set = PolicySet {
        default: PolicyFragment {
            transfer_octets_max: octets_of_mib(defaults.transfer_size_max_mb.get()),
            ..defaults.shared_terms()
        },
        remotes: config.server.remotes.as_slice().into(),
        ..PolicySet::default()
    };
    // Zones with equal tables share their settings: of a hundred thousand, most do.
    let mut parts: HashSet<Arc<PolicyFragment>> = HashSet::new();
    for zone in &config.zones {
        let part = config.zone_policy(zone);
        // A table that only sets access lists has no effect on the policy.
        if part == PolicyFragment::default() {
            continue;
        }
        let part = match parts.get(&part) {
            Some(shared) => Arc::clone(shared),
            None => {
                let part = Arc::new(part);
                parts.insert(Arc::clone(&part));
                part
            }
        };
        set.set_zone(zone.name.0.as_name(), part);
    }
    let autoprimary = |settings: &AutoprimarySettings| Autoprimary {
        address: settings.address.0,
        name_server: settings.name_server.0,
        template: settings.template.clone(),
        key: settings.key.0.as_ref().map(|key| key.0),
        listed_by: PolicySource::Configured,
        account: String::new(),
    };
    set.autoprimaries = config.autoprimaries.iter().map(autoprimary).collect();
    set.keys = config.keys.iter().map(|key| Arc::new(key.key())).collect();
    set
}

/// A TSIG key that the configuration refers to but does not define.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKey {
    pub key: NameBuf,
    /// The table that refers to it first.
    pub place: String,
}

/// Lists the TSIG keys that the configuration refers to but does not define, each once. The state store or a database
/// may have them.
pub fn unknown_keys(config: &Config) -> Vec<UnknownKey> {
    let mut found: Vec<UnknownKey> = Vec::new();
    let mut note = |key: NameBuf, place: &dyn Fn() -> String| {
        let is_known = config.keys.iter().any(|own| own.name.0 == key);
        if !is_known && !found.iter().any(|unknown| unknown.key == key) {
            let place = place();
            found.push(UnknownKey { key, place });
        }
    };
    for entry in &config.server.listen {
        for key in query_keys(entry.allow_query.as_ref()) {
            note(key, &|| format!("listener {}", entry.address));
        }
    }
    for key in config.server.remotes.iter().filter_map(|remote| remote.key) {
        note(key, &|| "server.remotes".into());
    }
    for key in query_keys(Some(&config.zone_defaults.allow_query)) {
        note(key, &|| "zone_defaults".into());
    }
    for key in config.zone_defaults.shared_terms().keys() {
        note(key, &|| "zone_defaults".into());
    }
    for template in &config.templates {
        for key in template.shared_terms().keys() {
            note(key, &|| format!("template {:?}", template.name));
        }
    }
    for zone in &config.zones {
        let keys = zone.shared_terms().keys();
        for key in keys
            .into_iter()
            .chain(query_keys(zone.allow_query.0.as_ref()))
        {
            note(key, &|| format!("zone {}", zone.name.0));
        }
    }
    for view in &config.views {
        let listed = query_keys(view.match_clients.0.as_ref());
        for key in view.keys.iter().map(|key| key.0).chain(listed) {
            note(key, &|| format!("view {:?}", view.name));
        }
    }
    for autoprimary in &config.autoprimaries {
        if let Some(key) = &autoprimary.key.0 {
            note(key.0, &|| format!("autoprimary {}", autoprimary.address.0));
        }
    }
    found
}

/// Returns the TSIG keys that an access list for queries names.
fn query_keys(list: Option<&Peers>) -> impl Iterator<Item = NameBuf> {
    let keys = list.into_iter().flat_map(|list| list.0.named_keys());
    keys.map(|key| NameBuf::from(Name::from_valid_wire(key)))
}

/// Warns of referenced keys that neither the configuration nor the state store nor a database has.
pub fn warn_of_unknown_keys(keys: &[UnknownKey], policies: &Policies) {
    for UnknownKey { key, place } in keys {
        if policies.keys().find(key.as_name()).is_none() {
            tracing::warn!(
                "{place}: unknown TSIG key {key}: requests with it are refused and nothing is signed with it; add a \
                 [[key]], or run `nameward tsig import`"
            );
        }
    }
}

pub fn templates(config: &Config) -> HashMap<String, PolicyFragment> {
    let templates = config.templates.iter();
    let named = templates.map(|template| (template.name.clone(), template.policy()));
    named.collect()
}

/// Applies the policies in the state store, with the settings of templates.
pub fn apply_stored(stored: &StoredPolicies, config: &Config) {
    if let Err(error) = stored.apply(templates(config)) {
        tracing::error!("{error}; its keys and zones are not available");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn zones_with_equal_tables_share_their_policy() {
        let table = |name: &str, octet: u8| {
            format!(
                "[[zone]]\nname = \"{name}\"\nkind = \"secondary\"\nprimaries = [{{ address = \"192.0.2.{octet}\" }}]\n"
            )
        };
        let text = ["a.test", "b.test"].map(|name| table(name, 1)).concat();
        let text = format!(
            "[server]\nstate_directory = \"state\"\n{text}{}",
            table("c.test", 2)
        );
        let config = Config::parse(&text, Path::new("")).unwrap();
        let set = set(&config);
        let part = |name: &str| {
            let name: NameBuf = name.parse().unwrap();
            Arc::clone(&set.zones[name.as_name().as_wire()])
        };
        assert!(Arc::ptr_eq(&part("a.test."), &part("b.test.")));
        assert_ne!(part("a.test."), part("c.test."));
    }
}
