//! Open TCP connections: their clients, how long each has been idle, what each holds, and which one to evict.
//!
//! One lock, taken when a connection opens or closes, has completed messages in a turn, or holds more or less than
//! before. Invariants: every open connection is in `by_age` under its stamp; `clients` counts those in `open`;
//! `holdings` contains only connections in `open`.

use nameward_base::sync::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::holdings::Holdings;

/// Why a connection was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ConnectionRefusal {
    ClientHasTooMany,
}

pub(super) struct Registry {
    max_connections: usize,
    max_per_client: usize,
    inner: Mutex<RegistryState>,
}

/// The connection was closed because it held too much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HoldsTooMuch;

struct RegistryState {
    /// Source of IDs and stamps, strictly increasing.
    last: u64,
    open: HashMap<u64, RegisteredConnection>,
    /// Stamp of the last completed message (or of opening) to ID: the first has been idle longest.
    by_age: BTreeMap<u64, u64>,
    clients: HashMap<IpAddr, usize>,
    holdings: Holdings,
}

struct RegisteredConnection {
    stamp: u64,
    /// `None` until a proxy has named the client.
    client: Option<IpAddr>,
    /// `None` between registration and the start of the task.
    task: Option<AbortHandle>,
}

impl Registry {
    pub(super) fn new(
        max_connections: usize,
        max_per_client: usize,
        max_held_bytes: usize,
    ) -> Registry {
        Registry {
            max_connections: max_connections.max(1),
            max_per_client: max_per_client.max(1),
            inner: Mutex::new(RegistryState {
                last: 0,
                open: HashMap::new(),
                by_age: BTreeMap::new(),
                clients: HashMap::new(),
                holdings: Holdings::new(max_held_bytes),
            }),
        }
    }

    /// Registers a connection, evicting the one that has been idle longest when the limit is reached. Its client may be
    /// unknown yet ([`Registry::identify`]). Returns its ID.
    pub(super) fn enter(&self, client: Option<IpAddr>) -> Result<u64, ConnectionRefusal> {
        let client = client.map(client_network);
        let mut inner = self.inner.lock();
        if client.is_some_and(|client| inner.connections_of(client) >= self.max_per_client) {
            return Err(ConnectionRefusal::ClientHasTooMany);
        }
        if inner.open.len() >= self.max_connections {
            inner.evict_longest_idle();
        }
        let id = inner.tick();
        inner.by_age.insert(id, id);
        if let Some(client) = client {
            *inner.clients.entry(client).or_insert(0) += 1;
        }
        let entry = RegisteredConnection {
            stamp: id,
            client,
            task: None,
        };
        inner.open.insert(id, entry);
        Ok(id)
    }

    /// Sets the client of connection `id`, which a proxy has named.
    pub(super) fn identify(&self, id: u64, client: IpAddr) -> Result<(), ConnectionRefusal> {
        let client = client_network(client);
        let mut inner = self.inner.lock();
        if inner.connections_of(client) >= self.max_per_client {
            return Err(ConnectionRefusal::ClientHasTooMany);
        }
        // Otherwise it was evicted, and its task is about to end.
        if let Some(entry) = inner.open.get_mut(&id) {
            entry.client = Some(client);
            *inner.clients.entry(client).or_insert(0) += 1;
        }
        Ok(())
    }

    /// Stores the task of connection `id`, so that eviction can abort it.
    pub(super) fn set_task(&self, id: u64, task: AbortHandle) {
        match self.inner.lock().open.get_mut(&id) {
            Some(entry) => entry.task = Some(task),
            // Ended or evicted already; aborting an ended task does nothing.
            None => task.abort(),
        }
    }

    /// Records that connection `id` has completed a message: it is now the least idle one.
    pub(super) fn touch(&self, id: u64) {
        let mut inner = self.inner.lock();
        let now = inner.tick();
        let Some(entry) = inner.open.get_mut(&id) else {
            return;
        };
        let before = std::mem::replace(&mut entry.stamp, now);
        inner.by_age.remove(&before);
        inner.by_age.insert(now, id);
    }

    /// Records that connection `id` holds `own` octets in its buffers, `taken` of them from late answers. Closes the
    /// worst holders when the total is over the limit.
    pub(super) fn hold(
        &self,
        id: u64,
        own: usize,
        taken: usize,
        since: Instant,
    ) -> Result<(), HoldsTooMuch> {
        let mut inner = self.inner.lock();
        let client = inner.client_of(id).ok_or(HoldsTooMuch)?;
        inner.holdings.set_buffered((id, client), own, taken, since);
        inner.close_worst_holders(id)
    }

    /// Records a late answer for connection `id` that waits to be collected.
    pub(super) fn hold_later(&self, id: u64, octets: usize) -> Result<(), HoldsTooMuch> {
        let mut inner = self.inner.lock();
        let client = inner.client_of(id).ok_or(HoldsTooMuch)?;
        let now = Instant::now();
        inner.holdings.add_later((id, client), octets, now);
        inner.close_worst_holders(id)
    }

    /// Returns the idle timeout that is announced to the client of connection `id`: all of it while at most half of
    /// the limits, in total and for the client, are used; less above, down to 0 at a limit.
    pub(super) fn scale_idle_timeout(&self, id: u64, configured: Duration) -> Duration {
        let inner = self.inner.lock();
        let own = inner
            .client_of(id)
            .map(|client| (inner.connections_of(client), self.max_per_client));
        let all = (inner.open.len(), self.max_connections);
        let scaled = |(open, most): (usize, usize)| {
            let half = (most / 2) as u32;
            let over = (open as u32).saturating_sub(half);
            let range = most as u32 - half;
            configured * range.saturating_sub(over) / range
        };
        scaled(all).min(own.map_or(configured, scaled))
    }

