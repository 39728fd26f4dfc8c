//! One worker's part of a ring: a list of byte chunks that hold batches of entries.
//!
//! A batch is `stamp u64, count u16, bytes u32` followed by its entries, each `length u16` and that many bytes. Only
//! the last chunk is written to. The others are frozen and shared with readers by reference count, so a reader holds
//! the block's lock only for the time it takes to copy one chunk of 8 KiB and some pointers, whatever the capacity.
//!
//! Invariant: a part drops its oldest chunk only if the remaining ones still hold `capacity` entries. So the newest
//! `capacity` entries of all parts together are always available, and size = min(capacity, entries since the reset).

use std::collections::VecDeque;
use std::sync::Arc;

/// Chunk size in bytes.
pub(crate) const CHUNK_BYTES: usize = 8192;
/// Maximum size of the entries in one batch, in bytes, so that a batch always fits into a fresh chunk.
pub(crate) const BATCH_BYTES: usize = 4096;
const HEADER: usize = 8 + 2 + 4;

#[derive(Clone, Default)]
pub(crate) struct Chunk {
    bytes: Vec<u8>,
    entries: usize,
}

impl Chunk {
    fn new() -> Self {
        Chunk {
            bytes: Vec::with_capacity(CHUNK_BYTES),
            entries: 0,
        }
    }

    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.bytes.len() + HEADER + bytes <= CHUNK_BYTES
    }

    fn append(&mut self, batch: &RingBatch<'_>) {
        self.bytes.extend_from_slice(&batch.stamp.to_le_bytes());
        self.bytes.extend_from_slice(&batch.count.to_le_bytes());
        let length = batch.entries.len() as u32;
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(batch.entries);
        self.entries += batch.count as usize;
    }

    /// Returns the batches of this chunk, oldest first.
    pub(crate) fn batches(&self) -> impl Iterator<Item = RingBatch<'_>> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (stamp, tail) = rest.split_first_chunk::<8>()?;
            let (count, tail) = tail.split_first_chunk::<2>()?;
            let (length, tail) = tail.split_first_chunk::<4>()?;
            let (entries, tail) = tail.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            rest = tail;
            Some(RingBatch {
                stamp: u64::from_le_bytes(*stamp),
                count: u16::from_le_bytes(*count),
                entries,
            })
        })
    }
}

/// Entries that arrived together, under one stamp.
#[derive(Clone, Copy)]
pub(crate) struct RingBatch<'a> {
    pub(crate) stamp: u64,
    pub(crate) count: u16,
    /// Encoded entries; at most [`BATCH_BYTES`].
    pub(crate) entries: &'a [u8],
}

impl<'a> RingBatch<'a> {
    /// Returns the entries, oldest first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.entries;
        std::iter::from_fn(move || {
            let (length, tail) = rest.split_first_chunk::<2>()?;
            let (entry, tail) = tail.split_at_checked(u16::from_le_bytes(*length) as usize)?;
            rest = tail;
            Some(entry)
        })
    }

    /// Returns this batch reduced to its newest `count` entries.
    pub(crate) fn newest(self, count: usize) -> RingBatch<'a> {
        let older = (self.count as usize).saturating_sub(count);
        let skipped: usize = self.entries().take(older).map(|e| 2 + e.len()).sum();
        RingBatch {
            stamp: self.stamp,
            count: self.count - older as u16,
            entries: &self.entries[skipped..],
        }
    }
}

/// Entries collected until they become a batch.
pub(crate) struct PendingEntries {
    bytes: Box<[u8; BATCH_BYTES]>,
    used: usize,
    count: u16,
}

impl PendingEntries {
    pub(crate) fn new() -> Self {
        PendingEntries {
            bytes: Box::new([0; BATCH_BYTES]),
            used: 0,
            count: 0,
        }
    }

    /// Adds one entry that starts with these octets; returns false if there is no room for it.
    #[inline]
    pub(crate) fn push<const N: usize>(&mut self, first: [u8; N], rest: &[u8]) -> bool {
        let length = 2 + N + rest.len();
        let Some(place) = self.bytes.get_mut(self.used..self.used + length) else {
            return false;
        };
        let (prefix, place) = place.split_at_mut(2);
        prefix.copy_from_slice(&((N + rest.len()) as u16).to_le_bytes());
        let (begin, end) = place.split_at_mut(N);
        begin.copy_from_slice(&first);
        copy_short(end, rest);
        self.used += length;
        self.count += 1;
        true
    }

    /// Returns the collected entries as a batch with a stamp.
    pub(crate) fn batch(&self, stamp: u64) -> RingBatch<'_> {
        RingBatch {
            stamp,
            count: self.count,
            entries: &self.bytes[..self.used],
        }
    }

    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.count = 0;
    }
}

