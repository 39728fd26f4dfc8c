//! Replies that clients have not taken yet: their octets are bounded over all connections.
//!
//! When the next reply has no room, the slowest clients are cut until it has: a client that reads is never cut for one that
//! does not. The rate of a client is what it took since its reply began, one piece more as an advance.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Octets of a reply that are handed to the socket at one time.
pub const PIECE_BYTES: usize = 64 * 1024;
/// How long a reply waits for those that were cut to be gone.
const CUT_TIMEOUT: Duration = Duration::from_secs(5);
/// Added to the age of a reply, so that a reply that just began is not slow.
const ADVANCE: Duration = Duration::from_millis(10);

/// All replies that are being sent.
pub struct OutgoingReplies {
    limit: usize,
    state: Mutex<OutgoingState>,
    freed: Notify,
}

#[derive(Default)]
struct OutgoingState {
    bytes: usize,
    next_id: u64,
    replies: BTreeMap<u64, OutgoingReply>,
}

struct OutgoingReply {
    bytes: usize,
    taken: u64,
    since: Instant,
    is_cut: bool,
    connection: AbortHandle,
}

/// The reason why a reply found no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// It is larger than all replies together may be.
    TooLarge,
    /// Nobody left in time.
    Busy,
}

/// The room of one reply; given back when dropped.
pub struct Hold {
    all: Arc<OutgoingReplies>,
    id: u64,
}

impl OutgoingReplies {
    /// No replies, and room for so many octets.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(OutgoingReplies {
            limit,
            state: Mutex::default(),
            freed: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, OutgoingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for a reply, cutting the slowest clients where there is none.
    pub async fn hold(
        self: &Arc<Self>,
        bytes: usize,
        connection: &AbortHandle,
    ) -> Result<Hold, NoRoom> {
        if bytes > self.limit {
            return Err(NoRoom::TooLarge);
        }
        let waiting = async {
            loop {
                // Made before the look, so that nothing is freed in between without being noticed.
                let freed = self.freed.notified();
                if let Some(id) = self.state().enter(self.limit, bytes, connection) {
                    return id;
                }
                freed.await;
            }
        };
        match timeout(CUT_TIMEOUT, waiting).await {
            Ok(id) => Ok(Hold {
                all: Arc::clone(self),
                id,
            }),
            Err(_) => Err(NoRoom::Busy),
        }
    }

    /// Cuts the slowest client; false when no reply is being sent.
    pub fn cut_slowest(&self) -> bool {
        self.state().cut_slowest().is_some()
    }
}

impl OutgoingState {
    fn enter(&mut self, limit: usize, bytes: usize, connection: &AbortHandle) -> Option<u64> {
        if self.bytes + bytes > limit {
            let cut = self.replies.values().filter(|reply| reply.is_cut);
            let mut leaving: usize = cut.map(|reply| reply.bytes).sum();
            while self.bytes + bytes > limit + leaving {
                leaving += self.cut_slowest()?;
            }
            return None;
        }
        self.bytes += bytes;
        self.next_id += 1;
        let reply = OutgoingReply {
            bytes,
            taken: 0,
            since: Instant::now(),
            is_cut: false,
            connection: connection.clone(),
        };
        self.replies.insert(self.next_id, reply);
        Some(self.next_id)
    }

    fn cut_slowest(&mut self) -> Option<usize> {
        let now = Instant::now();
        let rate = |reply: &OutgoingReply| {
            let age = now.saturating_duration_since(reply.since) + ADVANCE;
            (reply.taken + PIECE_BYTES as u64) as f64 / age.as_secs_f64()
        };
        let sending = self.replies.values_mut().filter(|reply| !reply.is_cut);
        let slowest = sending.min_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        slowest.is_cut = true;
        slowest.connection.abort();
        Some(slowest.bytes)
    }
}

impl Hold {
    /// The client took so many octets more.
    pub fn took(&self, bytes: usize) {
        if let Some(reply) = self.all.state().replies.get_mut(&self.id) {
            reply.taken += bytes as u64;
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.all.state();
        if let Some(reply) = state.replies.remove(&self.id) {
            state.bytes -= reply.bytes;
        }
        drop(state);
        self.all.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    /// A connection that sends a reply of so many octets for as long as it is let.
    async fn connection(
        all: &Arc<OutgoingReplies>,
        bytes: usize,
        taken: usize,
    ) -> tokio::task::JoinHandle<()> {
        let (all, entered) = (Arc::clone(all), Arc::new(Notify::new()));
        let notify_entered = Arc::clone(&entered);
        let (give_handle, handle) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let handle: AbortHandle = handle.await.expect("a handle");
            let hold = all.hold(bytes, &handle).await.expect("room");
            hold.took(taken);
            notify_entered.notify_one();
            pending::<()>().await;
        });
        give_handle.send(task.abort_handle()).expect("a task");
        entered.notified().await;
        task
    }

    #[tokio::test]
    async fn the_slowest_clients_make_room_and_those_that_read_stay() {
        let all = OutgoingReplies::new(100);
        let reading = connection(&all, 40, 1 << 40).await;
        let silent = connection(&all, 40, 0).await;
        let newcomer = connection(&all, 50, 1 << 30).await;
        assert!(silent.await.expect_err("cut").is_cancelled());
        assert!(!reading.is_finished() && !newcomer.is_finished());
        assert_eq!(all.state().bytes, 90);
        assert!(all.cut_slowest());
        assert!(newcomer.await.expect_err("cut").is_cancelled());
        assert_eq!(all.state().bytes, 40);
    }

    #[tokio::test]
    async fn a_reply_that_can_never_have_room_is_refused_and_cuts_nobody() {
        let all = OutgoingReplies::new(100);
        let reading = connection(&all, 100, 0).await;
        let refused = all.hold(101, &reading.abort_handle()).await;
        assert_eq!(refused.err(), Some(NoRoom::TooLarge));
        assert!(!reading.is_finished());
    }
}
