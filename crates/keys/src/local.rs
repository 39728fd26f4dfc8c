//! Keys of zones that are signed by this server and whose storage has no keys: zone files and secondaries. They are
//! kept in the state store, or their private parts in files of a directory (`directory`).
//!
//! Changes are on disk before they take effect, and they apply to every version of the zone (`TableWriter`). A key
//! that can no longer be read makes answers with DNSSEC fail: signing with the others, or not at all, would be bogus
//! for resolvers that know the DS. For the same reason a server does not start if it does not know which zones have
//! keys.

mod activation;
mod check;
mod copy;
mod directory;
pub(crate) mod encoding;
mod error;
mod files;
mod rollover;
mod serial;
mod zone;

pub use check::{KeyFileFault, key_file_faults};
pub use copy::KeysCopy;
pub(crate) use directory::role_of;
pub use error::ZoneKeysError;
pub use files::{KeyPairError, PrivateKeyLocation};
pub(crate) use rollover::made_key;
pub use rollover::{KeyPlan, KeyProgress};
pub use serial::SerialOffsetRaise;
pub(crate) use zone::LocalZoneKeys;

use files::{KeyDirectories, remove_pair, write_pair};
use nameward_base::secret::Secret;
use nameward_base::sync::Mutex;
use nameward_dnssec::rollover::{KeyRole, KeyState, RolloverTimes};
use nameward_dnssec::{
    DenialSettings, KeyUse, Keys, PrivateKey, SignatureCache, SignatureTimes, SigningKey, SoaEdit,
};
use nameward_maintain::policy::PolicyTable;
use nameward_maintain::table::TableWriter;
use nameward_state::{StateChange, StateStore};
use nameward_wire::{Name, NameBuf};
use serial::{SeenUses, seen_uses, uses_of};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// The item kind for keys, by zone and key number.
const KEYS: &str = nameward_state::ZONE_KEY_ITEM;
/// The item kind for signing settings, by zone.
const ZONES: &str = "dnssec-zone";
/// Maximum number of keys per zone. More than a simultaneous rollover of everything needs.
const MAX_KEYS: usize = 32;
/// Size of a key number in octets.
pub(crate) const NUMBER: usize = 4;

/// How a zone without keys in its storage is signed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SigningSettings {
    /// The denial of existence method.
    pub denial: DenialSettings,
    /// The served serial.
    pub soa_edit: SoaEdit,
    /// The settings of a zone that a policy manages.
    pub managed: Option<ManagedSettings>,
    /// How far the serial is ahead of that of the contents.
    pub serial: SerialOffsetRaise,
}

/// How a zone is signed that is managed by a policy, or was until the policy was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedSettings {
    /// Inception, expiration and renewal of signatures.
    pub signatures: SignatureTimes,
    /// The TTL of DNSKEY, CDS and CDNSKEY.
    pub dnskey_ttl: u32,
    /// Whether CDS and CDNSKEY request the DS from the parent.
    pub shows_cds: bool,
    /// Whether they request the removal of all DS (RFC 8078 section 4).
    pub asks_removal: bool,
    /// The delays that apply if the policy no longer exists.
    pub times: RolloverTimes,
    /// How the parent is queried.
    pub parent: ParentSettings,
}

/// How the parent of a zone is queried for the DS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParentSettings {
    /// Its servers; the resolvers of this server if empty.
    pub servers: Vec<SocketAddr>,
    /// Seconds between two checks, while a DS change is pending.
    pub interval: u64,
}

/// A key kept in the state store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneKey {
    /// The number of the key, unique in its zone.
    pub number: u32,
    /// The flags of its DNSKEY.
    pub flags: u16,
    /// The records that it signs.
    pub role: KeyRole,
    /// Its use.
    pub usage: KeyUse,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// The rollover state of its records, if a policy manages it.
    pub life: Option<KeyState>,
    /// The private part.
    pub private: PrivateKey,
    /// Where the private part is stored.
    pub location: PrivateKeyLocation,
}

