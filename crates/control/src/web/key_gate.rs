//! Verification of the API key that clients send with each request.

use std::net::IpAddr;
use std::sync::Arc;

use crate::api_keys::{ApiKey, ApiKeys, CONFIGURED_KEY};
use nameward_base::{secret::Secret, time::now_seconds};

use super::access::{BadHash, Password};
use super::secret_check::{SecretCheck, SecretVerdict};

/// Maximum number of API key hashes waiting to be computed.
const WAITING_MAX: usize = 64;

/// Checks the configured key, plain or a scrypt hash, and the keys created by `nameward api-key create`.
pub struct KeyGate {
    key: Option<Arc<Password>>,
    keys: Arc<ApiKeys>,
    configured: Arc<ApiKey>,
    check: SecretCheck,
}

impl KeyGate {
    /// Reads the configured key. Without one, clients need a key of `keys`.
    pub fn new(configured: &str, keys: Arc<ApiKeys>) -> Result<Self, BadHash> {
        Ok(KeyGate {
            key: Password::new(configured)?.map(Arc::new),
            keys,
            configured: ApiKey::configured(),
            check: SecretCheck::new(WAITING_MAX),
        })
    }

    /// Checks the key that a client presents.
    pub async fn check(&self, given: Option<&str>, client: IpAddr) -> SecretVerdict<Arc<ApiKey>> {
        let Some(given) = given else {
            return SecretVerdict::Wrong;
        };
        let (key, configured) = (self.key.clone(), Arc::clone(&self.configured));
        let owned = Secret::new(given.to_owned());
        let hash = move || key?.check_slowly(owned.reveal()).then_some(configured);
        let compare = || self.check_quickly(given);
        self.check.check(client, compare, hash).await
    }

    /// Checks whether a key that was accepted before still exists and has not expired, for sessions that outlive a
    /// request.
    pub fn is_valid(&self, key: &ApiKey) -> bool {
        key.id == CONFIGURED_KEY || self.keys.find(&key.id, now_seconds()).is_some()
    }

    /// Compares without computing a slow hash. `None`: it must be computed; `Some(None)`: the key is wrong.
    fn check_quickly(&self, given: &str) -> Option<Option<Arc<ApiKey>>> {
        if let Some(key) = self.keys.check(given, now_seconds()) {
            return Some(Some(key));
        }
        let Some(key) = &self.key else {
            return Some(None);
        };
        let is_right = key.check_quickly(given)?;
        Some(is_right.then(|| Arc::clone(&self.configured)))
    }
}
