//! API keys created by `nameward api-key create`: their storage, the check of a presented key, and their permissions.
//!
//! A key has the form `nw_ID_SECRET`. The ID is public and selects the stored key; the secret has 256 random bits.
//! Only the SHA-256 of the whole text is stored. A slow hash such as scrypt would add nothing: it protects secrets
//! that people choose, and 256 random bits cannot be guessed at any speed. The hashes are compared in constant time.
//!
//! Keys are stored in the state store (item kind `api-key`), and in memory for the check of each request. Invariant:
//! memory has exactly the keys of the store, which is written first. If configured, keys in databases are used, too:
//! they are read with the zone policies of a database ([`SharedApiKey`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::{BASE32_NOPAD, HEXLOWER};
use nameward_base::sync::RwLock;
use nameward_maintain::policy::{PolicySource, PolicyTable, SharedApiKey};
use nameward_state::{StateChange, StateError, StateStore};
use nameward_wire::NameBuf;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::operations::KeyScope;
use crate::secret_text::SecretText;

/// The kind of the items in the state store.
const ITEM: &str = "api-key";
/// The prefix of every key, by which tools that search for leaked secrets recognise it.
const PREFIX: &str = "nw_";
/// Octets of an ID and of a secret.
const ID_OCTETS: usize = 4;
const SECRET_OCTETS: usize = 32;
/// Maximum number of keys.
const KEYS_MAX: usize = 10_000;
/// The ID of the configured key.
pub const CONFIGURED_KEY: &str = "config";

/// A key that a client may present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its public ID; `config` for the key of the configuration.
    pub id: String,
    /// The purpose, as given by the operator.
    pub description: String,
    /// The zones and operations that it is valid for.
    pub scope: KeyScope,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// When it expires, in seconds since 1970; `None` if never.
    pub expires: Option<u64>,
    /// Where it is stored.
    pub source: PolicySource,
    hash: [u8; 32],
}

impl ApiKey {
    /// The configured key, which grants all permissions and is checked elsewhere.
    pub fn configured() -> Arc<Self> {
        Arc::new(ApiKey {
            id: CONFIGURED_KEY.into(),
            description: String::new(),
            scope: KeyScope::default(),
            created: 0,
            expires: None,
            source: PolicySource::Configured,
            hash: [0; 32],
        })
    }

    /// Converts it to the format of a database.
    pub fn to_shared(&self) -> SharedApiKey {
        SharedApiKey {
            id: self.id.clone(),
            value: stored(self),
        }
    }

    /// Checks whether it has expired.
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// A key in the format of the state store.
#[derive(Serialize, Deserialize)]
struct StoredApiKey {
    hash: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    zones: Vec<String>,
    #[serde(default)]
    read_only: bool,
    created: u64,
    expires: Option<u64>,
}

/// Why keys could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum ApiKeyError {
    /// There is no state store.
    #[error("API keys are kept in the state store: set server.state_directory")]
    NoStore,
    /// The maximum number of keys is reached.
    #[error("there are {KEYS_MAX} API keys already: delete some with `nameward api-key delete`")]
    TooMany,
    /// The system has no randomness.
    #[error("no random numbers")]
    NoRandomness,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StateError),
}

/// All keys but the configured one.
#[derive(Default)]
pub struct ApiKeys {
    store: Option<StateStore>,
    keys: RwLock<KnownKeys>,
    /// Keys in databases are used, and new keys are stored there.
    is_shared: bool,
}

/// Keys by their IDs.
#[derive(Default)]
struct KnownKeys {
    stored: BTreeMap<String, Arc<ApiKey>>,
    /// Keys in databases, and the entries that they were read from.
    shared: BTreeMap<String, Arc<ApiKey>>,
    entries: Arc<[(PolicySource, SharedApiKey)]>,
}

impl KnownKeys {
    fn get(&self, id: &str) -> Option<Arc<ApiKey>> {
        let key = self.stored.get(id).or_else(|| self.shared.get(id));
        key.map(Arc::clone)
    }
}

