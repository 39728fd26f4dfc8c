//! The rings: their names, titles and capacities, and the view of a ring for readers.
//!
//! Memory: an IPv4 entry takes 6 bytes and an IPv6 entry 18, a name its wire length plus 4, a message its length plus
//! 2; each batch adds 14. Over all workers, a ring never holds more than twice its capacity for longer than a second
//! (see `Stats::tick`), so the default capacities need about 20 MB if every ring is full of single-packet batches.

use std::sync::Arc;

use crate::messages::{self, SharedMessages};
use crate::rank::{RankedEntry, RankedPosition, RankedRing, Ranking};
use crate::ring_part::Chunk;
use crate::text::{EntryKind, Mnemonic, write_entry};

/// A bounded list of recent entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ring {
    /// Messages logged at the console level or above.
    Logmessages,
    /// Queries whose name exists without the type.
    NoerrorQueries,
    /// Queries whose name does not exist.
    NxdomainQueries,
    /// UDP queries received.
    Queries,
    /// Clients that sent queries.
    Remotes,
    /// Clients that sent malformed packets.
    RemotesCorrupt,
    /// Client prefixes whose answers were rate-limited.
    RemotesLimited,
    /// Clients that queried zones that are not served.
    RemotesUnauth,
    /// Queries that a backend failed to answer.
    ServfailQueries,
    /// Queries for zones that are not served.
    UnauthQueries,
}

struct RingProperties {
    name: &'static str,
    title: &'static str,
    capacity: usize,
    kind: EntryKind,
}

const fn properties(
    name: &'static str,
    title: &'static str,
    capacity: usize,
    kind: EntryKind,
) -> RingProperties {
    RingProperties {
        name,
        title,
        capacity,
        kind,
    }
}

use EntryKind::{Address, Message, Prefix, Question};
static PROPERTIES: [RingProperties; Ring::COUNT] = [
    properties("logmessages", "Log Messages", 1000, Message),
    properties(
        "noerror-queries",
        "Queries for existing records, but for type we don't have",
        1000,
        Question,
    ),
    properties(
        "nxdomain-queries",
        "Queries for nonexistent records within existent zones",
        10,
        Question,
    ),
    properties("queries", "UDP Queries Received", 100, Question),
    properties("remotes", "Remote server IP addresses", 10_000, Address),
    properties(
        "remotes-corrupt",
        "Remote hosts sending corrupt packets",
        1000,
        Address,
    ),
    properties(
        "remotes-limited",
        "Client prefixes limited by response rate limiting",
        1000,
        Prefix,
    ),
    properties(
        "remotes-unauth",
        "Remote hosts querying zones for which we are not auth",
        500_000,
        Address,
    ),
    properties(
        "servfail-queries",
        "Queries that could not be answered due to backend errors",
        100,
        Question,
    ),
    properties(
        "unauth-queries",
        "Queries for zones that we are not authoritative for",
        10,
        Question,
    ),
];

impl Ring {
    /// Number of rings.
    pub const COUNT: usize = 10;
    /// The largest allowed capacity of a ring.
    pub const MAX_CAPACITY: usize = 500_000;
    /// All rings by name.
    pub const ALL: [Ring; Ring::COUNT] = [
        Ring::Logmessages,
        Ring::NoerrorQueries,
        Ring::NxdomainQueries,
        Ring::Queries,
        Ring::Remotes,
        Ring::RemotesCorrupt,
        Ring::RemotesLimited,
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
        Ring::RemotesLimited,
    ];

    /// Returns the name in variables, settings and page URLs.
    pub fn name(self) -> &'static str {
        PROPERTIES[self as usize].name
    }

    /// Returns the title of its table.
    pub fn title(self) -> &'static str {
        PROPERTIES[self as usize].title
    }

    /// Returns the kind of its entries.
    pub fn kind(self) -> EntryKind {
        PROPERTIES[self as usize].kind
    }

    /// Returns the default capacity.
    pub fn default_capacity(self) -> usize {
        PROPERTIES[self as usize].capacity
    }

    /// Returns the ring with this name.
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
    /// Sets one capacity, clamped to 1 and [`Ring::MAX_CAPACITY`].
    pub fn set(&mut self, ring: Ring, capacity: usize) {
        self.0[ring as usize] = capacity.clamp(1, Ring::MAX_CAPACITY);
    }

    /// Returns the capacity of one ring.
    pub fn get(&self, ring: Ring) -> usize {
        self.0[ring as usize]
    }
}

