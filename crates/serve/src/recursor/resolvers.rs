//! The resolvers that queries are forwarded to: the order in which they are tried, and which are down.
//!
//! ```text
//! query -> first resolver that is up ── no response within a share of the timeout, or an error ──> the next one as well
//!       <- the first response about the name; else one about the server; else nothing in time
//! ```
//! A resolver that left several consecutive queries unanswered is tried after all others, except for one query every
//! few seconds that detects when it is back. Starting an attempt with another resolver does not cancel the first,
//! which may be slow rather than dead.

use nameward_base::sync::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};

use super::attempt::{self, AttemptFailure, AttemptSettings};
use super::query::{UpstreamMessage, UpstreamReply};

/// Consecutive queries without a response after which a resolver is considered down.
const SILENT_MAX: u32 = 5;
/// Interval at which a resolver that is down is still tried first.
const PROBE_EVERY: Duration = Duration::from_secs(5);
/// Limits on attempts per query. A single resolver is tried twice: a datagram may be lost.
const TRIES_MIN: usize = 2;
const TRIES_MAX: usize = 4;

/// Settings for the resolvers.
#[derive(Debug, Clone)]
pub struct ResolverSettings {
    /// Their addresses, in order of preference.
    pub addresses: Vec<SocketAddr>,
    /// Timeout of a query over all resolvers.
    pub timeout: Duration,
    /// Whether to randomize the letter case of queries, so that a forger has more to guess.
    pub randomize_case: bool,
}

/// Resolvers that are tried in order.
#[derive(Debug)]
pub struct Resolvers {
    servers: Vec<Resolver>,
    timeout: Duration,
    randomize_case: bool,
}

#[derive(Debug)]
struct Resolver {
    address: SocketAddr,
    health: Mutex<ResolverHealth>,
}

#[derive(Debug, Default)]
struct ResolverHealth {
    /// Consecutive queries without a response.
    unanswered: u32,
    /// When it is tried first again although it is down.
    probe_at: Option<Instant>,
}

/// No resolver answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// No response in time.
    #[error("timed out")]
    Timeout,
    /// None can be reached, or none returns valid responses.
    #[error("no resolver responded")]
    Failed,
}

impl Resolvers {
    /// Creates resolvers without known state.
    pub fn new(settings: &ResolverSettings) -> Self {
        let server = |address: &SocketAddr| Resolver {
            address: *address,
            health: Mutex::default(),
        };
        Resolvers {
            servers: settings.addresses.iter().map(server).collect(),
            timeout: settings.timeout,
            randomize_case: settings.randomize_case,
        }
    }

    /// Queries until a resolver returns a response about the name, or the timeout expires.
    pub async fn resolve(
        self: &Arc<Self>,
        query: UpstreamMessage,
    ) -> Result<UpstreamReply, Unanswered> {
        let mut upstream = UpstreamQuery {
            resolvers: self,
            query: Arc::new(query),
            order: self.order(Instant::now()),
            next: 0,
            unanswered: Vec::new(),
            replied: Vec::new(),
            second_best: None,
            running: JoinSet::new(),
        };
        let started = tokio::time::Instant::now();
        let result = timeout_at(started + self.timeout, upstream.run(started)).await;
        for server in &upstream.unanswered {
            self.servers[*server].record_timeout(Instant::now());
        }
        match result.unwrap_or(Err(Unanswered::Timeout)) {
            Ok(reply) => Ok(reply),
            Err(unanswered) => upstream.second_best.ok_or(unanswered),
        }
    }

    /// Returns the order of attempts: resolvers that are up, then those that are down; few of them are tried twice.
    fn order(&self, now: Instant) -> Vec<usize> {
        let all = 0..self.servers.len();
        let (first, last): (Vec<_>, Vec<_>) =
            all.partition(|server| self.servers[*server].is_tried_first(now));
        let order: Vec<usize> = first.into_iter().chain(last).collect();
        let tries = match order.len() {
            0 => 0,
            servers => servers.clamp(TRIES_MIN, TRIES_MAX),
        };
        order.into_iter().cycle().take(tries).collect()
    }
}

/// One query with its attempts in progress.
struct UpstreamQuery<'r> {
    resolvers: &'r Arc<Resolvers>,
    query: Arc<UpstreamMessage>,
    order: Vec<usize>,
    next: usize,
    /// Resolvers that were queried and have not answered.
    unanswered: Vec<usize>,
    /// Resolvers whose response was about themselves: they are not tried again.
    replied: Vec<usize>,
    second_best: Option<UpstreamReply>,
    running: JoinSet<(usize, Result<UpstreamReply, AttemptFailure>)>,
}

