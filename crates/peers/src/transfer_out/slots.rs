//! Slots for transfers to secondaries: limited in total and per client, with a queue.
//!
//! A request that finds no free slot waits. A free slot is assigned to the client with the fewest, and among equals
//! to the one that has waited longest, so a client with many requests does not delay others. No client can fill the
//! queue: it has at most as many entries as it leaves free for others. A waiting request holds a connection and
//! nothing else.
//!
//! A client that has read nothing for some seconds loses its slot to a waiting one; as long as none waits, it keeps
//! the slot until the connection ends.

use nameward_base::sync::Mutex;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use nameward_serve::tcp::client_network;

/// Maximum number of transfers that wait for a slot.
const QUEUE_MAX: usize = 1000;
/// One client may occupy at most this fraction of the queue.
const CLIENT_SHARES: usize = 4;
/// A client that has not read a message for this long can lose its slot. Only links below 20 KiB per second are
/// slower.
const STALL_TIMEOUT: Duration = Duration::from_secs(3);

/// Limits on transfers to secondaries: how many run concurrently, and how much is stored of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferLimits {
    /// In total.
    pub total: usize,
    /// Per IPv4 address or IPv6 /64 network.
    pub per_client: usize,
    /// Maximum number of octets of versions stored to compute differences, for zones without a journal.
    pub sent_octets_max: usize,
}

/// The transfer slots of a server.
pub(super) struct TransferSlots {
    limits: TransferLimits,
    state: Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    running: usize,
    clients: HashMap<IpAddr, ClientSlots>,
    /// In order of arrival.
    waiting: VecDeque<Arc<SlotWaiter>>,
    /// Running transfers that have started.
    in_progress: Vec<Arc<SlotProgress>>,
}

/// Transfers of one client.
#[derive(Default)]
struct ClientSlots {
    running: usize,
    waiting: usize,
}

struct SlotWaiter {
    client: IpAddr,
    is_granted: AtomicBool,
    wake: Arc<Notify>,
}

/// The progress of a transfer.
struct SlotProgress {
    client: IpAddr,
    /// When the client had last read all messages written so far.
    last_read: Mutex<Instant>,
    is_cut: AtomicBool,
    cut: Arc<Notify>,
}

/// The result of a request for a slot.
pub(super) enum SlotAnswer {
    /// A slot is free.
    Granted(TransferSlot),
    /// A slot will be assigned later.
    Wait(WaitingSlot),
    /// The queue is full.
    Full,
}

/// The slot of a transfer; released when dropped.
pub(super) struct TransferSlot {
    slots: Arc<TransferSlots>,
    progress: Arc<SlotProgress>,
}

/// A position in the queue; given up when dropped.
pub(super) struct WaitingSlot {
    slots: Arc<TransferSlots>,
    waiter: Arc<SlotWaiter>,
}

impl TransferSlots {
    pub(super) fn new(limits: TransferLimits) -> Arc<Self> {
        Arc::new(TransferSlots {
            limits,
            state: Mutex::default(),
        })
    }

    /// Returns how many transfers are running and how many wait.
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.running, state.waiting.len())
    }

    /// Takes a slot for a client, or a position in the queue; `wake` is notified when a slot is assigned.
    pub(super) fn take(self: &Arc<Self>, client: IpAddr, wake: &Arc<Notify>) -> SlotAnswer {
        let client = client_network(client);
        let slots = Arc::clone(self);
        let mut state = self.state.lock();
        if state.take(client, &self.limits) {
            let progress = state.begin(client);
            return SlotAnswer::Granted(TransferSlot { slots, progress });
        }
        let free = QUEUE_MAX.saturating_sub(state.waiting.len());
        let client_slots = state.clients.entry(client).or_default();
        if client_slots.waiting >= free.min(QUEUE_MAX / CLIENT_SHARES) {
            state.remove_idle(client);
            return SlotAnswer::Full;
        }
        client_slots.waiting += 1;
        let waiter = Arc::new(SlotWaiter {
            client,
            is_granted: AtomicBool::new(false),
            wake: Arc::clone(wake),
        });
        state.waiting.push_back(Arc::clone(&waiter));
        SlotAnswer::Wait(WaitingSlot { slots, waiter })
    }

    fn release(&self, client: IpAddr) {
        let mut state = self.state.lock();
        state.running -= 1;
        if let Some(client_slots) = state.clients.get_mut(&client) {
            client_slots.running -= 1;
        }
        state.remove_idle(client);
        state.grant_next(&self.limits);
    }

    /// Takes slots away from clients that do not read, as many as others wait for.
    pub(super) fn make_room(&self, now: Instant) {
        self.state.lock().make_room(&self.limits, now);
    }
}

impl SlotState {
    fn running_of(&self, client: IpAddr) -> usize {
        self.clients
            .get(&client)
            .map_or(0, |client_slots| client_slots.running)
    }

