//! The check of the key that clients send with each request: compared in constant time, guesses limited by client.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Semaphore;

use crate::api_keys::{ApiKey, ApiKeys, CONFIGURED_KEY};
use nameward_base::time::now_seconds;

use super::access::{BadHash, Password};
use super::guesses::{GUESS_INTERVAL, Guesses};

/// The check of the configured key, plain or a scrypt hash, and of the keys made by `nameward api-key create`.
pub struct KeyGate {
    key: Option<Arc<Password>>,
    keys: Arc<ApiKeys>,
    configured: Arc<ApiKey>,
    guesses: Guesses,
    /// Held while a hash is computed.
    hashing: Semaphore,
}

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyVerdict {
    /// It is this key.
    Right(Arc<ApiKey>),
    /// It is not, or none was shown, or there is no key.
    Wrong,
    /// The client has guessed too often.
    TooMany,
}

impl KeyGate {
    /// Seconds until a client that has guessed too often may guess again.
    pub const RETRY_SECONDS: u64 = GUESS_INTERVAL.as_secs();

    /// Reads the configured key. Without one, clients need a key of `keys`.
    pub fn new(configured: &str, keys: Arc<ApiKeys>) -> Result<Self, BadHash> {
        Ok(KeyGate {
            key: Password::new(configured)?.map(Arc::new),
            keys,
            configured: ApiKey::configured(),
            guesses: Guesses::default(),
            hashing: Semaphore::new(1),
        })
    }

    /// Checks what a client shows.
    pub async fn check(&self, given: Option<&str>, client: IpAddr) -> KeyVerdict {
        let Some(given) = given else {
            return KeyVerdict::Wrong;
        };
        if self.guesses.knows(client)
            && let Some(key) = self.check_quickly(given).flatten()
        {
            return KeyVerdict::Right(key);
        }
        let Some(guess) = self.guesses.begin(client, Instant::now()) else {
            return KeyVerdict::TooMany;
        };
        let found = match (self.check_quickly(given), &self.key) {
            (Some(found), _) => found,
            (None, None) => None,
            (None, Some(key)) => {
                let Ok(_turn) = self.hashing.acquire().await else {
                    return KeyVerdict::Wrong;
                };
                let (key, given) = (Arc::clone(key), given.to_owned());
                let checking = tokio::task::spawn_blocking(move || key.check_slowly(&given));
                let is_right = checking.await.unwrap_or(false);
                is_right.then(|| Arc::clone(&self.configured))
            }
        };
        match found {
            Some(key) => {
                guess.was_right();
                KeyVerdict::Right(key)
            }
            None => KeyVerdict::Wrong,
        }
    }

    /// Checks whether a key that was right once still exists and has not expired, for sessions that outlive a request.
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
