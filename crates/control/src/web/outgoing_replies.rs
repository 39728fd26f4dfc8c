//! Replies that clients have not taken yet: their octets are bounded over all connections.
//!
//! A room is memory that is held for one reply, or for one text that many clients are sent. When the next room has no
//! place, the slowest rooms are cleared until it has. A room is as fast as the fastest of its clients, so a client that
//! reads is never cut for one that does not. The rate of a client is what it took in the time for which it was waited for,
//! with one piece as an advance: a client is not slow because it waits for the server.

use nameward_base::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Octets of a reply that are handed to the socket at one time.
pub const PIECE_BYTES: usize = 64 * 1024;
/// How long a reply waits for those that were cut to be gone.
const CUT_TIMEOUT: Duration = Duration::from_secs(5);
/// Added to the time for which a client was waited for, so that one whose reply just began is not slow.
const ADVANCE: Duration = Duration::from_millis(10);

/// All replies that are being sent.
pub struct OutgoingReplies {
    limit: usize,
    state: Mutex<OutgoingState>,
    /// Notified when a room is given back, or the clients of one are others.
    freed: Notify,
}

#[derive(Default)]
struct OutgoingState {
    bytes: usize,
    next_id: u64,
    rooms: BTreeMap<u64, RoomState>,
}

struct RoomState {
    bytes: usize,
    clients: BTreeMap<u64, ClientProgress>,
}

/// How a client takes its reply.
struct ClientProgress {
    taken: u64,
    /// The time for which the server has waited for the client, up to `waits_since`.
    waited: Duration,
    waits_since: Option<Instant>,
    is_cut: bool,
    address: IpAddr,
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

/// Room for a reply or a text; given back when dropped.
pub struct Room {
    all: Arc<OutgoingReplies>,
    id: u64,
}

/// A client that is sent what is in a room.
pub struct RoomClient {
    room: Arc<Room>,
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
        self.state.lock()
    }

    /// Makes room for so many octets, cutting the clients of the slowest rooms where there is none.
    pub async fn hold(self: &Arc<Self>, bytes: usize) -> Result<Arc<Room>, NoRoom> {
        if bytes > self.limit {
            return Err(NoRoom::TooLarge);
        }
        let waiting = async {
            loop {
                // Made before the look, so that nothing is freed in between without being noticed.
                let freed = self.freed.notified();
                if let Some(id) = self.state().reserve(self.limit, bytes) {
                    return id;
                }
                freed.await;
            }
        };
        match timeout(CUT_TIMEOUT, waiting).await {
            Ok(id) => Ok(Arc::new(Room {
                all: Arc::clone(self),
                id,
            })),
            Err(_) => Err(NoRoom::Busy),
        }
    }

    /// Cuts the slowest of all clients, or of those at one address, that have been waited for at least so long just now; false
    /// when there is none.
    pub fn cut_slowest(&self, stalled: Duration, of: Option<IpAddr>) -> bool {
        let (now, mut state) = (Instant::now(), self.state());
        let clients = state.rooms.values_mut().flat_map(RoomState::uncut);
        let slowest = clients
            .filter(|client| client.waits(now) >= stalled)
            .filter(|client| of.is_none_or(|of| of == client.address))
            .min_by(|a, b| a.rate(now).total_cmp(&b.rate(now)));
        slowest.map(ClientProgress::cut).is_some()
    }
}

impl OutgoingState {
    fn reserve(&mut self, limit: usize, bytes: usize) -> Option<u64> {
        if self.bytes + bytes > limit {
            let leaving = self.rooms.values().filter(|room| room.is_leaving());
            let mut leaving: usize = leaving.map(|room| room.bytes).sum();
            while self.bytes + bytes > limit + leaving {
                leaving += self.clear_slowest()?;
            }
            return None;
        }
        self.bytes += bytes;
        self.next_id += 1;
        let room = RoomState {
            bytes,
            clients: BTreeMap::new(),
        };
        self.rooms.insert(self.next_id, room);
        Some(self.next_id)
    }

    /// Cuts all clients of the slowest room and returns its octets.
    fn clear_slowest(&mut self) -> Option<usize> {
        let now = Instant::now();
        let rooms = self.rooms.values_mut();
        let rated = rooms.filter_map(|room| Some((room.rate(now)?, room)));
        let (_, slowest) = rated.min_by(|a, b| a.0.total_cmp(&b.0))?;
        slowest.uncut().for_each(ClientProgress::cut);
        Some(slowest.bytes)
    }
}

impl RoomState {
    fn uncut(&mut self) -> impl Iterator<Item = &mut ClientProgress> {
        self.clients.values_mut().filter(|client| !client.is_cut)
    }

    /// True when all its clients were cut. One without clients has just been made.
    fn is_leaving(&self) -> bool {
        !self.clients.is_empty() && self.clients.values().all(|client| client.is_cut)
    }

    /// The rate of its fastest client; `None` when there is nobody to cut.
    fn rate(&self, now: Instant) -> Option<f64> {
        let uncut = self.clients.values().filter(|client| !client.is_cut);
        uncut.map(|client| client.rate(now)).max_by(f64::total_cmp)
    }
}

