//! A secret that clients show with each request: compared in constant time, guesses bounded by client.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Semaphore;

use super::access::{BadHash, Password};
use super::guesses::{GUESS_INTERVAL, Guesses};

/// The check of one key, plain or a scrypt hash.
pub struct KeyGate {
    key: Option<Arc<Password>>,
    guesses: Guesses,
    /// Held while a hash is computed.
    hashing: Semaphore,
}

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyVerdict {
    /// It is the key.
    Right,
    /// It is not, or none was shown, or there is no key.
    Wrong,
    /// The client has guessed too often.
    TooMany,
}

impl KeyGate {
    /// Seconds until a client that has guessed too often may guess again.
    pub const RETRY_SECONDS: u64 = GUESS_INTERVAL.as_secs();

    /// Reads the configured key. Without one nobody passes.
    pub fn new(configured: &str) -> Result<Self, BadHash> {
        Ok(KeyGate {
            key: Password::new(configured)?.map(Arc::new),
            guesses: Guesses::default(),
            hashing: Semaphore::new(1),
        })
    }

    /// Checks what a client shows.
    pub async fn check(&self, given: Option<&str>, client: IpAddr) -> KeyVerdict {
        let (Some(key), Some(given)) = (&self.key, given) else {
            return KeyVerdict::Wrong;
        };
        if self.guesses.knows(client) && key.check_quickly(given) == Some(true) {
            return KeyVerdict::Right;
        }
        let Some(guess) = self.guesses.begin(client, Instant::now()) else {
            return KeyVerdict::TooMany;
        };
        let is_right = match key.check_quickly(given) {
            Some(is_right) => is_right,
            None => {
                let Ok(_turn) = self.hashing.acquire().await else {
                    return KeyVerdict::Wrong;
                };
                let (key, given) = (Arc::clone(key), given.to_owned());
                let checking = tokio::task::spawn_blocking(move || key.check_slowly(&given));
                checking.await.unwrap_or(false)
            }
        };
        if !is_right {
            return KeyVerdict::Wrong;
        }
        guess.was_right();
        KeyVerdict::Right
    }
}
