//! Operations on the keys of zones, wherever they are stored.

use data_encoding::{HEXLOWER, HEXUPPER};
use nameward_base::text::counted;
use nameward_base::time::now_seconds;
use nameward_dnssec::rollover::KeyRole;
use nameward_dnssec::{KeyUse, PrivateKey, SigningKey, algorithm_name};
use nameward_keys::local::{ZoneKey, ZoneKeysError, signing_keys};
use nameward_keys::rollover::KeyStatus;
use nameward_keys::storage::{KeyEntry, KeyStorage, RequestedSigning, UnusableKey, UseChange};
use nameward_wire::{NameBuf, Type};
use serde::{Deserialize, Serialize};

use super::errors::{no_keys, signed_already, zone_keys_error};
use super::signing_settings::{check_nsec3, check_signing};
use crate::operations::record::data_text;
use crate::operations::{
    ItemSink, KeyChange, KeyTemplate, ListedItem, OperationError, OperationResult, Operations,
    Outcome, SecretText, zone_name,
};

/// A key of a zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedZoneKey {
    /// The zone, with its final dot.
    pub zone: String,
    /// The number of the key, unique in its zone.
    pub key: u32,
    /// The key tag.
    pub tag: u16,
    /// `ksk`, `zsk` or `csk`.
    pub role: String,
    /// The algorithm, as ECDSAP256SHA256.
    pub algorithm: String,
    /// The number of the algorithm.
    #[serde(default)]
    pub algorithm_number: u8,
    /// Bits of the key.
    #[serde(default)]
    pub bits: usize,
    /// The flags of its DNSKEY.
    #[serde(default)]
    pub flags: u16,
    /// Its rollover state, if a policy manages it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// It signs.
    pub active: bool,
    /// It is in the zone.
    pub published: bool,
    /// When it was created, in seconds since 1970; none if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<u64>,
    /// The DS for the parent, as in a zone file; none for a key that has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ds: Option<String>,
    /// The DS records of its SHA-256 and SHA-384 digests, as in a zone file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub digests: Vec<String>,
    /// The data of its DNSKEY, as in a zone file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dnskey: String,
    /// Why it is unusable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl ListedZoneKey {
    /// Describes its use without a policy.
    pub fn usage(&self) -> &'static str {
        match (self.published, self.active) {
            (true, true) => "active",
            (true, false) => "published",
            (false, true) => "active, not published",
            (false, false) => "unused",
        }
    }
}

impl Operations {
    /// Signs a zone from now on, or changes how a zone is signed.
    pub(crate) fn secure_zone(
        &self,
        zone: &str,
        algorithm: Option<&str>,
        signing: &RequestedSigning,
    ) -> Outcome {
        let (name, storage) = self.signable(zone)?;
        if storage.has_keys().map_err(zone_keys_error(&name))? {
            return match (algorithm, signing.is_empty()) {
                (None, false) => self.change_signing(&name, &*storage, signing),
                _ => Err(signed_already(&name)),
            };
        }
        let template = KeyTemplate {
            zone: zone.into(),
            algorithm: algorithm.map(Into::into),
            ..KeyTemplate::default()
        };
        let key = template.key(template.generate()?)?;
        check_signing(&name, signing, std::slice::from_ref(&key))?;
        let number = storage.sign(key, signing, now_seconds());
        let number = number.map_err(zone_keys_error(&name))?;
        (self.keys_changed)(name);
        let key = listed_key(&name, &*storage, number)?;
        let (algorithm, tag) = (&key.algorithm, key.tag);
        tracing::info!("zone {name}: signed with a new key, {algorithm}, key tag {tag}");
        let zone = name.to_string();
        Ok(OperationResult::ZoneSecured {
            zone,
            key,
            advice: None,
        })
    }

