//! Look-ups that are under way, each with the questions that wait for it.
//!
//! Questions that need the same name of the same generation of a zone share one look-up. The questions that wait for
//! one source are bounded, and so are the look-ups of one zone (a flood of random names must not reach the database).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nameward_zone::{Live, LookupRequest, NameKey};

use super::query_cache::Cached;
use super::question::WaitingQuestion;
use super::view::FetchedPart;

const SHARDS: usize = 16;

/// A look-up of one name in a live zone. Two are the same if they are of one name of one generation of a zone.
pub(crate) struct Lookup {
    pub(crate) live: Arc<Live>,
    /// The generation of the zone when it began.
    pub(crate) generation: u64,
    pub(crate) request: LookupRequest,
    /// Of the name, with a seed that nobody knows.
    pub(crate) name_hash: u64,
    /// When the first question asked for it.
    pub(crate) asked: Instant,
}

impl PartialEq for Lookup {
    fn eq(&self, other: &Self) -> bool {
        // Both are in lower case.
        let (name, other_name) = (self.request.name.as_name(), other.request.name.as_name());
        self.live.number() == other.live.number()
            && self.generation == other.generation
            && name.as_wire() == other_name.as_wire()
    }
}

impl Eq for Lookup {}

impl Hash for Lookup {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.combined_hash());
    }
}

/// A hash is its own hash.
#[derive(Default)]
struct LookupHasher(u64);

impl Hasher for LookupHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

impl Lookup {
    /// Returns a hash of the name, the zone and its generation.
    fn combined_hash(&self) -> u64 {
        let of_zone = self.live.number().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let of_generation = self.generation.wrapping_mul(0xa076_1d64_78bd_642f);
        self.name_hash ^ of_zone ^ of_generation
    }
}

/// The questions that wait for one look-up.
struct Waiters {
    questions: Vec<WaitingQuestion>,
    /// The query cache was found to have nothing that may be served in place of what is looked up.
    has_no_stale: bool,
}

type Shard = HashMap<Arc<Lookup>, Waiters, BuildHasherDefault<LookupHasher>>;

/// The outcome for a question that has to wait.
pub(crate) enum Admission {
    /// The look-up has to be begun.
    First,
    /// It waits for a look-up that is under way.
    Joined,
    /// Too much waits already.
    Full(WaitingQuestion),
}

/// The number of questions that wait for one source, with its bound.
pub(crate) struct WaitingCount {
    count: AtomicUsize,
    most: usize,
}

impl WaitingCount {
    pub(crate) fn new(most: usize) -> Self {
        WaitingCount {
            count: AtomicUsize::new(0),
            most,
        }
    }

    pub(crate) fn get(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn try_add(&self) -> bool {
        let is_free = self.count.fetch_add(1, Ordering::Relaxed) < self.most;
        if !is_free {
            self.subtract(1);
        }
        is_free
    }

    pub(crate) fn subtract(&self, questions: usize) {
        self.count.fetch_sub(questions, Ordering::Relaxed);
    }
}

/// The times after which a waiting question is answered otherwise.
pub(crate) struct SweepTerms<'a> {
    pub(crate) now: Instant,
    /// From then on a part that is out of date may be served.
    pub(crate) stale_after: Duration,
    /// From then on the question is given up.
    pub(crate) patience: Duration,
    /// Asks the query cache for the part that is out of date.
    pub(crate) find_stale: &'a dyn Fn(&Live, &NameKey) -> Option<Cached>,
}

/// A question that has waited for so long that it is taken out.
pub(crate) enum Overdue {
    /// It has a part that is out of date now.
    Stale(WaitingQuestion),
    /// There is none.
    TooLate(WaitingQuestion),
}

/// The questions that a sweep took out.
#[derive(Default)]
pub(crate) struct Swept {
    /// Each with the number of its source.
    pub(crate) overdue: Vec<(u32, Overdue)>,
    /// Sources with a question that waits for longer than stale data is held back.
    pub(crate) late: Vec<u32>,
}

pub(crate) struct Lookups {
    shards: [Mutex<Shard>; SHARDS],
    max_per_zone: u32,
}