impl ApiKeys {
    /// Reads the keys of a state store. Without one there are none, and none can be created. With policies, keys in
    /// databases are used, too, as they are read.
    pub fn load(
        store: Option<StateStore>,
        sharing: Option<&PolicyTable>,
    ) -> Result<Arc<Self>, StateError> {
        let mut keys = BTreeMap::new();
        let items = match &store {
            Some(store) => store.items(ITEM)?,
            None => Vec::new(),
        };
        for (id, value) in items {
            let id = String::from_utf8_lossy(&id).into_owned();
            match read_key(&id, value.reveal(), PolicySource::Kept) {
                Some(key) => {
                    keys.insert(id, Arc::new(key));
                }
                // An unreadable key grants nothing.
                None => tracing::error!("API key {id}: invalid entry in the state store; ignored"),
            }
        }
        let keys = KnownKeys {
            stored: keys,
            ..KnownKeys::default()
        };
        let keys = Arc::new(ApiKeys {
            store,
            keys: RwLock::new(keys),
            is_shared: sharing.is_some(),
        });
        if let Some(policies) = sharing {
            let following = Arc::clone(&keys);
            policies.on_change(move |change| following.set_shared(change.policies.api_keys()));
            keys.set_shared(policies.load().api_keys());
        }
        Ok(keys)
    }

    /// Checks whether keys in databases are used, and new keys are stored there.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn set_shared(&self, entries: &Arc<[(PolicySource, SharedApiKey)]>) {
        // Policies change often, but the keys seldom.
        if Arc::ptr_eq(&self.keys.read().entries, entries) {
            return;
        }
        let mut shared = BTreeMap::new();
        for (source, key) in entries.iter().take(KEYS_MAX) {
            match read_key(&key.id, &key.value, *source) {
                Some(read) => {
                    shared.insert(key.id.clone(), Arc::new(read));
                }
                // An unreadable key grants nothing.
                None => tracing::error!("API key {}: invalid entry in a database; ignored", key.id),
            }
        }
        let mut keys = self.keys.write();
        (keys.shared, keys.entries) = (shared, Arc::clone(entries));
    }

    /// Returns the key that a client presents; `None` if it is unknown or has expired.
    pub fn check(&self, given: &str, now: u64) -> Option<Arc<ApiKey>> {
        let (id, _) = given.strip_prefix(PREFIX)?.split_once('_')?;
        let key = self.keys.read().get(id)?;
        let is_right: bool = hash_of(given).ct_eq(&key.hash).into();
        (is_right && !key.is_expired(now)).then_some(key)
    }

    /// Returns whether a key with this ID still exists and has not expired, for sessions that outlive a request.
    pub fn find(&self, id: &str, now: u64) -> Option<Arc<ApiKey>> {
        let key = self.keys.read().get(id);
        key.filter(|key| !key.is_expired(now))
    }

    /// Returns all keys, by ID.
    pub fn all(&self) -> Vec<Arc<ApiKey>> {
        let keys = self.keys.read();
        let all = keys.stored.values().chain(keys.shared.values());
        all.map(Arc::clone).collect()
    }

    /// Generates a key, which must then be stored. The text is returned only here and stored nowhere.
    pub fn generate(
        &self,
        description: String,
        scope: KeyScope,
        expires: Option<u64>,
        now: u64,
    ) -> Result<(ApiKey, SecretText), ApiKeyError> {
        let keys = self.keys.read();
        if keys.stored.len() + keys.shared.len() >= KEYS_MAX {
            return Err(ApiKeyError::TooMany);
        }
        let (id, text) = loop {
            let (id, text) = generate()?;
            if keys.get(&id).is_none() {
                break (id, text);
            }
        };
        let key = ApiKey {
            id,
            description,
            scope,
            created: now,
            expires,
            source: PolicySource::Kept,
            hash: hash_of(&text),
        };
        Ok((key, SecretText::from(text)))
    }

    /// Stores a key in the state store.
    pub fn store(&self, key: ApiKey) -> Result<Arc<ApiKey>, ApiKeyError> {
        let store = self.store.as_ref().ok_or(ApiKeyError::NoStore)?;
        let mut keys = self.keys.write();
        store.write(vec![StateChange::SetItem {
            kind: ITEM,
            name: key.id.as_bytes().to_vec(),
            value: stored(&key).into(),
        }])?;
        let key = Arc::new(key);
        keys.stored.insert(key.id.clone(), Arc::clone(&key));
        Ok(key)
    }

    /// Deletes a key from the state store; `None` if there is none with this ID.
    pub fn delete(&self, id: &str) -> Result<Option<Arc<ApiKey>>, ApiKeyError> {
        let mut keys = self.keys.write();
        if !keys.stored.contains_key(id) {
            return Ok(None);
        }
        let store = self.store.as_ref().ok_or(ApiKeyError::NoStore)?;
        store.write(vec![StateChange::RemoveItem {
            kind: ITEM,
            name: id.as_bytes().to_vec(),
        }])?;
        Ok(keys.stored.remove(id))
    }
}