    /// Ends the signing of a zone.
    pub(crate) fn unsecure_zone(&self, zone: &str, is_forced: bool) -> Outcome {
        let name = zone_name(zone)?;
        self.check_manual_change(&name)?;
        let storage = self.key_storage(&name)?;
        if !is_forced && storage.has_keys().map_err(zone_keys_error(&name))? {
            self.check_no_ds(&name, &*storage)?;
        }
        let removed = storage.remove_all(now_seconds());
        (self.keys_changed)(name);
        let keys = removed.map_err(zone_keys_error(&name))?;
        if keys == 0 {
            return Err(no_keys(&name));
        }
        let removed = counted(keys, "key");
        tracing::info!("zone {name}: no longer signed, {removed} removed");
        let zone = name.to_string();
        Ok(OperationResult::ZoneUnsecured { zone, keys })
    }

    /// Lists the keys of a zone, or of all.
    pub(crate) fn list_zone_keys(&self, zone: Option<&str>, items: ItemSink<'_>) -> Outcome {
        let zones = match zone {
            Some(zone) => vec![zone_name(zone)?],
            None => self.zones_with_keys()?,
        };
        let mut count = 0;
        for name in &zones {
            for key in listed_keys(name, &*self.key_storage(name)?)? {
                count += 1;
                if !items(ListedItem::ZoneKey(key)) {
                    return Ok(OperationResult::Listed { items: count });
                }
            }
        }
        Ok(OperationResult::Listed { items: count })
    }

    /// Lists all zones that have keys.
    pub(crate) fn zones_with_keys(&self) -> Outcome<Vec<NameBuf>> {
        let zones = self
            .rollover
            .storages()
            .zones()
            .map_err(|error| match error {
                ZoneKeysError::Database { address, error } => {
                    OperationError::from_write_error(&address, &error)
                }
                error => OperationError::refused(error.to_string()),
            })?;
        // If two backends have a zone, one serves it.
        let is_served = |(name, home): &(NameBuf, Option<u16>)| {
            let rank = (self.rank_of)(name.as_name());
            home.is_none() || rank.is_none() || rank == *home
        };
        let served = zones.into_iter().filter(is_served);
        Ok(served.map(|(name, _)| name).collect())
    }

    pub(crate) fn add_zone_key(
        &self,
        template: &KeyTemplate,
        private: PrivateKey,
        is_new: bool,
    ) -> Outcome {
        let (name, storage) = self.signable(&template.zone)?;
        let key = template.key(private)?;
        if is_new && !template.force && key.role != KeyRole::Combined && key.usage.is_active() {
            let others = storage.keys().map_err(zone_keys_error(&name))?;
            check_completes(&name, &others, &key)?;
        }
        if storage.uses_nsec3().map_err(zone_keys_error(&name))? {
            check_nsec3(&name, std::slice::from_ref(&key))?;
        }
        let number = storage
            .add(key, now_seconds())
            .map_err(zone_keys_error(&name))?;
        self.key_changed(&name, &*storage, number)
    }

    pub(crate) fn export_key(&self, zone: &str, number: u32, is_pem: bool) -> Outcome {
        let name = zone_name(zone)?;
        let mut keys = self.keys_of(&name)?.into_iter();
        let key = keys.find(|key| key.number == number);
        let key = key.ok_or_else(|| zone_keys_error(&name)(ZoneKeysError::NotThere(number)))?;
        tracing::info!("zone {name}: key {number} exported");
        let private = SecretText(if is_pem {
            key.private.to_pem()
        } else {
            key.private.to_text()
        });
        Ok(OperationResult::ZoneKeyText { private })
    }

    pub(crate) fn change_key(&self, zone: &str, number: u32, change: KeyChange) -> Outcome {
        let name = zone_name(zone)?;
        self.check_manual_change(&name)?;
        let storage = self.key_storage(&name)?;
        let change = match change {
            KeyChange::Activate => UseChange::Active(true),
            KeyChange::Deactivate => UseChange::Active(false),
            KeyChange::Publish => UseChange::Published(true),
            KeyChange::Unpublish => UseChange::Published(false),
        };
        let changed = storage.change_use(number, change, now_seconds());
        changed.map_err(zone_keys_error(&name))?;
        self.key_changed(&name, &*storage, number)
    }

