//! Changes over a packed zone, and the difference of two versions.
//!
//! A new version shares the packed base and a persistent tree of changed names with the version before, so a
//! change of `k` records costs `k` times the logarithm of what has changed since the zone was packed. When the
//! tree has grown to an eighth of the base, the zone is packed anew, which spread over those changes costs a few
//! copied names for each.

use crate::build::ZoneBuilder;
use crate::draft::{Draft, Flaw, Keep};
use crate::layout;
use crate::node::{Node, flags};
use crate::order::sort_key;
use crate::zone::{Summary, Zone};
use nameward_wire::zonefile::Record;
use nameward_wire::{Class, Name, NameBuf, Type};
use rpds::RedBlackTreeMapSync;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Changed names a base of any size may have before the zone is packed anew.
const ALWAYS_KEPT: usize = 256;

/// A record on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedRecord {
    /// Owner.
    pub owner: NameBuf,
    /// Type.
    pub rtype: Type,
    /// TTL.
    pub ttl: u32,
    /// Uncompressed wire data.
    pub rdata: Box<[u8]>,
}

/// What turns one version of a zone into another (the content of an IXFR, RFC 1995).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Records that go.
    pub removed: Vec<OwnedRecord>,
    /// Records that come.
    pub added: Vec<OwnedRecord>,
}

impl Difference {
    /// Whether the versions are equal.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }
}

/// Why a difference cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// A record to remove is not there.
    #[error("{owner} {rtype} to be removed is not in the zone")]
    NotThere {
        /// Its owner.
        owner: String,
        /// Its type.
        rtype: Type,
    },
    /// An owner is not at or below the apex.
    #[error("{0} is outside the zone")]
    OutOfZone(String),
    /// The result would break a rule of zones.
    #[error("{owner}: {what}")]
    Invalid {
        /// The name.
        owner: String,
        /// What would be wrong.
        what: &'static str,
    },
}

/// Names that differ from the packed base: `None` is a name that is gone.
pub(crate) struct Changes {
    pub(crate) base: Arc<Zone>,
    nodes: RedBlackTreeMapSync<Box<[u8]>, Option<Arc<[u8]>>>,
}

impl Changes {
    /// The changed node of a name: `None` if it has not changed, `Some(None)` if it is gone.
    pub(crate) fn find(&self, name: Name<'_>) -> Option<Option<Node<'_>>> {
        let mut key = Vec::new();
        sort_key(name, &mut key);
        self.nodes
            .get(key.as_slice())
            .map(|node| node.as_deref().map(Node::at))
    }

    /// Changed names with their sort keys, in canonical order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&[u8], Option<Node<'_>>)> {
        self.nodes
            .iter()
            .map(|(key, node)| (&**key, node.as_deref().map(Node::at)))
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.nodes
            .iter()
            .map(|(key, node)| 96 + key.len() + node.as_ref().map_or(0, |n| n.len()))
            .sum()
    }
}

impl Zone {
    /// The version that `difference` makes of this one.
    pub fn apply(self: &Arc<Self>, difference: &Difference) -> Result<Zone, ChangeError> {
        let mut editor = Editor::new(self);
        let mut by_owner: BTreeMap<Vec<u8>, (NameBuf, Draft)> = BTreeMap::new();
        let steps = difference.removed.iter().map(|r| (false, r));
        for (is_addition, record) in steps.chain(difference.added.iter().map(|r| (true, r))) {
            if !record.owner.as_name().is_at_or_below(self.apex_name()) {
                return Err(ChangeError::OutOfZone(record.owner.to_string()));
            }
            let mut key = Vec::new();
            sort_key(record.owner.as_name(), &mut key);
            let (_, draft) = by_owner.entry(key).or_insert_with(|| {
                let mut draft = Draft::default();
                if let Some(node) = editor.node(record.owner.as_name()) {
                    draft.push_node(node, 0, 0);
                }
                (record.owner, draft)
            });
            if is_addition {
                draft.set_ttl(record.rtype, record.ttl);
                draft.push(record.rtype, record.ttl, &record.rdata, 0, 0);
            } else if !draft.remove(record.rtype, &record.rdata) {
                return Err(ChangeError::NotThere {
                    owner: record.owner.to_string(),
                    rtype: record.rtype,
                });
            }
        }
        for (_, (owner, mut draft)) in by_owner {
            editor.replace(owner, &mut draft)?;
        }
        editor.finish()
    }

