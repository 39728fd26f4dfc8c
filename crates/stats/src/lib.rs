//! Counters, rings and rates, and the log throttle.
//!
//! ```text
//!  worker 1: Recorder --flush, once a batch--> Block 1 (Mutex) --+
//!  worker 2: Recorder ------------------------> Block 2 (Mutex) --+--> snapshot(): sums, merged rings
//!  log(), reset, resize ----------------------> house block -----+
//! ```
//!
//! - Only a worker writes its block, once per batch. Readers copy a block under its lock, which takes microseconds.
//! - Sums are derived when read. A snapshot therefore satisfies every relation on the status page.
//! - Rings are merged by the stamps of their batches when read: the newest `capacity` entries over all workers.
//! - Reset, resize and snapshots are mutually exclusive through the `reader_state` lock, which no worker takes.
//!
//! No tokio, no clock on the hot path, no unsafe.

#![forbid(unsafe_code)]

mod counter;
mod log_throttle;
mod message_notes;
mod messages;
mod proc;
mod rank;
mod rates;
mod recorder;
mod ring;
mod ring_part;
mod snapshot;
mod table;
mod tally;
mod text;

use nameward_base::sync::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

pub use counter::{Counter, Gauge, IpVersion, Latency, Outcome, Protocol, Traffic, Transport};
pub use log_throttle::LogThrottle;
pub use message_notes::{MessageLevel, MessageNote};
pub use proc::HostReadings;
pub use rank::{RankedEntry, RankedPosition, RankedRing, Ranking};
pub use rates::{
    CHART_STEP, CHARTED_RCODES, HISTORY, Rate, Rates, Second, WINDOWS, first_of_chart,
};
pub use recorder::{Answered, Received, Recorder, Timing};
pub use ring::{Ring, RingCapacities, RingView};
pub use snapshot::{Histogram, Snapshot};
pub use table::{FAMILIES, Family, Scope, VARIABLES, Variable, VariableKind, variable};
pub use text::{EntryKind, Mnemonic};

use messages::{MessageKind, Messages};
use recorder::{Block, SharedBlock};
use ring_part::{Chunk, Part, RingBatch, merge_newest};
use tally::Tally;

/// Maximum length of a message in the log message ring; longer ones are truncated.
pub const MAX_MESSAGE_BYTES: usize = 2048;

/// A point in time in nanoseconds on a monotonic clock. It orders batches over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(pub u64);

impl Stamp {
    /// Returns the current time, counted from the first call in this process.
    pub fn now() -> Stamp {
        static START: OnceLock<Instant> = OnceLock::new();
        // One nanosecond is added, so that zero remains "never".
        Stamp(START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1)
    }
}

/// All statistics of the process.
pub struct Stats {
    blocks: Mutex<Blocks>,
    reader_state: Mutex<ReaderState>,
    messages: Mutex<Messages>,
    gauges: [AtomicU64; Gauge::COUNT],
    sources: Mutex<[Option<GaugeSource>; Gauge::COUNT]>,
    started: Instant,
}

type GaugeSource = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Every block ever created; blocks whose recorder was dropped are reused, so their number is bounded by the number of
/// recorders that existed at the same time.
struct Blocks {
    all: Vec<Arc<SharedBlock>>,
    free: Vec<Arc<SharedBlock>>,
}

/// State that is only touched by readers, resets, resizes and the tick.
struct ReaderState {
    capacities: RingCapacities,
    /// Entries compacted out of the workers' parts.
    base: [Vec<Arc<Chunk>>; Ring::COUNT],
    rates: Rates,
    latencies: [Average; Latency::COUNT],
    host: HostReadings,
}

/// A moving average with a weight of 1/1000 per sample, and the plain average of the first thousand.
#[derive(Clone, Copy, Default)]
struct Average {
    samples: u64,
    total_ns: u64,
    average_us: f64,
}

impl Average {
    fn follow(&mut self, samples: u64, total_ns: u64) {
        let new = samples.saturating_sub(self.samples);
        if new == 0 {
            return;
        }
        let mean_us = total_ns.saturating_sub(self.total_ns) as f64 / new as f64 / 1000.0;
        let moving = 1.0 - 0.999f64.powf(new as f64);
        let weight = moving.max(new as f64 / samples as f64);
        self.average_us += (mean_us - self.average_us) * weight;
        self.samples = samples;
        self.total_ns = total_ns;
    }
}

