//! The names of a zone that differ from its packed base, in a persistent table.
//!
//! The table uses the same hash as the base, so a lookup in a changed zone does not allocate, and versions share
//! everything except the paths to names that differ. A change of `k` names copies `k` paths of a few blocks each.

use crate::node::Node;
use crate::packed::tag;
use crate::sort_key::sort_key;
use nameward_wire::Name;
use rpds::HashTrieMapSync;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// A changed name: its node, or for a deleted name a node without records.
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

/// Keyed by 32 bits of the name hash. Names that share them are in one list.
type OverlayTable = HashTrieMapSync<u32, Arc<[ChangedName]>, BuildHasherDefault<IdentityHasher>>;

/// Uses a number as its own hash.
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
        // Blocks of 32 entries: a change copies one block per level.
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
    /// Finds a changed name: `None` if it has not changed, `Some(None)` if it was deleted.
    #[inline]
    pub(crate) fn find(&self, tag: u32, name: Name<'_>) -> Option<Option<Node<'_>>> {
        let names = self.table.get(&tag)?;
        names
            .iter()
            .find(|changed| changed.name() == name)
            .map(ChangedName::node)
    }

    /// Sets the node of a name; `is_gone` marks a deleted name.
    pub(crate) fn put(&mut self, hash: u64, node: &[u8], is_gone: bool) {
        let changed = ChangedName {
            node: node.into(),
            is_gone,
        };
        let existing = self.table.get(&tag(hash));
        let mut names: Vec<ChangedName> = existing.map(|names| names.to_vec()).unwrap_or_default();
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

    /// Returns the number of changed names, including deleted ones.
    pub(crate) fn len(&self) -> usize {
        self.names
    }

    /// Returns changed names with 32 bits of their hash, in arbitrary order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u32, Name<'_>, Option<Node<'_>>)> {
        self.table.iter().flat_map(|(&tag, names)| {
            names
                .iter()
                .map(move |changed| (tag, changed.name(), changed.node()))
        })
    }

    /// Returns changed names with 32 bits of their hash and their shared nodes; `None` for a deleted name.
    pub(crate) fn shared_nodes(&self) -> impl Iterator<Item = (u32, Name<'_>, Option<&Arc<[u8]>>)> {
        self.table.iter().flat_map(|(&tag, names)| {
            names.iter().map(move |changed| {
                let node = (!changed.is_gone).then_some(&changed.node);
                (tag, changed.name(), node)
            })
        })
    }

    /// Returns changed names with their sort keys, in canonical order.
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

    pub(crate) fn heap_bytes(&self) -> usize {
        // A table entry, a list of one name and a node, with their reference counts.
        const ENTRY: usize = 120;
        let nodes = self.table.values().flat_map(|names| names.iter());
        nodes.map(|changed| ENTRY + changed.node.len()).sum()
    }
}
