//! NOTIFY to secondaries (RFC 1996): the servers that are notified of a zone's change, and those that have not
//! answered yet. No sockets, no clock.
//!
//! Each pair of zone and server has one entry: a newer version replaces an older one, so a zone that changes a
//! hundred times a second does not cause a hundred messages. A server that does not answer is notified again, six
//! times within about a minute, with doubled intervals.

mod targets;

pub use targets::{
    NotifyTargets, address, host_addresses, name_server_targets, notified_servers, notify_targets,
};

use crate::transfer_in::{SentRequest, notify_message};
use nameward_maintain::policy::RemoteServer;
use nameward_maintain::schedule::Moment;
use nameward_wire::NameBuf;
use nameward_zone::{Serial, Zone};
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of messages per server.
pub const NOTIFY_TRIES: u32 = 6;
/// The first retry interval; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_secs(2);
/// How long changes of a zone are collected if its servers are not notified at once: the round of PowerDNS.
pub const NOTIFY_ROUND: Duration = Duration::from_secs(60);
/// Maximum number of zone and server pairs waiting for an answer.
const WAITING_MAX: usize = 200_000;

/// A change of a zone to be announced.
#[derive(Clone)]
pub struct NotifyChange {
    /// The zone.
    pub zone: NameBuf,
    /// Its serial, if known.
    pub serial: Option<Serial>,
    message: Arc<[u8]>,
}

impl NotifyChange {
    /// Creates a change of a zone, with its SOA as a hint (RFC 1996 section 3.7) unless its contents are elsewhere.
    pub fn from_zone(zone: &Zone) -> Self {
        let name = NameBuf::from(zone.id());
        let version = Some(zone).filter(|zone| !zone.is_stub());
        NotifyChange {
            zone: name,
            serial: version.map(Zone::serial),
            message: notify_message(&SentRequest::notify(0, name), version).into(),
        }
    }

    /// Returns the message with an ID.
    pub fn message(&self, id: u16) -> Vec<u8> {
        let mut message = self.message.to_vec();
        message[..2].copy_from_slice(&id.to_be_bytes());
        message
    }
}

/// A server to be notified now.
pub struct NotifyTry {
    /// Its number in the queue.
    pub number: u64,
    /// The change.
    pub change: NotifyChange,
    /// The server to notify.
    pub target: RemoteServer,
}

/// A server that was notified and never answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnansweredNotify {
    /// The zone.
    pub zone: NameBuf,
    /// The server.
    pub target: SocketAddr,
}

struct WaitingTarget {
    change: NotifyChange,
    target: RemoteServer,
    tries: u32,
    due: Moment,
    /// The ID of the last message, once one was sent.
    id: Option<u16>,
}

/// Servers that have not answered yet.
#[derive(Default)]
pub struct NotifyQueue {
    waiting: HashMap<u64, WaitingTarget>,
    due: BTreeSet<(Moment, u64)>,
    by_target: HashMap<(NameBuf, SocketAddr), u64>,
    by_id: HashMap<(u16, SocketAddr), u64>,
    next_number: u64,
}

impl NotifyQueue {
    /// Schedules NOTIFY messages for a change, or sooner for servers with an earlier change pending. Returns how many
    /// were rejected because the queue is full.
    pub fn add(
        &mut self,
        change: &NotifyChange,
        targets: impl IntoIterator<Item = RemoteServer>,
        at: Moment,
    ) -> usize {
        let mut dropped = 0;
        for target in targets {
            let place = (change.zone, target.address);
            let mut due = at;
            if let Some(number) = self.by_target.get(&place).copied() {
                let waiting = self.waiting.get(&number);
                // The servers of a zone that changes all the time must be notified, too.
                if let Some(waiting) = waiting.filter(|waiting| waiting.tries == 0) {
                    due = due.min(waiting.due);
                }
                self.remove(number);
            }
            if self.waiting.len() >= WAITING_MAX {
                dropped += 1;
                continue;
            }
            let number = self.next_number;
            self.next_number += 1;
            self.by_target.insert(place, number);
            self.due.insert((due, number));
            let waiting = WaitingTarget {
                change: change.clone(),
                target,
                tries: 0,
                due,
                id: None,
            };
            self.waiting.insert(number, waiting);
        }
        dropped
    }

    /// Returns the number of pending zone and server pairs.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Checks whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Checks whether an entry is still pending.
    pub fn has(&self, number: u64) -> bool {
        self.waiting.contains_key(&number)
    }

    /// Returns the time at which the next server must be notified.
    pub fn next(&self) -> Option<Moment> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Returns the next server to be notified now. Servers that never answered are added to `unanswered`.
    pub fn begin(
        &mut self,
        now: Moment,
        unanswered: &mut Vec<UnansweredNotify>,
    ) -> Option<NotifyTry> {
        loop {
            let (_, number) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
            let waiting = self.waiting.get_mut(&number)?;
            if waiting.tries < NOTIFY_TRIES {
                self.due.remove(&(waiting.due, number));
                waiting.due = now.plus(FIRST_WAIT * (1 << waiting.tries));
                waiting.tries += 1;
                self.due.insert((waiting.due, number));
                return Some(NotifyTry {
                    number,
                    change: waiting.change.clone(),
                    target: waiting.target.clone(),
                });
            }
            unanswered.push(UnansweredNotify {
                zone: waiting.change.zone,
                target: waiting.target.address,
            });
            self.remove(number);
        }
    }

