//! Primaries that did not respond recently.
//!
//! A primary that is down may serve a hundred thousand zones, and each would occupy a slot until
//! its attempts time out. So after one check has timed out, all others for that primary fail at
//! once for some seconds.

use nameward_base::sync::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// How long a primary is not queried after a timeout.
const SILENCE: Duration = Duration::from_secs(5);
/// Maximum number of recorded primaries.
const REMEMBERED: usize = 10_000;

/// The time of each primary's last timeout.
#[derive(Default)]
pub(super) struct SilentPrimaries {
    since: Mutex<HashMap<SocketAddr, Instant>>,
}

impl SilentPrimaries {
    /// Returns how long ago a primary timed out, if that was recent.
    pub(super) fn silent_since(&self, primary: SocketAddr) -> Option<Duration> {
        let ago = self.since.lock().get(&primary)?.elapsed();
        (ago < SILENCE).then_some(ago)
    }

    pub(super) fn note_silence(&self, primary: SocketAddr) {
        let mut silent = self.since.lock();
        if silent.len() >= REMEMBERED {
            silent.retain(|_, since| since.elapsed() < SILENCE);
        }
        if silent.len() < REMEMBERED {
            silent.insert(primary, Instant::now());
        }
    }

    pub(super) fn heard_from(&self, address: IpAddr) {
        let mut silent = self.since.lock();
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
        let silent = SilentPrimaries::default();
        let primary: SocketAddr = "192.0.2.1:53".parse().unwrap();
        assert!(silent.silent_since(primary).is_none());
        silent.note_silence(primary);
        assert!(silent.silent_since(primary).is_some());
        silent.heard_from("::ffff:192.0.2.1".parse().unwrap());
        assert!(silent.silent_since(primary).is_none());
    }
}
