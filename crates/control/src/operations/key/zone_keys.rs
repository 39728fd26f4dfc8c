//! Operations on the keys of zones, wherever they are stored: for zone files and secondaries in the state store, for
//! database zones in `cryptokeys`.

use data_encoding::{HEXLOWER, HEXUPPER};
use nameward_base::text::counted;
use nameward_base::time::now_seconds;
use nameward_dnssec::rollover::KeyRole;
use nameward_dnssec::{KeyUse, PrivateKey, SigningKey, algorithm_name};
use nameward_maintain::keys::local::{SigningSettings, ZoneKey, ZoneKeysError, signing_keys};
use nameward_maintain::keys::rollover::KeyStatus;
use nameward_wire::rdata::write_text;
use nameward_wire::{NameBuf, Type};
use serde::{Deserialize, Serialize};

use super::database::DatabaseZone;
use super::signing_settings::{RequestedSigning, check_denial, signed_already};
use super::template::use_of;
use crate::operations::{
    ErrorKind, ItemSink, KeyChange, KeyTemplate, ListedItem, OperationError, OperationRequest,
    OperationResult, Operations, SecretText, zone_name,
};

/// A key of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// It signs.
    pub active: bool,
    /// It is in the zone.
    pub published: bool,
    /// When it was created, in seconds since 1970; none if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<u64>,
    /// The DS for the parent, as in a zone file; none for a key that has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ds: Option<String>,
    /// The DS records of its SHA-256 and SHA-384 digests, as in a zone file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub digests: Vec<String>,
    /// The data of its DNSKEY, as in a zone file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dnskey: String,
    /// Why it is unusable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Operations {
    pub(in crate::operations) fn run_on_keys(
        &self,
        request: &OperationRequest,
        items: ItemSink<'_>,
    ) -> Result<OperationResult, OperationError> {
        match request {
            OperationRequest::ZoneSecure {
                zone,
                algorithm,
                denial,
                soa_edit,
            } => {
                let terms = RequestedSigning::read(denial.as_deref(), soa_edit.as_deref())?;
                let secured = self.secure_zone(zone, algorithm.as_deref(), &terms)?;
                Ok(self.with_advice(secured))
            }
            OperationRequest::ZoneUnsecure { zone, force } => self.unsecure_zone(zone, *force),
            OperationRequest::ZoneDs { zone } => self.list_ds(zone, items),
            OperationRequest::KeyList { zone } => self.list_zone_keys(zone.as_deref(), items),
            OperationRequest::KeyAdd(template) => {
                self.add_zone_key(template, template.generate()?, true)
            }
            OperationRequest::KeyImport { private, template } => {
                self.add_zone_key(template, template.read(private)?, false)
            }
            OperationRequest::KeyExport { zone, key, pem } => self.export_key(zone, *key, *pem),
            OperationRequest::KeyChange { zone, key, change } => {
                self.change_key(zone, *key, *change)
            }
            OperationRequest::KeyRemove { zone, key } => self.remove_zone_key(zone, *key),
            OperationRequest::KeyRollover { zone, role } => self.roll_keys(zone, role.as_deref()),
            OperationRequest::KeyDs { zone, key, report } => self.report_ds(zone, *key, *report),
            _ => Err(OperationError::refused("not an operation on keys")),
        }
    }

    /// Signs a zone from now on, or changes how a zone is signed.
    pub(in crate::operations) fn secure_zone(
        &self,
        zone: &str,
        algorithm: Option<&str>,
        terms: &RequestedSigning,
    ) -> Result<OperationResult, OperationError> {
        let (name, home) = self.signable(zone)?;
        if self.has_keys(&name, home.as_ref())? {
            return match (algorithm, terms.is_empty()) {
                (None, false) => self.change_terms(&name, home.as_ref(), terms),
                _ => Err(signed_already(&name)),
            };
        }
        let template = KeyTemplate {
            zone: zone.into(),
            algorithm: algorithm.map(Into::into),
            ..KeyTemplate::default()
        };
        let key = template.key(template.generate()?)?;
        terms.check(&name, std::slice::from_ref(&key))?;
        let key = match &home {
            Some(home) => self.secure_in_database(home, terms, &key)?,
            None => {
                let keys = self.keeper.keys();
                let zone = name.as_name();
                // Before the key, with which signing starts.
                let set = |kept: &mut SigningSettings| {
                    let serial = kept.serial;
                    *kept = terms.over(SigningSettings::default());
                    kept.serial = serial;
                };
                keys.change_terms(zone, now_seconds(), set)
                    .map_err(of_keys(&name))?;
                let key = keys.add(zone, key, now_seconds()).map_err(of_keys(&name))?;
                (self.keys_changed)(name);
                listed(&name, &key, std::slice::from_ref(&key))?
            }
        };
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
    pub(in crate::operations) fn unsecure_zone(
        &self,
        zone: &str,
        is_forced: bool,
    ) -> Result<OperationResult, OperationError> {
        let name = zone_name(zone)?;
        self.check_by_hand(&name)?;
        let home = self.key_home(&name)?;
        if !is_forced && self.has_keys(&name, home.as_ref())? {
            self.check_no_ds(&name)?;
        }
        let keys = match home {
            Some(home) => self.unsecure_in_database(&home)?,
            None => {
                let keys = self.keeper.keys();
                let removed = keys.remove_all(name.as_name(), now_seconds());
                (self.keys_changed)(name);
                removed.map_err(of_keys(&name))?
            }
        };
        if keys == 0 {
            return Err(no_keys(&name));
        }
        let removed = counted(keys, "key");
        tracing::info!("zone {name}: no longer signed, {removed} removed");
        let zone = name.to_string();
        Ok(OperationResult::ZoneUnsecured { zone, keys })
    }

    /// Lists the keys of a zone, or of all.
    fn list_zone_keys(
        &self,
        zone: Option<&str>,
        items: ItemSink<'_>,
    ) -> Result<OperationResult, OperationError> {
        let zones = match zone {
            Some(zone) => vec![zone_name(zone)?],
            None => self.zones_with_keys()?,
        };
        let mut count = 0;
        for name in &zones {
            for key in self.listed_keys(name)? {
                count += 1;
                if !items(ListedItem::ZoneKey(key)) {
                    return Ok(OperationResult::Listed { items: count });
                }
            }
        }
        Ok(OperationResult::Listed { items: count })
    }

    /// Lists all zones that have keys.
    pub(in crate::operations) fn zones_with_keys(&self) -> Result<Vec<NameBuf>, OperationError> {
        let mut zones = match self.keeper.keys().zones() {
            Ok(zones) => zones,
            Err(ZoneKeysError::NoStore) if !self.databases.is_empty() => Vec::new(),
            Err(error) => return Err(OperationError::refused(error.to_string())),
        };
        for database in &self.databases {
            let listed = self.runtime.block_on(database.backend.zones_with_keys());
            let listed = listed.map_err(|error| database.error(&error))?;
            // If two backends have a zone, one serves it.
            let is_served = |name: &NameBuf| {
                (self.rank_of)(name.as_name()).is_none_or(|rank| rank == database.rank)
            };
            zones.extend(listed.into_iter().filter(is_served));
        }
        Ok(zones)
    }

    fn add_zone_key(
        &self,
        template: &KeyTemplate,
        private: PrivateKey,
        is_new: bool,
    ) -> Result<OperationResult, OperationError> {
        let (name, home) = self.signable(&template.zone)?;
        let key = template.key(private)?;
        if is_new && !template.force && key.role != KeyRole::Combined && key.usage.is_active() {
            self.check_completes(&name, home.as_ref(), &key)?;
        }
        let number = match &home {
            Some(home) => self.add_in_database(home, &key)?,
            None => {
                let keys = self.keeper.keys();
                if let Ok(terms) = keys.terms(name.as_name()) {
                    check_denial(&name, &terms.denial, std::slice::from_ref(&key))?;
                }
                let added = keys.add(name.as_name(), key, now_seconds());
                added.map_err(of_keys(&name))?.number
            }
        };
        (self.keys_changed)(name);
        self.key_changed(&name, number)
    }

    fn export_key(
        &self,
        zone: &str,
        number: u32,
        is_pem: bool,
    ) -> Result<OperationResult, OperationError> {
        let name = zone_name(zone)?;
        let mut keys = self.keys_of(&name)?.into_iter();
        let key = keys.find(|key| key.number == number);
        let key = key.ok_or_else(|| of_keys(&name)(ZoneKeysError::NotThere(number)))?;
        tracing::info!("zone {name}: key {number} exported");
        let private = SecretText(if is_pem {
            key.private.to_pem()
        } else {
            key.private.to_text()
        });
        Ok(OperationResult::ZoneKeyText { private })
    }

    fn change_key(
        &self,
        zone: &str,
        number: u32,
        change: KeyChange,
    ) -> Result<OperationResult, OperationError> {
        let name = zone_name(zone)?;
        self.check_by_hand(&name)?;
        match self.key_home(&name)? {
            Some(home) => self.change_in_database(&home, number, change)?,
            None => {
                if matches!(change, KeyChange::Deactivate | KeyChange::Unpublish) {
                    self.check_signed_without(&name, number)?;
                }
                let keys = self.keeper.keys();
                let set = |role, usage: &mut KeyUse| match change {
                    KeyChange::Activate => *usage = use_of(role, true, usage.published),
                    KeyChange::Deactivate => *usage = use_of(role, false, usage.published),
                    KeyChange::Publish => *usage = use_of(role, usage.is_active(), true),
                    KeyChange::Unpublish => *usage = use_of(role, usage.is_active(), false),
                };
                let key = keys.set_usage((name.as_name(), number), now_seconds(), set);
                key.map_err(of_keys(&name))?;
            }
        }
        (self.keys_changed)(name);
        self.key_changed(&name, number)
    }

    fn remove_zone_key(&self, zone: &str, number: u32) -> Result<OperationResult, OperationError> {
        let name = zone_name(zone)?;
        self.check_by_hand(&name)?;
        match self.key_home(&name)? {
            Some(home) => self.remove_in_database(&home, number)?,
            None => {
                self.check_signed_without(&name, number)?;
                let keys = self.keeper.keys();
                let removed = keys.remove(name.as_name(), number, now_seconds());
                removed.map_err(of_keys(&name))?;
            }
        }
        (self.keys_changed)(name);
        tracing::info!("zone {name}: key {number} removed");
        Ok(OperationResult::ZoneKeyRemoved {
            zone: name.to_string(),
            key: number,
        })
    }

    fn key_changed(&self, name: &NameBuf, number: u32) -> Result<OperationResult, OperationError> {
        let mut keys = self.listed_keys(name)?.into_iter();
        let key = keys.find(|key| key.key == number);
        let key = key.ok_or_else(|| of_keys(name)(ZoneKeysError::NotThere(number)))?;
        let (tag, active, published) = (key.tag, key.active, key.published);
        tracing::info!(
            "zone {name}: key {number}, key tag {tag}: active {active}, published {published}"
        );
        Ok(OperationResult::ZoneKey(key))
    }

    /// Checks whether a zone has keys.
    pub(in crate::operations) fn has_keys(
        &self,
        name: &NameBuf,
        home: Option<&DatabaseZone<'_>>,
    ) -> Result<bool, OperationError> {
        match home {
            Some(home) => Ok(!self.key_rows(home)?.is_empty()),
            None => {
                let keys = self.keeper.keys();
                keys.is_signed(name.as_name()).map_err(of_keys(name))
            }
        }
    }

    /// Reads the keys of a zone that has some.
    pub(in crate::operations) fn keys_of(
        &self,
        name: &NameBuf,
    ) -> Result<Vec<ZoneKey>, OperationError> {
        let keys = match self.key_home(name)? {
            Some(home) => self.database_keys(&home)?,
            None => {
                let keys = self.keeper.keys().keys(name.as_name());
                keys.map_err(of_keys(name))?
            }
        };
        if keys.is_empty() {
            Err(no_keys(name))
        } else {
            Ok(keys)
        }
    }

    /// Lists the keys of a zone that has some; those in databases even if they cannot be read.
    fn listed_keys(&self, name: &NameBuf) -> Result<Vec<ListedZoneKey>, OperationError> {
        if let Some(home) = self.key_home(name)? {
            let keys = self.listed_rows(&home)?;
            return if keys.is_empty() {
                Err(no_keys(name))
            } else {
                Ok(keys)
            };
        }
        let keys = self.keys_of(name)?;
        keys.iter().map(|key| listed(name, key, &keys)).collect()
    }

    /// Returns the name of a zone that this server can sign with its own keys, and the database that stores them, if
    /// one does.
    fn signable(&self, zone: &str) -> Result<(NameBuf, Option<DatabaseZone<'_>>), OperationError> {
        let name = zone_name(zone)?;
        let home = self.key_home(&name)?;
        if home.is_none() && (self.rank_of)(name.as_name()).is_none() {
            return Err(OperationError::not_found(format!(
                "zone {name} not found; see `nameward zone list`"
            )));
        }
        // For a database, the current rows decide.
        if home.is_none() && self.keeper.keys().is_presigned(name.as_name()) {
            return Err(OperationError::refused(format!(
                "zone {name} is presigned: its signatures are served unchanged"
            )));
        }
        self.check_by_hand(&name)?;
        Ok((name, home))
    }
}

