//! Keys of database zones. The rows of `cryptokeys` are the keys, so that PowerDNS on the same database signs with
//! them; if a policy manages them, the rollover state of each is kept in the state store.
//!
//! A step is written to the database first, and recorded in the state store when it is there. The database determines
//! what is served: a server that is killed between the two finds rows that it did not record, adopts them as they are
//! and counts from then on ([`comparison`]), which is later than they were written and so never too early. The other way
//! round, a state that was recorded and never served would let the next step happen too early. Changes by others are
//! found in the same way.

mod comparison;
mod rows;
mod step;
mod zone;

pub use rows::{first_key, removal};
pub use zone::DatabaseZoneKeys;

use crate::local::encoding::{life_value, read_life_value};
use crate::local::{NUMBER, SigningSettings, ZoneKey, ZoneKeysError, item_name, wire};
use nameward_base::sync::Mutex;
use nameward_dnssec::rollover::KeyState;
use nameward_maintain::PublishError;
use nameward_sql::SqlBackend;
use nameward_sql::write::{Committed, WriteError};
use nameward_state::{StateChange, StateStore};
use nameward_wire::{Name, NameBuf};
use std::hash::{BuildHasher, Hasher, RandomState};
use tokio::runtime::Handle;

/// The item kind for rollover states of keys, by zone and key number.
const LIVES: &str = "database-key-life";
/// The item kind for signing settings, by zone.
const ZONES: &str = "database-key-zone";
/// The item kind for the name of this server.
const SERVER: &str = "key-server";

/// Returns a name for a server that has none yet: the keys of a hasher are random.
pub fn random_server_name() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

/// A database that stores the keys of its zones.
pub struct KeyDatabase {
    /// Its rank in the configuration.
    pub rank: u16,
    /// The database.
    pub backend: SqlBackend,
    /// Publishes a committed change in the server's answers.
    pub publish: PublishKeys,
    /// Drives its connections.
    pub runtime: Handle,
}

impl KeyDatabase {
    fn wait<T>(
        &self,
        work: impl Future<Output = Result<T, WriteError>>,
    ) -> Result<T, ZoneKeysError> {
        let result = self.runtime.block_on(work);
        result.map_err(|error| match error {
            WriteError::Keys(refusal) => ZoneKeysError::Refused(refusal),
            error => ZoneKeysError::Database {
                address: self.backend.options().address.to_string(),
                error: Box::new(error),
            },
        })
    }
}

/// Publishes a key change in the server's answers.
pub type PublishKeys = Box<dyn Fn(&Committed) -> Result<(), PublishError> + Send + Sync>;

/// The recorded rollover state of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NotedKeyState {
    /// Identifies its DNSKEY: row numbers may be reused.
    fingerprint: [u8; 32],
    life: KeyState,
}

/// The databases that store keys, and the recorded rollover states of these keys.
pub(super) struct DatabaseKeys {
    store: Option<StateStore>,
    databases: Vec<KeyDatabase>,
    /// Serializes changes.
    changing: Mutex<()>,
}

impl DatabaseKeys {
    /// Takes the store, if there is one, and the databases.
    pub(super) fn new(store: Option<StateStore>, databases: Vec<KeyDatabase>) -> Self {
        DatabaseKeys {
            store,
            databases,
            changing: Mutex::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.databases.is_empty()
    }

    /// Checks whether the backend of a rank is one of the databases.
    pub(super) fn has(&self, rank: u16) -> bool {
        self.databases.iter().any(|database| database.rank == rank)
    }

    /// Finds a zone in the database of a rank, or in any if it has none; `None` if no database stores its keys.
    pub(super) fn find(
        &self,
        zone: Name<'_>,
        rank: Option<u16>,
    ) -> Result<Option<DatabaseZoneKeys<'_>>, ZoneKeysError> {
        let may_have = |database: &&KeyDatabase| rank.is_none_or(|rank| database.rank == rank);
        for database in self.databases.iter().filter(may_have) {
            let row = database.wait(database.backend.find_zone(zone))?;
            match (row, rank) {
                (Some(row), _) => {
                    let keys = self;
                    return Ok(Some(DatabaseZoneKeys {
                        keys,
                        database,
                        row,
                    }));
                }
                (None, Some(_)) => return Err(ZoneKeysError::NotLoaded),
                (None, None) => {}
            }
        }
        Ok(None)
    }

    /// Lists the zones with keys, with the ranks of their databases.
    pub(super) fn zones_with_keys(&self) -> Result<Vec<(NameBuf, Option<u16>)>, ZoneKeysError> {
        let mut zones = Vec::new();
        for database in &self.databases {
            let listed = database.wait(database.backend.zones_with_keys())?;
            zones.extend(listed.into_iter().map(|zone| (zone, Some(database.rank))));
        }
        Ok(zones)
    }

    /// Returns the name of this server in metadata; creates one if there is none.
    pub(super) fn server(&self) -> Result<String, ZoneKeysError> {
        let store = self.store()?;
        if let Some(name) = store.item(SERVER, &[])? {
            return Ok(String::from_utf8_lossy(name.reveal()).into_owned());
        }
        let name = random_server_name();
        let value = name.clone().into_bytes();
        store.write(vec![StateChange::set_item(SERVER, Vec::new(), value)])?;
        Ok(name)
    }

    /// Lists the zones whose keys are managed here.
    pub(super) fn recorded_zones(&self) -> Result<Vec<NameBuf>, ZoneKeysError> {
        let items = self.store()?.items(ZONES)?;
        let names = items
            .iter()
            .filter_map(|(name, _)| Name::from_wire(name).ok());
        Ok(names.map(NameBuf::from).collect())
    }

    /// Reads how a zone is signed; `managed` is empty if no policy manages it.
    fn terms(&self, zone: Name<'_>) -> Result<SigningSettings, ZoneKeysError> {
        let value = self.store()?.item(ZONES, &wire(zone))?;
        Ok(value.map_or_else(SigningSettings::default, |value| {
            SigningSettings::read(value.reveal())
        }))
    }

    /// Adds the recorded states to the keys of a zone.
    fn add_lives<'k>(
        &self,
        zone: Name<'_>,
        keys: impl IntoIterator<Item = &'k mut ZoneKey>,
    ) -> Result<(), ZoneKeysError> {
        if self.store.is_none() {
            // Without a store there are no policies.
            return Ok(());
        }
        let noted = self.noted(zone)?;
        for key in keys {
            let Ok(made) = key.key() else {
                continue;
            };
            let fingerprint = *made.fingerprint();
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

    /// Changes the recorded state of one key of a zone, or of all.
    fn change_lives(
        &self,
        zone: Name<'_>,
        number: Option<u32>,
        change: &mut dyn FnMut(&mut KeyState),
    ) -> Result<(), ZoneKeysError> {
        let _changing = self.changing.lock();
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
            let read = read_life_value(number, value.reveal());
            Some(match read {
                Some((life, fingerprint)) => Ok(NotedKeyState { fingerprint, life }),
                None => Err(ZoneKeysError::Form(number)),
            })
        });
        read.collect()
    }

    fn store(&self) -> Result<&StateStore, ZoneKeysError> {
        self.store.as_ref().ok_or(ZoneKeysError::NoStore)
    }
}

fn note(zone: Name<'_>, one: &NotedKeyState) -> StateChange {
    let value = life_value(&one.life, &one.fingerprint);
    StateChange::set_item(LIVES, item_name(zone, one.life.id), value)
}