    fn take(&mut self, client: IpAddr, limits: &TransferLimits) -> bool {
        let is_free = self.running < limits.total && self.running_of(client) < limits.per_client;
        if is_free {
            self.running += 1;
            self.clients.entry(client).or_default().running += 1;
        }
        is_free
    }

    fn begin(&mut self, client: IpAddr) -> Arc<SlotProgress> {
        let progress = Arc::new(SlotProgress {
            client,
            last_read: Mutex::new(Instant::now()),
            is_cut: AtomicBool::new(false),
            cut: Arc::default(),
        });
        self.in_progress.push(Arc::clone(&progress));
        progress
    }

    fn remove_idle(&mut self, client: IpAddr) {
        let client_slots = self.clients.get(&client);
        if client_slots.is_some_and(|client_slots| client_slots.running + client_slots.waiting == 0)
        {
            self.clients.remove(&client);
        }
    }

    /// Assigns a slot to the client with the fewest.
    fn grant_next(&mut self, limits: &TransferLimits) {
        let may = |waiter: &SlotWaiter| self.running_of(waiter.client) < limits.per_client;
        let numbered = self.waiting.iter().enumerate();
        let next = numbered
            .filter(|(_, waiter)| may(waiter))
            .min_by_key(|(_, waiter)| self.running_of(waiter.client));
        let Some(next) = next.map(|(number, _)| number) else {
            return;
        };
        let client = self.waiting[next].client;
        if self.take(client, limits)
            && let Some(waiter) = self.waiting.remove(next)
        {
            self.stop_waiting(client);
            waiter.is_granted.store(true, Ordering::Release);
            waiter.wake.notify_one();
        }
    }

    fn stop_waiting(&mut self, client: IpAddr) {
        if let Some(client_slots) = self.clients.get_mut(&client) {
            client_slots.waiting -= 1;
        }
        self.remove_idle(client);
    }

    fn make_room(&self, limits: &TransferLimits, now: Instant) {
        let stalled_since = |place: &SlotProgress| {
            let last_read = *place.last_read.lock();
            (now.saturating_duration_since(last_read) >= STALL_TIMEOUT).then_some(last_read)
        };
        let is_cut = |place: &&Arc<SlotProgress>| place.is_cut.load(Ordering::Relaxed);
        let mut leaving: Vec<IpAddr> = self
            .in_progress
            .iter()
            .filter(is_cut)
            .map(|p| p.client)
            .collect();
        let mut stalled: Vec<(Instant, &Arc<SlotProgress>)> = self
            .in_progress
            .iter()
            .filter(|place| !place.is_cut.load(Ordering::Relaxed))
            .filter_map(|place| Some((stalled_since(place)?, place)))
            .collect();
        stalled.sort_by_key(|(since, _)| *since);
        for waiter in &self.waiting {
            let waiting_client = waiter.client;
            let needs_own = self.running_of(waiting_client) >= limits.per_client;
            let fits = |client: IpAddr| !needs_own || client == waiting_client;
            // One client that is about to lose its slot is enough.
            if let Some(at) = leaving.iter().position(|&client| fits(client)) {
                leaving.swap_remove(at);
                continue;
            }
            if let Some(at) = stalled.iter().position(|(_, place)| fits(place.client)) {
                let (_, place) = stalled.remove(at);
                place.is_cut.store(true, Ordering::Relaxed);
                place.cut.notify_one();
            }
        }
    }
}

impl WaitingSlot {
    /// Returns the slot, if it has been assigned.
    pub(super) fn claim(&self) -> Option<TransferSlot> {
        // Swapped, so that it is released only once.
        let is_granted = self.waiter.is_granted.swap(false, Ordering::AcqRel);
        is_granted.then(|| TransferSlot {
            slots: Arc::clone(&self.slots),
            progress: self.slots.state.lock().begin(self.waiter.client),
        })
    }
}

impl Drop for WaitingSlot {
    fn drop(&mut self) {
        let mut state = self.slots.state.lock();
        let is_ours = |other: &Arc<SlotWaiter>| Arc::ptr_eq(other, &self.waiter);
        if let Some(at) = state.waiting.iter().position(is_ours) {
            state.waiting.remove(at);
            state.stop_waiting(self.waiter.client);
        }
        drop(state);
        drop(self.claim());
    }
}

impl TransferSlot {
    /// Records that the client has read all messages so far.
    pub(super) fn record_read(&self) {
        *self.progress.last_read.lock() = Instant::now();
    }

    /// Returns the notification that others need the slot.
    pub(super) fn cut(&self) -> Arc<Notify> {
        Arc::clone(&self.progress.cut)
    }
}

