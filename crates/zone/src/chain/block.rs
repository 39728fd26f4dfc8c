//! Sorted octet strings, stored in blocks that several versions of a list share.

use std::cmp::Ordering;
use std::sync::Arc;

/// Members of a new block; a block with twice as many is split.
const MADE: usize = 512;
/// Neighbouring blocks with at most this many members together are merged.
const MERGED: usize = MADE / 2;

/// Sorted octet strings.
pub(super) struct MemberBlock {
    /// End offset of each member.
    ends: Box<[u32]>,
    octets: Box<[u8]>,
}

impl MemberBlock {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn member(&self, at: usize) -> Option<&[u8]> {
        let end = *self.ends.get(at)? as usize;
        let start = match at {
            0 => 0,
            at => self.ends[at - 1] as usize,
        };
        self.octets.get(start..end)
    }

    fn members(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|at| self.member(at))
    }

    /// Counts the members before the first one for which `is_before` is false.
    fn count_where(&self, is_before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.member(middle).is_some_and(&is_before) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        low
    }
}

/// A block and the first octets of its first member, which decide most comparisons without touching the block.
#[derive(Clone)]
struct ListedBlock {
    head: u64,
    block: Arc<MemberBlock>,
}

/// Returns the first octets as a number that sorts like them.
fn head_of(octets: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = octets.len().min(8);
    head[..len].copy_from_slice(&octets[..len]);
    u64::from_be_bytes(head)
}

/// The position of a member in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemberLocation {
    block: usize,
    at: usize,
}

/// One insertion or removal in a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MemberEdit {
    pub(super) member: Vec<u8>,
    pub(super) is_there: bool,
}

/// Sorted octet strings without duplicates.
#[derive(Clone, Default)]
pub(super) struct MemberList {
    blocks: Vec<ListedBlock>,
    len: usize,
}

impl MemberList {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn member(&self, place: MemberLocation) -> Option<&[u8]> {
        self.blocks.get(place.block)?.block.member(place.at)
    }

    /// Returns the last member for which `is_before` is true. The predicate must hold for a prefix of the list: members
    /// at or before `key`, which may be longer than `key`.
    pub(super) fn last_where(
        &self,
        is_before: impl Fn(&[u8]) -> bool,
        key: &[u8],
    ) -> Option<MemberLocation> {
        let head = head_of(key);
        let block = self
            .blocks
            .partition_point(|listed| match listed.head.cmp(&head) {
                Ordering::Less => true,
                Ordering::Equal => listed.block.member(0).is_some_and(&is_before),
                Ordering::Greater => false,
            });
        let block = block.checked_sub(1)?;
        let at = self.blocks[block].block.count_where(is_before);
        let at = at.checked_sub(1)?;
        Some(MemberLocation { block, at })
    }

    /// Returns the position of the last member.
    pub(super) fn last(&self) -> Option<MemberLocation> {
        let block = self.blocks.len().checked_sub(1)?;
        let at = self.blocks[block].block.len().checked_sub(1)?;
        Some(MemberLocation { block, at })
    }

    /// Returns the member after a position; after the last one, the first.
    pub(super) fn after(&self, place: MemberLocation) -> Option<&[u8]> {
        let own = &self.blocks.get(place.block)?.block;
        own.member(place.at + 1).or_else(|| {
            let next = self.blocks.get(place.block + 1);
            next.or_else(|| self.blocks.first())?.block.member(0)
        })
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the positions in a block, in order.
    pub(super) fn places_of(&self, block: usize) -> impl Iterator<Item = MemberLocation> + use<> {
        let len = self
            .blocks
            .get(block)
            .map_or(0, |listed| listed.block.len());
        (0..len).map(move |at| MemberLocation { block, at })
    }

    pub(super) fn from_sorted(members: impl Iterator<Item = Vec<u8>>) -> Self {
        let mut made = ListBuilder::default();
        members.for_each(|member| made.push(&member));
        made.finish()
    }

    /// Returns the list with members added and removed; the cost is the size of the changed blocks plus the total
    /// number of blocks.
    pub(super) fn edited(&self, mut edits: Vec<MemberEdit>) -> MemberList {
        edits.sort_unstable();
        edits.dedup();
        let mut made = ListBuilder::default();
        let mut rest = &edits[..];
        for (at, listed) in self.blocks.iter().enumerate() {
            let next = self.blocks.get(at + 1);
            let next = next.and_then(|next| next.block.member(0));
            let own = match next {
                None => rest.len(),
                Some(next) => rest.partition_point(|edit| &edit.member[..] < next),
            };
            let (own, others) = rest.split_at(own);
            rest = others;
            if own.is_empty() {
                made.share(listed)
            } else {
                merge(&listed.block, own, &mut made)
            }
        }
        // Only non-empty if the list was empty.
        for edit in rest.iter().filter(|edit| edit.is_there) {
            made.push(&edit.member);
        }
        made.finish()
    }
}

/// Appends the members of a block to a list, applying edits.
fn merge(block: &MemberBlock, edits: &[MemberEdit], made: &mut ListBuilder) {
    let mut edits = edits.iter().peekable();
    for member in block.members() {
        while let Some(edit) = edits.next_if(|edit| &edit.member[..] < member) {
            if edit.is_there {
                made.push(&edit.member);
            }
        }
        let own = edits.next_if(|edit| edit.member == member);
        if own.is_none_or(|edit| edit.is_there) {
            made.push(member);
        }
    }
    for edit in edits.filter(|edit| edit.is_there) {
        made.push(&edit.member);
    }
}

/// A list under construction.
#[derive(Default)]
struct ListBuilder {
    done: MemberList,
    ends: Vec<u32>,
    octets: Vec<u8>,
}

impl ListBuilder {
    fn push(&mut self, member: &[u8]) {
        if self.ends.len() >= 2 * MADE {
            self.close(MADE);
        }
        self.octets.extend_from_slice(member);
        self.ends.push(self.octets.len() as u32);
    }