    /// What turns `older` into this version.
    pub fn difference_from(&self, older: &Zone) -> Difference {
        let mut difference = Difference::default();
        let mut compare = |old: Option<Node<'_>>, new: Option<Node<'_>>| {
            push_missing(old, new, &mut difference.removed);
            push_missing(new, old, &mut difference.added);
        };
        if let Some(names) = self.names_changed_since(older) {
            for name in names {
                compare(older.node_of(name.as_name()), self.node_of(name.as_name()));
            }
            return difference;
        }
        let (mut old, mut new) = (
            older.nodes_in_order().peekable(),
            self.nodes_in_order().peekable(),
        );
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return difference,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => a.name().canonical_cmp(b.name()),
            };
            let a = if order.is_le() { old.next() } else { None };
            let b = if order.is_ge() { new.next() } else { None };
            compare(a, b);
        }
    }

    /// If both stand over the same packed base: the names that may differ.
    fn names_changed_since(&self, older: &Zone) -> Option<Vec<NameBuf>> {
        let changes = self.changes()?;
        let is_base = core::ptr::eq(older, &*changes.base);
        let older_changes = older
            .changes()
            .filter(|c| Arc::ptr_eq(&c.base, &changes.base));
        if !is_base && older_changes.is_none() {
            return None;
        }
        let mut names = BTreeMap::new();
        for (key, node) in changes
            .entries()
            .chain(older_changes.into_iter().flat_map(Changes::entries))
        {
            let there = node.or_else(|| changes.base.node_by_sort_key(key));
            if let Some(node) = there {
                names.insert(key.to_vec(), NameBuf::from(node.name()));
            }
        }
        Some(names.into_values().collect())
    }

    /// A packed node by its sort key.
    fn node_by_sort_key(&self, key: &[u8]) -> Option<Node<'_>> {
        let name = name_of_sort_key(key)?;
        let key = crate::NameKey::new(name.as_name());
        self.packed().find(key.hash(key.labels()), name.as_name())
    }
}

/// The name (in lower case) that a sort key stands for.
fn name_of_sort_key(key: &[u8]) -> Option<NameBuf> {
    let mut name = NameBuf::root();
    let (mut label, mut escaped) = (vec![0u8], false);
    for &byte in key {
        match byte {
            0 => {
                label[0] = (label.len() - 1) as u8;
                name = NameBuf::join(&label, name.as_name()).ok()?;
                label.truncate(1);
            }
            1 if !escaped => {
                escaped = true;
                continue;
            }
            _ if escaped => label.push(byte - 1),
            _ => label.push(byte),
        }
        escaped = false;
    }
    Some(name)
}

/// Records of `from` that `other` does not have with the same TTL.
fn push_missing(from: Option<Node<'_>>, other: Option<Node<'_>>, out: &mut Vec<OwnedRecord>) {
    let Some(node) = from else { return };
    for rrset in node.rrsets() {
        let theirs = other
            .and_then(|node| node.rrset(rrset.rtype()))
            .filter(|r| r.ttl() == rrset.ttl());
        // Both are sorted, so one walk over both is enough.
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
            out.push(OwnedRecord {
                owner: node.name().into(),
                rtype: rrset.rtype(),
                ttl: rrset.ttl(),
                rdata: record.rdata.into(),
            });
        }
    }
}

/// A version in the making.
struct Editor {
    base: Arc<Zone>,
    nodes: RedBlackTreeMapSync<Box<[u8]>, Option<Arc<[u8]>>>,
    summary: Summary,
}

impl Editor {
    fn new(zone: &Arc<Zone>) -> Self {
        let (base, nodes) = match zone.changes() {
            Some(changes) => (changes.base.clone(), changes.nodes.clone()),
            None => (zone.clone(), RedBlackTreeMapSync::new_sync()),
        };
        Editor {
            base,
            nodes,
            summary: *zone.summary(),
        }
    }

