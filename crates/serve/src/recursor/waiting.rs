//! The clients that wait for a resolver, grouped by query.

use nameward_base::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::net::IpAddr;

use super::ForwarderFull;
use super::question::UpstreamMessage;
use crate::pipeline::LateReply;
use crate::tcp::counted_as;

/// Maximum number of waiting clients per query in flight, on average: enough for a popular name.
const CLIENTS_A_QUESTION: usize = 8;

/// The outcome of a client's query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joined {
    /// It is the first of its kind: the caller must send it.
    Begun,
    /// An equal one is in flight.
    InProgress,
}

/// Limits on waiting clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingLimits {
    /// Maximum number of different queries.
    pub(crate) questions: usize,
    /// Maximum number of queries per client (IPv6: per /64), equal ones included.
    pub(crate) per_client: usize,
}

/// Waiting clients, limited in total and per client, and the queries they wait for, limited as well.
pub(crate) struct WaitingClients<C = LateReply> {
    questions: Mutex<Questions<C>>,
    limits: WaitingLimits,
}

struct Questions<C> {
    clients: HashMap<UpstreamMessage, Vec<(IpAddr, C)>>,
    count: usize,
    /// Number of waiting replies by client.
    by_client: HashMap<IpAddr, usize>,
}

impl<C> Questions<C> {
    fn count_in(&mut self, client: IpAddr) {
        self.count += 1;
        *self.by_client.entry(client).or_insert(0) += 1;
    }

    fn count_out(&mut self, client: IpAddr) {
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
            questions: Mutex::new(Questions {
                clients: HashMap::new(),
                count: 0,
                by_client: HashMap::new(),
            }),
            limits,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Questions<C>> {
        self.questions.lock()
    }

    /// Adds a waiting client; `client` is called only if the limits allow.
    pub(crate) fn join(
        &self,
        question: &UpstreamMessage,
        address: IpAddr,
        client: impl FnOnce() -> Option<C>,
    ) -> Result<Joined, ForwarderFull> {
        let (address, limits) = (counted_as(address), self.limits);
        let mut questions = self.lock();
        let of_client = questions.by_client.get(&address).copied();
        if questions.count >= limits.questions.saturating_mul(CLIENTS_A_QUESTION)
            || of_client.unwrap_or(0) >= limits.per_client
        {
            return Err(ForwarderFull);
        }
        let under_way = questions.clients.len();
        let joined = match questions.clients.get_mut(question) {
            Some(clients) => {
                clients.push((address, client().ok_or(ForwarderFull)?));
                Joined::InProgress
            }
            None if under_way >= limits.questions => return Err(ForwarderFull),
            None => {
                let clients = vec![(address, client().ok_or(ForwarderFull)?)];
                questions.clients.insert(question.clone(), clients);
                Joined::Begun
            }
        };
        questions.count_in(address);
        Ok(joined)
    }

    /// Registers a query without a waiting client, unless it is in flight.
    pub(crate) fn begin(&self, question: &UpstreamMessage) -> Result<Joined, ForwarderFull> {
        let mut questions = self.lock();
        if questions.clients.contains_key(question) {
            return Ok(Joined::InProgress);
        }
        if questions.clients.len() >= self.limits.questions {
            return Err(ForwarderFull);
        }
        questions.clients.insert(question.clone(), Vec::new());
        Ok(Joined::Begun)
    }

    /// Removes a query and returns the clients that wait for it.
    pub(crate) fn take(&self, question: &UpstreamMessage) -> Vec<C> {
        let mut questions = self.lock();
        let waiting = questions.clients.remove(question).unwrap_or_default();
        for (address, _) in &waiting {
            questions.count_out(*address);
        }
        waiting.into_iter().map(|(_, client)| client).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_wire::{Name, Type};

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn waiting<C>(questions: usize, per_client: usize) -> WaitingClients<C> {
        WaitingClients::new(WaitingLimits {
            questions,
            per_client,
        })
    }

    fn question(number: u16) -> UpstreamMessage {
        UpstreamMessage::new(Name::ROOT, Type(number))
    }

    #[test]
    fn equal_questions_are_asked_once_and_all_who_wait_are_taken_together() {
        let waiting = waiting(2, usize::MAX);
        assert_eq!(
            waiting.join(&question(1), CLIENT, || Some(1)),
            Ok(Joined::Begun)
        );
        assert_eq!(
            waiting.join(&question(1), CLIENT, || Some(2)),
            Ok(Joined::InProgress)
        );
        assert_eq!(
            waiting.join(&question(2), CLIENT, || Some(3)),
            Ok(Joined::Begun)
        );
        assert_eq!(
            waiting.join(&question(3), CLIENT, || Some(4)),
            Err(ForwarderFull)
        );
        assert_eq!(waiting.take(&question(1)), [1, 2]);
        assert_eq!(waiting.take(&question(1)), [0; 0]);
        assert_eq!(
            waiting.join(&question(3), CLIENT, || Some(5)),
            Ok(Joined::Begun)
        );
    }

    #[test]
    fn clients_are_bounded_although_they_share_a_question() {
        let waiting = waiting(2, usize::MAX);
        let taken = (0..100).filter(|n| waiting.join(&question(1), CLIENT, || Some(*n)).is_ok());
        assert_eq!(taken.count(), 2 * CLIENTS_A_QUESTION);
        waiting.take(&question(1));
        assert!(waiting.join(&question(1), CLIENT, || Some(0)).is_ok());
    }

    #[test]
    fn a_client_without_a_way_back_takes_no_room() {
        let waiting = waiting::<u8>(1, usize::MAX);
        assert_eq!(
            waiting.join(&question(1), CLIENT, || None),
            Err(ForwarderFull)
        );
        assert_eq!(waiting.lock().count, 0);
        assert!(waiting.lock().clients.is_empty());
    }

    #[test]
    fn a_client_has_its_share_and_leaves_the_rest_to_others() {
        let waiting = waiting(10, 3);
        let first: IpAddr = "2001:db8::1".parse().unwrap();
        let same_network: IpAddr = "2001:db8::ffff".parse().unwrap();
        let taken = (0..10).filter(|n| waiting.join(&question(*n), first, || Some(*n)).is_ok());
        assert_eq!(taken.count(), 3);
        let same = waiting.join(&question(0), same_network, || Some(90));
        assert_eq!(same, Err(ForwarderFull), "a network counts as one");
        let other = waiting.join(&question(0), CLIENT, || Some(91));
        assert_eq!(other, Ok(Joined::InProgress));
        assert_eq!(waiting.take(&question(0)), [0, 91]);
        let again = waiting.join(&question(5), same_network, || Some(92));
        assert_eq!(again, Ok(Joined::Begun));
        for n in [1, 2, 5] {
            waiting.take(&question(n));
        }
        assert!(waiting.lock().by_client.is_empty());
    }
}
