//! Streams of server-sent events: a bounded number, in all and for each client.
//!
//! A stream has a position in the feed of changes and at most one batch of events in memory. A client that takes nothing for too long is
//! disconnected like any other; one that is only slow learns which events it has missed. A stream ends when its key is deleted or
//! expires.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::Response;
use hyper::body::Bytes;
use nameward_base::sync::Mutex;
use nameward_control::api_keys::ApiKey;
use nameward_control::web::client_network;
use nameward_maintain::change_feed::ChangeFeed;
use tokio::time::{Instant, timeout_at};

use super::connections::RunningOperation;
use super::reply::{NextEvents, ReplyBody};
use super::{ApiShared, finish};
use crate::response::EventSubscription;
use crate::response::{ApiError, ApiResponse, ErrorForm};

/// Events read from the feed at a time.
const BATCH: usize = 64;

/// The open streams of each client.
#[derive(Default)]
pub struct EventStreams {
    clients: Mutex<HashMap<IpAddr, usize>>,
}

/// The slot of a stream; released when it is dropped.
struct StreamSlot {
    shared: Arc<ApiShared>,
    client: IpAddr,
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut clients = self.shared.event_streams.clients.lock();
        if let Some(count) = clients.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&self.client);
            }
        }
    }
}

/// One stream.
struct EventStream {
    slot: StreamSlot,
    feed: Arc<ChangeFeed>,
    subscription: EventSubscription,
    key: Arc<ApiKey>,
    is_started: bool,
    /// Keeps its connection from being closed for another.
    _running: RunningOperation,
}

/// Answers with a stream of events, or with an error if there are too many.
pub fn start(
    shared: &Arc<ApiShared>,
    (key, client, running): (Arc<ApiKey>, IpAddr, RunningOperation),
    mut response: ApiResponse,
    form: ErrorForm,
) -> Response<ReplyBody> {
    let (Some(subscription), Some(feed)) = (response.events.take(), shared.api.operator.feed())
    else {
        return finish(shared, response);
    };
    let client = client_network(client);
    if let Err(error) = shared.event_streams.admit(shared, client) {
        let refusal = ApiResponse::from_error(&error, form);
        return finish(shared, refusal.with("retry-after", "5"));
    }
    let stream = EventStream {
        slot: StreamSlot {
            shared: Arc::clone(shared),
            client,
        },
        feed,
        subscription: *subscription,
        key,
        is_started: false,
        _running: running,
    };
    let mut reply = finish(shared, response);
    *reply.body_mut() = ReplyBody::Events(stream.into_events());
    reply
}

impl EventStreams {
    fn admit(&self, shared: &ApiShared, client: IpAddr) -> Result<(), ApiError> {
        let limits = &shared.limits;
        let mut clients = self.clients.lock();
        let (all, own) = (clients.values().sum::<usize>(), clients.get(&client));
        if own.is_some_and(|own| *own >= limits.event_streams_per_client) {
            let most = limits.event_streams_per_client;
            let text = format!("this client has {most} event streams already: close one");
            return Err(ApiError::Status(429, text));
        }
        if all >= limits.event_streams {
            let text = "all event streams are taken: try again later";
            return Err(ApiError::Status(503, text.into()));
        }
        *clients.entry(client).or_default() += 1;
        Ok(())
    }
}

impl EventStream {
    /// Returns the stream as the body of a reply.
    fn into_events(self) -> NextEvents {
        NextEvents(Box::pin(async {
            let (stream, octets) = self.next().await?;
            Some((stream.into_events(), octets))
        }))
    }

    async fn next(mut self) -> Option<(Self, Bytes)> {
        let mut out = Vec::new();
        if !self.is_started {
            self.is_started = true;
            self.subscription.write_start(&self.feed, &mut out);
            return Some((self, out.into()));
        }
        let mut newest = self.feed.newest();
        let deadline = Instant::now() + self.slot.shared.limits.keep_alive;
        loop {
            if !self.slot.shared.gate.is_valid(&self.key) {
                return None;
            }
            let is_more = self.subscription.write_next(&self.feed, BATCH, &mut out);
            if !out.is_empty() {
                return Some((self, out.into()));
            }
            // Events of other zones do not keep the connection alive.
            let is_quiet = if is_more {
                tokio::task::yield_now().await;
                Instant::now() >= deadline
            } else {
                let position = self.subscription.position;
                let arrival = newest.wait_for(|newest| *newest > position);
                timeout_at(deadline, arrival).await.is_err()
            };
            if is_quiet {
                // A key that has expired in the meantime gets nothing more.
                if !self.slot.shared.gate.is_valid(&self.key) {
                    return None;
                }
                self.subscription.write_position(&self.feed, &mut out);
                return Some((self, out.into()));
            }
        }
    }
}
