//! NOTIFY over TLS: one message and its reply on an encrypted connection, in a separate task. The
//! reply is processed like one over UDP; after a failure, which is logged, the queue sends the
//! message again later.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nameward_base::sync::Mutex;
use nameward_maintain::policy::RemoteServer;
use nameward_stats::LogThrottle;
use nameward_wire::NameBuf;
use tokio::sync::{Semaphore, mpsc};

use super::{LOG_INTERVAL, LOGGED, PeerConnections, ReceivedReply};

/// Timeout for each of connection, handshake and reply. The next attempt is not due before.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of messages in flight; others are retried as if they had been lost.
const IN_FLIGHT_MAX: usize = 64;

/// Sends messages over TLS.
pub(super) struct EncryptedNotify {
    connections: Arc<PeerConnections>,
    replies: mpsc::Sender<ReceivedReply>,
    slots: Arc<Semaphore>,
    log: Arc<Mutex<LogThrottle>>,
}

impl EncryptedNotify {
    pub(super) fn new(
        connections: Arc<PeerConnections>,
        replies: mpsc::Sender<ReceivedReply>,
    ) -> Self {
        EncryptedNotify {
            connections,
            replies,
            slots: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
            log: Arc::new(Mutex::new(LogThrottle::by_text(LOG_INTERVAL, LOGGED))),
        }
    }

    /// Starts to send a message; false if too many are in flight.
    pub(super) fn send(&self, zone: NameBuf, target: RemoteServer, message: Vec<u8>) -> bool {
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            return false;
        };
        let (connections, replies) = (Arc::clone(&self.connections), self.replies.clone());
        let log = Arc::clone(&self.log);
        tokio::spawn(async move {
            let _slot = slot;
            let from: SocketAddr = target.address;
            match connections.exchange(&target, &message, TIMEOUT).await {
                Ok(reply) => {
                    let _ = replies.send((reply, from)).await;
                }
                Err(failure) => {
                    let mut log = log.lock();
                    if log.admit(&target.to_string(), Instant::now()).is_some() {
                        tracing::warn!("zone {zone}: NOTIFY to {target} failed: {failure}");
                    }
                }
            }
        });
        true
    }
}
