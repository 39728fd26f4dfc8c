//! The prefixes that are being limited, for the log and `nameward status`: a fixed number of slots without locks.
//!
//! A worker that limits an answer adds to the slot of the prefix, or claims a free one; if all that the prefix may use
//! are taken, it stays unlisted and is still counted in the counters and the ring. A slot is released by the reporter
//! once its prefix was not limited for a while.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use super::buckets::SECOND;

/// Maximum number of prefixes that are listed.
const SLOTS: usize = 64;
/// Slots that a prefix may use.
const SLOTS_PER_PREFIX: usize = 8;
/// How long a prefix stays listed after its last limited answer, in ticks.
const LISTED_TICKS: u64 = 60 * SECOND;

#[derive(Default)]
struct PrefixSlot {
    /// The prefix as in [`super::prefix_word`]; 0 if the slot is free.
    prefix: AtomicU64,
    is_v6: AtomicU64,
    answers: AtomicU64,
    /// When the last answer was limited, in ticks.
    last: AtomicU64,
    is_reported: AtomicU64,
}

/// The slots.
pub(super) struct LimitedPrefixes([PrefixSlot; SLOTS]);

/// A prefix whose answers are being limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitedPrefix {
    /// The network address.
    pub network: IpAddr,
    /// The prefix length.
    pub length: u8,
    /// Answers over the limit since the limiting started.
    pub answers: u64,
}

impl std::fmt::Display for LimitedPrefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.network, self.length)
    }
}

/// A change of the list of limited prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitChange {
    /// A prefix is being limited from now on.
    Started(LimitedPrefix),
    /// A prefix was not limited for a minute.
    Stopped(LimitedPrefix),
}

impl LimitedPrefixes {
    pub(super) fn new() -> Self {
        LimitedPrefixes(std::array::from_fn(|_| PrefixSlot::default()))
    }

    /// Counts an answer over the limit.
    pub(super) fn add(&self, (prefix, is_v6): (u64, bool), hash: u64, now: u64) {
        let start = hash as usize % SLOTS;
        for i in 0..SLOTS_PER_PREFIX {
            let slot = &self.0[(start + i) % SLOTS];
            let mut owner = slot.prefix.load(Ordering::Acquire);
            if owner == 0 {
                let claimed =
                    slot.prefix
                        .compare_exchange(0, prefix, Ordering::AcqRel, Ordering::Acquire);
                owner = match claimed {
                    Ok(_) => {
                        slot.is_v6.store(is_v6.into(), Ordering::Relaxed);
                        slot.last.store(now, Ordering::Relaxed);
                        prefix
                    }
                    Err(other) => other,
                };
            }
            if owner == prefix {
                slot.answers.fetch_add(1, Ordering::Release);
                slot.last.store(now, Ordering::Relaxed);
                return;
            }
        }
    }

    /// Returns the listed prefixes, the most limited first.
    pub(super) fn list(&self, lengths: (u8, u8)) -> Vec<LimitedPrefix> {
        let mut all: Vec<_> = self
            .0
            .iter()
            .filter_map(|slot| slot.read(lengths))
            .collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.answers));
        all
    }

    /// Returns what has changed since the last call, and releases the slots of prefixes that are no longer limited.
    /// Called by one thread.
    pub(super) fn changes(&self, lengths: (u8, u8), now: u64) -> Vec<LimitChange> {
        let mut changes = Vec::new();
        for slot in &self.0 {
            let Some(prefix) = slot.read(lengths) else {
                continue;
            };
            if slot.is_reported.swap(1, Ordering::Relaxed) == 0 {
                changes.push(LimitChange::Started(prefix));
            } else if now.saturating_sub(slot.last.load(Ordering::Relaxed)) > LISTED_TICKS {
                changes.push(LimitChange::Stopped(prefix));
                slot.is_reported.store(0, Ordering::Relaxed);
                slot.answers.store(0, Ordering::Relaxed);
                slot.prefix.store(0, Ordering::Release);
            }
        }
        changes
    }
}

impl PrefixSlot {
    fn read(&self, (v4, v6): (u8, u8)) -> Option<LimitedPrefix> {
        // Read first: it is written last by the worker that claims the slot.
        let answers = self.answers.load(Ordering::Acquire);
        let word = self.prefix.load(Ordering::Acquire);
        if answers == 0 || word == 0 {
            return None;
        }
        let (network, length) = match self.is_v6.load(Ordering::Relaxed) {
            0 => (IpAddr::V4(Ipv4Addr::from_bits(word as u32)), v4),
            _ => (IpAddr::V6(Ipv6Addr::from_bits(u128::from(word) << 64)), v6),
        };
        Some(LimitedPrefix {
            network,
            length,
            answers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_reported_once_and_again_when_it_stops() {
        let limited = LimitedPrefixes::new();
        let prefix = 0xffff_0000_0000 | u64::from(u32::from_be_bytes([192, 0, 2, 0]));
        limited.add((prefix, false), 7, SECOND);
        limited.add((prefix, false), 7, SECOND);
        let expected = LimitedPrefix {
            network: "192.0.2.0".parse().unwrap(),
            length: 24,
            answers: 2,
        };
        assert_eq!(
            limited.changes((24, 56), SECOND),
            [LimitChange::Started(expected)]
        );
        assert_eq!(limited.changes((24, 56), 61 * SECOND), []);
        assert_eq!(limited.list((24, 56)), [expected]);
        assert_eq!(
            limited.changes((24, 56), 62 * SECOND),
            [LimitChange::Stopped(expected)]
        );
        assert_eq!(limited.list((24, 56)), []);
    }

    #[test]
    fn the_list_never_grows() {
        let limited = LimitedPrefixes::new();
        for n in 1..100_000 {
            limited.add((n << 16, true), n, SECOND);
        }
        assert_eq!(limited.list((24, 56)).len(), SLOTS);
    }
}
