//! The ranking of a ring: equal entries are counted, the most frequent come first.
//!
//! A ranking is kept as long as a slow client takes to read the page, so it is stored in one block of octets that
//! shares nothing with the ring: `count u32, length u16` and the entry, in ranking order.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::ring_part::RingBatch;
use crate::text::{EntryKind, Mnemonic, write_entry};

/// Octets before each entry.
const ROW_HEAD: usize = 4 + 2;

/// The most frequent entries of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranking {
    /// The listed entries, highest count first.
    pub rows: Vec<RankedEntry>,
    /// The total count of the entries that are not listed; `None` if all are.
    pub rest: Option<u64>,
    /// The total count of all entries: the size of the ring.
    pub total: u64,
}

/// An entry and how often it occurs in its ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedEntry {
    /// The entry as text, not escaped for any markup.
    pub entry: String,
    /// Number of occurrences.
    pub count: u64,
}

/// Entries of a ring in ranking order, not yet converted to text.
pub struct RankedRing {
    kind: EntryKind,
    total: u64,
    /// Number of distinct entries that were left out.
    unlisted: usize,
    rows: Vec<u8>,
}

/// A position in a [`RankedRing`], initially before its first row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankedPosition(usize);

impl RankedRing {
    /// Ranks the entries of these batches, given oldest first, and keeps the `limit` most frequent. `requests` are web
    /// request lines: with equal counts they come after all others.
    pub(crate) fn new(
        kind: EntryKind,
        batches: &[RingBatch<'_>],
        requests: &[RingBatch<'_>],
        limit: usize,
    ) -> Self {
        let entries = || batches.iter().flat_map(RingBatch::entries);
        let requests = || requests.iter().flat_map(RingBatch::entries);
        let mut ranked = RankedRing {
            kind,
            total: (entries().count() + requests().count()) as u64,
            unlisted: 0,
            rows: Vec::new(),
        };
        match kind {
            EntryKind::Address => ranked.rank_addresses(entries(), limit),
            EntryKind::Question | EntryKind::Prefix => {
                ranked.truncate(count_texts(entries()), limit, |a, b| a.0.cmp(b.0));
            }
            EntryKind::Message => {
                let mut rows: Vec<_> = count_texts(entries()).into_iter().map(|r| (r, 0)).collect();
                rows.extend(count_texts(requests()).into_iter().map(|r| (r, 1)));
                let order = |a: &(Text<'_>, u8), b: &(Text<'_>, u8)| {
                    b.0.1
                        .cmp(&a.0.1)
                        .then(a.1.cmp(&b.1))
                        .then(b.0.2.cmp(&a.0.2))
                };
                ranked.unlisted = cut(&mut rows, limit, order);
                ranked.write(rows.iter().map(|row| (row.0.0, row.0.1)));
            }
        }
        ranked
    }

    /// Returns the size of the ring.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the octets of memory it holds.
    pub fn held_bytes(&self) -> usize {
        self.rows.capacity()
    }

    /// Writes the entry at a position as text, advances the position and returns the entry's count; `None` at the end.
    pub fn next(
        &self,
        place: &mut RankedPosition,
        mnemonic: Mnemonic<'_>,
        out: &mut String,
    ) -> Option<u64> {
        let (count, rest) = self.rows.get(place.0..)?.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_le_bytes(*length));
        write_entry(self.kind, rest.get(..length)?, mnemonic, out);
        place.0 += ROW_HEAD + length;
        Some(u64::from(u32::from_le_bytes(*count)))
    }

    /// Converts all rows to text.
    pub(crate) fn into_ranking(self, mnemonic: Mnemonic<'_>) -> Ranking {
        let (mut rows, mut place, mut listed) = (Vec::new(), RankedPosition::default(), 0);
        loop {
            let mut entry = String::new();
            let Some(count) = self.next(&mut place, mnemonic, &mut entry) else {
                break;
            };
            listed += count;
            rows.push(RankedEntry { entry, count });
        }
        Ranking {
            rows,
            rest: (self.unlisted > 0).then(|| self.total - listed),
            total: self.total,
        }
    }

    /// Ranks addresses by sorting them as numbers: for half a million, six times faster than hashing slices.
    fn rank_addresses<'a>(&mut self, entries: impl Iterator<Item = &'a [u8]>, limit: usize) {
        let mut v4: Vec<[u8; 4]> = Vec::new();
        let mut v6: Vec<[u8; 16]> = Vec::new();
        for entry in entries {
            if let Ok(address) = <[u8; 4]>::try_from(entry) {
                v4.push(address);
            } else if let Ok(address) = <[u8; 16]>::try_from(entry) {
                v6.push(address);
            }
        }
        let (v4, v6) = (runs(v4), runs(v6));
        let both = v4.iter().map(|run| (run.0.as_slice(), run.1));
        let both = both.chain(v6.iter().map(|run| (run.0.as_slice(), run.1)));
        let both = both.map(|(address, count)| (address, count, 0)).collect();
        // Equal counts are ordered by address, so that the table is stable between two readings.
        self.truncate(both, limit, |a, b| a.0.cmp(b.0));
    }

    fn truncate(
        &mut self,
        mut rows: Vec<Text<'_>>,
        limit: usize,
        ties: impl Fn(&Text<'_>, &Text<'_>) -> Ordering,
    ) {
        self.unlisted = cut(&mut rows, limit, |a, b| {
            b.1.cmp(&a.1).then_with(|| ties(a, b))
        });
        self.write(rows.iter().map(|row| (row.0, row.1)));
    }

    fn write<'a>(&mut self, rows: impl Iterator<Item = (&'a [u8], u32)> + Clone) {
        let bytes = rows.clone().map(|(entry, _)| ROW_HEAD + entry.len()).sum();
        self.rows.reserve_exact(bytes);
        for (entry, count) in rows {
            self.rows.extend_from_slice(&count.to_le_bytes());
            // Entries have a 16-bit length in their ring too.
            self.rows
                .extend_from_slice(&(entry.len() as u16).to_le_bytes());
            self.rows.extend_from_slice(entry);
        }
    }
}

/// An entry, its count and the position of its newest occurrence.
type Text<'a> = (&'a [u8], u32, u32);

fn count_texts<'a>(entries: impl Iterator<Item = &'a [u8]>) -> Vec<Text<'a>> {
    // Clients choose the names: the keyed hash of the standard library protects against chosen collisions.
    let mut counts: HashMap<&[u8], (u32, u32)> = HashMap::new();
    for (place, entry) in (0..).zip(entries) {
        let count = counts.entry(entry).or_default();
        *count = (count.0 + 1, place);
    }
    let rows = counts.into_iter();
    rows.map(|(entry, (count, newest))| (entry, count, newest))
        .collect()
}

fn runs<T: Ord + Copy>(mut values: Vec<T>) -> Vec<(T, u32)> {
    values.sort_unstable();
    values
        .chunk_by(|a, b| a == b)
        .map(|run| (run[0], run.len() as u32))
        .collect()
}

/// Keeps the first `limit` rows of an order and returns how many were left out.
fn cut<T>(rows: &mut Vec<T>, limit: usize, order: impl Fn(&T, &T) -> Ordering + Copy) -> usize {
    let unlisted = rows.len().saturating_sub(limit);
    if unlisted > 0 {
        if limit > 0 {
            rows.select_nth_unstable_by(limit - 1, order);
        }
        rows.truncate(limit);
    }
    rows.sort_unstable_by(order);
    unlisted
}