/// Copies a name, which is short: inline steps of eight octets are faster than a memcpy call.
#[inline]
fn copy_short(to: &mut [u8], from: &[u8]) {
    if to.len() != from.len() || from.len() < 8 {
        for (a, b) in to.iter_mut().zip(from) {
            *a = *b;
        }
        return;
    }
    // The last step overlaps the previous one, so no octet is left over.
    let (Some(to_end), Some(from_end)) = (to.last_chunk_mut::<8>(), from.last_chunk::<8>()) else {
        return;
    };
    *to_end = *from_end;
    for (a, b) in to.chunks_exact_mut(8).zip(from.chunks_exact(8)) {
        a.copy_from_slice(b);
    }
}

/// One worker's part of one ring.
pub(crate) struct Part {
    capacity: usize,
    entries: usize,
    chunks: VecDeque<Arc<Chunk>>,
    /// A dropped chunk kept for reuse: no allocation while a full ring rotates.
    spare: Option<Arc<Chunk>>,
}

impl Part {
    pub(crate) fn new(capacity: usize) -> Self {
        Part {
            capacity,
            entries: 0,
            chunks: VecDeque::new(),
            spare: None,
        }
    }

    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Adds a batch, dropping entries that are certainly too old.
    pub(crate) fn push(&mut self, batch: &RingBatch<'_>) {
        if batch.count == 0 {
            return;
        }
        let room = match self.chunks.back() {
            Some(last) => last.has_room(batch.entries.len()),
            None => false,
        };
        if !room {
            self.drop_oldest();
            let fresh = self.fresh_chunk();
            self.chunks.push_back(fresh);
        }
        if let Some(last) = self.chunks.back_mut() {
            // A reader never holds the last chunk (it copies it), so this does not copy.
            Arc::make_mut(last).append(batch);
            self.entries += batch.count as usize;
        }
    }

    fn drop_oldest(&mut self) {
        while let Some(oldest) = self.chunks.front() {
            if self.entries - oldest.entries < self.capacity {
                break;
            }
            self.entries -= oldest.entries;
            self.spare = self.chunks.pop_front();
        }
    }

    fn fresh_chunk(&mut self) -> Arc<Chunk> {
        if let Some(mut spare) = self.spare.take()
            && let Some(chunk) = Arc::get_mut(&mut spare)
        {
            chunk.bytes.clear();
            chunk.entries = 0;
            return spare;
        }
        Arc::new(Chunk::new())
    }

    /// Adds the chunks to `into`, oldest first: the frozen ones shared, the last one copied.
    pub(crate) fn share(&self, into: &mut Vec<Arc<Chunk>>) {
        let Some(last) = self.chunks.back() else {
            return;
        };
        into.extend(self.chunks.iter().take(self.chunks.len() - 1).cloned());
        into.push(Arc::new(last.as_ref().clone()));
    }

    /// Empties the part, giving its chunks away, and sets its capacity.
    pub(crate) fn take(&mut self, capacity: usize) -> VecDeque<Arc<Chunk>> {
        self.capacity = capacity;
        self.entries = 0;
        self.spare = None;
        std::mem::take(&mut self.chunks)
    }
}

/// Returns the newest `limit` entries of several parts, as batches from the oldest to the newest.
pub(crate) fn merge_newest<'a>(
    chunks: impl Iterator<Item = &'a Chunk>,
    limit: usize,
) -> Vec<RingBatch<'a>> {
    let mut batches: Vec<RingBatch<'a>> = chunks.flat_map(Chunk::batches).collect();
    // Stable: batches of one part keep their order when stamps are equal.
    batches.sort_by_key(|batch| batch.stamp);
    let mut left = limit;
    let mut first = batches.len();
    while first > 0 && left > 0 {
        first -= 1;
        let batch = &mut batches[first];
        *batch = batch.newest(left);
        left -= batch.count as usize;
    }
    batches.drain(..first);
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_copies_are_copies_at_every_length() {
        for length in 0..300usize {
            let from: Vec<u8> = (0..length).map(|n| n as u8 ^ 0xa5).collect();
            let mut to = vec![0; length];
            copy_short(&mut to, &from);
            assert_eq!(to, from);
        }
    }

    #[test]
    fn what_does_not_fit_is_not_taken() {
        let mut pending = PendingEntries::new();
        while pending.push([1, 2], &[7; 100]) {}
        let batch = pending.batch(5);
        assert_eq!(batch.count as usize, BATCH_BYTES / 104);
        assert_eq!(batch.entries().count(), BATCH_BYTES / 104);
        assert!(
            batch
                .entries()
                .all(|entry| entry.len() == 102 && entry[..3] == [1, 2, 7])
        );
        assert!(!pending.push([], &[0; BATCH_BYTES]));
        pending.clear();
        assert!(pending.push([], &[0; BATCH_BYTES - 2]));
    }
}