impl UpstreamQuery<'_> {
    async fn run(&mut self, started: tokio::time::Instant) -> Result<UpstreamReply, Unanswered> {
        let share = self.resolvers.timeout / (self.order.len().max(1) as u32);
        loop {
            if self.running.is_empty() && !self.start_next() {
                return Err(Unanswered::Failed);
            }
            let next_start = started + share * self.next as u32;
            tokio::select! {
                ended = self.running.join_next() => {
                    if let Some(Ok((server, result))) = ended {
                        if let Some(reply) = self.record_result(server, result) {
                            return Ok(reply);
                        }
                        self.start_next();
                    }
                }
                () = sleep_until(next_start), if self.next < self.order.len() => {
                    self.start_next();
                }
            }
        }
    }

    /// Records the result of an attempt; returns a response that is about the name.
    fn record_result(
        &mut self,
        server: usize,
        result: Result<UpstreamReply, AttemptFailure>,
    ) -> Option<UpstreamReply> {
        match result {
            Ok(reply) => {
                self.unanswered.retain(|unanswered| *unanswered != server);
                self.resolvers.servers[server].record_reply();
                if !reply.is_about_the_server() {
                    return Some(reply);
                }
                self.replied.push(server);
                self.second_best = Some(reply);
                None
            }
            Err(failure) => {
                let address = self.resolvers.servers[server].address;
                tracing::debug!("recursor {address}: {failure}");
                None
            }
        }
    }

    /// Starts the next attempt; false if there is none.
    fn start_next(&mut self) -> bool {
        let server = loop {
            let Some(&server) = self.order.get(self.next) else {
                return false;
            };
            self.next += 1;
            if !self.replied.contains(&server) {
                break server;
            }
        };
        if !self.unanswered.contains(&server) {
            self.unanswered.push(server);
        }
        let settings = AttemptSettings {
            server: self.resolvers.servers[server].address,
            randomize_case: self.resolvers.randomize_case,
        };
        let query = Arc::clone(&self.query);
        self.running
            .spawn(async move { (server, attempt::query_resolver(settings, &query).await) });
        true
    }
}

impl Resolver {
    /// Checks whether it is up, or due for a probe, which is logged occasionally.
    fn is_tried_first(&self, now: Instant) -> bool {
        let mut health = self.health.lock();
        match health.probe_at {
            None => true,
            Some(at) if at <= now => {
                health.probe_at = Some(now + PROBE_EVERY);
                true
            }
            Some(_) => false,
        }
    }

    fn record_reply(&self) {
        let mut health = self.health.lock();
        health.unanswered = 0;
        if health.probe_at.take().is_some() {
            tracing::info!("recursor {}: responding again", self.address);
        }
    }

    fn record_timeout(&self, now: Instant) {
        let mut health = self.health.lock();
        health.unanswered = health.unanswered.saturating_add(1);
        if health.unanswered >= SILENT_MAX && health.probe_at.is_none() {
            health.probe_at = Some(now + PROBE_EVERY);
            tracing::warn!(
                "recursor {}: not responding ({SILENT_MAX} queries in a row timed out); trying it last until it \
                 responds (is it running, and does it allow queries from this server?)",
                self.address
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolvers(count: u16) -> Resolvers {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Resolvers::new(&ResolverSettings {
            addresses: (1..=count).map(address).collect(),
            timeout: Duration::from_secs(1),
            randomize_case: true,
        })
    }

    #[test]
    fn a_resolver_that_is_down_is_tried_last_except_for_probes() {
        let (resolvers, now) = (resolvers(3), Instant::now());
        for _ in 1..SILENT_MAX {
            resolvers.servers[0].record_timeout(now);
        }
        assert_eq!(resolvers.order(now), [0, 1, 2]);
        resolvers.servers[0].record_timeout(now);
        assert_eq!(resolvers.order(now), [1, 2, 0]);
        let later = now + PROBE_EVERY;
        assert_eq!(resolvers.order(later), [0, 1, 2]);
        assert_eq!(resolvers.order(later), [1, 2, 0], "one question is enough");
        resolvers.servers[0].record_reply();
        assert_eq!(resolvers.order(later), [0, 1, 2]);
    }

    #[test]
    fn one_resolver_is_tried_twice_and_many_are_bounded() {
        let now = Instant::now();
        assert_eq!(resolvers(1).order(now), [0, 0]);
        assert_eq!(resolvers(9).order(now), [0, 1, 2, 3]);
        assert_eq!(resolvers(0).order(now), [0; 0]);
    }
}
