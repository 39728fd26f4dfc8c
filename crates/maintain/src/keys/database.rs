//! Keys of database zones that a policy manages. The rows of `cryptokeys` are the keys, so that PowerDNS on the same
//! database signs with them; the rollover state of each is kept in the state store.
//!
//! A step is written to the database first, and recorded in the state store when it is there. The database determines
//! what is served: a server that is killed between the two finds rows that it did not record, adopts them as they are
//! and counts from then on ([`comparison`]), which is later than they were written and so never too early. The other way
//! round, a state that was recorded and never served would let the next step happen too early. Changes by others are
//! found in the same way.

mod comparison;
mod step;

use crate::follow::databases::PublishError;
use crate::keys::local::encoding::{life_value, read_life_value};
use crate::keys::local::{
    NUMBER, PrivateKeyLocation, SigningSettings, ZoneKey, ZoneKeysError, item_name, wire,
};
use nameward_base::sync::{Mutex, MutexGuard};
use nameward_dnssec::rollover::{self, DsSight, KeyGoal, KeyRole, KeyState, RolloverTimes};
use nameward_dnssec::{KeyError, KeyUse, PrivateKey, SigningKey};
use nameward_store::sql::write::{Committed, KeyRefusal, StoredKey, WriteError};
use nameward_store::sql::{SqlBackend, ZoneRow};
use nameward_store::state::{StateChange, StateStore};
use nameward_wire::{Name, NameBuf};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;
use tokio::runtime::Handle;

/// The item kind for rollover states of keys, by zone and key number.
const LIVES: &str = "database-key-life";
/// The item kind for signing settings, by zone.
const ZONES: &str = "database-key-zone";
/// The item kind for the name of this server.
const SERVER: &str = "key-server";
/// The metadata that names the policy of a zone.
pub const POLICY_METADATA: &str = "X-NAMEWARD-DNSSEC-POLICY";

/// A database that stores the keys of its zones.
pub struct KeyDatabase {
    /// Its rank in the configuration.
    pub rank: u16,
    /// The database.
    pub backend: SqlBackend,
    /// Publishes a committed change in the server's answers.
    pub publish: PublishKeys,
}

/// Publishes a key change in the server's answers.
pub type PublishKeys = Box<dyn Fn(&Committed) -> Result<(), PublishError> + Send + Sync>;

/// Why the keys of a database zone are not managed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoredKeysError {
    /// The database failed.
    #[error("database: {0}")]
    Database(String),
    /// Others change the keys repeatedly.
    #[error("{}", KeyRefusal::ChangedMeanwhile)]
    Changed,
    /// Another server manages them.
    #[error("{}", KeyRefusal::OtherServer)]
    OtherServer,
    /// The zone is transferred from a primary.
    #[error("the zone is a secondary zone in a database: dnssec_policy is ignored")]
    Secondary,
    /// The database cannot express the role of each key.
    #[error(
        "key {0} signs the DNSKEY RRset but has flags 256, which the database schema cannot express next to another \
         key: sign the zone again with new keys, or roll this key manually"
    )]
    Unfit(u32),
}

/// The recorded rollover state of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NotedKeyState {
    /// Identifies its DNSKEY: row numbers may be reused.
    fingerprint: [u8; 32],
    life: KeyState,
}

/// A zone of a database.
pub struct KeyZone<'d> {
    database: &'d KeyDatabase,
    /// Its row.
    pub row: ZoneRow,
}

/// The rollover states of keys in databases.
pub struct StoredKeys {
    store: Option<StateStore>,
    databases: OnceLock<(Vec<KeyDatabase>, Handle)>,
    /// Serializes changes.
    changing: Mutex<()>,
}

impl From<WriteError> for StoredKeysError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Keys(KeyRefusal::ChangedMeanwhile) => StoredKeysError::Changed,
            WriteError::Keys(KeyRefusal::OtherServer) => StoredKeysError::OtherServer,
            WriteError::ReadOnly(_) => StoredKeysError::Secondary,
            error => StoredKeysError::Database(error.to_string()),
        }
    }
}

impl StoredKeys {
    /// Takes the store, if there is one. Databases are set later.
    pub fn new(store: Option<StateStore>) -> Self {
        StoredKeys {
            store,
            databases: OnceLock::new(),
            changing: Mutex::default(),
        }
    }

    /// Sets the databases, and the runtime that drives their connections.
    pub fn set_databases(&self, databases: Vec<KeyDatabase>, runtime: Handle) {
        // Once per process: they do not change while the server runs.
        let _ = self.databases.set((databases, runtime));
    }

