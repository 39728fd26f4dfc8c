//! The memory of all incoming transfers: what is read and not yet committed.
//!
//! A transfer takes memory in steps as its messages arrive, and returns it when the version is committed or dropped.
//! When there is none left it waits, and its primary with it (TCP buffers no more than a window). Small transfers
//! never wait.
//!
//! ```text
//! share     one primary may hold as much as is then still free: half of all if it is the only one, and zones of others
//!           always find room
//! stalemate all transfers that hold memory wait for more: the youngest fails, and is tried again after the retry time
//! ```

use nameward_base::sync::Mutex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::Notify;

/// Octets that every transfer has for free: most zones need no more.
const FREE: u64 = 1 << 20;
/// Step in which memory is taken, in octets.
const STEP: u64 = 1 << 20;

/// The memory of all incoming transfers; clones share it.
#[derive(Clone)]
pub struct TransferMemory {
    pool: Arc<Pool>,
}

struct Pool {
    octets_max: u64,
    state: Mutex<PoolState>,
    changed: Notify,
}

#[derive(Default)]
struct PoolState {
    /// By age.
    shares: BTreeMap<u64, ShareState>,
    next: u64,
    used: u64,
}

struct ShareState {
    primary: IpAddr,
    octets: u64,
    is_waiting: bool,
    /// It must give up, so that others can continue.
    is_refused: bool,
}

/// Why a transfer gets no further memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryRefused {
    /// It needs more than half of what all transfers may have.
    TooLarge,
    /// Others use it, and none of them can continue either.
    UsedUp,
}

enum Growth {
    Granted,
    Waits,
    Refused(MemoryRefused),
}

impl TransferMemory {
    /// Limits the memory of all transfers.
    pub fn new(octets_max: u64) -> Self {
        TransferMemory {
            pool: Arc::new(Pool {
                octets_max,
                state: Mutex::default(),
                changed: Notify::new(),
            }),
        }
    }

    /// Starts a transfer from a primary.
    pub fn share(&self, primary: IpAddr) -> MemoryShare {
        let mut state = self.pool.state.lock();
        let number = state.next;
        state.next += 1;
        let share = ShareState {
            primary: primary.to_canonical(),
            octets: 0,
            is_waiting: false,
            is_refused: false,
        };
        state.shares.insert(number, share);
        MemoryShare {
            pool: Arc::clone(&self.pool),
            number,
            octets: 0,
        }
    }
}

/// The memory of one transfer, returned when this is dropped.
pub struct MemoryShare {
    pool: Arc<Pool>,
    number: u64,
    octets: u64,
}

impl MemoryShare {
    /// Takes memory for this many octets in total, and waits while there is none. Returns whether it waited.
    pub async fn grow_to(&mut self, octets: u64) -> Result<bool, MemoryRefused> {
        let needed = octets.saturating_sub(FREE).next_multiple_of(STEP);
        if needed <= self.octets {
            return Ok(false);
        }
        let pool = Arc::clone(&self.pool);
        let mut has_waited = false;
        loop {
            let changed = pool.changed.notified();
            tokio::pin!(changed);
            // No later change is missed.
            changed.as_mut().enable();
            match self.try_grow(needed) {
                Growth::Granted => return Ok(has_waited),
                Growth::Refused(reason) => return Err(reason),
                Growth::Waits => changed.await,
            }
            has_waited = true;
        }
    }

    fn try_grow(&mut self, needed: u64) -> Growth {
        let max = self.pool.octets_max;
        let more = needed - self.octets;
        let mut guard = self.pool.state.lock();
        let state = &mut *guard;
        let Some(own) = state.shares.get(&self.number) else {
            return Growth::Refused(MemoryRefused::UsedUp);
        };
        if needed > max / 2 {
            return Growth::Refused(MemoryRefused::TooLarge);
        }
        if own.is_refused {
            return Growth::Refused(MemoryRefused::UsedUp);
        }
        let primary = own.primary;
        let of_primary = |share: &&ShareState| share.primary == primary;
        let own = state.shares.values().filter(of_primary);
        let held: u64 = own.map(|share| share.octets).sum();
        let left = max.checked_sub(state.used + more);
        let is_granted = left.is_some_and(|left| held + more <= left);
        if let Some(own) = state.shares.get_mut(&self.number) {
            own.is_waiting = !is_granted;
            if is_granted {
                own.octets = needed;
            }
        }
        if is_granted {
            state.used += more;
            self.octets = needed;
            return Growth::Granted;
        }
        if let Some(youngest) = state.stalemate() {
            if youngest == self.number {
                return Growth::Refused(MemoryRefused::UsedUp);
            }
            if let Some(share) = state.shares.get_mut(&youngest) {
                share.is_refused = true;
            }
            drop(guard);
            self.pool.changed.notify_waiters();
        }
        Growth::Waits
    }

