//! Answers that are ready after the turn of their message: tickets, and the mailbox of a connection.
//!
//! A connection has a mailbox only once something is answered later. Every ticket is returned, with or without an
//! answer, so a connection knows when nothing is pending. Answers count as held by their connection from their
//! delivery on.

use nameward_base::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::registry::Registry;
use crate::listener::ListenerRules;
use crate::request::TlsPeer;

/// Size of the length prefix of each message (RFC 1035 section 4.2.2).
const PREFIX: usize = 2;

/// Maximum number of pending messages per connection; no further message is read until some are answered.
pub(super) const MAX_TICKETS: usize = 128;

/// Answers waiting to be collected by their connection.
pub(super) struct ConnectionReplies {
    registry: Arc<Registry>,
    connection: u64,
    answers: Mutex<Vec<u8>>,
    tickets: AtomicUsize,
    delivered: Notify,
}

impl ConnectionReplies {
    /// Returns the number of outstanding tickets.
    pub(super) fn tickets(&self) -> usize {
        self.tickets.load(Ordering::Acquire)
    }

    /// Collects the delivered answers; returns their size in octets.
    pub(super) fn collect(&self, out: &mut Vec<u8>) -> usize {
        let mut answers = self.answers.lock();
        let octets = answers.len();
        if out.is_empty() {
            std::mem::swap(out, &mut answers);
        } else {
            out.append(&mut answers);
        }
        octets
    }

    /// Waits until a ticket was returned since the last wait.
    pub(super) async fn delivered(&self) {
        self.delivered.notified().await;
    }
}

/// The connection of a message: issues tickets for late answers, and knows its client and idle timeout.
pub struct Later<'c> {
    tls: Option<&'c Arc<TlsPeer>>,
    registry: &'c Arc<Registry>,
    connection: u64,
    mailbox: &'c mut Option<Arc<ConnectionReplies>>,
    /// Time until the connection is closed if the client sends nothing more.
    idle_timeout: Duration,
    rules: &'c ListenerRules,
}

impl<'c> Later<'c> {
    pub(super) fn new(
        (registry, connection): (&'c Arc<Registry>, u64),
        mailbox: &'c mut Option<Arc<ConnectionReplies>>,
        idle_timeout: Duration,
        rules: &'c ListenerRules,
    ) -> Self {
        Later {
            tls: None,
            registry,
            connection,
            mailbox,
            idle_timeout,
            rules,
        }
    }

    /// Adds the client of an encrypted connection.
    pub(super) fn with_tls(mut self, tls: Option<&'c Arc<TlsPeer>>) -> Self {
        self.tls = tls;
        self
    }

    /// Returns the client of an encrypted connection.
    pub fn tls(&self) -> Option<&'c Arc<TlsPeer>> {
        self.tls
    }

    /// Returns the rules of the listener that accepted the connection.
    pub fn rules(&self) -> &'c ListenerRules {
        self.rules
    }

    /// Returns the idle timeout that is announced to clients (RFC 7828): shorter when a connection limit is near, 0
    /// if the client should close the connection.
    pub fn idle_timeout(&self) -> Duration {
        self.registry
            .scale_idle_timeout(self.connection, self.idle_timeout)
    }

    /// Issues a ticket for a late answer.
    pub fn ticket(&mut self) -> Ticket {
        let mailbox = self.mailbox.get_or_insert_with(|| {
            Arc::new(ConnectionReplies {
                registry: Arc::clone(self.registry),
                connection: self.connection,
                answers: Mutex::default(),
                tickets: AtomicUsize::new(0),
                delivered: Notify::new(),
            })
        });
        mailbox.tickets.fetch_add(1, Ordering::AcqRel);
        Ticket {
            mailbox: Arc::clone(mailbox),
        }
    }
}

/// The right to answer one message later. If it is dropped, the message stays unanswered.
pub struct Ticket {
    mailbox: Arc<ConnectionReplies>,
}

impl Ticket {
    /// Creates a ticket whose answer is discarded.
    #[cfg(test)]
    pub(crate) fn disconnected() -> Self {
        let registry = Arc::new(Registry::new(1, 1, 1));
        let rules = &ListenerRules::NONE;
        Later::new((&registry, 0), &mut None, Duration::ZERO, rules).ticket()
    }

    /// Delivers the answer, without its length prefix.
    pub fn deliver(self, answer: &[u8]) {
        let Ok(len) = u16::try_from(answer.len()) else {
            return;
        };
        let (registry, id) = (&self.mailbox.registry, self.mailbox.connection);
        let answers = self.mailbox.answers.lock();
        let mut answers = answers;
        if registry.hold_later(id, PREFIX + answer.len()).is_err() {
            return;
        }
        answers.extend_from_slice(&len.to_be_bytes());
        answers.extend_from_slice(answer);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.mailbox.tickets.fetch_sub(1, Ordering::AcqRel);
        self.mailbox.delivered.notify_one();
    }
}
