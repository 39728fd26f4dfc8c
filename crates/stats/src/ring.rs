//! The nine rings: their names, titles and capacities, and the ranking that is drawn from one.
//!
//! Memory: an IPv4 entry takes 6 bytes and an IPv6 entry 18, a name its wire length and 4, a message its length and 2;
//! each batch adds 14. A ring holds at most twice its capacity over all workers for longer than a second (see
//! `Stats::tick`), so the default capacities need about 20 MB when every ring is full of single-packet batches.

use std::collections::HashMap;
use std::sync::Arc;

use crate::part::{Chunk, merge_newest};
use crate::text::{Mnemonic, entry_text};

/// A bounded list of recent entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ring {
    /// Messages logged at the console level or above.
    Logmessages,
    /// Questions whose name exists without the type.
    NoerrorQueries,
    /// Questions whose name does not exist.
    NxdomainQueries,
    /// UDP questions received.
    Queries,
    /// Clients that sent questions.
    Remotes,
    /// Clients that sent malformed packets.
    RemotesCorrupt,
    /// Clients that asked for zones that are not served.
    RemotesUnauth,
    /// Questions that a backend failed to answer.
    ServfailQueries,
    /// Questions for zones that are not served.
    UnauthQueries,
}

/// What the entries of a ring are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A message text.
    Message,
    /// An IP address.
    Address,
    /// A query name and type.
    Question,
}

struct RingFacts {
    name: &'static str,
    title: &'static str,
    capacity: usize,
    kind: EntryKind,
}

const fn facts(
    name: &'static str,
    title: &'static str,
    capacity: usize,
    kind: EntryKind,
) -> RingFacts {
    RingFacts {
        name,
        title,
        capacity,
        kind,
    }
}

use EntryKind::{Address, Message, Question};
static FACTS: [RingFacts; Ring::COUNT] = [
    facts("logmessages", "Log Messages", 1000, Message),
    facts(
        "noerror-queries",
        "Queries for existing records, but for type we don't have",
        1000,
        Question,
    ),
    facts(
        "nxdomain-queries",
        "Queries for nonexistent records within existent zones",
        10,
        Question,
    ),
    facts("queries", "UDP Queries Received", 100, Question),
    facts("remotes", "Remote server IP addresses", 10_000, Address),
    facts(
        "remotes-corrupt",
        "Remote hosts sending corrupt packets",
        1000,
        Address,
    ),
    facts(
        "remotes-unauth",
        "Remote hosts querying zones for which we are not auth",
        500_000,
        Address,
    ),
    facts(
        "servfail-queries",
        "Queries that could not be answered due to backend errors",
        100,
        Question,
    ),
    facts(
        "unauth-queries",
        "Queries for zones that we are not authoritative for",
        10,
        Question,
    ),
];

impl Ring {
    /// How many rings there are.
    pub const COUNT: usize = 9;
    /// The largest capacity a ring may have.
    pub const MAX_CAPACITY: usize = 500_000;
    /// All rings by name.
    pub const ALL: [Ring; Ring::COUNT] = [
        Ring::Logmessages,
        Ring::NoerrorQueries,
        Ring::NxdomainQueries,
        Ring::Queries,
        Ring::Remotes,
        Ring::RemotesCorrupt,
        Ring::RemotesUnauth,
        Ring::ServfailQueries,
        Ring::UnauthQueries,
    ];
    /// All rings in the order of their tables on the status page.
    pub const PAGE_ORDER: [Ring; Ring::COUNT] = [
        Ring::Logmessages,
        Ring::Remotes,
        Ring::RemotesCorrupt,
        Ring::RemotesUnauth,
        Ring::NoerrorQueries,
        Ring::NxdomainQueries,
        Ring::Queries,
        Ring::ServfailQueries,
        Ring::UnauthQueries,
    ];

    /// The name in variables, settings and addresses of pages.
    pub fn name(self) -> &'static str {
        FACTS[self as usize].name
    }

    /// The title of its table.
    pub fn title(self) -> &'static str {
        FACTS[self as usize].title
    }

    /// What its entries are.
    pub fn kind(self) -> EntryKind {
        FACTS[self as usize].kind
    }

    /// The capacity it has unless configured otherwise.
    pub fn default_capacity(self) -> usize {
        FACTS[self as usize].capacity
    }

    /// The ring of this name.
    pub fn from_name(name: &str) -> Option<Ring> {
        Ring::ALL.into_iter().find(|ring| ring.name() == name)
    }
}

/// The capacity of every ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingCapacities([usize; Ring::COUNT]);

impl Default for RingCapacities {
    fn default() -> Self {
        RingCapacities(Ring::ALL.map(Ring::default_capacity))
    }
}

impl RingCapacities {
    /// Sets one capacity, kept within 1 and [`Ring::MAX_CAPACITY`].
    pub fn set(&mut self, ring: Ring, capacity: usize) {
        self.0[ring as usize] = capacity.clamp(1, Ring::MAX_CAPACITY);
    }

    /// The capacity of one ring.
    pub fn of(&self, ring: Ring) -> usize {
        self.0[ring as usize]
    }
}

