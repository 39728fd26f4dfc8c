//! Owns operations on the keys of zones that are signed here and have none in their home: zone files and secondaries.

use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::HEXUPPER;
use nameward_dnssec::rollover::KeyRole;
use nameward_dnssec::{
    DenialTerms, KeyUse, PrivateKey, SigningKey, SoaEdit, algorithm_name, algorithm_number,
};
use nameward_maintain::key_life::KeyStatus;
use nameward_maintain::zone_keys::{SigningTerms, ZoneKey, ZoneKeysError, signing_keys};
use nameward_wire::rdata::write_text;
use nameward_wire::{NameBuf, Type};
use serde::{Deserialize, Serialize};

use super::{
    ErrorKind, KeyChange, KeyTemplate, ListedItem, ListedRecord, OperationError, OperationRequest,
    OperationResult, Operations, SecretText, TakeItem, zone_name,
};

/// The algorithm of keys where nothing is said (RFC 8624 section 3.1 recommends it).
const DEFAULT_ALGORITHM: u8 = 13;
/// Bits of RSA keys where nothing is said.
const DEFAULT_BITS: u32 = 2048;
/// The TTL of DS records as they are shown: the parent has its own.
const SHOWN_TTL: u32 = 3600;
/// The flags of a DNSKEY with and without the bit of an entry point (RFC 4034 section 2.1.1).
const ENTRY_POINT: u16 = 257;
const ZONE_SIGNING: u16 = 256;

/// A key of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedZoneKey {
    /// The zone, with its final dot.
    pub zone: String,
    /// Tells the keys of a zone apart.
    pub key: u32,
    /// The key tag.
    pub tag: u16,
    /// `ksk`, `zsk` or `csk`.
    pub role: String,
    /// The algorithm, as ECDSAP256SHA256.
    pub algorithm: String,
    /// How far it has come, if a policy looks after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// It signs.
    pub active: bool,
    /// It is in the zone.
    pub published: bool,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// The DS for the parent, as in a zone file; none for a key that has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ds: Option<String>,
}

impl Operations {
    pub(super) fn run_on_keys(
        &self,
        request: &OperationRequest,
        items: TakeItem<'_>,
    ) -> Result<OperationResult, OperationError> {
        match request {
            OperationRequest::ZoneSecure {
                zone,
                algorithm,
                denial,
                soa_edit,
            } => {
                let terms = SigningTerms {
                    denial: read_denial(denial.as_deref())?,
                    soa_edit: read_soa_edit(soa_edit.as_deref())?,
                    managed: None,
                };
                self.secure_zone(zone, algorithm.as_deref(), &terms)
            }
            OperationRequest::ZoneUnsecure { zone } => self.unsecure_zone(zone),
            OperationRequest::ZoneDs { zone } => self.list_ds(zone, items),
            OperationRequest::KeyList { zone } => self.list_zone_keys(zone.as_deref(), items),
            OperationRequest::KeyAdd(template) => self.add_zone_key(template, template.generate()?),
            OperationRequest::KeyImport { private, template } => {
                self.add_zone_key(template, template.read(private)?)
            }
            OperationRequest::KeyExport { zone, key, pem } => self.export_key(zone, *key, *pem),
            OperationRequest::KeyChange { zone, key, change } => {
                self.change_key(zone, *key, *change)
            }
            OperationRequest::KeyRemove { zone, key } => self.remove_zone_key(zone, *key),
            OperationRequest::KeyRollover { zone, role } => self.roll_keys(zone, role.as_deref()),
            OperationRequest::KeyDs { zone, key, report } => self.report_ds(zone, *key, *report),
            _ => Err(OperationError::refused("this is no operation on keys")),
        }
    }

    /// Signs a zone from now on.
    fn secure_zone(
        &self,
        zone: &str,
        algorithm: Option<&str>,
        terms: &SigningTerms,
    ) -> Result<OperationResult, OperationError> {
        let name = self.signable(zone)?;
        let keys = self.keeper.keys();
        if keys.is_signed(name.as_name()).map_err(of_keys(&name))? {
            return Err(OperationError::conflict(format!(
                "zone {name} is signed already; `nameward key list {name}` lists its keys"
            )));
        }
        let template = KeyTemplate {
            zone: zone.into(),
            algorithm: algorithm.map(Into::into),
            ..KeyTemplate::default()
        };
        let private = template.generate()?;
        let key = template.key(private)?;
        // Before the key, which is when signing begins.
        keys.set_terms(name.as_name(), terms)
            .map_err(of_keys(&name))?;
        let key = keys.add(name.as_name(), key).map_err(of_keys(&name))?;
        let key = listed(&name, &key, std::slice::from_ref(&key))?;
        let (algorithm, tag) = (&key.algorithm, key.tag);
        tracing::info!("zone {name}: signed with a new key, {algorithm}, key tag {tag}");
        let zone = name.to_string();
        Ok(OperationResult::ZoneSecured { zone, key })
    }

