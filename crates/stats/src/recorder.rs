//! Per-worker recording: plain counts and small buffers, copied to the shared block once per batch.
//!
//! The hot path takes no lock, reads no clock and does not allocate. `flush` takes the block's lock, which only this
//! worker and readers of the page ever take, and a reader holds it only while it copies some kilobytes.

use nameward_base::sync::Mutex;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::counter::{Counter, Latency, Outcome, Protocol, Traffic, Transport};
use crate::ring::{Ring, RingCapacities};
use crate::ring_part::{Part, PendingEntries};
use crate::tally::{RCODE_SLOTS, Tally, latency_slot, size_slot, type_slot};
use crate::{Stamp, Stats};

/// The counters of a worker that others read: written by their owner once per batch, copied by readers.
pub(crate) struct Block {
    pub(crate) tally: Tally,
    pub(crate) parts: [Part; Ring::COUNT],
}

impl Block {
    pub(crate) fn new(capacities: &RingCapacities) -> Self {
        Block {
            tally: Tally::new(),
            parts: Ring::ALL.map(|ring| Part::new(capacities.get(ring))),
        }
    }
}

/// The block of one recorder, and whether its owner is working.
pub(crate) struct SharedBlock {
    pub(crate) block: Mutex<Block>,
    /// Odd from [`Recorder::begin`] to the next flush: replies may have been sent that are not counted yet.
    turn: AtomicU64,
}

/// How long a reader waits for a batch in progress to be counted. A batch takes a fraction of a millisecond; a worker
/// that was preempted in the middle of one is not waited for any longer.
const SETTLE_MAX: Duration = Duration::from_millis(5);

impl SharedBlock {
    pub(crate) fn new(block: Block) -> Self {
        SharedBlock {
            block: Mutex::new(block),
            turn: AtomicU64::new(0),
        }
    }

    /// Waits until the batch in progress is counted, so that a client that has its answer finds it counted.
    pub(crate) fn wait_for_batch(&self) {
        let seen = self.turn.load(Ordering::Acquire);
        if seen.is_multiple_of(2) {
            return;
        }
        let started = Instant::now();
        while self.turn.load(Ordering::Acquire) == seen && started.elapsed() < SETTLE_MAX {
            std::thread::yield_now();
        }
    }
}

/// A parsed query (QR=0) with any opcode.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// How it arrived.
    pub transport: Transport,
    /// The sender.
    pub client: IpAddr,
    /// The name in wire form, case as sent.
    pub qname: &'a [u8],
    /// The queried type.
    pub qtype: u16,
    /// The RD (recursion desired) bit.
    pub rd: bool,
    /// The DO (DNSSEC OK) bit (RFC 3225).
    pub dnssec_ok: bool,
    /// A COOKIE option is present (RFC 7873).
    pub cookie: bool,
}

/// A message that was sent.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// How it was sent.
    pub transport: Transport,
    /// The recipient.
    pub client: IpAddr,
    /// The name in wire form, case as sent; empty if the query was not understood.
    pub qname: &'a [u8],
    /// The queried type.
    pub qtype: u16,
    /// Its length, over TCP without the length prefix.
    pub bytes: usize,
    /// The RCODE in its header.
    pub rcode: u8,
    /// The outcome of the query.
    pub outcome: Outcome,
}

/// The time spent on one batch. All times are for the whole batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// Messages read with it.
    pub received: u32,
    /// Answers sent with it, not counting messages that were dropped or are answered later.
    pub answered: u32,
    /// Reading from the socket; `None` if it was not measured, or was mostly waiting for clients.
    pub receive_ns: Option<u64>,
    /// Making the answers.
    pub answer_ns: u64,
    /// Handing them to the socket; `None` if it was not measured.
    pub send_ns: Option<u64>,
}

/// The recorder of one thread, created by [`Stats::recorder`].
pub struct Recorder {
    stats: Arc<Stats>,
    shared: Arc<SharedBlock>,
    tally: Tally,
    pending: [PendingEntries; Ring::COUNT],
    /// Bit n is set if ring n has pending entries.
    dirty: u16,
    stamp: Stamp,
}