    fn node(&self, name: Name<'_>) -> Option<Node<'_>> {
        let mut key = Vec::new();
        sort_key(name, &mut key);
        match self.nodes.get(key.as_slice()) {
            Some(changed) => changed.as_deref().map(Node::at),
            None => self.base.node_of(name),
        }
    }

    fn put(&mut self, name: Name<'_>, node: Option<Vec<u8>>) {
        let mut key = Vec::new();
        sort_key(name, &mut key);
        self.nodes
            .insert_mut(key.into_boxed_slice(), node.map(Arc::from));
    }

    fn is_apex(&self, name: Name<'_>) -> bool {
        name == self.base.apex_name()
    }

    /// Gives a name other records, keeping the tree of names whole.
    fn replace(&mut self, owner: NameBuf, draft: &mut Draft) -> Result<(), ChangeError> {
        let invalid = |what| {
            Err(ChangeError::Invalid {
                owner: owner.to_string(),
                what,
            })
        };
        let mut worst = None;
        draft.normalise(|flaw, _| {
            if flaw.is_error() {
                worst = Some(flaw);
            }
        });
        match worst {
            Some(Flaw::CnameAndOther) => return invalid("a CNAME stands alone"),
            Some(Flaw::Several(_)) => return invalid("several CNAME, DNAME or SOA records"),
            Some(_) => return invalid("too many records or types at one name"),
            None => {}
        }
        let is_apex = self.is_apex(owner.as_name());
        let has_soa = draft.entries.iter().any(|entry| entry.rtype == Type::SOA);
        if is_apex != has_soa {
            return invalid(if is_apex {
                "a zone needs a SOA"
            } else {
                "a SOA stands at the apex only"
            });
        }
        let before = self.node(owner.as_name()).map(|n| Keep {
            children: n.children(),
            flags: n.flags(),
        });
        let keep = before.unwrap_or_default();
        if draft.is_empty() && keep.children == 0 {
            if before.is_some() {
                self.put(owner.as_name(), None);
                self.summary.names -= 1;
                self.child_left(owner.as_name());
            }
            return Ok(());
        }
        let mut bytes = Vec::new();
        draft.encode(owner.as_name(), is_apex, keep, &mut bytes);
        if Node::at(&bytes).flags() & (flags::CUT | flags::DNAME) != 0 {
            self.summary.cut_depths |= 1 << owner.as_name().label_count();
        }
        self.put(owner.as_name(), Some(bytes));
        if before.is_none() {
            self.summary.names += 1;
            self.summary.max_labels = self
                .summary
                .max_labels
                .max(owner.as_name().label_count() as u8);
            self.child_came(owner.as_name());
        }
        Ok(())
    }

    /// A new name: its parent must exist (RFC 4592 section 2.2.2).
    fn child_came(&mut self, child: Name<'_>) {
        let Some(parent) = child.parent().filter(|_| !self.is_apex(child)) else {
            return;
        };
        let existed = self.node(parent).is_some();
        let bits = if child.is_wildcard() {
            flags::WILDCARD_CHILD
        } else {
            0
        };
        self.edit(parent, |children, old| (children + 1, old | bits));
        if !existed {
            self.summary.names += 1;
            self.child_came(parent);
        }
    }

    /// A name is gone: an empty parent without other children goes too.
    fn child_left(&mut self, child: Name<'_>) {
        let Some(parent) = child.parent().filter(|_| !self.is_apex(child)) else {
            return;
        };
        let bits = if child.is_wildcard() {
            flags::WILDCARD_CHILD
        } else {
            0
        };
        self.edit(parent, |children, old| {
            (children.saturating_sub(1), old & !bits)
        });
        let is_bare = self
            .node(parent)
            .is_some_and(|node| node.is_empty() && node.children() == 0);
        if is_bare && !self.is_apex(parent) {
            self.put(parent, None);
            self.summary.names -= 1;
            self.child_left(parent);
        }
    }

    fn edit(&mut self, name: Name<'_>, change: impl FnOnce(u32, u8) -> (u32, u8)) {
        let mut draft = Draft::default();
        let mut keep = Keep::default();
        if let Some(node) = self.node(name) {
            draft.push_node(node, 0, 0);
            keep = Keep {
                children: node.children(),
                flags: node.flags(),
            };
        }
        (keep.children, keep.flags) = change(keep.children, keep.flags);
        let mut bytes = Vec::new();
        draft.encode(name, self.is_apex(name), keep, &mut bytes);
        self.put(name, Some(bytes));
    }

    fn finish(self) -> Result<Zone, ChangeError> {
        let too_many = ALWAYS_KEPT.max(self.base.name_count() / 8);
        let changed = self.nodes.size();
        let zone = Zone::with_changes(
            Changes {
                base: self.base,
                nodes: self.nodes,
            },
            self.summary,
        );
        Ok(if changed > too_many {
            zone.repacked().unwrap_or(zone)
        } else {
            zone
        })
    }
}

impl Zone {
    /// The same contents, packed.
    fn repacked(&self) -> Option<Zone> {
        let mut builder = ZoneBuilder::with_capacity(self.apex_name(), self.heap_bytes());
        for node in self.nodes_in_order() {
            for rrset in node.rrsets() {
                for record in rrset.records() {
                    builder.add(&Record {
                        owner: node.name(),
                        same_owner: false,
                        rtype: rrset.rtype(),
                        class: Class::IN,
                        ttl: rrset.ttl(),
                        rdata: record.rdata,
                        line: 0,
                        file: 0,
                    });
                }
            }
        }
        builder.finish().0
    }
}
