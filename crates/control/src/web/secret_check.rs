//! Verification of a secret that a client presents, for the status page, the API and the web administration: guesses
//! are limited per client, and slow hashes are computed one at a time, with a limit on those that wait.

use std::net::IpAddr;
use std::time::Instant;

use tokio::sync::Semaphore;

use super::guesses::{GUESS_INTERVAL, Guesses};

/// Guesses and hashes of one listener.
pub(super) struct SecretCheck {
    guesses: Guesses,
    /// Held while a hash is computed.
    hashing: Semaphore,
    /// Hashes that wait or are being computed.
    waiting: Semaphore,
}

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretVerdict<T> {
    /// The secret is right; for an API key, this one.
    Right(T),
    /// It is wrong, or none was presented.
    Wrong,
    /// The client has guessed too often.
    TooMany,
    /// Too many hashes wait to be computed.
    Busy,
}

/// Seconds until a client that has guessed too often may guess again.
pub const RETRY_SECONDS: u64 = GUESS_INTERVAL.as_secs();

impl SecretCheck {
    /// Creates a check in which up to this many hashes may wait.
    pub(super) fn new(waiting_max: usize) -> Self {
        SecretCheck {
            guesses: Guesses::default(),
            hashing: Semaphore::new(1),
            waiting: Semaphore::new(waiting_max),
        }
    }

    /// Checks a secret. `compare` needs no slow hash and returns `None` if one must be computed, which `hash` does on
    /// a blocking thread; both return what the secret grants, or `None` within if it is wrong.
    pub(super) async fn check<T: Send + 'static>(
        &self,
        client: IpAddr,
        compare: impl Fn() -> Option<Option<T>>,
        hash: impl FnOnce() -> Option<T> + Send + 'static,
    ) -> SecretVerdict<T> {
        // A client that presented the right secret before is not locked out by wrong guesses from its address.
        if self.guesses.is_known_client(client)
            && let Some(Some(found)) = compare()
        {
            return SecretVerdict::Right(found);
        }
        let Some(guess) = self.guesses.begin(client, Instant::now()) else {
            return SecretVerdict::TooMany;
        };
        let found = match compare() {
            Some(found) => found,
            None => {
                let Ok(_slot) = self.waiting.try_acquire() else {
                    return SecretVerdict::Busy;
                };
                let Ok(_turn) = self.hashing.acquire().await else {
                    return SecretVerdict::Busy;
                };
                tokio::task::spawn_blocking(hash).await.ok().flatten()
            }
        };
        match found {
            Some(found) => {
                guess.mark_right();
                SecretVerdict::Right(found)
            }
            None => SecretVerdict::Wrong,
        }
    }
}