/// Returns the keyword for the role of a key: its use, or its purpose while unused.
fn role_word(role: KeyRole, usage: KeyUse) -> &'static str {
    match (usage.signs_keys, usage.signs_zone, role) {
        (true, true, _) | (_, _, KeyRole::Combined) => "csk",
        (true, false, _) | (false, false, KeyRole::KeySigning) => "ksk",
        (false, true, _) | (false, false, KeyRole::ZoneSigning) => "zsk",
    }
}

pub(in crate::operations) fn listed(
    name: &NameBuf,
    key: &ZoneKey,
    all: &[ZoneKey],
) -> Result<ListedZoneKey, OperationError> {
    let made = key.key().map_err(of_keys(name))?;
    let keys = signing_keys(all).map_err(of_keys(name))?;
    let mut with_use = all.iter().zip(keys.list());
    let effective = with_use.find(|(other, _)| other.number == key.number);
    let usage = effective.map_or(key.usage, |(_, effective)| effective.usage());
    let role = role_word(key.role, usage);
    let mut dnskey = String::new();
    // The data was made here.
    let _ = write_text(Type::DNSKEY, made.dnskey(), &mut dnskey);
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
        state: key.life.as_ref().map(|_| KeyStatus::of(key).state.into()),
        active: usage.is_active(),
        published: usage.published,
        created: Some(key.created).filter(|created| *created > 0),
        ds: (role != "zsk").then(|| ds_text(name, &made)),
        digests: [2, 4]
            .into_iter()
            .filter_map(|kind| digest_text(name, &made, kind))
            .collect(),
        dnskey,
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

pub(in crate::operations) fn no_keys(name: &NameBuf) -> OperationError {
    OperationError::not_found(format!(
        "zone {name} has no keys; create one with `nameward zone secure {name}`"
    ))
}

/// Turns an error of keys into one of an operation on a zone.
pub(in crate::operations) fn of_keys(name: &NameBuf) -> impl Fn(ZoneKeysError) -> OperationError {
    let name = *name;
    move |error| {
        let kind = match error {
            ZoneKeysError::NoStore | ZoneKeysError::TooMany | ZoneKeysError::NoPolicy => {
                ErrorKind::Refused
            }
            ZoneKeysError::Same(_) => ErrorKind::Conflict,
            ZoneKeysError::NotThere(_) => ErrorKind::NotFound,
            ZoneKeysError::Key { .. } => ErrorKind::Invalid,
            ZoneKeysError::Store(_)
            | ZoneKeysError::Pair(_)
            | ZoneKeysError::Form(_)
            | ZoneKeysError::UnknownZone => ErrorKind::Backend,
        };
        OperationError::new(kind, format!("zone {name}: {error}"))
    }
}