/// One ring as it stood when the snapshot was taken. Nothing is counted or turned into text before it is asked for.
#[derive(Clone)]
pub struct RingView {
    ring: Ring,
    capacity: usize,
    size: usize,
    chunks: Vec<Arc<Chunk>>,
}

impl RingView {
    pub(crate) fn new(ring: Ring, capacity: usize, chunks: Vec<Arc<Chunk>>) -> Self {
        let entered: usize = chunks.iter().map(|chunk| chunk.entries()).sum();
        RingView {
            ring,
            capacity,
            size: entered.min(capacity),
            chunks,
        }
    }

    /// The most entries it may hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The entries it holds.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Which ring it is.
    pub fn ring(&self) -> Ring {
        self.ring
    }

    /// Every entry as text, the oldest first.
    pub fn entries(&self, mnemonic: Mnemonic<'_>) -> Vec<String> {
        let batches = merge_newest(self.chunks.iter().map(Arc::as_ref), self.capacity);
        batches
            .iter()
            .flat_map(|batch| batch.entries())
            .map(|entry| entry_text(self.ring.kind(), entry, mnemonic))
            .collect()
    }

    /// Counts equal entries and lists the `limit` most frequent, highest count first.
    pub fn rank(&self, limit: usize, mnemonic: Mnemonic<'_>) -> Ranking {
        let batches = merge_newest(self.chunks.iter().map(Arc::as_ref), self.capacity);
        let entries = batches.iter().flat_map(|batch| batch.entries());
        let (distinct, top) = match self.ring.kind() {
            EntryKind::Address => count_addresses(entries, self.size, limit),
            EntryKind::Message | EntryKind::Question => count_texts(entries, limit),
        };
        let listed: u64 = top.iter().map(|row| u64::from(row.1)).sum();
        let total = self.size as u64;
        let rows = top.into_iter().map(|(entry, count)| RankedEntry {
            entry: entry_text(self.ring.kind(), &entry, mnemonic),
            count: u64::from(count),
        });
        let rows: Vec<RankedEntry> = rows.collect();
        Ranking {
            total,
            rest: (distinct > rows.len()).then(|| total - listed),
            rows,
        }
    }
}

/// Entries with their counts, and how many distinct ones there are.
type Counted = (usize, Vec<(Vec<u8>, u32)>);

fn count_texts<'a>(entries: impl Iterator<Item = &'a [u8]>, limit: usize) -> Counted {
    // Clients choose the names: the keyed hash of the standard library stands against chosen collisions.
    let mut counts: HashMap<&[u8], u32> = HashMap::new();
    for entry in entries {
        *counts.entry(entry).or_default() += 1;
    }
    let rows: Vec<(&[u8], u32)> = counts.into_iter().collect();
    (rows.len(), owned(top(rows, limit)))
}

/// Half a million addresses are counted six times faster by sorting numbers than by hashing slices.
fn count_addresses<'a>(
    entries: impl Iterator<Item = &'a [u8]>,
    size: usize,
    limit: usize,
) -> Counted {
    let mut v4: Vec<[u8; 4]> = Vec::with_capacity(size);
    let mut v6: Vec<[u8; 16]> = Vec::new();
    for entry in entries {
        if let Ok(address) = <[u8; 4]>::try_from(entry) {
            v4.push(address);
        } else if let Ok(address) = <[u8; 16]>::try_from(entry) {
            v6.push(address);
        }
    }
    let (v4, v6) = (runs(v4), runs(v6));
    let distinct = v4.len() + v6.len();
    let mut both = owned(top(v4, limit));
    both.extend(owned(top(v6, limit)));
    (distinct, top(both, limit))
}

fn runs<T: Ord + Copy>(mut values: Vec<T>) -> Vec<(T, u32)> {
    values.sort_unstable();
    values
        .chunk_by(|a, b| a == b)
        .map(|run| (run[0], run.len() as u32))
        .collect()
}

/// The `limit` rows of the highest count, highest first. Equal counts come by entry, which keeps the page still
/// between two readings.
fn top<T: Ord>(mut rows: Vec<(T, u32)>, limit: usize) -> Vec<(T, u32)> {
    let order = |a: &(T, u32), b: &(T, u32)| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0));
    if rows.len() > limit {
        if limit > 0 {
            rows.select_nth_unstable_by(limit - 1, order);
        }
        rows.truncate(limit);
    }
    rows.sort_unstable_by(order);
    rows
}

fn owned<T: AsRef<[u8]>>(rows: Vec<(T, u32)>) -> Vec<(Vec<u8>, u32)> {
    rows.into_iter()
        .map(|(entry, count)| (entry.as_ref().to_vec(), count))
        .collect()
}

/// The most frequent entries of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranking {
    /// The listed entries, highest count first.
    pub rows: Vec<RankedEntry>,
    /// The summed count of the entries that are not listed; `None` when all are.
    pub rest: Option<u64>,
    /// The sum of all entries: the size of the ring.
    pub total: u64,
}

/// An entry and how often it stands in its ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedEntry {
    /// The entry as text, not escaped for any markup.
    pub entry: String,
    /// How often.
    pub count: u64,
}
