//! Packed names and records of a zone: a hash table into one run of bytes.
//!
//! A slot holds 32 bits of a name's hash and the location of its node, so the lookup of a nonexistent name rarely
//! touches a node, and that of an existing name touches one slot and one node: two cache misses in a zone of any size.
//! Slots are chosen by the high bits of the hash, so the table can have any size.

use crate::draft::{Draft, Keep};
use crate::node::Node;
use nameward_wire::Name;

/// Nodes are aligned to this many octets, so that a 32-bit location covers 16 GiB.
pub(crate) const ALIGN: usize = 4;

/// Immutable packed contents.
#[derive(Default)]
pub(crate) struct Packed {
    /// `hash << 32 | place`; 0 is empty. Location 0 is never used.
    pub(crate) slots: Box<[u64]>,
    pub(crate) arena: Box<[u8]>,
}

impl Packed {
    /// Creates contents with nothing but an apex without records, at location 1.
    pub(crate) fn with_apex(apex: Name<'_>) -> Self {
        let draft = Draft::default();
        let mut arena = Vec::with_capacity(ALIGN + draft.encoded_len_max(apex));
        arena.resize(ALIGN, 0);
        draft.encode(apex, true, Keep::default(), &mut arena);
        Packed {
            slots: Box::default(),
            arena: arena.into_boxed_slice(),
        }
    }

    /// Finds the node with this name.
    #[inline]
    pub(crate) fn find(&self, hash: u64, name: Name<'_>) -> Option<Node<'_>> {
        self.find_tag(tag(hash), name)
    }

    /// Like [`Packed::find`], given the 32 bits of the hash that slots hold.
    #[inline]
    pub(crate) fn find_tag(&self, tag: u32, name: Name<'_>) -> Option<Node<'_>> {
        self.place_of(tag, name).map(|place| self.node(place))
    }

    /// Returns the location of a name's node.
    #[inline]
    pub(crate) fn place_of(&self, tag: u32, name: Name<'_>) -> Option<u32> {
        self.search(tag, |place| self.node(place).name() == name)
    }

    /// Returns the location of the first node with this tag that is the right one.
    #[inline]
    fn search(&self, tag: u32, is_right: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = first_slot(tag, self.slots.len());
        loop {
            let slot = *self.slots.get(at)?;
            if slot == 0 {
                return None;
            }
            if (slot >> 32) as u32 == tag && is_right(slot as u32) {
                return Some(slot as u32);
            }
            at = next_slot(at, self.slots.len());
        }
    }

    /// Like [`Packed::find`], for the name `*.` prepended to `parent`.
    pub(crate) fn find_wildcard(&self, hash: u64, parent: Name<'_>) -> Option<Node<'_>> {
        let mut wire = [0u8; nameward_wire::name::MAX_NAME];
        let len = 2 + parent.as_wire().len();
        wire[..2].copy_from_slice(b"\x01*");
        wire.get_mut(2..len)?.copy_from_slice(parent.as_wire());
        self.find(hash, Name::from_valid_wire(&wire[..len]))
    }

    /// Returns the node at a location.
    #[inline]
    pub(crate) fn node(&self, place: u32) -> Node<'_> {
        Node::at(&self.arena[place as usize * ALIGN..])
    }

    /// Returns the slot at which the search for a hash starts, for prefetching.
    #[inline]
    pub(crate) fn slot(&self, hash: u64) -> Option<&u64> {
        self.slots.get(first_slot(tag(hash), self.slots.len()))
    }

    /// Returns the location of the node that the search for a hash will most likely find, without reading any node.
    #[inline]
    pub(crate) fn likely_place(&self, hash: u64) -> Option<u32> {
        self.search(tag(hash), |_| true)
    }

    /// Returns the locations of all nodes, in arbitrary order.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> {
        self.slots
            .iter()
            .filter(|&&slot| slot != 0)
            .map(|&slot| slot as u32)
    }

    /// Returns all nodes with the 32 bits of their hashes that slots hold, in arbitrary order.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (u32, Node<'_>)> {
        let used = self.slots.iter().filter(|&&slot| slot != 0);
        used.map(|&slot| ((slot >> 32) as u32, self.node(slot as u32)))
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.slots.len() * 8 + self.arena.len()
    }
}

#[inline]
pub(crate) fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[inline]
pub(crate) fn first_slot(tag: u32, slots: usize) -> usize {
    ((tag as u64 * slots as u64) >> 32) as usize
}

#[inline]
pub(crate) fn next_slot(at: usize, slots: usize) -> usize {
    if at + 1 == slots { 0 } else { at + 1 }
}

/// Returns the table size for this many names: at most three quarters full, so that probe sequences stay short.
pub(crate) fn slots_for(names: usize) -> usize {
    (names * 4 / 3 + 1).max(2)
}

/// Stores a location in the first free slot for its tag.
#[inline]
pub(crate) fn put_slot(slots: &mut [u64], tag: u32, place: u32) {
    let mut at = first_slot(tag, slots.len());
    while slots[at] != 0 {
        at = next_slot(at, slots.len());
    }
    slots[at] = u64::from(tag) << 32 | u64::from(place);
}
