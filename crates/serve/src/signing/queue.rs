//! Queries that wait for signatures: bounded in total and per zone, zones take turns, equal queries wait together.

use nameward_base::sync::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nameward_answer::{Making, Medium};

use crate::live::WaitingQuery;

/// One zone may fill the queue up to one of this many shares.
const PARTS: usize = 4;

/// A query's position in the queue. Hashes with a random seed; two queries with the same hash are merely taken out
/// together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SigningLocation {
    pub(crate) zone: u64,
    pub(crate) question: u64,
}

/// Queries that wait for signatures of one zone.
#[derive(Default)]
struct ZoneQueue {
    /// Query hashes in order of arrival.
    order: VecDeque<u64>,
    jobs: HashMap<u64, Vec<WaitingQuery>>,
    count: usize,
}

#[derive(Default)]
struct WaitingZones {
    zones: HashMap<u64, ZoneQueue>,
    /// Zones with queries, each once.
    turns: VecDeque<u64>,
    /// Threads that wait for queries.
    idle: usize,
    is_closed: bool,
}

/// All queries that wait for signatures.
pub(crate) struct SigningQueue {
    waiting: Mutex<WaitingZones>,
    more: Condvar,
    count: AtomicUsize,
    /// Signing threads are running.
    is_open: AtomicBool,
    most: usize,
}

impl SigningQueue {
    pub(crate) fn new(most: usize) -> Self {
        SigningQueue {
            waiting: Mutex::default(),
            more: Condvar::new(),
            count: AtomicUsize::new(0),
            is_open: AtomicBool::new(false),
            most,
        }
    }

    /// Returns how many queries wait.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// Lets the threads end.
    pub(crate) fn close(&self) {
        self.is_open.store(false, Ordering::Relaxed);
        self.waiting.lock().is_closed = true;
        self.more.notify_all();
    }

    /// Returns whether workers make signatures themselves: only if there are no signing threads.
    #[inline]
    pub(crate) fn making_in_workers(&self) -> Making {
        if self.is_open.load(Ordering::Relaxed) {
            Making::Never
        } else {
            Making::NOW
        }
    }

    /// Queues a query; returns it if the queue is full. Datagrams, whose source may be spoofed, leave half of a
    /// zone's share to streams.
    pub(crate) fn push(
        &self,
        location: SigningLocation,
        job: WaitingQuery,
    ) -> Result<(), WaitingQuery> {
        let mut waiting = self.waiting.lock();
        let free = self.most.saturating_sub(self.len());
        if waiting.is_closed || free == 0 {
            return Err(job);
        }
        // No zone gets more than what is free, so however many are flooded, the next one finds room: with four of
        // them that is a fifth of the queue.
        let of_zone = free.min((self.most / PARTS).max(1));
        let room = match job.request.medium() {
            Medium::Datagram => of_zone.div_ceil(2),
            Medium::Stream => of_zone,
        };
        let WaitingZones { zones, turns, .. } = &mut *waiting;
        let zone = zones.entry(location.zone).or_default();
        if zone.count >= room {
            return Err(job);
        }
        if zone.count == 0 {
            turns.push_back(location.zone);
        }
        zone.count += 1;
        let same = zone.jobs.entry(location.question).or_default();
        if same.is_empty() {
            zone.order.push_back(location.question);
        }
        same.push(job);
        self.count.fetch_add(1, Ordering::Relaxed);
        // Waking is a system call; busy threads return for more.
        let wakes = waiting.idle > 0;
        drop(waiting);
        if wakes {
            self.more.notify_one();
        }
        Ok(())
    }

    /// Waits for queries and takes up to `most` different ones, each with all that are equal to it; fewer if other
    /// threads are idle. False when the queue is closed.
    pub(super) fn pop(&self, into: &mut Vec<WaitingQuery>, most: usize) -> bool {
        let mut waiting = self.waiting.lock();
        while !waiting.is_closed && waiting.turns.is_empty() {
            waiting.idle += 1;
            waiting = self.more.wait(waiting);
            waiting.idle -= 1;
        }
        if waiting.is_closed {
            return false;
        }
        let share = self.len().div_ceil(waiting.idle + 1).min(most);
        let before = into.len();
        for _ in 0..share {
            if !waiting.take_next(into) {
                break;
            }
        }
        self.count.fetch_sub(into.len() - before, Ordering::Relaxed);
        true
    }
}

