//! Places for transfers to secondaries: so many in all, so many for one client, and those who wait for one.
//!
//! Who finds no place waits its turn; a client that has all its places lets others pass. Those who wait hold a connection
//! and nothing else, and their number is bounded.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::tcp::counted_as;

/// Transfers that may wait for a place.
const WAITING: usize = 1000;

/// The bounds of transfers to secondaries: how many run at one time, and what is kept of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferLimits {
    /// In all.
    pub most: usize,
    /// To one IPv4 address or one IPv6 /64 network.
    pub per_client: usize,
    /// Octets of versions that are kept to make differences of, of zones that have no journal.
    pub sent_octets_max: usize,
}

/// The places.
pub(super) struct TransferSlots {
    limits: TransferLimits,
    state: Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    running: usize,
    /// Transfers that run, by client.
    clients: HashMap<IpAddr, usize>,
    waiting: VecDeque<Arc<SlotWaiter>>,
}

struct SlotWaiter {
    client: IpAddr,
    is_granted: AtomicBool,
    wake: Arc<Notify>,
}

/// The answer to a wish for a place.
pub(super) enum SlotAnswer {
    /// Here it is.
    Granted(TransferSlot),
    /// There will be one.
    Wait(WaitingSlot),
    /// Too many wait already.
    Full,
}

/// The place of a transfer; given back when it is dropped.
pub(super) struct TransferSlot {
    slots: Arc<TransferSlots>,
    client: IpAddr,
}

/// A place that is waited for; given up when it is dropped.
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

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many transfers run and how many wait.
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        (state.running, state.waiting.len())
    }

    /// Takes a place for a client, or one in the queue; `wake` is notified when its turn comes.
    pub(super) fn take(self: &Arc<Self>, client: IpAddr, wake: &Arc<Notify>) -> SlotAnswer {
        let client = counted_as(client);
        let slots = Arc::clone(self);
        let mut state = self.lock();
        if state.take(client, &self.limits) {
            return SlotAnswer::Granted(TransferSlot { slots, client });
        }
        if state.waiting.len() >= WAITING {
            return SlotAnswer::Full;
        }
        let waiter = Arc::new(SlotWaiter {
            client,
            is_granted: AtomicBool::new(false),
            wake: Arc::clone(wake),
        });
        state.waiting.push_back(Arc::clone(&waiter));
        SlotAnswer::Wait(WaitingSlot { slots, waiter })
    }

    fn release(&self, client: IpAddr) {
        let mut state = self.lock();
        state.running -= 1;
        if let Some(count) = state.clients.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                state.clients.remove(&client);
            }
        }
        state.grant_next(&self.limits);
    }
}

impl SlotState {
    fn take(&mut self, client: IpAddr, limits: &TransferLimits) -> bool {
        let of_client = self.clients.get(&client).copied().unwrap_or(0);
        let is_free = self.running < limits.most && of_client < limits.per_client;
        if is_free {
            self.running += 1;
            *self.clients.entry(client).or_insert(0) += 1;
        }
        is_free
    }

    /// Gives a place to the first who waits and may have it.
    fn grant_next(&mut self, limits: &TransferLimits) {
        let may = |waiter: &Arc<SlotWaiter>| {
            self.clients.get(&waiter.client).copied().unwrap_or(0) < limits.per_client
        };
        let Some(next) = self.waiting.iter().position(may) else {
            return;
        };
        if let Some(waiter) = self.waiting.remove(next)
            && self.take(waiter.client, limits)
        {
            waiter.is_granted.store(true, Ordering::Release);
            waiter.wake.notify_one();
        }
    }
}

impl WaitingSlot {
    /// Returns the place, if it is there by now.
    pub(super) fn claim(&self) -> Option<TransferSlot> {
        // Taken out, so that it is given back once.
        let is_granted = self.waiter.is_granted.swap(false, Ordering::AcqRel);
        is_granted.then(|| TransferSlot {
            slots: Arc::clone(&self.slots),
            client: self.waiter.client,
        })
    }
}

impl Drop for WaitingSlot {
    fn drop(&mut self) {
        let mut state = self.slots.lock();
        state
            .waiting
            .retain(|other| !Arc::ptr_eq(other, &self.waiter));
        drop(state);
        drop(self.claim());
    }
}

impl Drop for TransferSlot {
    fn drop(&mut self) {
        self.slots.release(self.client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn slots(most: usize, per_client: usize) -> Arc<TransferSlots> {
        TransferSlots::new(TransferLimits {
            most,
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
    fn those_who_wait_get_their_places_in_turn_and_a_client_with_all_of_its_own_lets_others_pass() {
        let (slots, wake) = (slots(2, 1), Arc::new(Notify::new()));
        let first = granted(slots.take(ip(1), &wake));
        let second = granted(slots.take(ip(2), &wake));
        let same = waiting(slots.take(ip(1), &wake));
        let other = waiting(slots.take(ip(3), &wake));
        assert!(same.claim().is_none() && other.claim().is_none());
        // The client that waits first still has its own place.
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
    fn places_of_those_who_went_away_go_to_others() {
        let (slots, wake) = (slots(1, 1), Arc::new(Notify::new()));
        let first = granted(slots.take(ip(1), &wake));
        let gone = waiting(slots.take(ip(2), &wake));
        let granted_and_gone = waiting(slots.take(ip(3), &wake));
        let last = waiting(slots.take(ip(4), &wake));
        drop(gone);
        drop(first);
        drop(granted_and_gone);
        assert!(last.claim().is_some());
        drop(last);
        assert_eq!(slots.counts(), (0, 0));
    }

    #[test]
    fn those_who_wait_are_bounded() {
        let (slots, wake) = (slots(1, 1), Arc::new(Notify::new()));
        let _first = granted(slots.take(ip(1), &wake));
        let held: Vec<WaitingSlot> = (0..WAITING)
            .map(|_| waiting(slots.take(ip(2), &wake)))
            .collect();
        assert!(matches!(slots.take(ip(3), &wake), SlotAnswer::Full));
        drop(held);
        assert!(matches!(slots.take(ip(3), &wake), SlotAnswer::Wait(_)));
    }
}
