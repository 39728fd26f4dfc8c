//! The difference between two versions of a zone.
//!
//! Both versions hash names the same way, so each name of one is looked up in the other: linear in the number of names,
//! without sorting and without memory beyond the result. Versions over the same packed base are compared at their
//! changed names only. The result is in canonical order, so that equal differences are octet for octet identical.

use super::Difference;
use crate::layout;
use crate::node::flags::ANY_BROKEN;
use crate::node::{Node, Rrset};
use crate::record_list::{RecordList, WireRecord};
use crate::zone::Zone;
use nameward_wire::Name;
use std::cmp::Ordering;

/// The nodes of a name before and after.
type Pair<'z> = (Option<Node<'z>>, Option<Node<'z>>);

impl Zone {
    /// Returns the difference that turns `older` into this version.
    pub fn difference_from(&self, older: &Zone) -> Difference {
        let mut pairs = if self.shares_base_with(older) {
            self.changed_pairs(older)
        } else {
            self.all_pairs(older)
        };
        let name = |pair: &Pair<'_>| {
            pair.0
                .or(pair.1)
                .map(Node::name)
                .map_or(Vec::new(), |name| {
                    let mut key = Vec::new();
                    crate::sort_key::sort_key(name, &mut key);
                    key
                })
        };
        pairs.sort_by_cached_key(name);
        let mut difference = Difference::default();
        for (old, new) in pairs {
            push_missing(old, new, &mut difference.removed);
            push_missing(new, old, &mut difference.added);
        }
        difference
    }

    /// Checks whether the versions can only differ at names that one of them has changed.
    fn shares_base_with(&self, older: &Zone) -> bool {
        core::ptr::eq(self.base(), older.base())
    }

    /// Returns the packed version below this one; itself if it is packed.
    fn base(&self) -> &Zone {
        self.changes().map_or(self, |changes| &changes.base)
    }

    fn changed_pairs<'z>(&'z self, older: &'z Zone) -> Vec<Pair<'z>> {
        let mut pairs = Vec::new();
        let mut push = |tag, name| {
            let pair = (older.node_by_tag(tag, name), self.node_by_tag(tag, name));
            if !is_equal(pair) {
                pairs.push(pair);
            }
        };
        for (tag, name, _) in self.changed_names() {
            push(tag, name);
        }
        for (tag, name, _) in older.changed_names() {
            if !self.has_changed(tag, name) {
                push(tag, name);
            }
        }
        pairs
    }

    /// Checks whether both versions have the same records with the same TTLs. Costs one lookup per name, unless both
    /// were packed from the same text.
    pub fn has_same_records(&self, other: &Zone) -> bool {
        if self.name_count() != other.name_count() {
            return false;
        }
        let is_same_text = self.changes().is_none()
            && other.changes().is_none()
            && self.packed().arena == other.packed().arena;
        is_same_text
            || self
                .nodes()
                .all(|(tag, node)| is_equal((Some(node), other.node_by_tag(tag, node.name()))))
    }

    fn all_pairs<'z>(&'z self, older: &'z Zone) -> Vec<Pair<'z>> {
        let mut pairs = Vec::new();
        for (tag, node) in older.nodes() {
            let pair = (Some(node), self.node_by_tag(tag, node.name()));
            if !is_equal(pair) {
                pairs.push(pair);
            }
        }
        let came = self
            .nodes()
            .filter(|(tag, node)| older.node_by_tag(*tag, node.name()).is_none());
        pairs.extend(came.map(|(_, node)| (None, Some(node))));
        pairs
    }

    /// Checks whether a name was changed or deleted since the zone was packed, given 32 bits of its hash.
    pub(crate) fn has_changed(&self, tag: u32, name: Name<'_>) -> bool {
        let changes = self.changes();
        changes.is_some_and(|changes| changes.overlay.find(tag, name).is_some())
    }

    fn changed_names(&self) -> impl Iterator<Item = (u32, Name<'_>, Option<Node<'_>>)> {
        self.changes()
            .into_iter()
            .flat_map(|changes| changes.overlay.entries())
    }

    /// Returns all nodes in arbitrary order, which is cheaper than sorting them.
    pub fn nodes_in_any_order(&self) -> impl Iterator<Item = Node<'_>> {
        self.nodes().map(|(_, node)| node)
    }

    /// Returns all nodes with 32 bits of the hash of their names, in arbitrary order.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (u32, Node<'_>)> {
        let base = self.packed().nodes();
        let base = base.filter(|(tag, node)| !self.has_changed(*tag, node.name()));
        let changed = self
            .changed_names()
            .filter_map(|(tag, _, node)| Some((tag, node?)));
        base.chain(changed)
    }

    /// Returns the node of a name, given 32 bits of its hash.
    pub(crate) fn node_by_tag(&self, tag: u32, name: Name<'_>) -> Option<Node<'_>> {
        if let Some(changes) = self.changes()
            && let Some(changed) = changes.overlay.find(tag, name)
        {
            return changed;
        }
        self.packed().find_tag(tag, name)
    }
}

