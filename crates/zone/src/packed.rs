//! Names and records of a zone, packed: a table of hashes into one run of bytes.
//!
//! A slot holds 32 bits of a name's hash and the place of its node, so a lookup of a name that does not
//! exist seldom touches a node, and one that exists touches one slot and one node: two cache misses in a
//! zone of any size. Slots are chosen by the high bits of the hash, which leaves the table's size free.

use crate::node::Node;
use nameward_wire::Name;

/// Nodes start at multiples of this, so that a 32-bit place reaches 16 GiB.
pub(crate) const ALIGN: usize = 4;

/// Immutable packed contents.
#[derive(Default)]
pub(crate) struct Packed {
    /// `hash << 32 | place`; 0 is empty. Place 0 is never used.
    pub(crate) slots: Box<[u64]>,
    pub(crate) arena: Box<[u8]>,
}

impl Packed {
    /// The node with this name, if there is one.
    #[inline]
    pub(crate) fn find(&self, hash: u64, name: Name<'_>) -> Option<Node<'_>> {
        self.find_tag(tag(hash), name)
    }

    /// As [`Packed::find`], by the part of the hash that slots hold.
    #[inline]
    pub(crate) fn find_tag(&self, tag: u32, name: Name<'_>) -> Option<Node<'_>> {
        self.place_of(tag, name).map(|place| self.node(place))
    }

    /// Where the node of a name stands.
    #[inline]
    pub(crate) fn place_of(&self, tag: u32, name: Name<'_>) -> Option<u32> {
        let mut at = first_slot(tag, self.slots.len());
        loop {
            let slot = *self.slots.get(at)?;
            if slot == 0 {
                return None;
            }
            if (slot >> 32) as u32 == tag && self.node(slot as u32).name() == name {
                return Some(slot as u32);
            }
            at = if at + 1 == self.slots.len() {
                0
            } else {
                at + 1
            };
        }
    }

    /// As [`Packed::find`] for the name `*.` before `parent`.
    pub(crate) fn find_wildcard(&self, hash: u64, parent: Name<'_>) -> Option<Node<'_>> {
        let mut wire = [0u8; nameward_wire::name::MAX_NAME];
        let len = 2 + parent.as_wire().len();
        wire[..2].copy_from_slice(b"\x01*");
        wire.get_mut(2..len)?.copy_from_slice(parent.as_wire());
        self.find(hash, Name::from_valid_wire(&wire[..len]))
    }

    /// The node at a place.
    #[inline]
    pub(crate) fn node(&self, place: u32) -> Node<'_> {
        Node::at(&self.arena[place as usize * ALIGN..])
    }

    /// Where the search for a hash starts, for prefetching.
    #[inline]
    pub(crate) fn slot(&self, hash: u64) -> Option<&u64> {
        self.slots.get(first_slot(tag(hash), self.slots.len()))
    }

    /// The places of all nodes, in no order.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> {
        self.slots
            .iter()
            .filter(|&&slot| slot != 0)
            .map(|&slot| slot as u32)
    }

    /// All nodes with the part of their names' hashes that slots hold, in no order.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (u32, Node<'_>)> {
        let used = self.slots.iter().filter(|&&slot| slot != 0);
        used.map(|&slot| ((slot >> 32) as u32, self.node(slot as u32)))
    }

    /// Bytes on the heap.
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

/// Slots of a table for so many names: at most three quarters full, so that runs of slots stay short.
pub(crate) fn slots_for(names: usize) -> usize {
    (names * 4 / 3 + 1).max(2)
}

/// Puts a place into the first free slot for its tag.
#[inline]
pub(crate) fn put_slot(slots: &mut [u64], tag: u32, place: u32) {
    let mut at = first_slot(tag, slots.len());
    while slots[at] != 0 {
        at = if at + 1 == slots.len() { 0 } else { at + 1 };
    }
    slots[at] = u64::from(tag) << 32 | u64::from(place);
}