impl Stats {
    /// Creates empty statistics with these ring capacities.
    pub fn new(capacities: RingCapacities) -> Arc<Self> {
        Arc::new(Stats {
            blocks: Mutex::new(Blocks {
                all: Vec::new(),
                free: Vec::new(),
            }),
            messages: Mutex::new(Messages::new(capacities.get(Ring::Logmessages))),
            reader_state: Mutex::new(ReaderState {
                capacities,
                base: Default::default(),
                rates: Rates::default(),
                latencies: Default::default(),
                host: HostReadings::default(),
            }),
            gauges: Default::default(),
            sources: Mutex::new(Default::default()),
            started: Instant::now(),
        })
    }

    /// Creates a recorder for one thread. Its counts are kept after it is dropped.
    pub fn recorder(self: &Arc<Self>) -> Recorder {
        // The house lock prevents a resize between reading the capacities and listing the block.
        let reader_state = self.reader_state.lock();
        let mut blocks = self.blocks.lock();
        let block = blocks.free.pop().unwrap_or_else(|| {
            let block = Arc::new(SharedBlock::new(Block::new(&reader_state.capacities)));
            blocks.all.push(Arc::clone(&block));
            block
        });
        drop(blocks);
        Recorder::new(Arc::clone(self), block)
    }

    pub(crate) fn retire(&self, block: Arc<SharedBlock>) {
        self.blocks.lock().free.push(block);
    }

    /// Adds a message of level info to the log message ring.
    pub fn log(&self, message: &str) {
        self.log_at(MessageLevel::Info, message);
    }

    /// Adds a message to the log message ring.
    pub fn log_at(&self, level: MessageLevel, message: &str) {
        self.enter_message(MessageKind::Other, level, message);
    }

    /// Adds the line of a web request to the log message ring, where it displaces no other message.
    pub fn log_request(&self, line: &str) {
        self.enter_message(MessageKind::Request, MessageLevel::Info, line);
    }

    /// Returns level and time of the last occurrence of a message, given its text as shown in the ring.
    pub fn message_note(&self, text: &str) -> Option<MessageNote> {
        self.messages.lock().note_of(text)
    }

    fn enter_message(&self, kind: MessageKind, level: MessageLevel, message: &str) {
        let text = &message[..message.floor_char_boundary(MAX_MESSAGE_BYTES)];
        let length = (text.len() as u16).to_le_bytes();
        let entries = [&length[..], text.as_bytes()].concat();
        let mut messages = self.messages.lock();
        let batch = RingBatch {
            stamp: Stamp::now().0, // under the lock, so that stamps do not go back
            count: 1,
            entries: &entries,
        };
        messages.push(kind, &batch);
        let note = MessageNote {
            level,
            last: SystemTime::now(),
        };
        messages.note(kind, text, note);
    }

    /// Sets a gauge.
    pub fn set_gauge(&self, gauge: Gauge, value: u64) {
        self.gauges[gauge as usize].store(value, Ordering::Relaxed);
    }

    /// Adds to a gauge.
    pub fn raise_gauge(&self, gauge: Gauge, by: u64) {
        self.gauges[gauge as usize].fetch_add(by, Ordering::Relaxed);
    }

    /// Subtracts from a gauge.
    pub fn lower_gauge(&self, gauge: Gauge, by: u64) {
        self.gauges[gauge as usize].fetch_sub(by, Ordering::Relaxed);
    }

    /// Makes a gauge take its value from this closure when a snapshot is taken.
    pub fn gauge_from(&self, gauge: Gauge, source: impl Fn() -> u64 + Send + Sync + 'static) {
        self.sources.lock()[gauge as usize] = Some(Arc::new(source));
    }

    /// Clears a ring.
    pub fn reset_ring(&self, ring: Ring) {
        let mut reader_state = self.reader_state.lock();
        let capacity = reader_state.capacities.get(ring);
        if ring == Ring::Logmessages {
            *self.messages.lock() = Messages::new(capacity);
        }
        drop(self.take_parts(ring, capacity));
        reader_state.base[ring as usize].clear();
    }

    /// Changes the capacity of a ring, within 1 and [`Ring::MAX_CAPACITY`]; the newest entries are kept.
    pub fn resize_ring(&self, ring: Ring, capacity: usize) {
        let mut reader_state = self.reader_state.lock();
        let kept = reader_state.capacities.get(ring);
        reader_state.capacities.set(ring, capacity);
        let capacity = reader_state.capacities.get(ring);
        if ring == Ring::Logmessages {
            self.messages.lock().resize(capacity);
        } else {
            self.compact(&mut reader_state, ring, kept.min(capacity));
        }
    }