fn is_equal(pair: Pair<'_>) -> bool {
    match pair {
        (Some(old), Some(new)) => old.is_same(new) || is_equal_node(old, new),
        (None, None) => true,
        _ => false,
    }
}

/// Checks whether two nodes have the same records, flags and child count. The locations of targets are ignored.
fn is_equal_node(a: Node<'_>, b: Node<'_>) -> bool {
    (a.flags(), a.children()) == (b.flags(), b.children())
        && a.rrset_count() == b.rrset_count()
        && a.rrsets()
            .zip(b.rrsets())
            .all(|(a, b)| is_equal_rrset(a, b))
}

fn is_equal_rrset(a: Rrset<'_>, b: Rrset<'_>) -> bool {
    if !a.has_targets() {
        return a.bytes() == b.bytes();
    }
    (a.rtype(), a.ttl(), a.count()) == (b.rtype(), b.ttl(), b.count())
        && a.records()
            .map(|r| r.rdata)
            .eq(b.records().map(|r| r.rdata))
}

/// Appends the records of `from` that `other` does not have with the same TTL.
pub(super) fn push_missing(from: Option<Node<'_>>, other: Option<Node<'_>>, out: &mut RecordList) {
    let Some(node) = from else { return };
    for rrset in node.rrsets() {
        let theirs = other
            .and_then(|node| node.rrset(rrset.rtype()))
            .filter(|r| r.ttl() == rrset.ttl());
        // Both are sorted, so a single merge pass is enough.
        let mut theirs = theirs
            .into_iter()
            .flat_map(|rrset| rrset.records())
            .peekable();
        for record in rrset.records() {
            let before =
                |theirs: &[u8]| layout::compare(rrset.rtype(), theirs, record.rdata).is_lt();
            while theirs.next_if(|their| before(their.rdata)).is_some() {}
            if theirs
                .peek()
                .is_some_and(|their| their.rdata == record.rdata)
            {
                continue;
            }
            out.push(WireRecord {
                owner: node.name(),
                rtype: rrset.rtype(),
                ttl: rrset.ttl(),
                rdata: record.rdata,
            });
        }
    }
}

impl Difference {
    /// Returns the difference between two lists of records, in any order. As in a zone, duplicates count once, and the
    /// lowest TTL of an RRset applies to all its records (RFC 2181 section 5.2).
    pub fn between(before: &RecordList, after: &RecordList) -> Difference {
        let (before, after) = (rrsets_in_order(before), rrsets_in_order(after));
        let (mut old, mut new) = (before.iter().peekable(), after.iter().peekable());
        let mut difference = Difference::default();
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return difference,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => compare(a, b),
            };
            let a = old.next_if(|_| order.is_le());
            let b = new.next_if(|_| order.is_ge());
            if let (Some(a), Some(b)) = (a, b)
                && (a.ttl, a.rdata) == (b.ttl, b.rdata)
            {
                continue;
            }
            a.into_iter()
                .for_each(|record| difference.removed.push(*record));
            b.into_iter()
                .for_each(|record| difference.added.push(*record));
        }
    }
}

/// Compares records in canonical order, ignoring TTLs.
fn compare(a: &WireRecord<'_>, b: &WireRecord<'_>) -> Ordering {
    a.owner
        .canonical_cmp(b.owner)
        .then_with(|| a.rtype.cmp(&b.rtype))
        .then_with(|| layout::compare(a.rtype, a.rdata, b.rdata))
}

fn rrsets_in_order(list: &RecordList) -> Vec<WireRecord<'_>> {
    let mut records: Vec<WireRecord<'_>> = list.iter().collect();
    records.sort_by(compare);
    for rrset in records.chunk_by_mut(|a, b| a.rtype == b.rtype && a.owner == b.owner) {
        let least = rrset.iter().map(|record| record.ttl).min().unwrap_or(0);
        rrset.iter_mut().for_each(|record| record.ttl = least);
    }
    records.dedup_by(|a, b| compare(a, b).is_eq());
    records
}

impl Zone {
    /// Checks whether a difference touches names with unreadable records. It may be the change that repairs them, which
    /// can only be decided from all their records.
    pub fn is_broken_at(&self, difference: &Difference) -> bool {
        let records = difference.removed.iter().chain(&difference.added);
        let is_broken = |name| {
            let node = self.node_of(name);
            node.is_some_and(|node| node.flags() & ANY_BROKEN != 0)
        };
        records.into_iter().any(|record| is_broken(record.owner))
    }
}