    /// Takes over a block unchanged, unless both it and the pending block are small.
    fn share(&mut self, listed: &ListedBlock) {
        let together = self.ends.len() + listed.block.len();
        if !self.ends.is_empty() && together <= MERGED {
            listed.block.members().for_each(|member| self.push(member));
            return;
        }
        self.close(self.ends.len());
        self.done.len += listed.block.len();
        self.done.blocks.push(listed.clone());
    }

    /// Turns the first `count` pending members into a block.
    fn close(&mut self, count: usize) {
        let Some(&end) = count.checked_sub(1).and_then(|last| self.ends.get(last)) else {
            return;
        };
        let rest = self.octets.split_off(end as usize);
        let octets = std::mem::replace(&mut self.octets, rest).into_boxed_slice();
        let ends_of_rest = self
            .ends
            .split_off(count)
            .iter()
            .map(|at| at - end)
            .collect();
        let ends = std::mem::replace(&mut self.ends, ends_of_rest).into_boxed_slice();
        let block = MemberBlock { ends, octets };
        self.done.len += block.len();
        self.done.blocks.push(ListedBlock {
            head: head_of(block.member(0).unwrap_or_default()),
            block: Arc::new(block),
        });
    }

    fn finish(mut self) -> MemberList {
        self.close(self.ends.len());
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn member() -> impl Strategy<Value = Vec<u8>> {
        // Few distinct heads, so that comparisons go beyond them, and empty members.
        let tail = proptest::collection::vec(0..4u8, 0..4);
        (0..3u8, tail).prop_map(|(kind, tail)| match kind {
            0 => tail,
            1 => [&[7; 8][..], &tail].concat(),
            _ => [&[7; 9][..], &tail].concat(),
        })
    }

    fn check(list: &MemberList, model: &BTreeSet<Vec<u8>>) {
        let places = (0..list.blocks()).flat_map(|block| list.places_of(block));
        let members: Vec<&[u8]> = places.map(|at| list.member(at).unwrap()).collect();
        assert_eq!(members, model.iter().map(|m| &m[..]).collect::<Vec<_>>());
        assert_eq!(list.len(), model.len());
        assert_eq!(list.last().is_none(), model.is_empty());
        for listed in &list.blocks {
            assert!((1..=2 * MADE).contains(&listed.block.len()));
        }
    }

    proptest! {
        #[test]
        fn a_list_is_what_a_set_is_after_each_change(
            first in proptest::collection::btree_set(member(), 0..200),
            changes in proptest::collection::vec(
                proptest::collection::btree_map(member(), any::<bool>(), 0..40), 0..8),
            keys in proptest::collection::vec(member(), 1..20),
        ) {
            let mut model = first;
            let mut list = MemberList::from_sorted(model.iter().cloned());
            check(&list, &model);
            for change in changes {
                for (member, &is_there) in &change {
                    if is_there { model.insert(member.clone()) } else { model.remove(member) };
                }
                let edits = change.into_iter().map(|(member, is_there)| MemberEdit { member, is_there });
                list = list.edited(edits.collect());
                check(&list, &model);
                for key in &keys {
                    let place = list.last_where(|member| member <= &key[..], key);
                    let found = place.and_then(|place| list.member(place));
                    prop_assert_eq!(found, model.range(..=key.clone()).next_back().map(|m| &m[..]));
                    if let Some(place) = place {
                        let next = model.range::<[u8], _>((std::ops::Bound::Excluded(list.member(place).unwrap()), std::ops::Bound::Unbounded)).next();
                        prop_assert_eq!(list.after(place), next.or(model.first()).map(|m| &m[..]));
                    }
                }
            }
        }
    }

    #[test]
    fn a_change_of_a_large_list_copies_few_blocks_and_small_neighbours_become_one() {
        let member = |n: u32| n.to_be_bytes().to_vec();
        let all: BTreeSet<Vec<u8>> = (0..100_000).map(|n| member(2 * n)).collect();
        let list = MemberList::from_sorted(all.iter().cloned());
        let edit = |n, is_there| MemberEdit {
            member: member(n),
            is_there,
        };
        let changed = list.edited(vec![edit(77_001, true)]);
        let is_shared = |block: &ListedBlock| {
            let mut others = list.blocks.iter();
            others.any(|other| Arc::ptr_eq(&other.block, &block.block))
        };
        let copied = changed.blocks.iter().filter(|block| !is_shared(block));
        assert!(copied.count() <= 2);
        assert_eq!(changed.len(), 100_001);
        // Remove most members, some at a time.
        let (mut list, mut model) = (changed, all);
        model.insert(member(77_001));
        for start in 0..10 {
            let gone = (start..100_000).step_by(10).filter(|n| n % 1000 != 0);
            let edits: Vec<_> = gone.map(|n| edit(2 * n, false)).collect();
            edits.iter().for_each(|edit| {
                model.remove(&edit.member);
            });
            list = list.edited(edits);
            check(&list, &model);
        }
        assert!(list.blocks.len() <= 8, "{}", list.blocks.len());
    }
}