impl Recorder {
    pub(crate) fn new(stats: Arc<Stats>, shared: Arc<SharedBlock>) -> Self {
        let tally = shared.block.lock().tally;
        Recorder {
            stats,
            shared,
            tally,
            pending: Ring::ALL.map(|_| PendingEntries::new()),
            dirty: 0,
            stamp: Stamp(0),
        }
    }

    /// Marks that replies may be sent from now on; the next flush counts them, and readers wait for it.
    #[inline]
    pub fn begin(&mut self) {
        let turn = self.shared.turn.load(Ordering::Relaxed);
        self.shared.turn.store(turn | 1, Ordering::Release);
    }

    /// Counts a query that was received and parsed.
    #[inline(always)]
    pub fn received(&mut self, query: &Received<'_>) {
        let traffic = self.tally.transport(query.transport);
        traffic[Traffic::Queries as usize] += 1;
        traffic[Traffic::DoQueries as usize] += u64::from(query.dnssec_ok);
        traffic[Traffic::CookieQueries as usize] += u64::from(query.cookie);
        self.tally.counters[Counter::RdQueries as usize] += u64::from(query.rd);
        if query.transport.protocol == Protocol::Udp {
            self.enter_question(Ring::Queries, query.qname, query.qtype);
        }
        self.enter_address(Ring::Remotes, query.client);
    }

    /// Counts a packet that could not be parsed.
    pub fn corrupt(&mut self, client: IpAddr) {
        self.add(Counter::CorruptPackets, 1);
        self.enter_address(Ring::RemotesCorrupt, client);
    }

    /// Counts a received response (QR=1) that was dropped.
    pub fn response_dropped(&mut self) {
        self.add(Counter::CorruptPackets, 1);
    }

    /// Counts a message that was sent.
    #[inline]
    pub fn answered(&mut self, answer: &Answered<'_>) {
        let tally = &mut self.tally;
        let traffic = tally.transport(answer.transport);
        traffic[Traffic::Answers as usize] += 1;
        traffic[Traffic::AnswerBytes as usize] += answer.bytes as u64;
        tally.rcodes[usize::from(answer.rcode).min(RCODE_SLOTS - 1)] += 1;
        // A malformed query has no name, and thus no type to count.
        tally.types[type_slot(answer.qtype)] += u64::from(!answer.qname.is_empty());
        tally.sizes[size_slot(answer.bytes as u32)] += 1;
        match answer.rcode {
            0 => tally.counters[Counter::NoerrorPackets as usize] += 1,
            2 => tally.counters[Counter::ServfailPackets as usize] += 1,
            3 => tally.counters[Counter::NxdomainPackets as usize] += 1,
            _ => {}
        }
        match answer.outcome {
            Outcome::Answer | Outcome::Referral | Outcome::Other => {}
            Outcome::NoData => {
                self.enter_question(Ring::NoerrorQueries, answer.qname, answer.qtype);
            }
            Outcome::NxDomain => {
                self.enter_question(Ring::NxdomainQueries, answer.qname, answer.qtype);
            }
            Outcome::BackendFailure => {
                self.enter_question(Ring::ServfailQueries, answer.qname, answer.qtype);
            }
            // Not unauth: the zone is served, but not to this client.
            Outcome::Denied => self.add(Counter::QueryDenied, 1),
            Outcome::Unauth => {
                self.add(Counter::UnauthPackets, 1);
                self.enter_question(Ring::UnauthQueries, answer.qname, answer.qtype);
                self.enter_address(Ring::RemotesUnauth, answer.client);
            }
        }
    }

    /// Counts an answer over the rate limit; `outcome` is one of the `RateLimit` counters.
    pub fn limited(&mut self, outcome: Counter, (network, length): (IpAddr, u8)) {
        self.add(outcome, 1);
        match network {
            IpAddr::V4(v4) => self.enter(Ring::RemotesLimited, v4.octets(), &[length]),
            IpAddr::V6(v6) => self.enter(Ring::RemotesLimited, v6.octets(), &[length]),
        }
    }

    /// Counts a further message of a multi-message answer.
    pub fn answered_more(&mut self, transport: Transport, bytes: usize) {
        let traffic = self.tally.transport(transport);
        traffic[Traffic::Answers as usize] += 1;
        traffic[Traffic::AnswerBytes as usize] += bytes as u64;
    }

