//! Look-ups that are under way, each with the questions that wait for it.
//!
//! Questions that need the same name of the same generation of a zone share one look-up. All waiting questions
//! together are bounded, and so are the look-ups of one zone (a flood of random names must not reach the database).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nameward_wire::NameBuf;
use nameward_zone::Live;

use super::job::Job;

const SHARDS: usize = 16;

/// One look-up.
#[derive(Clone)]
pub(crate) struct Flight {
    pub(crate) live: Arc<Live>,
    /// The generation of the zone when it began.
    pub(crate) generation: u64,
    pub(crate) apex: NameBuf,
    /// In lower case.
    pub(crate) name: NameBuf,
    /// Of the name, with a seed that nobody knows.
    pub(crate) name_hash: u64,
}

#[derive(PartialEq, Eq)]
struct Key {
    hash: u64,
    zone: u64,
    generation: u64,
    name: Box<[u8]>,
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A hash is its own hash.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

impl Flight {
    fn key(&self) -> Key {
        let of_zone = self.live.number().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let of_generation = self.generation.wrapping_mul(0xa076_1d64_78bd_642f);
        Key {
            hash: self.name_hash ^ of_zone ^ of_generation,
            zone: self.live.number(),
            generation: self.generation,
            name: self.name.as_name().as_wire().into(),
        }
    }
}

type Shard = HashMap<Key, Vec<Job>, BuildHasherDefault<AsItIs>>;

/// What became of a question that has to wait.
pub(crate) enum Boarded {
    /// The look-up has to be begun.
    First,
    /// It waits for a look-up that is under way.
    Joined,
    /// Too much waits already.
    Full(Job),
}

pub(crate) struct Flights {
    shards: [Mutex<Shard>; SHARDS],
    waiting: AtomicUsize,
    max_waiting: usize,
    max_per_zone: u32,
}

impl Flights {
    pub(crate) fn new(max_waiting: usize, max_per_zone: u32) -> Self {
        Flights {
            shards: Default::default(),
            waiting: AtomicUsize::new(0),
            max_waiting,
            max_per_zone,
        }
    }

    /// How many questions wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        // The lowest and the highest bits are the table's own.
        let shard = (key.hash >> 32) as usize % SHARDS;
        self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a question wait for a look-up.
    pub(crate) fn board(&self, flight: &Flight, job: Job) -> Boarded {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.max_waiting {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Boarded::Full(job);
        }
        let key = flight.key();
        let mut shard = self.shard(&key);
        if let Some(jobs) = shard.get_mut(&key) {
            jobs.push(job);
            return Boarded::Joined;
        }
        if !flight.live.begin_lookup(self.max_per_zone) {
            drop(shard);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Boarded::Full(job);
        }
        shard.insert(key, vec![job]);
        Boarded::First
    }

    /// A look-up has ended: the questions that waited for it.
    pub(crate) fn land(&self, flight: &Flight) -> Vec<Job> {
        flight.live.end_lookup();
        let key = flight.key();
        let jobs = self.shard(&key).remove(&key).unwrap_or_default();
        self.waiting.fetch_sub(jobs.len(), Ordering::Relaxed);
        jobs
    }

    /// Takes out the questions that have waited for too long. Their look-ups go on.
    pub(crate) fn overdue(&self, now: Instant, patience: Duration) -> Vec<Job> {
        let mut overdue = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for jobs in shard.values_mut() {
                let late = |job: &mut Job| {
                    now.saturating_duration_since(job.request.received()) >= patience
                };
                overdue.extend(jobs.extract_if(.., late));
            }
        }
        self.waiting.fetch_sub(overdue.len(), Ordering::Relaxed);
        overdue
    }
}