    /// Ends the signing of a zone.
    fn unsecure_zone(&self, zone: &str) -> Result<OperationResult, OperationError> {
        let name = zone_name(zone)?;
        self.check_by_hand(&name)?;
        let removed = self.keeper.keys().remove_all(name.as_name());
        let keys = removed.map_err(of_keys(&name))?;
        if keys == 0 {
            return Err(no_keys(&name));
        }
        tracing::info!("zone {name}: not signed any more, {keys} keys removed");
        let zone = name.to_string();
        Ok(OperationResult::ZoneUnsecured { zone, keys })
    }

    /// Lists DS, DNSKEY, CDS and CDNSKEY as lines of a zone file.
    fn list_ds(&self, zone: &str, items: TakeItem<'_>) -> Result<OperationResult, OperationError> {
        let name = zone_name(zone)?;
        let all = self.keys_of(&name)?;
        let mut count = 0;
        let mut show = |rtype: Type, rdata: &[u8]| {
            count += 1;
            items(ListedItem::Record(record(&name, rtype, rdata)))
        };
        let keys = signing_keys(&all).map_err(of_keys(&name))?;
        for made in keys.list().iter().filter(|key| key.usage().published) {
            show(Type::DNSKEY, made.dnskey());
            if !made.usage().asks_ds {
                continue;
            }
            show(Type::CDNSKEY, made.dnskey());
            for digest in [2, 4] {
                let ds = made.ds(name.as_name(), digest).unwrap_or_default();
                show(Type::DS, &ds);
                // The zone has CDS records of SHA-256 alone.
                if digest == 2 {
                    show(Type::CDS, &ds);
                }
            }
        }
        Ok(OperationResult::Listed { items: count })
    }

    /// Lists the keys of a zone, or of all.
    fn list_zone_keys(
        &self,
        zone: Option<&str>,
        items: TakeItem<'_>,
    ) -> Result<OperationResult, OperationError> {
        let zones = match zone {
            Some(zone) => vec![zone_name(zone)?],
            None => {
                let zones = self.keeper.keys().zones();
                zones.map_err(|error| OperationError::refused(error.to_string()))?
            }
        };
        let mut count = 0;
        for name in &zones {
            let keys = self.keys_of(name)?;
            for key in &keys {
                count += 1;
                if !items(ListedItem::ZoneKey(listed(name, key, &keys)?)) {
                    return Ok(OperationResult::Listed { items: count });
                }
            }
        }
        Ok(OperationResult::Listed { items: count })
    }

