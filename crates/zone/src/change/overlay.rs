//! The names of a zone that differ from its packed base, in a persistent table.
//!
//! The table is found by the same hash as the base, so a look-up in a changed zone allocates nothing, and versions share
//! all of it but the paths to names that differ. A change of `k` names copies `k` paths of at most a few blocks.

use crate::node::Node;
use crate::order::sort_key;
use crate::packed::tag;
use crate::zone::Zone;
use nameward_wire::Name;
use rpds::HashTrieMapSync;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// A changed name: its node, or if it is gone a node with nothing but the name.
#[derive(Clone)]
pub(crate) struct ChangedName {
    node: Arc<[u8]>,
    is_gone: bool,
}

impl ChangedName {
    fn name(&self) -> Name<'_> {
        Node::at(&self.node).name()
    }

    fn node(&self) -> Option<Node<'_>> {
        (!self.is_gone).then(|| Node::at(&self.node))
    }
}

/// The table hashes by 32 bits that are a hash already. Names that share them stand in one list.
type OverlayTable = HashTrieMapSync<u32, Arc<[ChangedName]>, BuildHasherDefault<IdentityHasher>>;

/// Takes a number for its own hash.
#[derive(Clone, Copy, Default)]
pub(crate) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&byte| self.0 = self.0 << 8 | u64::from(byte));
    }

    fn write_u32(&mut self, hash: u32) {
        self.0 = hash.into();
    }
}

/// Changed names over a packed base.
#[derive(Clone)]
pub(crate) struct Overlay {
    table: OverlayTable,
    names: usize,
}

impl Default for Overlay {
    fn default() -> Self {
        // A block of 32 entries: a change copies one block a level.
        Overlay {
            table: OverlayTable::new_with_hasher_and_degree_and_ptr_kind(
                BuildHasherDefault::default(),
                32,
            ),
            names: 0,
        }
    }
}

impl Overlay {
    /// Finds a changed name: `None` if it has not changed, `Some(None)` if it is gone.
    #[inline]
    pub(crate) fn find(&self, tag: u32, name: Name<'_>) -> Option<Option<Node<'_>>> {
        let names = self.table.get(&tag)?;
        names
            .iter()
            .find(|changed| changed.name() == name)
            .map(ChangedName::node)
    }

    /// Sets the node of a name; `is_gone` if the name does not exist any more.
    pub(crate) fn put(&mut self, hash: u64, node: &[u8], is_gone: bool) {
        let changed = ChangedName {
            node: node.into(),
            is_gone,
        };
        let there = self.table.get(&tag(hash));
        let mut names: Vec<ChangedName> = there.map(|names| names.to_vec()).unwrap_or_default();
        match names
            .iter_mut()
            .find(|other| other.name() == changed.name())
        {
            Some(other) => *other = changed,
            None => {
                names.push(changed);
                self.names += 1;
            }
        }
        self.table.insert_mut(tag(hash), names.into());
    }

    /// How many names there are, with those that are gone.
    pub(crate) fn len(&self) -> usize {
        self.names
    }

    /// Changed names with 32 bits of their hash, in no order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u32, Name<'_>, Option<Node<'_>>)> {
        self.table.iter().flat_map(|(&tag, names)| {
            names
                .iter()
                .map(move |changed| (tag, changed.name(), changed.node()))
        })
    }

    /// Changed names with 32 bits of their hash, and their nodes to keep; none for a name that is gone.
    pub(crate) fn shared_nodes(&self) -> impl Iterator<Item = (u32, Name<'_>, Option<&Arc<[u8]>>)> {
        self.table.iter().flat_map(|(&tag, names)| {
            names.iter().map(move |changed| {
                let node = (!changed.is_gone).then_some(&changed.node);
                (tag, changed.name(), node)
            })
        })
    }

    /// Changed names with their sort keys, in canonical order.
    pub(crate) fn in_order(&self) -> Vec<(Box<[u8]>, Option<Node<'_>>)> {
        let mut key = Vec::new();
        let mut list: Vec<(Box<[u8]>, Option<Node<'_>>)> = self
            .entries()
            .map(|(_, name, node)| {
                sort_key(name, &mut key);
                (Box::from(&key[..]), node)
            })
            .collect();
        list.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        list
    }

    fn heap_bytes(&self) -> usize {
        // An entry of the table, a list of one name and a node with the counts of their references.
        const ENTRY: usize = 120;
        let nodes = self.table.values().flat_map(|names| names.iter());
        nodes.map(|changed| ENTRY + changed.node.len()).sum()
    }
}

/// The changes that a version has over its packed base.
pub(crate) struct Changes {
    pub(crate) base: Arc<Zone>,
    pub(crate) overlay: Overlay,
    /// The apex, if it has changed: nearly always, since its SOA has the serial.
    pub(crate) apex: Option<Arc<[u8]>>,
    /// The version without the records that keys of this server add at the apex, if these are among the changes.
    pub(crate) unsigned: Option<Arc<Zone>>,
}

impl Changes {
    pub(crate) fn heap_bytes(&self) -> usize {
        self.overlay.heap_bytes()
    }
}
