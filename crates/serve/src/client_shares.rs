//! Per-client shares of a bounded queue, so that one client cannot fill it.
//!
//! A client is an IPv4 address or an IPv6 /64 network. A table of fixed size counts the slots of
//! clients by a hash with a random seed: clients with equal hashes share a count, and the table
//! does not grow with the number of clients. Forged source addresses evade it; the limits per zone
//! and per queue still apply to them.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::tcp::client_network;

/// With 4096 counts, one in 40 of 100 waiting clients shares its count with another.
const COUNTS: usize = 4096;

/// The slots that each client holds in one queue.
pub(crate) struct ClientShares {
    counts: Box<[AtomicU32]>,
    per_client_max: u32,
    seed: RandomState,
}

impl ClientShares {
    /// Creates the table for a queue with this many slots, of which one client may hold `percent`.
    pub(crate) fn new(slots: usize, percent: usize) -> Arc<Self> {
        let per_client_max = (slots.saturating_mul(percent) / 100).max(1);
        Arc::new(ClientShares {
            counts: (0..COUNTS).map(|_| AtomicU32::new(0)).collect(),
            per_client_max: u32::try_from(per_client_max).unwrap_or(u32::MAX),
            seed: RandomState::new(),
        })
    }

    /// Takes a slot for a client; `None` if it already holds its share.
    pub(crate) fn take(self: &Arc<Self>, client: IpAddr) -> Option<ClientSlot> {
        let at = self.seed.hash_one(client_network(client)) as usize % COUNTS;
        let slot = ClientSlot {
            shares: Arc::clone(self),
            at,
        };
        // Over the limit, the slot is dropped here, which returns it.
        let before = self.counts[at].fetch_add(1, Ordering::Relaxed);
        (before < self.per_client_max).then_some(slot)
    }
}

/// A slot held by a client, returned when it is dropped.
pub(crate) struct ClientSlot {
    shares: Arc<ClientShares>,
    at: usize,
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.shares.counts[self.at].fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_is_limited_to_its_share_and_gets_slots_back() {
        let shares = ClientShares::new(40, 25);
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let mut held: Vec<_> = (0..20).filter_map(|_| shares.take(one)).collect();
        assert_eq!(held.len(), 10);
        assert!(shares.take(one).is_none());
        // Unless both have the same hash: one chance in thousands.
        let others = (3..9).map(|last| IpAddr::from([192, 0, 2, last]));
        assert!(
            others
                .chain([other])
                .any(|client| shares.take(client).is_some())
        );
        held.pop();
        assert!(shares.take(one).is_some());
        drop(held);
        assert!(
            shares
                .counts
                .iter()
                .all(|count| count.load(Ordering::Relaxed) == 0)
        );
    }

    #[test]
    fn an_ipv6_network_is_one_client_and_every_client_has_a_slot() {
        let shares = ClientShares::new(2, 25);
        let first = shares.take("2001:db8::1".parse().unwrap());
        assert!(first.is_some());
        assert!(shares.take("2001:db8::2".parse().unwrap()).is_none());
    }
}
