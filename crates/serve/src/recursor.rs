//! Forwards queries outside our zones to a resolver, and returns its responses to clients that are allowed recursion.
//!
//! ```text
//! worker:   no zone, RD set, client in the list -> joins the query, or starts it              no waiting
//! runtime:  [`Resolvers`] query -> [`relay`] for each waiting client, or SERVFAIL in time
//! ```
//! Limits: queries in flight, clients waiting for all of them, queries per client, time. Beyond them a client gets
//! SERVFAIL at once. A query that is already in flight is not sent again, so a resolver that sends it back to us
//! waits for itself until the timeout, and no loop grows.

mod attempt;
mod query;
mod relay;
mod resolvers;
mod waiting;

pub use query::{UpstreamMessage, UpstreamReply};
pub(crate) use relay::offer_recursion;
pub use resolvers::{ResolverSettings, Resolvers, Unanswered};

use std::net::IpAddr;
use std::sync::Arc;

use nameward_stats::Counter;
use nameward_wire::Rcode;
use nameward_wire::message::Query;
use nameward_zone::AccessList;
use tokio::runtime::Handle;

use crate::pipeline::{LateReply, ReplyPath};
use crate::request::{Request, extended_error};
use relay::RelaySettings;
pub(crate) use waiting::{Joined, WaitingClients, WaitingLimits};

/// Settings for forwarding.
pub struct ForwarderSettings {
    /// Clients whose queries are forwarded.
    pub allow_from: AccessList,
    /// Maximum number of different queries in flight.
    pub in_flight_max: usize,
    /// Maximum number of waiting queries per client (IPv6: per /64).
    pub in_flight_per_client: usize,
}

/// Forwards queries to resolvers.
pub struct RecursorForwarder {
    resolvers: Arc<Resolvers>,
    allow_from: AccessList,
    waiting: WaitingClients,
    runtime: Handle,
}

/// The limit on waiting queries is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ForwarderFull;

impl RecursorForwarder {
    /// Creates a forwarder to these resolvers; queries wait on `runtime`.
    pub fn new(
        resolvers: Arc<Resolvers>,
        settings: ForwarderSettings,
        runtime: Handle,
    ) -> Arc<Self> {
        Arc::new(RecursorForwarder {
            resolvers,
            allow_from: settings.allow_from,
            waiting: WaitingClients::new(WaitingLimits {
                queries: settings.in_flight_max,
                per_client: settings.in_flight_per_client,
            }),
            runtime,
        })
    }

    /// Checks whether a client's queries are forwarded.
    pub(crate) fn serves(&self, client: IpAddr) -> bool {
        self.allow_from.contains(client)
    }

    /// Takes over a query: its client is answered later.
    pub(crate) fn hand_over(
        self: &Arc<Self>,
        request: &Request<'_>,
        reply_path: &mut ReplyPath<'_>,
    ) -> Result<(), ForwarderFull> {
        let query = upstream_query(request.query);
        let client = request.peer.ip();
        match self.waiting.join(&query, client, || reply_path.take())? {
            Joined::InProgress => {}
            Joined::Started => {
                let forwarder = Arc::clone(self);
                let pending = PendingRelay {
                    forwarder,
                    query: Some(query),
                };
                self.runtime.spawn(pending.relay());
            }
        }
        Ok(())
    }
}

fn upstream_query(query: &Query<'_>) -> UpstreamMessage {
    let dnssec_ok = query.edns.is_some_and(|edns| edns.dnssec_ok);
    let checking_disabled = query.packet()[3] & 0x10 != 0;
    UpstreamMessage::new(query.qname, query.qtype).with_flags(dnssec_ok, checking_disabled)
}

/// A query in flight. The clients that wait for it are answered even if the task fails.
struct PendingRelay {
    forwarder: Arc<RecursorForwarder>,
    /// The query, until its waiting clients have been taken: from then on, an equal query is sent again.
    query: Option<UpstreamMessage>,
}

impl PendingRelay {
    async fn relay(mut self) {
        let Some(query) = self.query.clone() else {
            return;
        };
        let result = self.forwarder.resolvers.resolve(query).await;
        let mut buffer = Vec::new();
        for client in self.take_waiting() {
            match &result {
                Ok(upstream) => answer(client, upstream, &mut buffer),
                Err(_) => fail(client),
            }
        }
    }

    /// Takes all waiting clients, once.
    fn take_waiting(&mut self) -> Vec<LateReply> {
        match self.query.take() {
            Some(query) => self.forwarder.waiting.take(&query),
            None => Vec::new(),
        }
    }
}

impl Drop for PendingRelay {
    fn drop(&mut self) {
        // Empty unless the task ended early.
        self.take_waiting().into_iter().for_each(fail);
    }
}

fn answer(client: LateReply, upstream: &UpstreamReply, buffer: &mut Vec<u8>) {
    let engine = client.engine();
    let reply = {
        let query = client.query();
        let settings = RelaySettings {
            limit: engine.limit(&query, client.medium()),
            payload: engine.udp_payload,
        };
        relay::relay(&query, upstream, &settings, buffer)
    };
    match reply {
        Some(reply) => client.send_counted(buffer, reply, Counter::RecursingAnswers),
        None => fail(client),
    }
}

/// Answers SERVFAIL: the resolvers returned nothing usable.
fn fail(client: LateReply) {
    let mut buffer = [0; 1232];
    let mut reply = {
        let code = (Rcode::ServFail, Some(extended_error::NETWORK_ERROR));
        let (query, medium) = (client.query(), client.medium());
        let engine = client.engine();
        engine.respond_with_code(&query, code, medium, &mut buffer)
    };
    reply.zone_found = Some(false);
    offer_recursion(&mut buffer);
    client.send_counted(&buffer[..reply.len()], reply, Counter::RecursionUnanswered);
}