impl ZoneKey {
    /// Creates the signing key.
    pub fn key(&self) -> Result<SigningKey, ZoneKeysError> {
        let number = self.number;
        SigningKey::new(&self.private, self.flags, self.usage)
            .map_err(|error| ZoneKeysError::Key { number, error })
    }
}

/// The keys of zones, in the state store and in use.
pub struct ZoneKeys {
    store: Option<StateStore>,
    table: Arc<TableWriter>,
    signatures: Arc<SignatureCache>,
    /// The policies, which name the key directories of zones.
    zones: Arc<PolicyTable>,
    directories: KeyDirectories,
    /// Serializes changes.
    changing: Mutex<()>,
}

impl ZoneKeys {
    /// Takes the store, if there is one, the table whose zones are signed, their signature cache, and their policies.
    pub fn new(
        store: Option<StateStore>,
        table: Arc<TableWriter>,
        signatures: Arc<SignatureCache>,
        zones: Arc<PolicyTable>,
    ) -> Self {
        ZoneKeys {
            store,
            table,
            signatures,
            zones,
            directories: KeyDirectories::default(),
            changing: Mutex::default(),
        }
    }

    /// Activates the keys of all zones.
    pub fn apply(&self, now: u64) -> Result<(), ZoneKeysError> {
        let mut in_files = self.zones_with_files();
        let store = match self.store() {
            Ok(store) => store,
            Err(_) if in_files.is_empty() => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut zones: BTreeMap<Vec<u8>, Vec<NumberedKey>> = BTreeMap::new();
        for (name, value) in store.items(KEYS)? {
            let Some((zone, number)) = name.split_last_chunk::<NUMBER>() else {
                return Err(ZoneKeysError::UnknownZone);
            };
            let keys = zones.entry(zone.to_vec()).or_default();
            keys.push((u32::from_be_bytes(*number), value));
        }
        for (zone, values) in zones {
            let zone = Name::from_wire(&zone).map_err(|_| ZoneKeysError::UnknownZone)?;
            if values
                .iter()
                .any(|(_, value)| encoding::is_pair(value.reveal()))
            {
                in_files.insert(zone.into());
            } else {
                self.put_in_force(zone, &read_all(&values))?
            }
        }
        for zone in self.zones_with_serials()? {
            if !in_files.contains(&zone) {
                self.refresh(zone.as_name())?;
            }
        }
        for zone in in_files {
            if let Err(error) = self.read_files(zone.as_name(), now) {
                self.put_in_force(zone.as_name(), &Err(error))?;
            }
        }
        Ok(())
    }

    /// Reads the uses of a zone's keys, even if their private parts cannot be read.
    fn uses(&self, zone: Name<'_>) -> Result<Vec<(u32, KeyUse)>, ZoneKeysError> {
        uses_of(&self.values(zone)?)
    }

    /// Refuses to take the last signing key of a zone out of use: that ends signing, which has its own command. A key
    /// whose files are missing can still be removed.
    fn check_others(&self, zone: Name<'_>, number: u32) -> Result<(), ZoneKeysError> {
        let is_used = |(_, usage): &(u32, KeyUse)| usage.is_active() && usage.published;
        let (own, others): (Vec<_>, Vec<_>) = self
            .uses(zone)?
            .into_iter()
            .partition(|(key, _)| *key == number);
        if own.iter().any(is_used) && !others.iter().any(is_used) {
            Err(ZoneKeysError::Last(number))
        } else {
            Ok(())
        }
    }

    /// Checks whether a zone has keys here.
    pub fn is_signed(&self, zone: Name<'_>) -> Result<bool, ZoneKeysError> {
        Ok(!self.values(zone)?.is_empty())
    }

    /// Reads the keys of a zone in order to change them.
    fn read_keys(&self, zone: Name<'_>) -> Result<Vec<ZoneKey>, ZoneKeysError> {
        read_all(&self.values(zone)?)
    }

    /// Reads how a zone is signed.
    pub fn terms(&self, zone: Name<'_>) -> Result<SigningSettings, ZoneKeysError> {
        let value = self.store()?.item(ZONES, &wire(zone))?;
        Ok(value.map_or_else(SigningSettings::default, |value| {
            SigningSettings::read(value.reveal())
        }))
    }

    /// Lists the zones that have keys here.
    pub fn zones(&self) -> Result<Vec<NameBuf>, ZoneKeysError> {
        let items = self.store()?.items(KEYS)?;
        let names = items.iter().filter_map(|(name, _)| {
            let (zone, _) = name.split_last_chunk::<NUMBER>()?;
            Some(NameBuf::from(Name::from_wire(zone).ok()?))
        });
        let mut zones: Vec<NameBuf> = names.collect();
        zones.dedup();
        Ok(zones)
    }

    /// Changes how a zone is signed. Secondaries transfer the zone again if the change is visible.
    pub fn change_terms(
        &self,
        zone: Name<'_>,
        now: u64,
        change: impl FnOnce(&mut SigningSettings),
    ) -> Result<(), ZoneKeysError> {
        let _changing = self.changing.lock();
        let mut terms = self.terms(zone)?;
        change(&mut terms);
        let uses = seen_uses(&self.read_keys(zone)?);
        self.write_change(zone, Vec::new(), (terms, uses), now)
    }

    /// Stores a key of a zone and uses it; its number is assigned here.
    pub fn add(
        &self,
        zone: Name<'_>,
        mut key: ZoneKey,
        now: u64,
    ) -> Result<ZoneKey, ZoneKeysError> {
        let _changing = self.changing.lock();
        let mut keys = self.read_keys(zone)?;
        if keys.len() >= MAX_KEYS {
            return Err(ZoneKeysError::TooMany);
        }
        let is_same = |other: &&ZoneKey| (other.flags, &other.private) == (key.flags, &key.private);
        if let Some(other) = keys.iter().find(is_same) {
            return Err(ZoneKeysError::Same(other.number));
        }
        key.number = keys.last().map_or(1, |last| last.number.saturating_add(1));
        // A key that cannot sign is not stored.
        key.key()?;
        if let Some(directory) = self.directory(zone) {
            key.move_into(&directory, zone)?;
            self.write_files(zone, &key)?;
        }
        keys.push(key.clone());
        self.write(zone, &key, &keys, now)?;
        Ok(key)
    }

    /// Changes the use of a key.
    pub fn set_usage(
        &self,
        (zone, number): (Name<'_>, u32),
        now: u64,
        change: impl FnOnce(KeyRole, &mut KeyUse),
    ) -> Result<ZoneKey, ZoneKeysError> {
        let _changing = self.changing.lock();
        let mut keys = self.read_keys(zone)?;
        let found = keys.iter_mut().find(|key| key.number == number);
        let key = found.ok_or(ZoneKeysError::NotThere(number))?;
        change(key.role, &mut key.usage);
        if let PrivateKeyLocation::Files { times, .. } = &mut key.location {
            times.set_usage(key.flags, key.usage, now);
            key.usage = times.usage(key.flags, now);
            self.write_files(zone, key)?;
        }
        let key = key.clone();
        self.write(zone, &key, &keys, now)?;
        Ok(key)
    }

    /// Deletes a key.
    pub fn remove(&self, zone: Name<'_>, number: u32, now: u64) -> Result<(), ZoneKeysError> {
        let _changing = self.changing.lock();
        let values = self.values(zone)?;
        let found = values.iter().find(|(other, _)| *other == number);
        let (_, value) = found.ok_or(ZoneKeysError::NotThere(number))?;
        if let Some(kept) = encoding::kept_pair(number, value.reveal())? {
            remove_pair(&kept.path)?;
        }
        let stay: Vec<_> = values
            .into_iter()
            .filter(|(other, _)| *other != number)
            .collect();
        let mut uses = uses_of(&stay)?;
        uses.retain(|(_, usage)| *usage != KeyUse::UNUSED);
        let terms = self.terms(zone)?;
        self.write_change(zone, vec![forget(zone, number)], (terms, uses), now)
    }

    /// Deletes all keys of a zone and its signing settings; returns how many keys there were. The serial stays ahead
    /// of that of the contents.
    pub fn remove_all(&self, zone: Name<'_>, now: u64) -> Result<usize, ZoneKeysError> {
        let _changing = self.changing.lock();
        let values = self.values(zone)?;
        for (number, value) in &values {
            if let Some(kept) = encoding::kept_pair(*number, value.reveal())? {
                remove_pair(&kept.path)?;
            }
        }
        let numbers = values.iter().map(|(number, _)| *number);
        let changes: Vec<_> = numbers.map(|number| forget(zone, number)).collect();
        let terms = SigningSettings {
            serial: self.terms(zone)?.serial,
            ..SigningSettings::default()
        };
        self.write_change(zone, changes, (terms, SeenUses::new()), now)?;
        Ok(values.len())
    }

    /// Writes the files of a key that is stored in files.
    fn write_files(&self, zone: Name<'_>, key: &ZoneKey) -> Result<(), ZoneKeysError> {
        match (&key.location, key.file(zone)) {
            (PrivateKeyLocation::Files { path, .. }, Some(file)) => Ok(write_pair(path, &file)?),
            _ => Ok(()),
        }
    }

    /// Writes a key that is new or changed its use; `keys` are all keys of the zone afterwards.
    fn write(
        &self,
        zone: Name<'_>,
        key: &ZoneKey,
        keys: &[ZoneKey],
        now: u64,
    ) -> Result<(), ZoneKeysError> {
        let terms = self.terms(zone)?;
        self.write_change(
            zone,
            vec![put_key(zone, key)],
            (terms, seen_uses(keys)),
            now,
        )
    }

    /// Returns the numbers and values of the keys of a zone.
    fn values(&self, zone: Name<'_>) -> Result<Vec<NumberedKey>, ZoneKeysError> {
        // No name is a prefix of another: each ends with the root.
        let items = self.store()?.items_behind(KEYS, &wire(zone), NUMBER)?;
        let own = items.into_iter().filter_map(|(name, value)| {
            let (_, number) = name.split_last_chunk::<NUMBER>()?;
            Some((u32::from_be_bytes(*number), value))
        });
        Ok(own.collect())
    }

    pub(crate) fn state_store(&self) -> Option<&StateStore> {
        self.store.as_ref()
    }

    fn store(&self) -> Result<&StateStore, ZoneKeysError> {
        self.store.as_ref().ok_or(ZoneKeysError::NoStore)
    }
}

/// Checks whether a state store that cannot be opened may have keys of zones; only one that is readable and has none
/// is safe.
pub fn may_have_keys(directory: &Path) -> bool {
    StateStore::has_items(directory, KEYS).unwrap_or(true)
}

/// Creates the signing keys. Unmanaged keys complement each other according to their flags.
pub fn signing_keys(keys: &[ZoneKey]) -> Result<Keys, ZoneKeysError> {
    let made = keys.iter().map(ZoneKey::key).collect::<Result<_, _>>()?;
    Ok(if keys.iter().any(|key| key.life.is_some()) {
        Keys::new(made)
    } else {
        Keys::by_flags(made)
    })
}

/// The number of a key, and its value in the state store.
type NumberedKey = (u32, Secret<Vec<u8>>);

fn read_all(values: &[NumberedKey]) -> Result<Vec<ZoneKey>, ZoneKeysError> {
    let keys = values.iter();
    keys.map(|(number, value)| ZoneKey::read(*number, value.reveal()))
        .collect()
}

fn put_key(zone: Name<'_>, key: &ZoneKey) -> StateChange {
    StateChange::set_item(KEYS, item_name(zone, key.number), key.value())
}

fn forget(zone: Name<'_>, number: u32) -> StateChange {
    StateChange::remove_item(KEYS, item_name(zone, number))
}

pub(crate) fn wire(name: Name<'_>) -> Vec<u8> {
    name.as_wire().to_ascii_lowercase()
}

pub(crate) fn item_name(zone: Name<'_>, number: u32) -> Vec<u8> {
    [&wire(zone)[..], &number.to_be_bytes()].concat()
}