    /// Runs once per second: updates the rates, and compacts rings that several workers have filled beyond twice the
    /// capacity.
    pub fn tick(&self, now: Stamp) {
        let mut reader_state = self.reader_state.lock();
        let totals = self.totals();
        reader_state.rates.tick(now, &totals);
        reader_state.follow_latencies(&totals);
        for ring in Ring::ALL {
            let capacity = reader_state.capacities.get(ring);
            let blocks = self.blocks();
            let in_parts: usize = blocks
                .iter()
                .map(|shared| shared.block.lock().parts[ring as usize].entries())
                .sum();
            // A chunk holds up to a few thousand entries; below that there is nothing to gain.
            if in_parts > 2 * capacity + 4096 * blocks.len() {
                self.compact(&mut reader_state, ring, capacity);
            }
        }
    }

    /// Returns the rates as of the last tick.
    pub fn rates(&self) -> Rates {
        self.reader_state.lock().rates.clone()
    }

    /// Returns one consistent snapshot of everything.
    pub fn snapshot(&self) -> Snapshot {
        // Outside all locks: closures belong to other components, and reading /proc takes time.
        let gauges = self.read_gauges();
        let host = HostReadings::read();
        self.blocks()
            .iter()
            .for_each(|shared| shared.wait_for_batch());
        let mut reader_state = self.reader_state.lock();
        let mut tally = Tally::new();
        let mut chunks = reader_state.base.clone();
        for shared in self.blocks() {
            let block = shared.block.lock();
            tally.add(&block.tally);
            for (part, chunks) in block.parts.iter().zip(&mut chunks) {
                part.share(chunks);
            }
        }
        let mut messages = self.messages.lock().share();
        reader_state.follow_latencies(&tally);
        reader_state.host = host.not_below(&reader_state.host);
        let mut chunks = chunks.into_iter();
        Snapshot {
            tally,
            gauges,
            latencies_us: reader_state.latencies.map(|average| average.average_us),
            rings: Ring::ALL.map(|ring| {
                let chunks = chunks.next().unwrap_or_default();
                let capacity = reader_state.capacities.get(ring);
                match ring {
                    Ring::Logmessages => {
                        RingView::messages(capacity, std::mem::take(&mut messages))
                    }
                    _ => RingView::new(ring, capacity, chunks),
                }
            }),
            rates: reader_state.rates.clone(),
            host: reader_state.host,
            uptime_seconds: self.started.elapsed().as_secs(),
        }
    }

    fn blocks(&self) -> Vec<Arc<SharedBlock>> {
        self.blocks.lock().all.clone()
    }

    fn totals(&self) -> Tally {
        let mut tally = Tally::new();
        for shared in self.blocks() {
            tally.add(&shared.block.lock().tally);
        }
        tally
    }

    fn read_gauges(&self) -> [u64; Gauge::COUNT] {
        let sources = self.sources.lock().clone();
        std::array::from_fn(|gauge| match &sources[gauge] {
            Some(source) => source(),
            None => self.gauges[gauge].load(Ordering::Relaxed),
        })
    }

    /// Removes all entries of a ring from the workers' parts.
    fn take_parts(&self, ring: Ring, capacity: usize) -> Vec<VecDeque<Arc<Chunk>>> {
        self.blocks()
            .iter()
            .map(|shared| shared.block.lock().parts[ring as usize].take(capacity))
            .collect()
    }

    /// Moves the newest `keep` entries of a ring into the base and leaves the workers' parts empty. Workers do not wait
    /// for this: their chunks are taken as a whole and merged here.
    fn compact(&self, reader_state: &mut ReaderState, ring: Ring, keep: usize) {
        let capacity = reader_state.capacities.get(ring);
        let taken = self.take_parts(ring, capacity);
        let base = std::mem::take(&mut reader_state.base[ring as usize]);
        let chunks = base.iter().chain(taken.iter().flatten()).map(Arc::as_ref);
        let mut merged = Part::new(keep);
        for batch in merge_newest(chunks, keep) {
            merged.push(&batch);
        }
        reader_state.base[ring as usize] = merged.take(0).into();
    }
}

impl ReaderState {
    fn follow_latencies(&mut self, totals: &Tally) {
        for (n, average) in self.latencies.iter_mut().enumerate() {
            average.follow(totals.samples[n], totals.sample_ns[n]);
        }
    }
}