    /// Removes connection `id`, which has ended.
    pub(super) fn leave(&self, id: u64) {
        self.inner.lock().remove(id);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.inner.lock().open.is_empty()
    }

    pub(super) fn evict_longest_idle(&self) {
        self.inner.lock().evict_longest_idle();
    }

    pub(super) fn evict_all(&self) {
        let mut inner = self.inner.lock();
        while inner.evict_longest_idle() {}
    }
}

impl RegistryState {
    /// Returns the client of an open connection whose PROXY header, if any, was read.
    fn client_of(&self, id: u64) -> Option<IpAddr> {
        self.open.get(&id)?.client
    }

    fn connections_of(&self, client: IpAddr) -> usize {
        self.clients.get(&client).copied().unwrap_or(0)
    }

    fn tick(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Closes connections until the others are within the limit; fails if `own` is one of them.
    fn close_worst_holders(&mut self, own: u64) -> Result<(), HoldsTooMuch> {
        let mut result = Ok(());
        for id in self.holdings.take_worst(Instant::now()) {
            if let Some(task) = self.remove(id).and_then(|entry| entry.task) {
                task.abort();
            }
            if id == own {
                result = Err(HoldsTooMuch);
            }
        }
        result
    }

    /// Closes the connection whose last message is oldest; returns whether there was one.
    fn evict_longest_idle(&mut self) -> bool {
        let Some((_, id)) = self.by_age.pop_first() else {
            return false;
        };
        // Its descriptor closes when the runtime drops the task, a moment later.
        if let Some(task) = self.remove(id).and_then(|entry| entry.task) {
            task.abort();
        }
        true
    }

    fn remove(&mut self, id: u64) -> Option<RegisteredConnection> {
        let entry = self.open.remove(&id)?;
        self.by_age.remove(&entry.stamp);
        self.holdings.remove(id);
        if let Some(client) = entry.client
            && let Some(count) = self.clients.get_mut(&client)
        {
            *count -= 1;
            if *count == 0 {
                self.clients.remove(&client);
            }
        }
        Some(entry)
    }
}

/// Returns the network that limits apply to, by its first address: an IPv4 address, or an IPv6 /64, because a client
/// usually has a whole /64 to choose addresses from.
pub fn client_network(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Option<IpAddr> {
        text.parse().ok()
    }

    #[test]
    fn clients_behind_proxies_count_once_they_are_known() {
        let registry = Registry::new(10, 1, usize::MAX);
        let ids: Vec<u64> = (0..3).map(|_| registry.enter(None).unwrap()).collect();
        let client = ip("192.0.2.1").unwrap();
        assert!(registry.identify(ids[0], client).is_ok());
        assert!(registry.identify(ids[1], client).is_err());
        assert!(registry.identify(ids[2], ip("192.0.2.2").unwrap()).is_ok());
        assert!(registry.enter(Some(client)).is_err());
        registry.leave(ids[0]);
        assert!(registry.identify(ids[1], client).is_ok());
        ids.iter().for_each(|id| registry.leave(*id));
        assert!(registry.is_empty() && registry.inner.lock().clients.is_empty());
    }

    #[test]
    fn the_connection_without_a_message_for_longest_is_evicted() {
        let registry = Registry::new(2, 10, usize::MAX);
        let first = registry.enter(ip("192.0.2.1")).unwrap();
        let second = registry.enter(ip("192.0.2.2")).unwrap();
        registry.touch(first);
        let third = registry.enter(ip("192.0.2.3")).unwrap();
        let open = |id| registry.inner.lock().open.contains_key(&id);
        assert!(open(first) && !open(second) && open(third));
    }

    #[test]
    fn a_client_gets_its_slots_back() {
        let registry = Registry::new(10, 1, usize::MAX);
        let first = registry.enter(ip("192.0.2.1")).unwrap();
        assert_eq!(
            registry.enter(ip("192.0.2.1")),
            Err(ConnectionRefusal::ClientHasTooMany)
        );
        registry.leave(first);
        registry.leave(first);
        assert!(registry.is_empty());
        assert!(registry.enter(ip("192.0.2.1")).is_ok());
    }

    #[test]
    fn the_announced_idle_timeout_shrinks_near_a_limit() {
        let registry = Registry::new(10, 4, usize::MAX);
        let idle = Duration::from_secs(10);
        let announced = |id| registry.scale_idle_timeout(id, idle).as_secs();
        let own: Vec<u64> = (0..4)
            .map(|_| registry.enter(ip("192.0.2.1")).unwrap())
            .collect();
        assert_eq!(announced(own[0]), 0, "it has as many as it may have");
        registry.leave(own[3]);
        assert_eq!(announced(own[0]), 5);
        registry.leave(own[2]);
        assert_eq!(announced(own[0]), 10);
        for client in 2..10 {
            let client_ip = IpAddr::from([192, 0, 2, client]);
            let id = registry.enter(Some(client_ip)).unwrap();
            let expected = 10 - 2 * (u64::from(client) + 1).saturating_sub(5);
            assert_eq!(announced(id), expected);
        }
    }

    #[test]
    fn ipv6_clients_count_by_their_network() {
        let registry = Registry::new(10, 1, usize::MAX);
        registry.enter(ip("2001:db8::1")).unwrap();
        assert!(registry.enter(ip("2001:db8::2")).is_err());
        assert!(registry.enter(ip("2001:db8:0:1::1")).is_ok());
    }
}