/// One ring as of a snapshot. Nothing is counted or converted to text before it is requested.
#[derive(Clone)]
pub struct RingView {
    ring: Ring,
    capacity: usize,
    /// Number of entries shown from `chunks` and from `requests`.
    shown: (usize, usize),
    chunks: Vec<Arc<Chunk>>,
    /// Web request lines, only in the log message ring.
    requests: Vec<Arc<Chunk>>,
}

impl RingView {
    pub(crate) fn new(ring: Ring, capacity: usize, chunks: Vec<Arc<Chunk>>) -> Self {
        RingView {
            ring,
            capacity,
            shown: (messages::entries(&chunks).min(capacity), 0),
            chunks,
            requests: Vec::new(),
        }
    }

    pub(crate) fn messages(capacity: usize, messages: SharedMessages) -> Self {
        let SharedMessages { others, requests } = messages;
        let entered = (messages::entries(&others), messages::entries(&requests));
        RingView {
            ring: Ring::Logmessages,
            capacity,
            shown: messages::shares(capacity, entered.0, entered.1),
            chunks: others,
            requests,
        }
    }

    /// Returns the maximum number of entries.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the current number of entries.
    pub fn size(&self) -> usize {
        self.shown.0 + self.shown.1
    }

    /// Returns which ring this is.
    pub fn ring(&self) -> Ring {
        self.ring
    }

    /// Returns every entry as text, the oldest first.
    pub fn entries(&self, mnemonic: Mnemonic<'_>) -> Vec<String> {
        let mut batches = messages::newest(&self.chunks, self.shown.0);
        batches.extend(messages::newest(&self.requests, self.shown.1));
        batches.sort_by_key(|batch| batch.stamp);
        let entries = batches.iter().flat_map(|batch| batch.entries());
        entries
            .map(|entry| {
                let mut text = String::new();
                write_entry(self.ring.kind(), entry, mnemonic, &mut text);
                text
            })
            .collect()
    }

    /// Counts equal entries and lists the `limit` most frequent, highest count first.
    pub fn rank(&self, limit: usize, mnemonic: Mnemonic<'_>) -> Ranking {
        self.ranked(limit).into_ranking(mnemonic)
    }

    /// Like [`RingView::rank`], for entries that contain `filter`, ignoring case; all others count as the rest.
    pub fn rank_matching(&self, limit: usize, filter: &str, mnemonic: Mnemonic<'_>) -> Ranking {
        let filter = filter.to_lowercase();
        self.rank_where(limit, mnemonic, |entry| {
            entry.to_lowercase().contains(&filter)
        })
    }

    /// Like [`RingView::rank`], for entries whose text is wanted; all others count as the rest.
    pub fn rank_where(
        &self,
        limit: usize,
        mnemonic: Mnemonic<'_>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Ranking {
        let (ranked, mut place) = (self.ranked(usize::MAX), RankedPosition::default());
        let (mut rows, mut entry, mut listed) = (Vec::new(), String::new(), 0);
        while rows.len() < limit
            && let Some(count) = ranked.next(&mut place, mnemonic, &mut entry)
        {
            if is_wanted(&entry) {
                let entry = entry.clone();
                rows.push(RankedEntry { entry, count });
                listed += count;
            }
            entry.clear();
        }
        let rest = ranked.total() - listed;
        Ranking {
            rows,
            rest: (rest > 0).then_some(rest),
            total: ranked.total(),
        }
    }

    /// Counts equal entries and ranks the `limit` most frequent, for conversion to text piece by piece. Ties: messages
    /// newest first, with web request lines after all others; names and addresses in their own order.
    pub fn ranked(&self, limit: usize) -> RankedRing {
        let batches = messages::newest(&self.chunks, self.shown.0);
        let requests = messages::newest(&self.requests, self.shown.1);
        RankedRing::new(self.ring.kind(), &batches, &requests, limit)
    }
}