    /// Counts a zone lookup in the zone table.
    #[inline]
    pub fn zone_cache(&mut self, hit: bool) {
        self.tally.counters[Counter::ZoneCacheHit as usize] += u64::from(hit);
        self.tally.counters[Counter::ZoneCacheMiss as usize] += u64::from(!hit);
    }

    /// Adds to any counter.
    #[inline]
    pub fn add(&mut self, counter: Counter, by: u64) {
        self.tally.counters[counter as usize] += by;
    }

    /// Adds samples of a latency that is not measured per batch (cache, backend).
    #[inline]
    pub fn add_latency(&mut self, latency: Latency, samples: u64, total_ns: u64) {
        self.tally.samples[latency as usize] += samples;
        self.tally.sample_ns[latency as usize] += total_ns;
    }

    /// Ends a batch: everything since the last flush becomes visible at once.
    pub fn flush(&mut self, now: Stamp, timing: Option<Timing>) {
        if let Some(timing) = timing {
            self.add_timing(&timing);
        }
        // A worker's stamps never go back, whatever clock the caller uses.
        self.stamp = self.stamp.max(now);
        self.publish();
        let turn = self.shared.turn.load(Ordering::Relaxed);
        self.shared
            .turn
            .store((turn | 1).wrapping_add(1), Ordering::Release);
    }

    /// Records an answer that was sent this long after its query arrived, separately from the batch of the query.
    pub fn answered_after(&mut self, waited_ns: u64) {
        self.add_answer_latency(1, waited_ns);
    }

    fn add_answer_latency(&mut self, answers: u64, each_ns: u64) {
        self.tally.latencies[latency_slot(each_ns)] += answers;
        self.add_latency(Latency::Answer, answers, each_ns.saturating_mul(answers));
    }

    fn add_timing(&mut self, timing: &Timing) {
        let (received, answered) = (u64::from(timing.received), u64::from(timing.answered));
        // A query received and answered with its batch waits for the whole batch.
        self.add_answer_latency(answered, timing.answer_ns + timing.send_ns.unwrap_or(0));
        if let Some(receive_ns) = timing.receive_ns {
            self.add_latency(Latency::Receive, received, receive_ns);
        }
        if let Some(send_ns) = timing.send_ns {
            self.add_latency(Latency::Send, answered, send_ns);
        }
    }

    #[inline]
    fn enter_question(&mut self, ring: Ring, qname: &[u8], qtype: u16) {
        self.enter(ring, qtype.to_be_bytes(), qname);
    }

    /// Adds an address; an IPv4-mapped IPv6 address counts as that IPv4 address.
    #[inline(always)]
    fn enter_address(&mut self, ring: Ring, client: IpAddr) {
        match client.to_canonical() {
            IpAddr::V4(v4) => self.enter(ring, v4.octets(), &[]),
            IpAddr::V6(v6) => self.enter(ring, v6.octets(), &[]),
        }
    }

    #[inline]
    fn enter<const N: usize>(&mut self, ring: Ring, first: [u8; N], rest: &[u8]) {
        self.dirty |= 1 << ring as u16;
        if !self.pending[ring as usize].push(first, rest) {
            self.make_room();
            // An entry always fits an empty buffer: a name has at most 255 octets.
            let fits = self.pending[ring as usize].push(first, rest);
            debug_assert!(fits, "an entry of {} octets", N + rest.len());
            self.dirty |= 1 << ring as u16;
        }
    }

    /// Publishes a batch larger than the buffers in pieces, under the stamp of the previous batch.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) {
        self.publish();
    }

    fn publish(&mut self) {
        let mut block = self.shared.block.lock();
        block.tally = self.tally;
        let mut dirty = std::mem::take(&mut self.dirty);
        while dirty != 0 {
            let ring = dirty.trailing_zeros() as usize;
            dirty &= dirty - 1;
            let pending = &mut self.pending[ring];
            block.parts[ring].push(&pending.batch(self.stamp.0));
            pending.clear();
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.flush(self.stamp, None);
        self.stats.retire(Arc::clone(&self.shared));
    }
}
