//! Canonical order of a zone's names (RFC 4034 section 6.1), for transfers, NSEC and differences.
//!
//! The order is an index next to the hash table, built on first use: answering queries does not need it.

use crate::key::NameKey;
use crate::node::Node;
use crate::packed::tag;
use crate::sort_key::sort_key;
use crate::zone::Zone;
use nameward_wire::Name;
use std::cmp::Ordering;
use std::iter::Peekable;

impl Zone {
    /// Returns the locations of the packed names in canonical order.
    fn packed_order(&self) -> &[u32] {
        if let Some(changes) = self.changes() {
            return changes.base.packed_order();
        }
        self.indexes().order.get_or_init(|| {
            let mut key = Vec::new();
            let packed = self.packed();
            // Most comparisons are decided by the first octets after the apex.
            sort_key(self.apex_name(), &mut key);
            let skip = key.len();
            let mut keyed: Vec<(u64, u32)> = packed
                .places()
                .map(|place| {
                    sort_key(packed.node(place).name(), &mut key);
                    let mut head = [0; 8];
                    let tail = &key[skip..];
                    let len = tail.len().min(8);
                    head[..len].copy_from_slice(&tail[..len]);
                    (u64::from_be_bytes(head), place)
                })
                .collect();
            keyed.sort_unstable_by(|a, b| {
                a.0.cmp(&b.0).then_with(|| {
                    packed
                        .node(a.1)
                        .name()
                        .canonical_cmp(packed.node(b.1).name())
                })
            });
            let places = keyed.into_iter().map(|(_, place)| place);
            places.collect()
        })
    }

    /// Returns all nodes in canonical order, the apex first, including empty non-terminals.
    pub fn nodes_in_order(&self) -> impl Iterator<Item = Node<'_>> {
        let base = self
            .packed_order()
            .iter()
            .map(|&place| self.packed().node(place));
        let changed = self
            .changes()
            .into_iter()
            .flat_map(|changes| changes.overlay.in_order());
        Merged {
            base: base.peekable(),
            changed: changed.peekable(),
            key: Vec::new(),
        }
    }
}

impl Zone {
    /// Returns all nodes below a name, in arbitrary order.
    pub(crate) fn nodes_below(&self, name: Name<'_>) -> impl Iterator<Item = Node<'_>> {
        // Names below another one follow it in canonical order.
        let (order, packed) = (self.packed_order(), self.packed());
        let start = order.partition_point(|&place| {
            packed.node(place).name().canonical_cmp(name) != Ordering::Greater
        });
        let rest = &order[start..];
        let count = rest.partition_point(|&place| packed.node(place).name().is_at_or_below(name));
        let base: Vec<Node<'_>> = rest[..count]
            .iter()
            .map(|&place| packed.node(place))
            .filter(|node| !self.has_changed(tag_of(node.name()), node.name()))
            .collect();
        let changed = self.changes().into_iter();
        let changed = changed.flat_map(|changes| changes.overlay.entries());
        let changed: Vec<Node<'_>> = changed
            .filter_map(|(_, _, node)| node)
            .filter(|node| node.name() != name && node.name().is_at_or_below(name))
            .collect();
        base.into_iter().chain(changed)
    }
}

fn tag_of(name: Name<'_>) -> u32 {
    let key = NameKey::new(name);
    tag(key.hash(key.labels()))
}

/// Merges base nodes with changed nodes; the changed one wins if both have a name.
struct Merged<'a, B: Iterator<Item = Node<'a>>, C: Iterator<Item = (Box<[u8]>, Option<Node<'a>>)>> {
    base: Peekable<B>,
    changed: Peekable<C>,
    key: Vec<u8>,
}

impl<'a, B, C> Iterator for Merged<'a, B, C>
where
    B: Iterator<Item = Node<'a>>,
    C: Iterator<Item = (Box<[u8]>, Option<Node<'a>>)>,
{
    type Item = Node<'a>;

    fn next(&mut self) -> Option<Node<'a>> {
        loop {
            let Some((changed_key, _)) = self.changed.peek() else {
                return self.base.next();
            };
            let order = match self.base.peek() {
                None => Ordering::Greater,
                Some(base) => {
                    sort_key(base.name(), &mut self.key);
                    self.key.as_slice().cmp(&**changed_key)
                }
            };
            if order == Ordering::Less {
                return self.base.next();
            }
            if order == Ordering::Equal {
                self.base.next();
            }
            if let Some((_, Some(node))) = self.changed.next() {
                return Some(node);
            }
        }
    }
}