    pub(crate) fn remove_zone_key(&self, zone: &str, number: u32) -> Outcome {
        let name = zone_name(zone)?;
        self.check_manual_change(&name)?;
        let removed = self.key_storage(&name)?.remove(number, now_seconds());
        removed.map_err(zone_keys_error(&name))?;
        (self.keys_changed)(name);
        tracing::info!("zone {name}: key {number} removed");
        Ok(OperationResult::ZoneKeyRemoved {
            zone: name.to_string(),
            key: number,
        })
    }

    fn key_changed(&self, name: &NameBuf, storage: &dyn KeyStorage, number: u32) -> Outcome {
        (self.keys_changed)(*name);
        let key = listed_key(name, storage, number)?;
        let (tag, active, published) = (key.tag, key.active, key.published);
        tracing::info!(
            "zone {name}: key {number}, key tag {tag}: active {active}, published {published}"
        );
        Ok(OperationResult::ZoneKey(key))
    }

    /// Returns the storage of a zone's keys.
    pub(crate) fn key_storage(&self, name: &NameBuf) -> Outcome<Box<dyn KeyStorage + '_>> {
        let rank = (self.rank_of)(name.as_name());
        let found = self.rollover.storages().find(name.as_name(), rank);
        found.map_err(zone_keys_error(name))
    }

    /// Checks whether a zone has keys.
    pub(crate) fn has_keys(&self, name: &NameBuf) -> Outcome<bool> {
        self.key_storage(name)?
            .has_keys()
            .map_err(zone_keys_error(name))
    }

    /// Reads the keys of a zone that has some.
    pub(crate) fn keys_of(&self, name: &NameBuf) -> Outcome<Vec<ZoneKey>> {
        let keys = self
            .key_storage(name)?
            .keys()
            .map_err(zone_keys_error(name))?;
        if keys.is_empty() {
            Err(no_keys(name))
        } else {
            Ok(keys)
        }
    }

    /// Returns the name of a zone that this server can sign with its own keys, and their storage.
    fn signable(&self, zone: &str) -> Outcome<(NameBuf, Box<dyn KeyStorage + '_>)> {
        let name = zone_name(zone)?;
        let storage = self.key_storage(&name)?;
        storage.check_signable().map_err(zone_keys_error(&name))?;
        self.check_manual_change(&name)?;
        Ok((name, storage))
    }
}

/// Lists the keys of a zone that has some; those in databases even if they cannot be read.
pub(super) fn listed_keys(name: &NameBuf, storage: &dyn KeyStorage) -> Outcome<Vec<ListedZoneKey>> {
    let entries = storage.list().map_err(zone_keys_error(name))?;
    if entries.is_empty() {
        return Err(no_keys(name));
    }
    let usable = entries.iter().filter_map(|entry| match entry {
        KeyEntry::Usable(key) => Some(ZoneKey::clone(key)),
        KeyEntry::Unusable(_) => None,
    });
    let usable: Vec<ZoneKey> = usable.collect();
    let listed = entries.iter().map(|entry| match entry {
        KeyEntry::Usable(key) => listed(name, key, &usable),
        KeyEntry::Unusable(key) => Ok(unusable(name, key)),
    });
    listed.collect()
}

fn listed_key(name: &NameBuf, storage: &dyn KeyStorage, number: u32) -> Outcome<ListedZoneKey> {
    let mut keys = listed_keys(name, storage)?.into_iter();
    let key = keys.find(|key| key.key == number);
    key.ok_or_else(|| zone_keys_error(name)(ZoneKeysError::NotThere(number)))
}

