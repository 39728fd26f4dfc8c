//! The share of a queue that one client may hold, so that others find room in it.
//!
//! A client is an IPv4 address or an IPv6 /64 network. A table of fixed size counts the places of clients by a hash with a
//! random seed: clients with equal hashes share a count, and however many clients there are, the table does not grow.
//! Forged senders get around it; limits per zone and per queue hold for them.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::tcp::counted_as;

/// Number of counts: of 100 clients that wait, one in 40 shares the count of another.
const COUNTS: usize = 4096;

/// The places that each client holds in one queue.
pub(crate) struct ClientShares {
    counts: Box<[AtomicU32]>,
    most: u32,
    seed: RandomState,
}

impl ClientShares {
    /// Creates the table for a queue of some places, of which one client may hold `percent`.
    pub(crate) fn new(places: usize, percent: usize) -> Arc<Self> {
        let most = (places.saturating_mul(percent) / 100).max(1);
        Arc::new(ClientShares {
            counts: (0..COUNTS).map(|_| AtomicU32::new(0)).collect(),
            most: u32::try_from(most).unwrap_or(u32::MAX),
            seed: RandomState::new(),
        })
    }

    /// Takes a place for a client; `None` if it holds its share already.
    pub(crate) fn take(self: &Arc<Self>, client: IpAddr) -> Option<ClientPlace> {
        let at = self.seed.hash_one(counted_as(client)) as usize % COUNTS;
        let place = ClientPlace {
            shares: Arc::clone(self),
            at,
        };
        // The place is returned when it is dropped here.
        let before = self.counts[at].fetch_add(1, Ordering::Relaxed);
        (before < self.most).then_some(place)
    }
}

/// A place that a client holds, returned when it is dropped.
pub(crate) struct ClientPlace {
    shares: Arc<ClientShares>,
    at: usize,
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        self.shares.counts[self.at].fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_holds_its_share_and_gets_places_back() {
        let shares = ClientShares::new(40, 25);
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let mut held: Vec<_> = (0..20).filter_map(|_| shares.take(one)).collect();
        assert_eq!(held.len(), 10);
        assert!(shares.take(one).is_none());
        // Unless both have the same hash, which is one chance in thousands.
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
    fn an_ipv6_network_is_one_client_and_every_client_has_a_place() {
        let shares = ClientShares::new(2, 25);
        let first = shares.take("2001:db8::1".parse().unwrap());
        assert!(first.is_some());
        assert!(shares.take("2001:db8::2".parse().unwrap()).is_none());
    }
}