    /// Records how much the finished version takes, whether or not there is room: it already exists.
    pub fn set_final(&mut self, octets: u64) {
        let octets = octets.saturating_sub(FREE).next_multiple_of(STEP);
        let mut state = self.pool.state.lock();
        state.used = (state.used - self.octets).saturating_add(octets);
        self.octets = octets;
        if let Some(own) = state.shares.get_mut(&self.number) {
            own.octets = octets;
        }
        drop(state);
        self.pool.changed.notify_waiters();
    }
}

impl PoolState {
    /// Returns the youngest waiting transfer, if none of those that hold memory can continue.
    fn stalemate(&self) -> Option<u64> {
        let mut holders = self.shares.values().filter(|share| share.octets > 0);
        if !holders.all(|share| share.is_waiting && !share.is_refused) {
            return None;
        }
        let mut waiting = self.shares.iter().rev();
        let youngest = waiting.find(|(_, share)| share.is_waiting)?;
        Some(*youngest.0)
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        state.shares.remove(&self.number);
        state.used -= self.octets;
        drop(state);
        self.pool.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const MIB: u64 = 1 << 20;

    impl TransferMemory {
        fn used(&self) -> u64 {
            self.pool.state.lock().used
        }
    }

    fn primary(octet: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, octet])
    }

    /// Returns the result if the future does not wait.
    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_primary_alone_may_use_half_and_two_leave_room_for_a_third() {
        let memory = TransferMemory::new(100 * MIB);
        let mut greedy = memory.share(primary(1));
        assert_eq!(now(greedy.grow_to(51 * MIB)), Some(Ok(false)));
        assert_eq!(memory.used(), 50 * MIB);
        let refused = Err(MemoryRefused::TooLarge);
        assert_eq!(now(greedy.grow_to(52 * MIB)), Some(refused));
        drop(greedy);
        let shares: Vec<MemoryShare> = (1..=3).map(|n| memory.share(primary(n))).collect();
        let [mut first, mut second, mut third] = shares.try_into().ok().unwrap();
        // Every transfer has its first MiB in any case.
        let fill = |share: &mut MemoryShare| {
            let is_granted = |mib: &u64| now(share.grow_to((mib + 1) * MIB)) == Some(Ok(false));
            (1..).take_while(is_granted).count()
        };
        assert_eq!(fill(&mut first), 50);
        assert_eq!(fill(&mut second), 25);
        assert_eq!(fill(&mut third), 12);
        assert!(now(memory.share(primary(4)).grow_to(MIB)).is_some());
    }

    #[test]
    fn waiting_transfers_continue_when_memory_is_released() {
        let memory = TransferMemory::new(8 * MIB);
        let (mut one, mut two) = (memory.share(primary(1)), memory.share(primary(2)));
        assert!(now(one.grow_to(5 * MIB)).is_some());
        let mut waiting = pin!(two.grow_to(5 * MIB));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(context).is_pending());
        drop(one);
        assert_eq!(waiting.as_mut().poll(context), Poll::Ready(Ok(true)));
    }

    #[test]
    fn when_all_wait_for_each_other_the_youngest_gives_up() {
        let memory = TransferMemory::new(8 * MIB);
        let (mut old, mut young) = (memory.share(primary(1)), memory.share(primary(1)));
        assert!(now(old.grow_to(3 * MIB)).is_some());
        assert!(now(young.grow_to(3 * MIB)).is_some());
        let context = &mut Context::from_waker(Waker::noop());
        {
            let mut younger = pin!(young.grow_to(4 * MIB));
            assert!(younger.as_mut().poll(context).is_pending());
            let mut older = pin!(old.grow_to(5 * MIB));
            assert!(older.as_mut().poll(context).is_pending());
            let refused = Poll::Ready(Err(MemoryRefused::UsedUp));
            assert_eq!(younger.as_mut().poll(context), refused);
        }
        drop(young);
        assert_eq!(now(old.grow_to(5 * MIB)), Some(Ok(false)));
    }

    #[test]
    fn a_finished_version_counts_until_it_is_dropped() {
        let memory = TransferMemory::new(4 * MIB);
        let mut share = memory.share(primary(1));
        share.set_final(7 * MIB);
        assert_eq!(memory.used(), 6 * MIB);
        drop(share);
        assert_eq!(memory.used(), 0);
    }
}
