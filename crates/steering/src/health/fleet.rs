//! Results of other servers: what they find about a target, and the state that follows for all of them.
//!
//! Each server that has checked a target has one vote. A target is down if more than half of the votes say so: half of a fleet
//! that cannot reach it does not take it out of service, and all servers with the same votes come to the same result.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{CheckKind, HealthCheck, TargetHealth};
use crate::hash::lookup2;

/// Maximum length of the readable part of a key, in octets.
const KEY_TEXT_MAX: usize = 200;

/// Results of other servers for a target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OtherResults {
    /// The number of servers that find it up.
    pub up: u16,
    /// The number of servers that find it down.
    pub down: u16,
    /// The lowest weight that one of those that find it up has seen.
    pub weight: u32,
}

impl OtherResults {
    /// Adds the result of one server: 0 for down, else the weight.
    pub fn add(&mut self, state: i64) {
        let Ok(weight @ 1..) = u32::try_from(state) else {
            self.down = self.down.saturating_add(1);
            return;
        };
        self.weight = match self.up {
            0 => weight,
            _ => self.weight.min(weight),
        };
        self.up = self.up.saturating_add(1);
    }

    /// Returns the state of a target that is in state `own` here.
    pub(super) fn decide(self, own: TargetHealth) -> TargetHealth {
        let (up, down) = (u32::from(self.up), u32::from(self.down));
        match own {
            TargetHealth::Unknown if up + down == 0 => TargetHealth::Unknown,
            TargetHealth::Unknown if down > up => TargetHealth::Down,
            TargetHealth::Down if down + 1 > up => TargetHealth::Down,
            TargetHealth::Up(_) if down > up + 1 => TargetHealth::Down,
            TargetHealth::Up(weight) => TargetHealth::Up(weight),
            TargetHealth::Unknown | TargetHealth::Down => TargetHealth::Up(self.weight),
        }
    }
}

/// [`OtherResults`] in one word, because readers take no lock.
#[derive(Debug, Default)]
pub(super) struct AtomicResults(AtomicU64);

impl AtomicResults {
    pub(super) fn load(&self) -> OtherResults {
        let word = self.0.load(Ordering::Relaxed);
        OtherResults {
            up: (word >> 48) as u16,
            down: (word >> 32) as u16,
            weight: word as u32,
        }
    }

    pub(super) fn store(&self, results: OtherResults) {
        let counts = u64::from(results.up) << 48 | u64::from(results.down) << 32;
        let word = counts | u64::from(results.weight);
        self.0.store(word, Ordering::Relaxed);
    }
}

impl HealthCheck {
    /// Returns the name of the target among servers: what is checked, not how often, how patiently, or from which address.
    pub fn shared_key(&self) -> String {
        let mut text: String = self.to_string().escape_default().collect();
        text.truncate(KEY_TEXT_MAX);
        let details = match &self.kind {
            CheckKind::Url {
                url,
                string_match,
                http_code,
                has_weight,
                ..
            } => format!("{url}\n{string_match}\n{http_code}\n{has_weight}"),
            CheckKind::Port(_) | CheckKind::Dns { .. } => self.to_string(),
        };
        let hash = |seed| lookup2(details.as_bytes(), seed);
        format!("{text} #{:08x}{:08x}", hash(0), hash(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TargetHealth::{Down, Unknown, Up};

    #[test]
    fn more_than_half_of_the_servers_decide() {
        let others = |up: &[i64], down: usize| {
            let mut results = OtherResults::default();
            up.iter().for_each(|weight| results.add(*weight));
            (0..down).for_each(|_| results.add(0));
            results
        };
        for (up, down, own, expected) in [
            (&[][..], 0, Unknown, Unknown),
            (&[], 0, Up(7), Up(7)),
            (&[], 0, Down, Down),
            (&[], 1, Unknown, Down),
            (&[5, 3, 4], 0, Unknown, Up(3)),
            (&[5], 1, Unknown, Up(5)),
            // One of two: a tie is up, on both.
            (&[5], 0, Down, Up(5)),
            (&[], 1, Up(7), Up(7)),
            (&[], 1, Down, Down),
            (&[], 2, Up(7), Down),
            (&[5], 1, Down, Down),
            (&[5, 6], 0, Down, Up(5)),
            (&[5], 2, Up(7), Up(7)),
        ] {
            let results = others(up, down);
            assert_eq!(results.decide(own), expected, "{results:?}, {own:?}");
            let shared = AtomicResults::default();
            shared.store(results);
            assert_eq!(shared.load(), results);
        }
    }

    #[test]
    fn a_key_includes_the_check_but_not_its_interval() {
        let check = |url: &str, code, timeout_ms| HealthCheck {
            address: "192.0.2.1".parse().ok(),
            kind: CheckKind::Url {
                url: url.into(),
                string_match: String::new(),
                user_agent: "test".into(),
                bytes_limit: 0,
                http_code: code,
                has_weight: false,
            },
            source: None,
            timeout_ms,
            interval: 0,
            minimum_failures: 1,
            minimum_successes: 1,
        };
        let key = check("http://a.test/", 200, 1000).shared_key();
        assert!(key.starts_with("192.0.2.1 http://a.test/ #"), "{key}");
        assert_eq!(check("http://a.test/", 200, 50).shared_key(), key);
        assert_ne!(check("http://a.test/", 204, 1000).shared_key(), key);
        let long = format!("http://a.test/{}", "\u{e4}".repeat(300));
        let long = check(&long, 200, 1000).shared_key();
        assert!(long.is_ascii() && long.len() < 255, "{long}");
    }
}
