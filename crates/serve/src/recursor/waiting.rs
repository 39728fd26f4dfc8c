//! The clients that wait for a resolver, grouped by query.

use nameward_base::sync::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;

use super::ForwarderFull;
use super::query::UpstreamMessage;
use crate::pipeline::LateReply;
use crate::tcp::client_network;

/// Maximum number of waiting clients per query in flight, on average: enough for a popular name.
const CLIENTS_PER_QUERY: usize = 8;

/// The outcome of a client's query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joined {
    /// It is the first of its kind: the caller must send it.
    Started,
    /// An equal one is in flight.
    InProgress,
}

/// Limits on waiting clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingLimits {
    /// Maximum number of different queries.
    pub(crate) queries: usize,
    /// Maximum number of queries per client (IPv6: per /64), equal ones included.
    pub(crate) per_client: usize,
}

/// Waiting clients, limited in total and per client, and the queries they wait for, limited as well.
pub(crate) struct WaitingClients<C = LateReply> {
    queries: Mutex<WaitingQueries<C>>,
    limits: WaitingLimits,
}

struct WaitingQueries<C> {
    clients: HashMap<UpstreamMessage, Vec<(IpAddr, C)>>,
    count: usize,
    /// Number of waiting replies by client.
    by_client: HashMap<IpAddr, usize>,
}

impl<C> WaitingQueries<C> {
    fn add_client(&mut self, client: IpAddr) {
        self.count += 1;
        *self.by_client.entry(client).or_insert(0) += 1;
    }

    fn remove_client(&mut self, client: IpAddr) {
        self.count -= 1;
        if let Some(count) = self.by_client.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.by_client.remove(&client);
            }
        }
    }
}

impl<C> WaitingClients<C> {
    pub(crate) fn new(limits: WaitingLimits) -> Self {
        WaitingClients {
            queries: Mutex::new(WaitingQueries {
                clients: HashMap::new(),
                count: 0,
                by_client: HashMap::new(),
            }),
            limits,
        }
    }

    /// Adds a waiting client; `client` is called only if the limits allow.
    pub(crate) fn join(
        &self,
        query: &UpstreamMessage,
        address: IpAddr,
        client: impl FnOnce() -> Option<C>,
    ) -> Result<Joined, ForwarderFull> {
        let (address, limits) = (client_network(address), self.limits);
        let mut queries = self.queries.lock();
        let of_client = queries.by_client.get(&address).copied();
        if queries.count >= limits.queries.saturating_mul(CLIENTS_PER_QUERY)
            || of_client.unwrap_or(0) >= limits.per_client
        {
            return Err(ForwarderFull);
        }
        let in_flight = queries.clients.len();
        let joined = match queries.clients.get_mut(query) {
            Some(clients) => {
                clients.push((address, client().ok_or(ForwarderFull)?));
                Joined::InProgress
            }
            None if in_flight >= limits.queries => return Err(ForwarderFull),
            None => {
                let clients = vec![(address, client().ok_or(ForwarderFull)?)];
                queries.clients.insert(query.clone(), clients);
                Joined::Started
            }
        };
        queries.add_client(address);
        Ok(joined)
    }

    /// Registers a query without a waiting client, unless it is in flight.
    pub(crate) fn begin(&self, query: &UpstreamMessage) -> Result<Joined, ForwarderFull> {
        let mut queries = self.queries.lock();
        if queries.clients.contains_key(query) {
            return Ok(Joined::InProgress);
        }
        if queries.clients.len() >= self.limits.queries {
            return Err(ForwarderFull);
        }
        queries.clients.insert(query.clone(), Vec::new());
        Ok(Joined::Started)
    }

    /// Removes a query and returns the clients that wait for it.
    pub(crate) fn take(&self, query: &UpstreamMessage) -> Vec<C> {
        let mut queries = self.queries.lock();
        let waiting = queries.clients.remove(query).unwrap_or_default();
        for (address, _) in &waiting {
            queries.remove_client(*address);
        }
        waiting.into_iter().map(|(_, client)| client).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_wire::{Name, Type};

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn waiting<C>(queries: usize, per_client: usize) -> WaitingClients<C> {
        WaitingClients::new(WaitingLimits {
            queries,
            per_client,
        })
    }

    fn query(number: u16) -> UpstreamMessage {
        UpstreamMessage::new(Name::ROOT, Type(number))
    }

    #[test]
    fn equal_queries_are_sent_once_and_return_all_waiting_clients() {
        let waiting = waiting(2, usize::MAX);
        assert_eq!(
            waiting.join(&query(1), CLIENT, || Some(1)),
            Ok(Joined::Started)
        );
        assert_eq!(
            waiting.join(&query(1), CLIENT, || Some(2)),
            Ok(Joined::InProgress)
        );
        assert_eq!(
            waiting.join(&query(2), CLIENT, || Some(3)),
            Ok(Joined::Started)
        );
        assert_eq!(
            waiting.join(&query(3), CLIENT, || Some(4)),
            Err(ForwarderFull)
        );
        assert_eq!(waiting.take(&query(1)), [1, 2]);
        assert_eq!(waiting.take(&query(1)), [0; 0]);
        assert_eq!(
            waiting.join(&query(3), CLIENT, || Some(5)),
            Ok(Joined::Started)
        );
    }

    #[test]
    fn clients_are_limited_although_they_share_a_query() {
        let waiting = waiting(2, usize::MAX);
        let taken = (0..100).filter(|n| waiting.join(&query(1), CLIENT, || Some(*n)).is_ok());
        assert_eq!(taken.count(), 2 * CLIENTS_PER_QUERY);
        waiting.take(&query(1));
        assert!(waiting.join(&query(1), CLIENT, || Some(0)).is_ok());
    }

    #[test]
    fn a_client_without_a_reply_path_uses_no_slot() {
        let waiting = waiting::<u8>(1, usize::MAX);
        assert_eq!(waiting.join(&query(1), CLIENT, || None), Err(ForwarderFull));
        assert_eq!(waiting.queries.lock().count, 0);
        assert!(waiting.queries.lock().clients.is_empty());
    }

    #[test]
    fn a_client_is_limited_to_its_share() {
        let waiting = waiting(10, 3);
        let first: IpAddr = "2001:db8::1".parse().unwrap();
        let same_network: IpAddr = "2001:db8::ffff".parse().unwrap();
        let taken = (0..10).filter(|n| waiting.join(&query(*n), first, || Some(*n)).is_ok());
        assert_eq!(taken.count(), 3);
        let same = waiting.join(&query(0), same_network, || Some(90));
        assert_eq!(same, Err(ForwarderFull), "a network counts as one");
        let other = waiting.join(&query(0), CLIENT, || Some(91));
        assert_eq!(other, Ok(Joined::InProgress));
        assert_eq!(waiting.take(&query(0)), [0, 91]);
        let again = waiting.join(&query(5), same_network, || Some(92));
        assert_eq!(again, Ok(Joined::Started));
        for n in [1, 2, 5] {
            waiting.take(&query(n));
        }
        assert!(waiting.queries.lock().by_client.is_empty());
    }
}