impl WaitingZones {
    /// Takes the next query of the zone whose turn it is, with all that are equal to it; false if none waits.
    fn take_next(&mut self, into: &mut Vec<WaitingQuery>) -> bool {
        let Some(name) = self.turns.pop_front() else {
            return false;
        };
        let Some(zone) = self.zones.get_mut(&name) else {
            return false;
        };
        if let Some(jobs) = zone.order.pop_front().and_then(|of| zone.jobs.remove(&of)) {
            zone.count -= jobs.len();
            into.extend(jobs);
        }
        match zone.count {
            0 => drop(self.zones.remove(&name)),
            _ => self.turns.push_back(name),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{LateRequest, ReplyTo};
    use crate::request::{Request, ViewId};
    use crate::tcp::Ticket;
    use nameward_stats::{Protocol, Transport};
    use nameward_wire::message::Query;
    use std::net::SocketAddr;
    use std::time::Instant;

    /// Builds a query over TCP with this ID.
    fn job(number: u8) -> WaitingQuery {
        let packet = [0, number, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1];
        let peer: SocketAddr = "192.0.2.1:53".parse().unwrap();
        let request = Request {
            query: &Query::parse(&packet).unwrap(),
            peer,
            local: None,
            transport: Transport::to(Protocol::Tcp, peer.ip()),
            tsig: None,
            tls: None,
            view: ViewId::DEFAULT,
        };
        let reply_to = ReplyTo::Stream(Ticket::disconnected());
        WaitingQuery {
            request: Box::new(LateRequest::new(&request, reply_to, Instant::now())),
            parts: Vec::new(),
            slot: None,
        }
    }

    fn location(zone: u64, question: u64) -> SigningLocation {
        SigningLocation { zone, question }
    }

    fn take(queue: &SigningQueue) -> Vec<u8> {
        let mut jobs = Vec::new();
        assert!(queue.pop(&mut jobs, 1));
        jobs.iter()
            .map(|job| job.request.query().packet()[1])
            .collect()
    }

    #[test]
    fn zones_take_turns_and_equal_questions_go_together() {
        let queue = SigningQueue::new(100);
        for (zone, question, number) in [(1, 1, 1), (1, 2, 2), (1, 1, 3), (1, 3, 4), (2, 1, 5)] {
            assert!(queue.push(location(zone, question), job(number)).is_ok());
        }
        assert_eq!(queue.len(), 5);
        let order: Vec<Vec<u8>> = (0..4).map(|_| take(&queue)).collect();
        assert_eq!(order, [vec![1, 3], vec![5], vec![2], vec![4]]);
        assert_eq!(queue.len(), 0);
        assert!(queue.waiting.lock().zones.is_empty() && queue.waiting.lock().turns.is_empty());
        assert!(queue.push(location(1, 1), job(6)).is_ok());
        assert_eq!(take(&queue), [6]);
    }

    #[test]
    fn one_zone_cannot_fill_the_queue_and_all_together_no_more_than_it() {
        let queue = SigningQueue::new(40);
        let pushed = |zone| {
            let taken = (0..50).filter(|n| queue.push(location(zone, *n), job(0)).is_ok());
            taken.count()
        };
        let counts: Vec<usize> = (0..8).map(pushed).collect();
        assert_eq!(counts, [10, 10, 10, 5, 3, 1, 1, 0]);
        assert_eq!(queue.len(), 40);
        // Equal queries count too: each uses memory.
        let queue = SigningQueue::new(40);
        let same = (0..50).filter(|_| queue.push(location(1, 1), job(0)).is_ok());
        assert_eq!(same.count(), 10);
    }

    #[test]
    fn four_flooded_zones_leave_room_for_a_fifth() {
        let queue = SigningQueue::new(100);
        // The floods query whenever there is room, and answers take queries out.
        for n in 0..1000 {
            for zone in 0..4 {
                let _ = queue.push(location(zone, n), job(0));
            }
            if n % 4 == 0 {
                take(&queue);
            }
        }
        assert!(queue.len() <= 90, "{} wait", queue.len());
        let fifth = (0..20).filter(|n| queue.push(location(4, *n), job(5)).is_ok());
        assert!(fifth.count() >= 5);
        // Its turn comes after at most one query of each other zone.
        let turns: Vec<Vec<u8>> = (0..5).map(|_| take(&queue)).collect();
        assert!(turns.contains(&vec![5]));
    }

    #[test]
    fn a_thread_takes_a_batch_and_leaves_a_share_to_idle_threads() {
        let queue = SigningQueue::new(100);
        for number in 0..8 {
            assert!(queue.push(location(1, number), job(0)).is_ok());
        }
        let pop = |most| {
            let mut jobs = Vec::new();
            assert!(queue.pop(&mut jobs, most));
            jobs.len()
        };
        queue.waiting.lock().idle = 1;
        assert_eq!((pop(16), queue.len()), (4, 4));
        queue.waiting.lock().idle = 0;
        assert_eq!((pop(3), queue.len()), (3, 1));
        assert_eq!((pop(16), queue.len()), (1, 0));
    }

    #[test]
    fn a_closed_queue_takes_nothing_and_lets_threads_end() {
        let queue = SigningQueue::new(40);
        assert_eq!(queue.making_in_workers(), Making::NOW);
        queue.open();
        assert_eq!(queue.making_in_workers(), Making::Never);
        queue.close();
        assert_eq!(queue.making_in_workers(), Making::NOW);
        assert!(queue.push(location(1, 1), job(0)).is_err());
        assert!(!queue.pop(&mut Vec::new(), 1));
    }
}
