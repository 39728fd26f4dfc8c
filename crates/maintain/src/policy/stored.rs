//! Policies kept in the state store: TSIG keys created by an operator, zones declared by command, and secondaries
//! created by autoprimaries.
//!
//! Changes are on disk before they take effect. Values start with a format number.

mod declared;

pub use declared::DeclaredSettings;

use declared::ZONES;
use nameward_base::secret::Secret;
use nameward_base::sync::Mutex;

use super::{
    PolicyFragment, PolicySet, PolicySource, PolicyTable, RemoteServer, RolledCookieSecret,
    ZoneKind,
};
use nameward_dnssec::tsig::{TsigAlgorithm, TsigKey};
use nameward_state::{StateChange, StateError, StateStore, StoredItem};
use nameward_wire::{Name, NameBuf};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// The item kind for TSIG keys.
const KEYS: &str = "tsig";
/// The item kind for secondaries of autoprimaries.
const SECONDARIES: &str = "autosecondary";
/// The item kind for secrets of DNS cookies.
const COOKIES: &str = "cookie";
/// The value format: a length-prefixed field, and the rest.
const FORM: u8 = 1;
/// The format of a secondary with a key: the key is a length-prefixed field between the address and the rest.
const KEYED_FORM: u8 = 2;

/// A key kept in the state store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKeyRow {
    /// Its name in lower case.
    pub name: NameBuf,
    /// Its algorithm.
    pub algorithm: TsigAlgorithm,
    /// The octets of the secret.
    pub secret: Secret<Vec<u8>>,
}

/// A secondary created by an autoprimary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoprimarySecondary {
    /// The zone.
    pub zone: NameBuf,
    /// The address of the autoprimary, which is its primary.
    pub primary: SocketAddr,
    /// The template for its settings; none if empty.
    pub template: String,
    /// The key that signs queries to the autoprimary.
    pub key: Option<NameBuf>,
}

/// Why stored data cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoredPolicyError {
    /// There is no state store.
    #[error("no state directory; set server.state_directory")]
    NoStore,
    /// The store failed.
    #[error("{0}")]
    Store(#[from] StateError),
}

/// The settings of templates, by name.
type Templates = HashMap<String, PolicyFragment>;

impl AutoprimarySecondary {
    /// Returns its policy. A template takes precedence over the address that the NOTIFY came from.
    fn part(&self, templates: &Templates) -> PolicyFragment {
        let own = DeclaredSettings::from(self).part(&Templates::new());
        match templates.get(&self.template) {
            Some(template) => template.or(&own),
            None => own,
        }
    }
}

impl From<&AutoprimarySecondary> for DeclaredSettings {
    fn from(secondary: &AutoprimarySecondary) -> Self {
        DeclaredSettings {
            kind: ZoneKind::Secondary,
            primaries: vec![RemoteServer {
                key: secondary.key,
                ..RemoteServer::plain(secondary.primary)
            }],
            template: secondary.template.clone(),
            ..DeclaredSettings::default()
        }
    }
}

/// The policies kept in the state store.
pub struct StoredPolicies {
    store: Option<StateStore>,
    table: Arc<PolicyTable>,
    /// Replaced by each reload. Locked during every change.
    templates: Mutex<Templates>,
}

impl StoredPolicies {
    /// Takes the store, if there is one, and the table that its policies are published in.
    pub fn new(store: Option<StateStore>, table: Arc<PolicyTable>) -> Self {
        StoredPolicies {
            store,
            table,
            templates: Mutex::default(),
        }
    }

    /// Publishes the stored policies, with the templates of a configuration.
    pub fn apply(&self, templates: Templates) -> Result<(), StoredPolicyError> {
        let mut own = self.templates.lock();
        *own = templates;
        self.publish(&own)
    }

    /// Checks whether the configuration has a template of this name.
    pub fn has_template(&self, name: &str) -> bool {
        self.templates.lock().contains_key(name)
    }

    /// Reads the settings of a zone that is declared here, by a command or an autoprimary.
    pub fn zone(&self, zone: Name<'_>) -> Result<Option<DeclaredSettings>, StoredPolicyError> {
        let (store, name) = (self.store()?, wire(zone));
        if let Some(value) = store.item(ZONES, &name)? {
            return Ok(DeclaredSettings::from_value(value.reveal()));
        }
        let secondary = store.item(SECONDARIES, &name)?;
        let secondary = secondary.and_then(|value| read_secondary(&(name, value)));
        Ok(secondary.as_ref().map(DeclaredSettings::from))
    }