    /// Finds a zone in its database; `None` if the database is not followed yet, or has no such zone.
    pub fn zone(&self, name: Name<'_>, rank: u16) -> Result<Option<KeyZone<'_>>, StoredKeysError> {
        let Some((databases, runtime)) = self.databases.get() else {
            return Ok(None);
        };
        let Some(database) = databases.iter().find(|database| database.rank == rank) else {
            return Ok(None);
        };
        let row = runtime.block_on(database.backend.find_zone(name))?;
        Ok(row.map(|row| KeyZone { database, row }))
    }

    /// Returns the metadata of a zone.
    pub fn metadata(&self, zone: &KeyZone<'_>) -> Result<Vec<(String, String)>, StoredKeysError> {
        let items = zone.database.backend.stored_metadata(&zone.row);
        let items = self.wait(items)?;
        Ok(items
            .into_iter()
            .map(|item| (item.kind.to_ascii_uppercase(), item.content.trim().into()))
            .collect())
    }

    /// Raises delays to the actual TTLs of a zone: its longest, and that of the records that signing adds.
    pub fn take_ttls(
        &self,
        zone: &KeyZone<'_>,
        times: &mut RolloverTimes,
    ) -> Result<(), StoredKeysError> {
        let backend = &zone.database.backend;
        let longest = self.wait(backend.longest_ttl(&zone.row))?;
        times.zone_ttl = times.zone_ttl.max(longest.into());
        let (mut ttl, mut minimum) = (0, 0);
        let apex = zone.row.name;
        self.wait(
            backend.stored_records(&zone.row, Some(apex.as_name()), &mut |record| {
                if record.rtype == "SOA" && !record.disabled {
                    ttl = record.ttl;
                    let last = record.content.split(' ').next_back();
                    minimum = last.and_then(|text| text.parse().ok()).unwrap_or(0);
                }
                true
            }),
        )?;
        times.negative_ttl = times.negative_ttl.max(ttl.into());
        times.dnskey_ttl = times.dnskey_ttl.max(minimum);
        Ok(())
    }

    /// Returns the name of this server in metadata; creates one if there is none.
    pub fn server(&self) -> Result<String, ZoneKeysError> {
        let store = self.store()?;
        if let Some(name) = store.item(SERVER, &[])? {
            return Ok(String::from_utf8_lossy(&name).into_owned());
        }
        let random = || RandomState::new().build_hasher().finish();
        let name = format!("{:016x}{:016x}", random(), random());
        store.write(vec![StateChange::SetItem {
            kind: SERVER,
            name: Vec::new(),
            value: name.clone().into_bytes(),
        }])?;
        Ok(name)
    }

    /// Lists the zones whose keys are managed here.
    pub fn zones(&self) -> Result<Vec<NameBuf>, ZoneKeysError> {
        let items = self.store()?.items(ZONES)?;
        let names = items
            .iter()
            .filter_map(|(name, _)| Name::from_wire(name).ok());
        Ok(names.map(NameBuf::from).collect())
    }

    /// Reads how a zone is signed; `managed` is empty if no policy manages it.
    pub fn terms(&self, zone: Name<'_>) -> Result<SigningSettings, ZoneKeysError> {
        let value = self.store()?.item(ZONES, &wire(zone))?;
        Ok(value.map_or_else(SigningSettings::default, |value| {
            SigningSettings::read(&value)
        }))
    }

    /// Reads the keys of a zone from its database, with their recorded states.
    pub fn keys(&self, zone: &KeyZone<'_>) -> Result<Vec<ZoneKey>, KeysOrDatabase> {
        let rows = self.rows(zone)?;
        let mut keys = read_rows(&rows)?;
        self.add_lives(zone.row.name.as_name(), &mut keys)?;
        Ok(keys)
    }

    /// Adds the recorded states to the keys of a zone.
    pub fn add_lives(&self, zone: Name<'_>, keys: &mut [ZoneKey]) -> Result<(), ZoneKeysError> {
        let noted = self.noted(zone)?;
        for key in keys {
            let fingerprint = *key.key()?.fingerprint();
            let is_it =
                |one: &&NotedKeyState| (one.life.id, one.fingerprint) == (key.number, fingerprint);
            if let Some(one) = noted.iter().find(is_it) {
                key.role = one.life.role;
                key.created = one.life.created_at;
                key.set_life(one.life.clone());
            }
        }
        Ok(())
    }

    /// Records that the parent has the DS of a key, or does not; for all keys that wait for it if none is named.
    /// Returns the keys that waited for it.
    pub fn note_ds(
        &self,
        (zone, number): (Name<'_>, Option<u32>),
        sight: DsSight,
        now: u64,
    ) -> Result<Vec<u32>, ZoneKeysError> {
        let managed = self.terms(zone)?.managed.ok_or(ZoneKeysError::NoPolicy)?;
        let mut noted = Vec::new();
        self.change_lives(zone, number, |life| {
            let id = life.id;
            let one = std::slice::from_mut(life);
            if rollover::note_ds(one, id, (sight, now), &managed.times) {
                noted.push(id);
            }
        })?;
        Ok(noted)
    }

    /// Replaces the keys of a role by new ones, as soon as that is safe. Returns the keys being replaced.
    pub fn roll(&self, zone: Name<'_>, role: Option<KeyRole>) -> Result<Vec<u32>, ZoneKeysError> {
        let mut rolled = Vec::new();
        self.change_lives(zone, None, |life| {
            let is_meant = role.is_none_or(|role| life.role == role);
            if is_meant && life.goal == KeyGoal::Present && life.dnskey.is_shown() {
                life.is_rolled_by_hand = true;
                rolled.push(life.id);
            }
        })?;
        Ok(rolled)
    }

    /// Changes the recorded state of one key of a zone, or of all.
    fn change_lives(
        &self,
        zone: Name<'_>,
        number: Option<u32>,
        mut change: impl FnMut(&mut KeyState),
    ) -> Result<(), ZoneKeysError> {
        let _changing = self.lock();
        let noted = self.noted(zone)?;
        if let Some(number) = number
            && !noted.iter().any(|one| one.life.id == number)
        {
            return Err(ZoneKeysError::NotThere(number));
        }
        let mut changes = Vec::new();
        for mut one in noted {
            let before = one.life.clone();
            if number.is_none_or(|number| number == before.id) {
                change(&mut one.life);
            }
            if one.life != before {
                changes.push(note(zone, &one));
            }
        }
        if !changes.is_empty() {
            self.store()?.write(changes)?;
        }
        Ok(())
    }

    fn noted(&self, zone: Name<'_>) -> Result<Vec<NotedKeyState>, ZoneKeysError> {
        let items = self.store()?.items_behind(LIVES, &wire(zone), NUMBER)?;
        let read = items.iter().filter_map(|(name, value)| {
            let (_, number) = name.split_last_chunk::<NUMBER>()?;
            let number = u32::from_be_bytes(*number);
            let read = read_life_value(number, value);
            Some(match read {
                Some((life, fingerprint)) => Ok(NotedKeyState { fingerprint, life }),
                None => Err(ZoneKeysError::Form(number)),
            })
        });
        read.collect()
    }

    fn rows(&self, zone: &KeyZone<'_>) -> Result<Vec<StoredKey>, StoredKeysError> {
        self.wait(zone.database.backend.stored_keys(&zone.row))
    }

    /// Waits for a database; there is one if a zone was found.
    fn wait<T>(
        &self,
        work: impl Future<Output = Result<T, WriteError>>,
    ) -> Result<T, StoredKeysError> {
        let Some((_, runtime)) = self.databases.get() else {
            return Err(StoredKeysError::Database(
                "the database follower has not seen it yet".into(),
            ));
        };
        Ok(runtime.block_on(work)?)
    }

    fn store(&self) -> Result<&StateStore, ZoneKeysError> {
        self.store.as_ref().ok_or(ZoneKeysError::NoStore)
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }
}

/// An error of keys, or of the database that stores them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeysOrDatabase {
    /// A key, or its recorded state, cannot be read.
    #[error("{0}")]
    Keys(#[from] ZoneKeysError),
    /// The database.
    #[error("{0}")]
    Database(#[from] StoredKeysError),
}

fn note(zone: Name<'_>, one: &NotedKeyState) -> StateChange {
    StateChange::SetItem {
        kind: LIVES,
        name: item_name(zone, one.life.id),
        value: life_value(&one.life, &one.fingerprint),
    }
}

/// Reads rows as keys, except inactive ones with an unknown algorithm.
pub fn read_rows(rows: &[StoredKey]) -> Result<Vec<ZoneKey>, ZoneKeysError> {
    let is_idle = |row: &&StoredKey| {
        let unknown = SigningKey::unsupported_algorithm(row.content.as_bytes());
        !row.is_active && unknown.is_some()
    };
    let used = rows.iter().filter(|row| !is_idle(row));
    let keys = used.map(|row| {
        let number = number_of(row);
        read_row(row).map_err(|error| ZoneKeysError::Key { number, error })
    });
    keys.collect()
}

/// Reads a row of `cryptokeys` as a key. Databases do not store its creation time.
pub fn read_row(row: &StoredKey) -> Result<ZoneKey, KeyError> {
    let flags = u16::try_from(row.flags).map_err(|_| KeyError::Flags(0))?;
    Ok(ZoneKey {
        number: number_of(row),
        flags,
        role: match flags & 1 {
            1 => KeyRole::KeySigning,
            _ => KeyRole::ZoneSigning,
        },
        usage: KeyUse::by_flags(flags, row.is_active, row.is_published),
        created: 0,
        life: None,
        private: PrivateKey::from_text(row.content.as_bytes())?,
        home: PrivateKeyLocation::Store,
    })
}

/// Returns the number of a row. They are small; a larger one cannot belong to a key that a command names.
pub fn number_of(row: &StoredKey) -> u32 {
    u32::try_from(row.id).unwrap_or(u32::MAX)
}