    fn add_zone_key(
        &self,
        template: &KeyTemplate,
        private: PrivateKey,
    ) -> Result<OperationResult, OperationError> {
        let name = self.signable(&template.zone)?;
        let key = template.key(private)?;
        let key = self.keeper.keys().add(name.as_name(), key);
        self.key_changed(&name, &key.map_err(of_keys(&name))?)
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
        let private = SecretText(match is_pem {
            true => key.private.to_pem(),
            false => key.private.to_text(),
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
        if matches!(change, KeyChange::Deactivate | KeyChange::Unpublish) {
            self.check_signed_without(&name, number)?;
        }
        let key =
            self.keeper
                .keys()
                .set_usage((name.as_name(), number), |role, usage| match change {
                    KeyChange::Activate => *usage = use_of(role, true, usage.published),
                    KeyChange::Deactivate => *usage = use_of(role, false, usage.published),
                    KeyChange::Publish => *usage = use_of(role, usage.is_active(), true),
                    KeyChange::Unpublish => *usage = use_of(role, usage.is_active(), false),
                });
        self.key_changed(&name, &key.map_err(of_keys(&name))?)
    }

    fn remove_zone_key(&self, zone: &str, number: u32) -> Result<OperationResult, OperationError> {
        let name = zone_name(zone)?;
        self.check_by_hand(&name)?;
        self.check_signed_without(&name, number)?;
        let removed = self.keeper.keys().remove(name.as_name(), number);
        removed.map_err(of_keys(&name))?;
        tracing::info!("zone {name}: key {number} removed");
        Ok(OperationResult::ZoneKeyRemoved {
            zone: name.to_string(),
            key: number,
        })
    }

    fn key_changed(
        &self,
        name: &NameBuf,
        key: &ZoneKey,
    ) -> Result<OperationResult, OperationError> {
        let key = listed(name, key, &self.keys_of(name)?)?;
        let (number, tag) = (key.key, key.tag);
        let (active, published) = (key.active, key.published);
        tracing::info!(
            "zone {name}: key {number}, key tag {tag}: active {active}, published {published}"
        );
        Ok(OperationResult::ZoneKey(key))
    }

    /// Refuses to take the last key from a zone that signs: that is the end of signing, which has a command.
    fn check_signed_without(&self, name: &NameBuf, number: u32) -> Result<(), OperationError> {
        let keys = self.keys_of(name)?;
        let is_used = |key: &ZoneKey| key.usage.is_active() && key.usage.published;
        let is_last = |key: &&ZoneKey| key.number == number && is_used(key);
        let mut others = keys.iter().filter(|key| key.number != number);
        match keys.iter().find(is_last) {
            Some(_) if !others.any(is_used) => Err(OperationError::refused(format!(
                "key {number} is the only one that signs zone {name}: `nameward zone unsecure {name}` ends signing"
            ))),
            _ => Ok(()),
        }
    }

    /// Reads the keys of a zone that has some.
    fn keys_of(&self, name: &NameBuf) -> Result<Vec<ZoneKey>, OperationError> {
        let keys = self.keeper.keys().keys(name.as_name());
        let keys = keys.map_err(of_keys(name))?;
        match keys.is_empty() {
            true => Err(no_keys(name)),
            false => Ok(keys),
        }
    }

    /// The name of a zone that this server can sign with keys of its own.
    fn signable(&self, zone: &str) -> Result<NameBuf, OperationError> {
        let name = zone_name(zone)?;
        let rank = (self.rank_of)(name.as_name()).ok_or_else(|| {
            OperationError::not_found(format!(
                "zone {name} not found; `nameward zone list` lists the zones"
            ))
        })?;
        if self.databases.iter().any(|database| database.rank == rank) {
            return Err(OperationError::refused(format!(
                "zone {name} is in a database, which has its keys in its table cryptokeys: make them there, as with \
                 `pdnsutil secure-zone`"
            )));
        }
        if self.keeper.keys().is_presigned(name.as_name()) {
            return Err(OperationError::refused(format!(
                "zone {name} brings its signatures with it: they are served as they are"
            )));
        }
        self.check_by_hand(&name)?;
        Ok(name)
    }
}

impl KeyTemplate {
    fn generate(&self) -> Result<PrivateKey, OperationError> {
        let bits = self.bits.unwrap_or(DEFAULT_BITS);
        PrivateKey::generate(self.algorithm()?, bits as usize)
            .map_err(|error| OperationError::invalid(error.to_string()))
    }

    /// Reads a private text of either form.
    fn read(&self, text: &SecretText) -> Result<PrivateKey, OperationError> {
        let octets = text.0.as_bytes();
        let read = match text.0.contains("-----BEGIN ") {
            true => PrivateKey::from_pem(octets, self.algorithm()?),
            false => PrivateKey::from_text(octets),
        };
        read.map_err(|error| OperationError::invalid(error.to_string()))
    }

    fn algorithm(&self) -> Result<u8, OperationError> {
        let Some(word) = &self.algorithm else {
            return Ok(DEFAULT_ALGORITHM);
        };
        algorithm_number(word).ok_or_else(|| {
            OperationError::invalid(format!(
                "cannot sign with the algorithm {word:?}: there are 8 (RSASHA256), 10 (RSASHA512), \
                 13 (ECDSAP256SHA256), 14 (ECDSAP384SHA384) and 15 (ED25519)"
            ))
        })
    }

    fn key(&self, private: PrivateKey) -> Result<ZoneKey, OperationError> {
        let role = match self.role.as_deref().unwrap_or("csk") {
            "csk" => KeyRole::Combined,
            "ksk" => KeyRole::KeySigning,
            "zsk" => KeyRole::ZoneSigning,
            other => {
                return Err(OperationError::invalid(format!(
                    "expected the role csk, ksk or zsk, found {other:?}"
                )));
            }
        };
        Ok(ZoneKey {
            number: 0,
            flags: match role.signs_keys() {
                true => ENTRY_POINT,
                false => ZONE_SIGNING,
            },
            role,
            usage: use_of(role, !self.inactive, !self.unpublished),
            created: now_seconds(),
            life: None,
            private,
        })
    }
}

pub(super) fn now_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

/// The use of a key that no policy looks after.
fn use_of(role: KeyRole, is_active: bool, is_published: bool) -> KeyUse {
    KeyUse {
        published: is_published,
        signs_keys: is_active && role.signs_keys(),
        signs_zone: is_active && role.signs_zone(),
        asks_ds: is_published && role.signs_keys(),
    }
}

/// The word for the part that a key has: what it does, or what it is for while it does nothing.
fn role_word(role: KeyRole, usage: KeyUse) -> &'static str {
    match (usage.signs_keys, usage.signs_zone, role) {
        (true, true, _) | (_, _, KeyRole::Combined) => "csk",
        (true, false, _) | (false, false, KeyRole::KeySigning) => "ksk",
        (false, true, _) | (false, false, KeyRole::ZoneSigning) => "zsk",
    }
}

pub(super) fn listed(
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
    let algorithm = algorithm_name(made.algorithm()).unwrap_or_default();
    Ok(ListedZoneKey {
        zone: name.to_string(),
        key: key.number,
        tag: made.tag(),
        role: role.into(),
        algorithm: algorithm.into(),
        state: key.life.as_ref().map(|_| KeyStatus::of(key).state.into()),
        active: usage.is_active(),
        published: usage.published,
        created: key.created,
        ds: (role != "zsk").then(|| ds_text(name, &made)),
    })
}

/// The data of a DS of SHA-256 as in a zone file.
fn ds_text(name: &NameBuf, key: &SigningKey) -> String {
    let ds = key.ds(name.as_name(), 2).unwrap_or_default();
    let digest = HEXUPPER.encode(ds.get(4..).unwrap_or_default());
    format!("{} {} 2 {digest}", key.tag(), key.algorithm())
}

fn record(name: &NameBuf, rtype: Type, rdata: &[u8]) -> ListedRecord {
    let mut content = String::new();
    let written = write_text(rtype, rdata, &mut content);
    ListedRecord {
        id: None,
        name: name.to_string(),
        ttl: SHOWN_TTL,
        rtype: rtype.to_string(),
        content,
        disabled: false,
        problem: written.err().map(|error| error.to_string()),
    }
}

fn read_denial(word: Option<&str>) -> Result<DenialTerms, OperationError> {
    let word = word.unwrap_or(DenialTerms::WORDS[0]);
    DenialTerms::read(word).ok_or_else(|| {
        let words = DenialTerms::WORDS.join(", ");
        OperationError::invalid(format!("expected a denial of {words}, found {word:?}"))
    })
}

fn read_soa_edit(word: Option<&str>) -> Result<SoaEdit, OperationError> {
    let word = word.unwrap_or_default();
    SoaEdit::read(word).ok_or_else(|| {
        OperationError::invalid(format!(
            "expected INCREMENT-WEEKS, INCEPTION-EPOCH, INCEPTION-INCREMENT, EPOCH or NONE, found {word:?}"
        ))
    })
}

fn no_keys(name: &NameBuf) -> OperationError {
    OperationError::not_found(format!(
        "zone {name} has no keys in the state store; `nameward zone secure {name}` makes one"
    ))
}

/// Turns an error of keys into one of an operation on a zone.
pub(super) fn of_keys(name: &NameBuf) -> impl Fn(ZoneKeysError) -> OperationError {
    let name = *name;
    move |error| {
        let kind = match error {
            ZoneKeysError::NoStore | ZoneKeysError::TooMany | ZoneKeysError::NoPolicy => {
                ErrorKind::Refused
            }
            ZoneKeysError::Same(_) => ErrorKind::Conflict,
            ZoneKeysError::NotThere(_) => ErrorKind::NotFound,
            ZoneKeysError::Key { .. } => ErrorKind::Invalid,
            ZoneKeysError::Store(_) | ZoneKeysError::Form(_) | ZoneKeysError::UnknownZone => {
                ErrorKind::Backend
            }
        };
        OperationError::new(kind, format!("zone {name}: {error}"))
    }
}