fn generate() -> Result<(String, String), ApiKeyError> {
    let mut octets = [0; ID_OCTETS + SECRET_OCTETS];
    aws_lc_rs::rand::fill(&mut octets).map_err(|_| ApiKeyError::NoRandomness)?;
    let id = HEXLOWER.encode(&octets[..ID_OCTETS]);
    let secret = BASE32_NOPAD
        .encode(&octets[ID_OCTETS..])
        .to_ascii_lowercase();
    let text = format!("{PREFIX}{id}_{secret}");
    Ok((id, text))
}

fn hash_of(text: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    hash
}

fn stored(key: &ApiKey) -> Vec<u8> {
    let stored = StoredApiKey {
        hash: HEXLOWER.encode(&key.hash),
        description: key.description.clone(),
        zones: key.scope.zones().iter().map(NameBuf::to_string).collect(),
        read_only: key.scope.is_read_only(),
        created: key.created,
        expires: key.expires,
    };
    // Writing strings and numbers to memory cannot fail.
    serde_json::to_vec(&stored).unwrap_or_default()
}

fn read_key(id: &str, value: &[u8], source: PolicySource) -> Option<ApiKey> {
    let stored: StoredApiKey = serde_json::from_slice(value).ok()?;
    let hash = HEXLOWER.decode(stored.hash.as_bytes()).ok()?;
    let zones = stored.zones.iter().map(|zone| zone.parse().ok());
    Some(ApiKey {
        id: id.to_owned(),
        description: stored.description,
        scope: KeyScope::new(zones.collect::<Option<Vec<NameBuf>>>()?, stored.read_only),
        created: stored.created,
        expires: stored.expires,
        source,
        hash: hash.try_into().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_state::JournalBounds;

    #[test]
    fn a_key_is_accepted_until_it_expires_and_after_a_restart_and_only_its_hash_is_stored() {
        let directory = tempfile::tempdir().unwrap();
        let bounds = JournalBounds {
            octets: 1 << 20,
            entries: 100,
        };
        let open = || StateStore::open(directory.path(), bounds).unwrap();
        let store = open();
        let keys = ApiKeys::load(Some(store.clone()), None).unwrap();
        let scope = KeyScope::new(vec!["example.org.".parse().unwrap()], true);
        let (key, text) = keys
            .generate("certificates".into(), scope, Some(200), 100)
            .unwrap();
        let key = keys.store(key).unwrap();
        assert!(
            text.reveal().starts_with(&format!("nw_{}_", key.id)),
            "{text:?}"
        );
        assert_eq!(keys.check(text.reveal(), 199).as_ref(), Some(&key));
        assert_eq!(keys.check(text.reveal(), 200), None);
        for wrong in [
            "",
            "nw_",
            "nw__",
            &text.reveal()[..text.reveal().len() - 1],
            "nw_00_x",
        ] {
            assert_eq!(keys.check(wrong, 100), None, "{wrong}");
        }
        let secret = text.reveal().rsplit_once('_').unwrap().1;
        for (_, value) in store.items(ITEM).unwrap() {
            assert!(
                !String::from_utf8(value.reveal().clone())
                    .unwrap()
                    .contains(secret)
            );
        }
        store.close();
        drop((keys, store));
        let store = open();
        let keys = ApiKeys::load(Some(store.clone()), None).unwrap();
        assert_eq!(keys.check(text.reveal(), 150), Some(Arc::clone(&key)));
        assert!(keys.delete(&key.id).unwrap().is_some());
        assert!(keys.delete(&key.id).unwrap().is_none());
        assert_eq!(keys.check(text.reveal(), 150), None);
        assert_eq!(store.items(ITEM).unwrap(), []);
    }

    #[test]
    fn without_a_state_store_no_key_can_be_created() {
        let keys = ApiKeys::load(None, None).unwrap();
        let (key, _) = keys
            .generate(String::new(), KeyScope::default(), None, 0)
            .unwrap();
        let error = keys.store(key).unwrap_err();
        assert!(matches!(error, ApiKeyError::NoStore));
    }
}