impl Lookups {
    pub(crate) fn new(max_per_zone: u32) -> Self {
        Lookups {
            shards: Default::default(),
            max_per_zone,
        }
    }

    fn shard(&self, lookup: &Lookup) -> MutexGuard<'_, Shard> {
        // The lowest and the highest bits are the table's own.
        let shard = (lookup.combined_hash() >> 32) as usize % SHARDS;
        self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a question wait for a look-up, among those that `waiting` counts.
    pub(crate) fn join(
        &self,
        lookup: &Arc<Lookup>,
        waiting: &WaitingCount,
        question: WaitingQuestion,
    ) -> Admission {
        if !waiting.try_add() {
            return Admission::Full(question);
        }
        let mut shard = self.shard(lookup);
        if let Some(waiters) = shard.get_mut(lookup) {
            waiters.questions.push(question);
            return Admission::Joined;
        }
        if !lookup.live.begin_lookup(self.max_per_zone) {
            drop(shard);
            waiting.subtract(1);
            return Admission::Full(question);
        }
        let waiters = Waiters {
            questions: vec![question],
            has_no_stale: false,
        };
        shard.insert(Arc::clone(lookup), waiters);
        Admission::First
    }

    /// Ends a look-up and returns the questions that waited for it.
    pub(crate) fn end(&self, lookup: &Lookup, waiting: &WaitingCount) -> Vec<WaitingQuestion> {
        lookup.live.end_lookup();
        let waiters = self.shard(lookup).remove(lookup);
        let questions = waiters.map_or_else(Vec::new, |waiters| waiters.questions);
        waiting.subtract(questions.len());
        questions
    }

    /// Ends a look-up if no question waits for it any more; true if so.
    pub(crate) fn end_if_unwanted(&self, lookup: &Lookup) -> bool {
        let mut shard = self.shard(lookup);
        let is_unwanted = shard
            .get(lookup)
            .is_some_and(|waiters| waiters.questions.is_empty());
        if is_unwanted {
            shard.remove(lookup);
            lookup.live.end_lookup();
        }
        is_unwanted
    }

    /// Takes out the questions that have waited for too long. Look-ups that have begun go on: what they bring serves
    /// the client that asks again.
    pub(crate) fn sweep(&self, terms: &SweepTerms<'_>) -> Swept {
        let mut swept = Swept::default();
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (lookup, waiters) in shard.iter_mut() {
                waiters.sweep(lookup, terms, &mut swept);
            }
        }
        swept
    }
}

impl Waiters {
    fn sweep(&mut self, lookup: &Lookup, terms: &SweepTerms<'_>, swept: &mut Swept) {
        let waited = |question: &WaitingQuestion| {
            let now = terms.now;
            now.saturating_duration_since(question.request.received())
        };
        // Questions mostly come in the order of their times, but those of a chain have waited elsewhere before.
        let longest = self.questions.iter().map(waited).max().unwrap_or_default();
        if longest < terms.stale_after.min(terms.patience) {
            return;
        }
        let (live, backend) = (&lookup.live, lookup.live.backend);
        if longest >= terms.stale_after && !swept.late.contains(&backend) {
            swept.late.push(backend);
        }
        let key = NameKey::new(lookup.request.name.as_name());
        let mut stale = None;
        if longest >= terms.stale_after && !self.has_no_stale {
            match (terms.find_stale)(live, &key) {
                Some(Cached::Fresh(part) | Cached::Old(part)) => stale = Some(part),
                Some(Cached::Busy) => {}
                Some(Cached::Failed(_) | Cached::Nothing) | None => self.has_no_stale = true,
            }
        }
        let after = match stale {
            Some(_) => terms.stale_after,
            None => terms.patience,
        };
        let overdue = self
            .questions
            .extract_if(.., |question| waited(question) >= after);
        swept.overdue.extend(overdue.map(|mut question| {
            let overdue = match &stale {
                Some(part) => {
                    let zone = Arc::clone(&part.zone);
                    let held = FetchedPart::new(live, &key, part.generation, zone);
                    question.parts.push(held);
                    Overdue::Stale(question)
                }
                None => Overdue::TooLate(question),
            };
            (backend, overdue)
        }));
    }
}
