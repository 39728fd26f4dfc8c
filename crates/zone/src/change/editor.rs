//! Application of a difference to a zone, name by name.
//!
//! The new version shares the packed base and all unchanged names with the previous one, so a change of `k` records
//! costs `k` times the logarithm of the number of names changed since the zone was packed, regardless of the size of
//! the zone.

use super::{ChangeError, Difference};
use crate::build::bits_of_targets;
use crate::draft::{Draft, Flaw, Keep};
use crate::key::NameKey;
use crate::layout;
use crate::node::{Node, flags};
use crate::overlay::Overlay;
use crate::packed::tag;
use crate::record_list::WireRecord;
use crate::summary::ZoneSummary;
use crate::zone::{Changes, Zone};
use nameward_wire::zonefile::RecordLocation;
use nameward_wire::{Name, Type};
use std::sync::Arc;

impl Zone {
    /// Returns the version that results from applying `difference`. Records are removed before others are added, and
    /// each record to remove must exist; its TTL is ignored.
    pub fn apply(self: &Arc<Self>, difference: &Difference) -> Result<Zone, ChangeError> {
        Ok(self.apply_over(difference)?.pack_if_small())
    }

    /// Like [`Zone::apply`], but always as an overlay over a base, however small the zone is.
    pub(crate) fn apply_over(
        self: &Arc<Self>,
        difference: &Difference,
    ) -> Result<Zone, ChangeError> {
        if self.is_stub() {
            return Err(ChangeError::NotResident);
        }
        let removed = difference
            .removed
            .iter()
            .map(|record| (EditStep::Remove, record));
        let added = difference
            .added
            .iter()
            .map(|record| (EditStep::Add, record));
        let mut steps: Vec<(EditStep, WireRecord<'_>)> = removed.chain(added).collect();
        if let Some((_, record)) = steps
            .iter()
            .find(|(_, record)| !record.owner.is_at_or_below(self.apex_name()))
        {
            return Err(ChangeError::OutOfZone(record.owner.to_string()));
        }
        let owners: Vec<Name<'_>> = steps.iter().map(|(_, record)| record.owner).collect();
        // Stable, so that removals at a name stay before additions.
        steps.sort_by(|(_, a), (_, b)| a.owner.canonical_cmp(b.owner));
        let mut editor = Editor::new(self);
        for group in steps.chunk_by_mut(|(_, a), (_, b)| a.owner == b.owner) {
            editor.revise(group)?;
        }
        let mut version = editor.finish(self);
        version.follow_chain(self, owners.into_iter());
        Ok(version)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EditStep {
    Remove,
    Add,
}

/// A version under construction.
pub(super) struct Editor {
    base: Arc<Zone>,
    overlay: Overlay,
    pub(super) summary: ZoneSummary,
}

impl Editor {
    pub(super) fn new(zone: &Arc<Zone>) -> Self {
        let (base, overlay) = match zone.changes() {
            Some(changes) => (changes.base.clone(), changes.overlay.clone()),
            None => (zone.clone(), Overlay::default()),
        };
        Editor {
            base,
            overlay,
            summary: *zone.summary(),
        }
    }

    fn node(&self, name: Name<'_>) -> Option<Node<'_>> {
        let hash = hash(name);
        match self.overlay.find(tag(hash), name) {
            Some(changed) => changed,
            None => self.base.packed().find(hash, name),
        }
    }

    /// Sets the node of a name, or marks the name as deleted.
    pub(super) fn put(&mut self, name: Name<'_>, node: Option<&[u8]>) {
        let hash = hash(name);
        match node {
            Some(node) => self.overlay.put(hash, node, false),
            None => {
                let mut bare = Vec::new();
                Draft::default().encode(name, false, Keep::default(), &mut bare);
                self.overlay.put(hash, &bare, true);
            }
        }
    }

    fn is_apex(&self, name: Name<'_>) -> bool {
        name == self.base.apex_name()
    }

    /// Applies the steps of one name, removals first.
    fn revise(&mut self, steps: &mut [(EditStep, WireRecord<'_>)]) -> Result<(), ChangeError> {
        let owner = steps[0].1.owner;
        let removals = steps
            .iter()
            .take_while(|(step, _)| *step == EditStep::Remove)
            .count();
        let (removed, added) = steps.split_at_mut(removals);
        // In node order, so that one pass over both finds all of them.
        removed.sort_by(|(_, a), (_, b)| {
            let data = || layout::compare(a.rtype, a.rdata, b.rdata);
            a.rtype.cmp(&b.rtype).then_with(data)
        });
        let mut removed = removed.iter().map(|(_, record)| record).peekable();
        let mut draft = Draft::default();
        if let Some(node) = self.node(owner) {
            for rrset in node.rrsets() {
                for record in rrset.records() {
                    let is_removed = |gone: &&WireRecord<'_>| {
                        gone.rtype == rrset.rtype()
                            && layout::compare(gone.rtype, gone.rdata, record.rdata).is_eq()
                    };
                    if removed.next_if(is_removed).is_none() {
                        draft.push(
                            rrset.rtype(),
                            rrset.ttl(),
                            record.rdata,
                            RecordLocation::NONE,
                        );
                    }
                }
            }
        }
        if let Some(record) = removed.next() {
            return Err(ChangeError::not_there(record));
        }
        for (_, record) in added.iter() {
            draft.push(record.rtype, record.ttl, record.rdata, RecordLocation::NONE);
        }
        // RFC 2181 section 5.2: an RRset has one TTL. The last one given in the change wins.
        let mut ttls: Vec<(Type, u32)> = added.iter().map(|(_, r)| (r.rtype, r.ttl)).collect();
        ttls.reverse();
        ttls.sort_by_key(|(rtype, _)| *rtype);
        ttls.dedup_by_key(|(rtype, _)| *rtype);
        for (rtype, ttl) in ttls {
            draft.set_ttl(rtype, ttl);
        }
        self.replace(owner, &mut draft)
    }

    /// Replaces the records of a name, keeping the tree of names consistent.
    pub(super) fn replace(
        &mut self,
        owner: Name<'_>,
        draft: &mut Draft,
    ) -> Result<(), ChangeError> {
        let is_apex = self.is_apex(owner);
        check(owner, is_apex, draft)?;
        let before = self.node(owner).map(Keep::from_node);
        let keep = before.unwrap_or_default();
        if draft.is_empty() && keep.children == 0 && !keep.is_broken() {
            if before.is_some() {
                self.put(owner, None);
                self.summary.names -= 1;
                self.child_left(owner);
            }
            return Ok(());
        }
        self.summary.has_auto_hints |= draft.has_auto_hints();
        let mut bytes = Vec::new();
        draft.encode(owner, is_apex, keep, &mut bytes);
        let leads_to_broken = |target: Name<'_>| {
            let host = self.node(target);
            host.is_some_and(|node| node.has(flags::BROKEN_HOST))
        };
        let bits = bits_of_targets(Node::at(&bytes), leads_to_broken);
        bytes[Node::FLAGS_AT] |= bits;
        if Node::at(&bytes).flags() & (flags::CUT | flags::DNAME | flags::BROKEN_ABOVE) != 0 {
            self.summary.cut_depths.insert(owner.label_count());
        }
        self.summary.has_scripts |= Node::at(&bytes).rrset(Type::LUA).is_some();
        self.put(owner, Some(&bytes));
        if before.is_none() {
            self.name_came(owner);
        }
        Ok(())
    }

    /// Marks a name as one with unreadable records, by these flags; it exists even without others.
    pub(super) fn mark_broken(&mut self, name: Name<'_>, bits: u8) {
        let is_new = self.node(name).is_none();
        self.edit(name, |keep| Keep {
            flags: keep.flags | bits,
            ..keep
        });
        if bits & flags::BROKEN_ABOVE != 0 {
            self.summary.cut_depths.insert(name.label_count());
        }
        if is_new {
            self.name_came(name);
        }
    }

    /// Counts a new name, and as a child of its parent, which must exist (RFC 4592 section 2.2.2).
    fn name_came(&mut self, name: Name<'_>) {
        self.summary.names += 1;
        let labels = name.label_count() as u8;
        self.summary.max_labels = self.summary.max_labels.max(labels);
        let mut child = name;
        while let Some(parent) = child.parent().filter(|_| !self.is_apex(child)) {
            let existed = self.node(parent).is_some();
            let bits = wildcard_bit(child);
            self.edit(parent, |keep| Keep {
                children: keep.children + 1,
                flags: keep.flags | bits,
            });
            if existed {
                return;
            }
            self.summary.names += 1;
            child = parent;
        }
    }

    /// Removes a deleted name from its parent; an empty parent without other children is deleted as well.
    fn child_left(&mut self, child: Name<'_>) {
        let mut child = child;
        while let Some(parent) = child.parent().filter(|_| !self.is_apex(child)) {
            let bits = wildcard_bit(child);
            self.edit(parent, |keep| Keep {
                children: keep.children.saturating_sub(1),
                flags: keep.flags & !bits,
            });
            let is_apex = self.is_apex(parent);
            let is_bare = self.node(parent).is_some_and(|node| {
                node.is_empty() && node.children() == 0 && !Keep::from_node(node).is_broken()
            });
            if is_apex || !is_bare {
                return;
            }
            self.put(parent, None);
            self.summary.names -= 1;
            child = parent;
        }
    }

    /// Changes the flags and child count of a node; a name that does not exist becomes an empty non-terminal.
    fn edit(&mut self, name: Name<'_>, change: impl FnOnce(Keep) -> Keep) {
        let mut bytes = match self.node(name) {
            Some(node) => node.bytes().into_owned(),
            None => {
                let mut bytes = Vec::new();
                Draft::default().encode(name, false, Keep::default(), &mut bytes);
                bytes
            }
        };
        change(Keep::from_node(Node::at(&bytes))).write(&mut bytes);
        self.put(name, Some(&bytes));
    }

    pub(super) fn finish(self, zone: &Zone) -> Zone {
        let apex = self.base.apex_name();
        let changed = self.overlay.find(tag(hash(apex)), apex);
        let apex = changed.flatten().map(|node| Arc::from(&*node.bytes()));
        let changes = Changes {
            base: self.base,
            overlay: self.overlay,
            apex,
            unsigned: None,
            stored: None,
        };
        let mut version = Zone::with_changes(changes, self.summary);
        version.inherit(zone);
        version
    }
}

fn hash(name: Name<'_>) -> u64 {
    let key = NameKey::new(name);
    key.hash(key.labels())
}

fn wildcard_bit(child: Name<'_>) -> u8 {
    if child.is_wildcard() {
        flags::WILDCARD_CHILD
    } else {
        0
    }
}

fn check(owner: Name<'_>, is_apex: bool, draft: &mut Draft) -> Result<(), ChangeError> {
    let invalid = |what: &str| {
        Err(ChangeError::Invalid {
            owner: owner.to_string(),
            what: what.to_owned(),
        })
    };
    let mut worst = None;
    draft.normalise(|flaw, _| {
        if flaw.is_error() {
            worst = Some(flaw);
        }
    });
    match worst {
        Some(Flaw::CnameAndOther) => return invalid("a CNAME cannot coexist with other records"),
        Some(Flaw::Several(_)) => return invalid("several CNAME, DNAME or SOA records"),
        Some(_) => return invalid("too many records or types at one name"),
        None => {}
    }
    let has_soa = draft.entries.iter().any(|entry| entry.rtype == Type::SOA);
    match (is_apex, has_soa) {
        (true, false) => invalid("a zone needs an SOA record"),
        (false, true) => invalid("an SOA record is only allowed at the apex"),
        _ => Ok(()),
    }
}
