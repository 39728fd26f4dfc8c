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
const PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of recorded primaries.
const RECORDED_MAX: usize = 10_000;

/// The time of each primary's last timeout.
#[derive(Default)]
pub(super) struct UnresponsivePrimaries {
    since: Mutex<HashMap<SocketAddr, Instant>>,
}

impl UnresponsivePrimaries {
    /// Returns how long ago a primary timed out, if that was recent.
    pub(super) fn unresponsive_since(&self, primary: SocketAddr) -> Option<Duration> {
        let ago = self.since.lock().get(&primary)?.elapsed();
        (ago < PAUSE).then_some(ago)
    }

    pub(super) fn record_timeout(&self, primary: SocketAddr) {
        let mut unresponsive = self.since.lock();
        if unresponsive.len() >= RECORDED_MAX {
            unresponsive.retain(|_, since| since.elapsed() < PAUSE);
        }
        if unresponsive.len() < RECORDED_MAX {
            unresponsive.insert(primary, Instant::now());
        }
    }

    pub(super) fn mark_responsive(&self, address: IpAddr) {
        let mut unresponsive = self.since.lock();
        if !unresponsive.is_empty() {
            unresponsive.retain(|primary, _| primary.ip().to_canonical() != address.to_canonical());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unresponsive_primary_is_not_queried_until_it_responds() {
        let unresponsive = UnresponsivePrimaries::default();
        let primary: SocketAddr = "192.0.2.1:53".parse().unwrap();
        assert!(unresponsive.unresponsive_since(primary).is_none());
        unresponsive.record_timeout(primary);
        assert!(unresponsive.unresponsive_since(primary).is_some());
        unresponsive.mark_responsive("::ffff:192.0.2.1".parse().unwrap());
        assert!(unresponsive.unresponsive_since(primary).is_none());
    }
}
