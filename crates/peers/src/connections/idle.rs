//! Encrypted connections that wait for the next request to the same server.
//!
//! Limits: [`PER_SERVER`] for each server, [`IDLE_MAX`] in total, [`IDLE_TIME`] for each. One task
//! closes expired connections; it runs only while there are idle ones.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nameward_base::sync::Mutex;
use nameward_maintain::policy::{PeerTls, RemoteServer};

use super::MessageTransport;

/// How long a connection is kept; servers close idle ones after 10 seconds or more.
const IDLE_TIME: Duration = Duration::from_secs(5);
/// Maximum number of idle connections to one server.
const PER_SERVER: usize = 4;
/// Maximum number of idle connections.
const IDLE_MAX: usize = 64;

/// Identifies interchangeable connections: same server, same source address, same authentication.
pub(super) type ConnectionKey = (SocketAddr, Option<IpAddr>, Arc<PeerTls>);

struct IdleConnection {
    since: Instant,
    stream: Box<dyn MessageTransport>,
}

#[derive(Default)]
struct IdleTable {
    by_server: HashMap<ConnectionKey, Vec<IdleConnection>>,
    number: usize,
    is_watched: bool,
}

#[derive(Default)]
pub(super) struct IdleConnections {
    waiting: Mutex<IdleTable>,
}

pub(super) fn key_of(server: &RemoteServer) -> Option<ConnectionKey> {
    let tls = server.tls.as_ref()?;
    Some((server.address, server.source, Arc::clone(tls)))
}

impl IdleConnections {
    /// Returns the most recently used connection to a server.
    pub(super) fn take(&self, server: &RemoteServer) -> Option<Box<dyn MessageTransport>> {
        let key = key_of(server)?;
        let mut waiting = self.waiting.lock();
        let found = waiting.by_server.get_mut(&key)?.pop()?;
        waiting.number -= 1;
        (found.since.elapsed() < IDLE_TIME).then_some(found.stream)
    }

    pub(super) fn put(self: &Arc<Self>, server: &RemoteServer, stream: Box<dyn MessageTransport>) {
        let Some(key) = key_of(server) else {
            return;
        };
        let mut waiting = self.waiting.lock();
        if waiting.number >= IDLE_MAX {
            return;
        }
        let of_server = waiting.by_server.entry(key).or_default();
        if of_server.len() >= PER_SERVER {
            return;
        }
        of_server.push(IdleConnection {
            since: Instant::now(),
            stream,
        });
        waiting.number += 1;
        if !waiting.is_watched {
            waiting.is_watched = true;
            tokio::spawn(close_old(Arc::clone(self)));
        }
    }
}

/// Closes expired connections, until none are idle.
async fn close_old(connections: Arc<IdleConnections>) {
    loop {
        tokio::time::sleep(IDLE_TIME).await;
        let mut waiting = connections.waiting.lock();
        waiting.by_server.retain(|_, of_server| {
            of_server.retain(|idle| idle.since.elapsed() < IDLE_TIME);
            !of_server.is_empty()
        });
        waiting.number = waiting.by_server.values().map(Vec::len).sum();
        if waiting.number == 0 {
            waiting.is_watched = false;
            return;
        }
    }
}