    /// Records the ID of a sent message.
    pub fn sent(&mut self, number: u64, id: u16) {
        let Some(waiting) = self.waiting.get_mut(&number) else {
            return;
        };
        let target = waiting.target.address;
        if let Some(before) = waiting.id.replace(id) {
            self.by_id.remove(&(before, target));
        }
        self.by_id.insert((id, target), number);
    }

    /// Finds the entry that a reply belongs to: its number, its query, and how often it was sent.
    pub fn find(&self, id: u16, from: SocketAddr) -> Option<(u64, SentRequest, u32)> {
        let number = *self.by_id.get(&(id, from))?;
        let waiting = self.waiting.get(&number)?;
        let request = SentRequest::notify(id, waiting.change.zone);
        Some((number, request, waiting.tries))
    }

    /// Removes a server that has answered, or that cannot be notified.
    pub fn remove(&mut self, number: u64) {
        let Some(waiting) = self.waiting.remove(&number) else {
            return;
        };
        let address = waiting.target.address;
        self.due.remove(&(waiting.due, number));
        self.by_target.remove(&(waiting.change.zone, address));
        if let Some(id) = waiting.id {
            self.by_id.remove(&(id, address));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(zone: &str) -> NotifyChange {
        let zone: NameBuf = zone.parse().unwrap();
        NotifyChange::from_zone(&Zone::not_ready(zone.as_name()))
    }

    fn server(octet: u8) -> RemoteServer {
        RemoteServer {
            address: SocketAddr::from(([192, 0, 2, octet], 53)),
            key: None,
            source: None,
            tls: None,
        }
    }

    fn begin(queue: &mut NotifyQueue, now: Moment) -> Option<NotifyTry> {
        queue.begin(now, &mut Vec::new())
    }

    #[test]
    fn changes_within_a_minute_are_notified_together_and_a_later_one_delays_none() {
        let mut queue = NotifyQueue::default();
        let at = Moment::from_seconds;
        for second in [0, 30, 59] {
            queue.add(&change("a.test."), [server(1)], at(1060 + second));
        }
        assert_eq!((queue.next(), queue.len()), (Some(at(1060)), 1));
        // An operator does not wait.
        queue.add(&change("a.test."), [server(1)], at(1000));
        assert!(begin(&mut queue, at(1000)).is_some());
        // A notified server waits for its answer, and for the next change.
        queue.add(&change("a.test."), [server(1)], at(1061));
        assert_eq!((queue.next(), queue.len()), (Some(at(1061)), 1));
    }

    #[test]
    fn a_server_that_does_not_answer_is_notified_again_and_given_up_in_the_end() {
        let mut queue = NotifyQueue::default();
        let start = Moment::from_seconds(1000);
        queue.add(&change("a.test."), [server(1)], start);
        let (mut times, mut unanswered) = (Vec::new(), Vec::new());
        while let Some(at) = queue.next() {
            assert!(begin(&mut queue, Moment(at.0 - 1)).is_none(), "too soon");
            if queue.begin(at, &mut unanswered).is_some() {
                times.push(at.seconds() - 1000);
            }
        }
        assert_eq!(times, [0, 2, 6, 14, 30, 62]);
        let (zone, target) = ("a.test.".parse().unwrap(), server(1).address);
        assert_eq!(unanswered, [UnansweredNotify { zone, target }]);
        assert!(queue.is_empty() && queue.by_id.is_empty() && queue.by_target.is_empty());
    }

    #[test]
    fn a_newer_version_takes_the_place_of_an_older_one() {
        let mut queue = NotifyQueue::default();
        let now = Moment::from_seconds(1000);
        for _ in 0..100 {
            queue.add(&change("a.test."), [server(1), server(2)], now);
        }
        queue.add(&change("b.test."), [server(1)], now);
        assert_eq!(queue.len(), 3);
        let mut sent = 0;
        while begin(&mut queue, now).is_some() {
            sent += 1;
        }
        assert_eq!(sent, 3);
    }

    #[test]
    fn a_reply_ends_what_it_answers_and_nothing_else() {
        let mut queue = NotifyQueue::default();
        let now = Moment::from_seconds(1000);
        queue.add(&change("a.test."), [server(1), server(2)], now);
        let first = begin(&mut queue, now).unwrap();
        queue.sent(first.number, 7);
        assert!(queue.find(8, first.target.address).is_none());
        assert!(queue.find(7, server(9).address).is_none());
        let (number, request, tries) = queue.find(7, first.target.address).unwrap();
        assert_eq!((number, request.id, tries), (first.number, 7, 1));
        // Notified again with another ID: the old one is no longer valid.
        queue.sent(first.number, 9);
        assert!(queue.find(7, first.target.address).is_none());
        queue.remove(number);
        assert_eq!(queue.len(), 1);
        assert!(queue.find(9, first.target.address).is_none());
    }

    #[test]
    fn the_queue_has_a_bound() {
        let mut queue = NotifyQueue::default();
        let now = Moment::from_seconds(1000);
        let many = |from: u32| {
            (from..from + 150_000).map(|n| RemoteServer {
                address: SocketAddr::from((n.to_be_bytes(), 53)),
                key: None,
                source: None,
                tls: None,
            })
        };
        assert_eq!(queue.add(&change("a.test."), many(1 << 24), now), 0);
        assert_eq!(queue.add(&change("b.test."), many(1 << 25), now), 100_000);
    }
}