    /// Declares a zone, or changes the settings of one that is declared here.
    pub fn set_zone(
        &self,
        zone: Name<'_>,
        settings: &DeclaredSettings,
    ) -> Result<(), StoredPolicyError> {
        self.set_zone_with(zone, settings, Vec::new())
    }

    /// As [`StoredPolicies::set_zone`], with further changes of the state store in the same transaction.
    pub fn set_zone_with(
        &self,
        zone: Name<'_>,
        settings: &DeclaredSettings,
        mut changes: Vec<StateChange>,
    ) -> Result<(), StoredPolicyError> {
        let templates = self.templates.lock();
        let name = wire(zone);
        // The declaration replaces the one made by an autoprimary.
        let forget = StateChange::remove_item(SECONDARIES, name.clone());
        let set = StateChange::set_item(ZONES, name, settings.to_value());
        changes.extend([forget, set]);
        self.store()?.write(changes)?;
        let part = Arc::new(settings.part(&templates));
        let change = [(NameBuf::from(zone), Some(part))];
        self.table.change(PolicySource::Kept, change);
        Ok(())
    }

    /// Deletes a zone declaration; false if there was none.
    pub fn remove_zone(&self, zone: Name<'_>) -> Result<bool, StoredPolicyError> {
        let is_there = self.zone(zone)?.is_some();
        let _changing = self.templates.lock();
        let kinds = [ZONES, SECONDARIES];
        let forget = kinds.map(|kind| StateChange::remove_item(kind, wire(zone)));
        self.store()?.write(forget.into())?;
        let change = [(NameBuf::from(zone), None)];
        self.table.change(PolicySource::Kept, change);
        Ok(is_there)
    }

    /// Reads the keys, sorted by name.
    pub fn keys(&self) -> Result<Vec<StoredKeyRow>, StoredPolicyError> {
        let items = self.store()?.items(KEYS)?;
        Ok(items.iter().filter_map(read_key).collect())
    }

    /// Stores a key; returns the one of this name that it replaces.
    pub fn set_key(&self, key: &StoredKeyRow) -> Result<Option<StoredKeyRow>, StoredPolicyError> {
        let templates = self.templates.lock();
        let store = self.store()?;
        let name = wire(key.name.as_name());
        let before = store.item(KEYS, &name)?;
        let before = before.and_then(|value| read_key(&(name.clone(), value)));
        let word = key.algorithm.word().as_bytes();
        let value = [&[FORM, word.len() as u8][..], word, key.secret.reveal()].concat();
        store.write(vec![StateChange::set_item(KEYS, name, value)])?;
        self.publish(&templates)?;
        Ok(before)
    }

    /// Deletes a key; false if there was none.
    pub fn remove_key(&self, key: Name<'_>) -> Result<bool, StoredPolicyError> {
        let templates = self.templates.lock();
        let store = self.store()?;
        let name = wire(key);
        let is_there = store.item(KEYS, &name)?.is_some();
        store.write(vec![StateChange::remove_item(KEYS, name)])?;
        self.publish(&templates)?;
        Ok(is_there)
    }

    /// Stores a secret for DNS cookies, and deletes those that no longer verify any.
    pub fn add_cookie(
        &self,
        new: &RolledCookieSecret,
        old: &[RolledCookieSecret],
    ) -> Result<(), StoredPolicyError> {
        let templates = self.templates.lock();
        let names = old.iter().map(RolledCookieSecret::item_name);
        let remove = names.map(|name| StateChange::remove_item(COOKIES, name));
        let set = StateChange::set_item(COOKIES, new.item_name(), new.secret.clone());
        self.store()?.write(remove.chain([set]).collect())?;
        self.publish(&templates)
    }

    /// Reads the secondaries created by autoprimaries.
    pub fn secondaries(&self) -> Result<Vec<AutoprimarySecondary>, StoredPolicyError> {
        let items = self.store()?.items(SECONDARIES)?;
        Ok(items.iter().filter_map(read_secondary).collect())
    }

