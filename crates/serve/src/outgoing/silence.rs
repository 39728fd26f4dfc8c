//! The limits of transfers, and the primaries that were silent a moment ago.
//!
//! A primary that is down may be that of a hundred thousand zones. Each would keep a place for the seconds of its tries,
//! and those of other primaries would wait: so after one has waited in vain, all fail at once for a moment.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::lock;

/// How long a primary is not asked after it was silent.
const SILENCE: Duration = Duration::from_secs(5);
/// Silent primaries, and primaries with transfers, that are remembered.
const REMEMBERED: usize = 10_000;

pub(super) struct PrimaryLimits {
    all: Arc<Semaphore>,
    each: usize,
    primaries: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
    silent: Mutex<HashMap<SocketAddr, Instant>>,
}

/// The place of one transfer.
pub(super) struct TransferRoom {
    _own: Option<OwnedSemaphorePermit>,
    _all: Option<OwnedSemaphorePermit>,
}

impl PrimaryLimits {
    pub(super) fn new(all: usize, each: usize) -> Self {
        PrimaryLimits {
            all: Arc::new(Semaphore::new(all)),
            each,
            primaries: Mutex::default(),
            silent: Mutex::default(),
        }
    }

    /// Waits for room: first at the primary, so that a slow one takes none from others.
    pub(super) async fn enter(&self, primary: IpAddr) -> TransferRoom {
        let own = self.of(primary).acquire_owned().await.ok();
        let all = Arc::clone(&self.all).acquire_owned().await.ok();
        TransferRoom {
            _own: own,
            _all: all,
        }
    }

    fn of(&self, primary: IpAddr) -> Arc<Semaphore> {
        let mut primaries = lock(&self.primaries);
        if primaries.len() >= REMEMBERED {
            primaries.retain(|_, room| room.available_permits() < self.each);
        }
        let room = primaries
            .entry(primary)
            .or_insert_with(|| Arc::new(Semaphore::new(self.each)));
        Arc::clone(room)
    }

    /// Returns how long ago a primary was silent, while that counts.
    pub(super) fn silent_since(&self, primary: SocketAddr) -> Option<Duration> {
        let ago = lock(&self.silent).get(&primary)?.elapsed();
        (ago < SILENCE).then_some(ago)
    }

    pub(super) fn note_silence(&self, primary: SocketAddr) {
        let mut silent = lock(&self.silent);
        if silent.len() >= REMEMBERED {
            silent.retain(|_, since| since.elapsed() < SILENCE);
        }
        if silent.len() < REMEMBERED {
            silent.insert(primary, Instant::now());
        }
    }

    pub(super) fn heard_from(&self, address: IpAddr) {
        let mut silent = lock(&self.silent);
        if !silent.is_empty() {
            silent.retain(|primary, _| primary.ip().to_canonical() != address.to_canonical());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_primary_is_left_alone_until_it_is_heard_from() {
        let limits = PrimaryLimits::new(1, 1);
        let primary: SocketAddr = "192.0.2.1:53".parse().unwrap();
        assert!(limits.silent_since(primary).is_none());
        limits.note_silence(primary);
        assert!(limits.silent_since(primary).is_some());
        limits.heard_from("::ffff:192.0.2.1".parse().unwrap());
        assert!(limits.silent_since(primary).is_none());
    }
}