impl Drop for TransferSlot {
    fn drop(&mut self) {
        let mut state = self.slots.state.lock();
        state
            .in_progress
            .retain(|other| !Arc::ptr_eq(other, &self.progress));
        drop(state);
        self.slots.release(self.progress.client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn slots(total: usize, per_client: usize) -> Arc<TransferSlots> {
        TransferSlots::new(TransferLimits {
            total,
            per_client,
            sent_octets_max: 0,
        })
    }

    fn granted(answer: SlotAnswer) -> TransferSlot {
        match answer {
            SlotAnswer::Granted(slot) => slot,
            _ => panic!("no place"),
        }
    }

    fn waiting(answer: SlotAnswer) -> WaitingSlot {
        match answer {
            SlotAnswer::Wait(waiting) => waiting,
            _ => panic!("no wait"),
        }
    }

    #[test]
    fn waiting_clients_get_slots_in_order_unless_they_are_at_their_own_limit() {
        let (slots, wake) = (slots(2, 1), Arc::new(Notify::new()));
        let first = granted(slots.take(ip(1), &wake));
        let second = granted(slots.take(ip(2), &wake));
        let same = waiting(slots.take(ip(1), &wake));
        let other = waiting(slots.take(ip(3), &wake));
        assert!(same.claim().is_none() && other.claim().is_none());
        // The client that waited first still has its own slot.
        drop(second);
        assert!(same.claim().is_none());
        let third = other.claim().expect("a place");
        assert!(other.claim().is_none(), "once");
        drop(first);
        let again = same.claim().expect("a place");
        drop((third, again, same, other));
        assert_eq!(slots.counts(), (0, 0));
    }

    #[test]
    fn slots_of_disconnected_clients_are_assigned_to_others() {
        let (slots, wake) = (slots(1, 1), Arc::new(Notify::new()));
        let first = granted(slots.take(ip(1), &wake));
        let dropped = waiting(slots.take(ip(2), &wake));
        let granted_and_dropped = waiting(slots.take(ip(3), &wake));
        let last = waiting(slots.take(ip(4), &wake));
        drop(dropped);
        drop(first);
        drop(granted_and_dropped);
        assert!(last.claim().is_some());
        drop(last);
        assert_eq!(slots.counts(), (0, 0));
    }

    #[test]
    fn the_queue_is_limited_in_total_and_per_client() {
        let (slots, wake) = (slots(1, 1), Arc::new(Notify::new()));
        let _first = granted(slots.take(ip(1), &wake));
        let held: Vec<WaitingSlot> = (0..QUEUE_MAX / CLIENT_SHARES)
            .map(|_| waiting(slots.take(ip(2), &wake)))
            .collect();
        assert!(matches!(slots.take(ip(2), &wake), SlotAnswer::Full));
        // However many clients do the same, the next one can still queue.
        let mut others = Vec::new();
        for client in 3..=20 {
            while let SlotAnswer::Wait(slot) = slots.take(ip(client), &wake) {
                others.push(slot);
            }
        }
        assert!(slots.counts().1 <= QUEUE_MAX);
        drop((held, others));
        assert!(matches!(slots.take(ip(3), &wake), SlotAnswer::Wait(_)));
        assert_eq!(slots.counts(), (1, 0));
    }

    #[test]
    fn a_free_slot_is_assigned_to_the_client_with_the_fewest() {
        let (slots, wake) = (slots(3, 3), Arc::new(Notify::new()));
        let held: Vec<TransferSlot> = (0..3).map(|_| granted(slots.take(ip(1), &wake))).collect();
        let mut more: Vec<WaitingSlot> =
            (0..50).map(|_| waiting(slots.take(ip(1), &wake))).collect();
        let other = waiting(slots.take(ip(2), &wake));
        let mut held = held.into_iter();
        drop(held.next());
        let _slot = other.claim().expect("before those who came first");
        drop(held.next());
        assert!(more.remove(0).claim().is_some(), "then in their order");
    }

    #[test]
    fn a_client_that_does_not_read_makes_room_for_one_that_waits() {
        let (slots, wake) = (slots(2, 2), Arc::new(Notify::new()));
        let in_progress: Vec<TransferSlot> = (1..=2)
            .map(|client| granted(slots.take(ip(client), &wake)))
            .collect();
        let later = Instant::now() + STALL_TIMEOUT;
        let is_cut = |place: &TransferSlot| place.progress.is_cut.load(Ordering::Relaxed);
        slots.make_room(later);
        assert!(!in_progress.iter().any(is_cut), "no client waits");
        let _waiting = waiting(slots.take(ip(3), &wake));
        slots.make_room(Instant::now());
        assert!(!in_progress.iter().any(is_cut), "both read");
        *in_progress[0].progress.last_read.lock() = later;
        for _ in 0..3 {
            slots.make_room(later);
            let cut: Vec<bool> = in_progress.iter().map(is_cut).collect();
            assert_eq!(cut, [false, true], "one for one, and not the reader");
        }
    }
}