    /// Stores a secondary.
    pub fn set_secondary(&self, secondary: &AutoprimarySecondary) -> Result<(), StoredPolicyError> {
        let templates = self.templates.lock();
        let address = secondary.primary.to_string();
        let key = secondary.key.map(|key| wire(key.as_name()));
        let form = if key.is_some() { KEYED_FORM } else { FORM };
        let mut value = vec![form, address.len() as u8];
        value.extend_from_slice(address.as_bytes());
        if let Some(key) = key {
            value.push(key.len() as u8);
            value.extend(key);
        }
        value.extend_from_slice(secondary.template.as_bytes());
        let name = wire(secondary.zone.as_name());
        let set = StateChange::set_item(SECONDARIES, name, value);
        self.store()?.write(vec![set])?;
        self.publish(&templates)
    }

    fn publish(&self, templates: &Templates) -> Result<(), StoredPolicyError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let mut set = PolicySet::default();
        for item in &store.items(KEYS)? {
            match read_key(item) {
                Some(key) => {
                    let key = TsigKey::new(key.name.as_name(), key.algorithm, key.secret.reveal());
                    set.keys.push(Arc::new(key));
                }
                None => tracing::error!("state store: unreadable TSIG key"),
            }
        }
        for (name, value) in &store.items(COOKIES)? {
            match RolledCookieSecret::from_item(name, value) {
                Some(secret) => set.cookies.push(secret),
                None => tracing::error!("state store: unreadable cookie secret"),
            }
        }
        // Zones with the same primary, key and template share their settings.
        let mut made: HashMap<(SocketAddr, Option<NameBuf>, String), Arc<PolicyFragment>> =
            HashMap::new();
        for secondary in store.items(SECONDARIES)?.iter().filter_map(read_secondary) {
            let template = secondary.template.clone();
            let like = (secondary.primary, secondary.key, template);
            let make = || Arc::new(secondary.part(templates));
            let part = made.entry(like).or_insert_with(make);
            set.set_zone(secondary.zone.as_name(), Arc::clone(part));
        }
        let mut made: HashMap<DeclaredSettings, Arc<PolicyFragment>> = HashMap::new();
        for (name, value) in &store.items(ZONES)? {
            let zone = Name::from_wire(name).ok();
            let settings = DeclaredSettings::from_value(value.reveal());
            let (Some(zone), Some(settings)) = (zone, settings) else {
                let name = zone.map(|name| name.to_string()).unwrap_or_default();
                tracing::error!("zone {name}: unreadable entry in the state store");
                continue;
            };
            let make = |settings: &DeclaredSettings| Arc::new(settings.part(templates));
            let part = made.entry(settings).or_insert_with_key(make);
            set.set_zone(zone, Arc::clone(part));
        }
        self.table.set(PolicySource::Kept, set);
        Ok(())
    }

    fn store(&self) -> Result<&StateStore, StoredPolicyError> {
        self.store.as_ref().ok_or(StoredPolicyError::NoStore)
    }
}

fn wire(name: Name<'_>) -> Vec<u8> {
    name.as_wire().to_ascii_lowercase()
}

/// Splits off a length-prefixed field.
fn split(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = octets.split_first()?;
    rest.split_at_checked(usize::from(*length))
}

fn read_key((name, value): &StoredItem) -> Option<StoredKeyRow> {
    let [FORM, parts @ ..] = &value.reveal()[..] else {
        return None;
    };
    let (word, secret) = split(parts)?;
    let word = std::str::from_utf8(word).ok()?;
    Some(StoredKeyRow {
        name: Name::from_wire(name).ok()?.into(),
        algorithm: TsigAlgorithm::from_word(word)?,
        secret: secret.to_vec().into(),
    })
}

fn read_secondary((zone, value): &StoredItem) -> Option<AutoprimarySecondary> {
    let (form, parts) = value.reveal().split_first()?;
    let (address, rest) = split(parts)?;
    let (key, template) = match *form {
        FORM => (None, rest),
        KEYED_FORM => {
            let (key, template) = split(rest)?;
            (Some(Name::from_wire(key).ok()?.into()), template)
        }
        _ => return None,
    };
    Some(AutoprimarySecondary {
        key,
        zone: Name::from_wire(zone).ok()?.into(),
        primary: std::str::from_utf8(address).ok()?.parse().ok()?,
        template: std::str::from_utf8(template).ok()?.into(),
    })
}

#[cfg(test)]
mod tests;