/// Refuses a new key that signs only the keys or only the zone, if no other key signs the rest.
fn check_completes(name: &NameBuf, others: &[ZoneKey], key: &ZoneKey) -> Outcome<()> {
    if others.iter().any(|other| other.usage.is_active()) {
        return Ok(());
    }
    let (role, other) = match key.role {
        KeyRole::KeySigning => ("KSK", "zsk"),
        _ => ("ZSK", "ksk"),
    };
    Err(OperationError::refused(format!(
        "zone {name} is not signed, and a {role} alone cannot sign it: use `nameward zone secure {name}` to sign it with \
         one key; for two keys add one with --inactive, the other ({other}) with --force, and activate the first"
    )))
}

/// Returns an unusable key, with what is known of it.
fn unusable(name: &NameBuf, key: &UnusableKey) -> ListedZoneKey {
    let algorithm = key.algorithm;
    ListedZoneKey {
        zone: name.to_string(),
        key: key.number,
        role: if key.flags & 1 == 1 { "ksk" } else { "zsk" }.into(),
        algorithm: algorithm.map_or_else(|| "unknown".into(), |number| number.to_string()),
        algorithm_number: algorithm.unwrap_or(0),
        flags: key.flags,
        active: key.is_active,
        published: key.is_published,
        problem: Some(key.reason.clone()),
        ..ListedZoneKey::default()
    }
}

/// Returns the keyword for the role of a key: its use, or its purpose while unused.
fn role_keyword(role: KeyRole, usage: KeyUse) -> &'static str {
    match (usage.signs_keys, usage.signs_zone, role) {
        (true, true, _) | (_, _, KeyRole::Combined) => "csk",
        (true, false, _) | (false, false, KeyRole::KeySigning) => "ksk",
        (false, true, _) | (false, false, KeyRole::ZoneSigning) => "zsk",
    }
}

pub(crate) fn listed(name: &NameBuf, key: &ZoneKey, all: &[ZoneKey]) -> Outcome<ListedZoneKey> {
    let made = key.key().map_err(zone_keys_error(name))?;
    let keys = signing_keys(all).map_err(zone_keys_error(name))?;
    let mut with_use = all.iter().zip(keys.list());
    let effective = with_use.find(|(other, _)| other.number == key.number);
    let usage = effective.map_or(key.usage, |(_, effective)| effective.usage());
    let role = role_keyword(key.role, usage);
    let algorithm = algorithm_name(made.algorithm()).unwrap_or_default();
    Ok(ListedZoneKey {
        zone: name.to_string(),
        key: key.number,
        tag: made.tag(),
        role: role.into(),
        algorithm: algorithm.into(),
        algorithm_number: made.algorithm(),
        bits: key.private.bits(),
        flags: key.flags,
        state: key
            .life
            .as_ref()
            .map(|_| KeyStatus::from_key(key).state.into()),
        active: usage.is_active(),
        published: usage.published,
        created: Some(key.created).filter(|created| *created > 0),
        ds: (role != "zsk").then(|| ds_text(name, &made)),
        digests: [2, 4]
            .into_iter()
            .filter_map(|kind| digest_text(name, &made, kind))
            .collect(),
        dnskey: data_text(Type::DNSKEY, made.dnskey()),
        problem: None,
    })
}

/// The data of a DS of one digest type, as in a zone file.
fn digest_text(name: &NameBuf, key: &SigningKey, kind: u8) -> Option<String> {
    let ds = key.ds(name.as_name(), kind)?;
    let digest = HEXLOWER.encode(ds.get(4..)?);
    Some(format!("{} {} {kind} {digest}", key.tag(), key.algorithm()))
}

/// The data of a DS of SHA-256 as in a zone file.
fn ds_text(name: &NameBuf, key: &SigningKey) -> String {
    let ds = key.ds(name.as_name(), 2).unwrap_or_default();
    let digest = HEXUPPER.encode(ds.get(4..).unwrap_or_default());
    format!("{} {} 2 {digest}", key.tag(), key.algorithm())
}
