//! Accounting of the octets held for TCP connections: incomplete messages, pending queries, and unread answers.
//! Decides which connections to close when the total is over the limit.
//!
//! A connection's weight is octets times time. The client (an IPv4 address or an IPv6 /64 network) with the greatest
//! total weight loses its heaviest connection, and so on until the total is within the limit. So a client that reads
//! its answers is never closed on behalf of clients that do not, however many connections they open; and among the
//! connections of one client, the one that is read is kept.
//!
//! Pure accounting, without clock and sockets. Invariant: `total` is the sum of the counted octets of `connections`.

use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;

use tokio::time::Instant;

/// Octets of a connection that are not counted, so that an ordinary query in two segments gets through even when
/// others have used up the limit.
pub(super) const UNCOUNTED_BYTES: usize = 512;
/// When the limit is exceeded, this fraction of it is freed at once, so that scanning all connections is rare.
const FREED_SHARE: usize = 16;

/// Octets held for one connection.
#[derive(Clone, Copy)]
struct Holding {
    client: IpAddr,
    /// In the connection's own buffers.
    buffered: usize,
    /// Queries and answers outside these buffers, for messages that are answered later.
    later: usize,
    /// Since when the client has made no progress on them.
    since: Instant,
}

impl Holding {
    fn counted(&self) -> usize {
        (self.buffered + self.later).saturating_sub(UNCOUNTED_BYTES)
    }

    /// Returns octets times milliseconds. Octets that were held for less than a millisecond count as one.
    fn weight(&self, now: Instant) -> u128 {
        let held_ms = now.saturating_duration_since(self.since).as_millis() + 1;
        self.counted() as u128 * held_ms
    }
}

/// The account of all connections.
pub(super) struct Holdings {
    max_bytes: usize,
    total: usize,
    /// Connections that hold octets, by connection ID.
    connections: HashMap<u64, Holding>,
}

impl Holdings {
    pub(super) fn new(max_bytes: usize) -> Self {
        Holdings {
            max_bytes,
            total: 0,
            connections: HashMap::new(),
        }
    }

    /// Sets the octets in a connection's own buffers; `taken` of them were counted as late answers before. `since` is
    /// when the client last made progress.
    pub(super) fn set_buffered(
        &mut self,
        (id, client): (u64, IpAddr),
        buffered: usize,
        taken: usize,
        since: Instant,
    ) {
        self.change(id, client, since, |holding| {
            holding.buffered = buffered;
            holding.later = holding.later.saturating_sub(taken);
            holding.since = since;
        });
    }

    /// Adds octets outside a connection's own buffers.
    pub(super) fn add_later(&mut self, (id, client): (u64, IpAddr), octets: usize, now: Instant) {
        self.change(id, client, now, |holding| holding.later += octets);
    }

    fn change(
        &mut self,
        id: u64,
        client: IpAddr,
        since: Instant,
        change: impl FnOnce(&mut Holding),
    ) {
        let holding = self.connections.entry(id).or_insert(Holding {
            client,
            buffered: 0,
            later: 0,
            since,
        });
        let before = holding.counted();
        change(holding);
        self.total = self.total - before + holding.counted();
        if holding.buffered + holding.later == 0 {
            self.connections.remove(&id);
        }
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&mut self, id: u64) {
        if let Some(holding) = self.connections.remove(&id) {
            self.total -= holding.counted();
        }
    }

    /// Returns the connections that must be closed now, the heaviest first; usually none. They are removed from the
    /// account.
    pub(super) fn take_worst(&mut self, now: Instant) -> Vec<u64> {
        if self.total <= self.max_bytes {
            return Vec::new();
        }
        let mut clients: HashMap<IpAddr, Vec<(u128, u64)>> = HashMap::new();
        for (&id, holding) in &self.connections {
            let weight = holding.weight(now);
            if weight > 0 {
                let buffered = clients.entry(holding.client).or_default();
                buffered.push((weight, id));
            }
        }
        // By weight; at equal weight the younger one is closed, so that the choice does not depend on a hash.
        let mut worst: BinaryHeap<(u128, u64, IpAddr)> = BinaryHeap::new();
        for (client, connections) in &mut clients {
            connections.sort_unstable();
            let youngest = connections.iter().map(|&(_, id)| id).max();
            let sum = connections.iter().map(|&(weight, _)| weight).sum();
            worst.push((sum, youngest.unwrap_or(0), *client));
        }
        let enough = self.max_bytes - self.max_bytes / FREED_SHARE;
        let mut closed = Vec::new();
        while self.total > enough
            && let Some((sum, youngest, client)) = worst.pop()
        {
            let connections = clients.get_mut(&client);
            let Some((weight, id)) = connections.and_then(Vec::pop) else {
                continue;
            };
            self.remove(id);
            closed.push(id);
            worst.push((sum.saturating_sub(weight), youngest, client));
        }
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const KIB: usize = 1024;

    fn client(n: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, n])
    }

    #[test]
    fn a_client_with_many_small_holdings_is_closed_before_one_large_reader() {
        let now = Instant::now();
        let mut holdings = Holdings::new(1000 * KIB);
        holdings.set_buffered((1, client(1)), 100 * KIB, 0, now);
        for id in 2..92 {
            holdings.set_buffered((id, client(2)), 10 * KIB, 0, now);
        }
        assert!(holdings.take_worst(now).is_empty());
        holdings.set_buffered((1, client(1)), 200 * KIB, 0, now);
        let closed = holdings.take_worst(now);
        assert!(!closed.is_empty() && !closed.contains(&1), "{closed:?}");
        assert!(holdings.total <= 1000 * KIB);
    }

    #[test]
    fn among_clients_that_hold_the_same_readers_stay() {
        let start = Instant::now();
        let now = start + Duration::from_secs(3);
        let mut holdings = Holdings::new(1000 * KIB);
        for id in 0..10 {
            holdings.set_buffered((id, client(id as u8)), 100 * KIB, 0, start);
        }
        holdings.set_buffered((10, client(10)), 100 * KIB, 0, now);
        let closed = holdings.take_worst(now);
        assert!(!closed.is_empty() && !closed.contains(&10), "{closed:?}");
    }

    #[test]
    fn among_the_connections_of_one_client_the_one_that_is_read_stays() {
        let start = Instant::now();
        let now = start + Duration::from_secs(1);
        let mut holdings = Holdings::new(1000 * KIB);
        for id in 0..10 {
            holdings.set_buffered((id, client(1)), 100 * KIB, 0, start);
        }
        holdings.set_buffered((10, client(1)), 100 * KIB, 0, now);
        let closed = holdings.take_worst(now);
        assert_eq!(closed.len(), 2);
        assert!(!closed.contains(&10));
    }

    #[test]
    fn late_answers_count_once() {
        let now = Instant::now();
        let mut holdings = Holdings::new(100 * KIB);
        holdings.add_later((1, client(1)), 60 * KIB, now);
        assert_eq!(holdings.total, 60 * KIB - UNCOUNTED_BYTES);
        holdings.set_buffered((1, client(1)), 60 * KIB, 60 * KIB, now);
        assert_eq!(holdings.total, 60 * KIB - UNCOUNTED_BYTES);
        holdings.add_later((1, client(1)), 60 * KIB, now);
        assert_eq!(holdings.take_worst(now), [1]);
        assert_eq!((holdings.total, holdings.connections.len()), (0, 0));
        holdings.set_buffered((1, client(1)), 0, 0, now);
        assert!(holdings.connections.is_empty());
    }
}