impl ClientProgress {
    fn rate(&self, now: Instant) -> f64 {
        let time = self.waited + self.waits(now) + ADVANCE;
        (self.taken + PIECE_BYTES as u64) as f64 / time.as_secs_f64()
    }

    /// The time for which it is waited for now.
    fn waits(&self, now: Instant) -> Duration {
        let since = self.waits_since;
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    fn cut(&mut self) {
        self.is_cut = true;
        self.connection.abort();
    }
}

impl Room {
    /// Lists a client that is sent what is in the room.
    pub fn enter(self: &Arc<Self>, address: IpAddr, connection: &AbortHandle) -> RoomClient {
        let mut state = self.all.state();
        state.next_id += 1;
        let id = state.next_id;
        let client = ClientProgress {
            taken: 0,
            waited: Duration::ZERO,
            waits_since: None,
            is_cut: false,
            address,
            connection: connection.clone(),
        };
        if let Some(room) = state.rooms.get_mut(&self.id) {
            room.clients.insert(id, client);
        }
        drop(state);
        self.all.freed.notify_waiters();
        RoomClient {
            room: Arc::clone(self),
            id,
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut state = self.all.state();
        if let Some(room) = state.rooms.remove(&self.id) {
            state.bytes -= room.bytes;
        }
        drop(state);
        self.all.freed.notify_waiters();
    }
}

impl RoomClient {
    /// From here on the server waits for the client.
    pub fn wait_begins(&self) {
        self.change(|client| client.waits_since = Some(Instant::now()));
    }

    /// The client took so many octets more, and is not waited for.
    pub fn took(&self, bytes: usize) {
        self.change(|client| {
            let since = client.waits_since.take();
            client.waited += since.map_or(Duration::ZERO, |since| since.elapsed());
            client.taken += bytes as u64;
        });
    }

    fn change(&self, change: impl FnOnce(&mut ClientProgress)) {
        let mut state = self.room.all.state();
        let room = state.rooms.get_mut(&self.room.id);
        if let Some(client) = room.and_then(|room| room.clients.get_mut(&self.id)) {
            change(client);
        }
    }
}

impl Drop for RoomClient {
    fn drop(&mut self) {
        let all = &self.room.all;
        if let Some(room) = all.state().rooms.get_mut(&self.room.id) {
            room.clients.remove(&self.id);
        }
        all.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::task::JoinHandle;

    /// A connection that is sent what is in a room for as long as it is let, has taken so many octets and is waited for.
    fn connection(room: Arc<Room>, taken: usize) -> JoinHandle<()> {
        let (give_client, client) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let _client: RoomClient = client.await.expect("a client");
            pending::<()>().await;
        });
        let client = room.enter([192, 0, 2, 1].into(), &task.abort_handle());
        client.took(taken);
        client.wait_begins();
        give_client.send(client).ok().expect("a task");
        task
    }

    async fn room(all: &Arc<OutgoingReplies>, bytes: usize) -> Arc<Room> {
        all.hold(bytes).await.expect("room")
    }

    #[tokio::test]
    async fn the_slowest_clients_make_room_and_those_that_read_stay() {
        let all = OutgoingReplies::new(100);
        let reading = connection(room(&all, 40).await, 1 << 40);
        let silent = connection(room(&all, 40).await, 0);
        let newcomer = connection(room(&all, 50).await, 1 << 30);
        assert!(silent.await.expect_err("cut").is_cancelled());
        assert!(!reading.is_finished() && !newcomer.is_finished());
        assert_eq!(all.state().bytes, 90);
        assert!(all.cut_slowest(Duration::ZERO, None));
        assert!(newcomer.await.expect_err("cut").is_cancelled());
        assert_eq!(all.state().bytes, 40);
    }

    #[tokio::test]
    async fn clients_that_share_a_room_with_one_that_reads_are_not_cut_for_its_octets() {
        let all = OutgoingReplies::new(100);
        let shared = room(&all, 50).await;
        let reading = connection(Arc::clone(&shared), 1 << 40);
        let beside: Vec<_> = (0..20)
            .map(|_| connection(Arc::clone(&shared), 0))
            .collect();
        drop(shared);
        let slow = connection(room(&all, 40).await, 1 << 20);
        let newcomer = connection(room(&all, 50).await, 1 << 30);
        assert!(slow.await.expect_err("cut").is_cancelled());
        assert!(!reading.is_finished() && !newcomer.is_finished());
        assert!(beside.iter().all(|client| !client.is_finished()));
        // For a place they are: each by itself.
        assert!(!all.cut_slowest(Duration::from_secs(3600), None));
        for _ in &beside {
            assert!(all.cut_slowest(Duration::ZERO, None));
        }
        for client in beside {
            assert!(client.await.expect_err("cut").is_cancelled());
        }
        assert!(!reading.is_finished() && !newcomer.is_finished());
        reading.abort();
        assert!(reading.await.expect_err("ended").is_cancelled());
        assert_eq!(all.state().bytes, 50);
    }

    #[tokio::test]
    async fn a_reply_that_can_never_have_room_is_refused_and_cuts_nobody() {
        let all = OutgoingReplies::new(100);
        let reading = connection(room(&all, 100).await, 0);
        assert_eq!(all.hold(101).await.err(), Some(NoRoom::TooLarge));
        assert!(!reading.is_finished());
    }
}
