//! Replies that clients have not read yet: their octets are limited over all connections.
//!
//! A room is memory held for one reply, or for one text that is sent to many clients. If there is no space for the
//! next room, the slowest rooms are cleared until there is. A room is as fast as the fastest of its clients, so a
//! client that reads is never disconnected for one that does not. The rate of a client is the number of octets it
//! read in the time that the server waited for it, plus one chunk in advance: a client is not slow because it waits
//! for the server.

use nameward_base::sync::Mutex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Octets of a reply that are passed to the socket at one time.
pub const PIECE_BYTES: usize = 64 * 1024;
/// How long a reply waits until disconnected clients have released their room.
const CUT_TIMEOUT: Duration = Duration::from_secs(5);
/// Added to the time that the server waited for a client, so that one whose reply has just started is not slow.
const ADVANCE: Duration = Duration::from_millis(10);

/// All replies being sent.
pub struct OutgoingReplies {
    limit: usize,
    state: Mutex<OutgoingState>,
    /// Notified when a room is released, or its clients change.
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

/// How a client reads its reply.
struct ClientProgress {
    taken: u64,
    /// The time that the server has waited for the client, up to `waits_since`.
    waited: Duration,
    waits_since: Option<Instant>,
    is_cut: bool,
    address: IpAddr,
    connection: AbortHandle,
}

/// Why no room was available for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// It is larger than the limit for all replies together.
    TooLarge,
    /// No room was released in time.
    Busy,
}

/// Room for a reply or a text; released when dropped.
pub struct Room {
    all: Arc<OutgoingReplies>,
    id: u64,
}

/// A client that is sent the contents of a room.
pub struct RoomClient {
    room: Arc<Room>,
    id: u64,
}

impl OutgoingReplies {
    /// Creates an empty set with room for this many octets.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(OutgoingReplies {
            limit,
            state: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Reserves room for this many octets, disconnecting the clients of the slowest rooms if there is none.
    pub async fn hold(self: &Arc<Self>, bytes: usize) -> Result<Arc<Room>, NoRoom> {
        if bytes > self.limit {
            return Err(NoRoom::TooLarge);
        }
        let waiting = async {
            loop {
                // Created before the check, so that no release in between is missed.
                let freed = self.freed.notified();
                if let Some(id) = self.state.lock().reserve(self.limit, bytes) {
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

    /// Disconnects the slowest client, of all or at one address, that the server has been waiting for at least this
    /// long; false if there is none.
    pub fn cut_slowest(&self, stalled: Duration, of: Option<IpAddr>) -> bool {
        let (now, mut state) = (Instant::now(), self.state.lock());
        let clients = state
            .rooms
            .values_mut()
            .flat_map(RoomState::connected_clients);
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

    /// Disconnects all clients of the slowest room and returns its octets.
    fn clear_slowest(&mut self) -> Option<usize> {
        let now = Instant::now();
        let rooms = self.rooms.values_mut();
        let rated = rooms.filter_map(|room| Some((room.rate(now)?, room)));
        let (_, slowest) = rated.min_by(|a, b| a.0.total_cmp(&b.0))?;
        slowest.connected_clients().for_each(ClientProgress::cut);
        Some(slowest.bytes)
    }
}

impl RoomState {
    fn connected_clients(&mut self) -> impl Iterator<Item = &mut ClientProgress> {
        self.clients.values_mut().filter(|client| !client.is_cut)
    }

    /// Checks whether all its clients were disconnected. One without clients has just been created.
    fn is_leaving(&self) -> bool {
        !self.clients.is_empty() && self.clients.values().all(|client| client.is_cut)
    }

    /// Returns the rate of its fastest client; `None` if there is no client to disconnect.
    fn rate(&self, now: Instant) -> Option<f64> {
        let connected_clients = self.clients.values().filter(|client| !client.is_cut);
        connected_clients
            .map(|client| client.rate(now))
            .max_by(f64::total_cmp)
    }
}

impl ClientProgress {
    fn rate(&self, now: Instant) -> f64 {
        let time = self.waited + self.waits(now) + ADVANCE;
        (self.taken + PIECE_BYTES as u64) as f64 / time.as_secs_f64()
    }

    /// Returns how long the server has been waiting for it.
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
    /// Registers a client that is sent the contents of the room.
    pub fn enter(self: &Arc<Self>, address: IpAddr, connection: &AbortHandle) -> RoomClient {
        let mut state = self.all.state.lock();
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
        let mut state = self.all.state.lock();
        if let Some(room) = state.rooms.remove(&self.id) {
            state.bytes -= room.bytes;
        }
        drop(state);
        self.all.freed.notify_waiters();
    }
}

impl RoomClient {
    /// Records that the server starts to wait for the client.
    pub fn start_waiting(&self) {
        self.change(|client| client.waits_since = Some(Instant::now()));
    }

    /// Records that the client read this many more octets, and that the server no longer waits for it.
    pub fn record_read(&self, bytes: usize) {
        self.change(|client| {
            let since = client.waits_since.take();
            client.waited += since.map_or(Duration::ZERO, |since| since.elapsed());
            client.taken += bytes as u64;
        });
    }

    fn change(&self, change: impl FnOnce(&mut ClientProgress)) {
        let mut state = self.room.all.state.lock();
        let room = state.rooms.get_mut(&self.room.id);
        if let Some(client) = room.and_then(|room| room.clients.get_mut(&self.id)) {
            change(client);
        }
    }
}

impl Drop for RoomClient {
    fn drop(&mut self) {
        let all = &self.room.all;
        if let Some(room) = all.state.lock().rooms.get_mut(&self.room.id) {
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

    /// A connection that is sent the contents of a room as long as it is allowed, has read this many octets and is
    /// waited for.
    fn connection(room: Arc<Room>, taken: usize) -> JoinHandle<()> {
        let (give_client, client) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let _client: RoomClient = client.await.expect("a client");
            pending::<()>().await;
        });
        let client = room.enter([192, 0, 2, 1].into(), &task.abort_handle());
        client.record_read(taken);
        client.start_waiting();
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
        assert_eq!(all.state.lock().bytes, 90);
        assert!(all.cut_slowest(Duration::ZERO, None));
        assert!(newcomer.await.expect_err("cut").is_cancelled());
        assert_eq!(all.state.lock().bytes, 40);
    }

    #[tokio::test]
    async fn clients_that_share_a_room_with_a_reader_are_not_disconnected() {
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
        // For a connection slot they are: each by itself.
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
        assert_eq!(all.state.lock().bytes, 50);
    }

    #[tokio::test]
    async fn a_reply_that_can_never_have_room_is_refused_and_disconnects_no_client() {
        let all = OutgoingReplies::new(100);
        let reading = connection(room(&all, 100).await, 0);
        assert_eq!(all.hold(101).await.err(), Some(NoRoom::TooLarge));
        assert!(!reading.is_finished());
    }
}
