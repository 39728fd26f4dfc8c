//! Chain membership: which names of a zone are in its chain, and how a zone change affects them.
//!
//! Members are the names the zone is authoritative for, plus its delegations (RFC 4035 section 2.3), but nothing below
//! a delegation or a DNAME. An NSEC3 chain also contains all empty non-terminals (RFC 5155 section 7.1). Those that
//! only lead to delegations without a member may be omitted, but that would save little.

use super::{ChainKind, DenialChain, MemberList, block::MemberEdit};
use crate::node::{Node, flags};
use crate::zone::Zone;
use nameward_wire::{Name, Type};
use std::collections::HashSet;

impl ChainKind {
    /// Checks whether an authoritative name has a record in the chain.
    fn has(&self, node: Node<'_>) -> bool {
        // A name with an unreadable record does have records.
        let is_broken = node.has(flags::BROKEN);
        match self {
            ChainKind::Nsec => !node.is_empty() || is_broken,
            ChainKind::Nsec3 { opt_out, .. } => {
                let is_left_out =
                    || node.has(flags::CUT) && node.rrset(Type::DS).is_none() && !is_broken;
                !opt_out || !is_left_out()
            }
        }
    }
}

/// Checks whether a node hides the names below it.
fn hides_below(node: Node<'_>) -> bool {
    node.flags() & (flags::CUT | flags::DNAME) != 0
}

impl DenialChain {
    pub(crate) fn from_zone(zone: &Zone, kind: ChainKind) -> Self {
        let mut chain = DenialChain::empty(kind, zone.apex_name());
        let nodes = zone.nodes_with_authority();
        let nodes = nodes.filter(|node| chain.kind.has(*node));
        let members = nodes.map(|node| chain.member_of(node.name()));
        chain.members = match chain.kind {
            ChainKind::Nsec => MemberList::from_sorted(members),
            ChainKind::Nsec3 { .. } => {
                let mut members: Vec<Vec<u8>> = members.collect();
                members.sort_unstable();
                MemberList::from_sorted(members.into_iter())
            }
        };
        chain
    }

    /// Returns the chain of a version in which records of `owners` were added or removed; `None` if it is unchanged.
    pub(crate) fn changed<'n>(
        &self,
        (old, new): (&Zone, &Zone),
        owners: impl Iterator<Item = Name<'n>>,
    ) -> Option<Self> {
        let apex = new.apex_name();
        let (mut seen, mut edits) = (HashSet::new(), Vec::new());
        for owner in owners {
            // Adding or removing a name can add or remove its ancestors.
            let mut name = Some(owner);
            while let Some(next) = name.filter(|name| name.is_at_or_below(apex)) {
                if !seen.insert(next.as_wire().to_ascii_lowercase()) {
                    break;
                }
                self.note(next, (old, new), &mut edits);
                let hides = |zone: &Zone| zone.node_of(next).is_some_and(hides_below);
                if hides(old) != hides(new) {
                    for zone in [old, new] {
                        let below = zone.nodes_below(next);
                        below.for_each(|node| self.note(node.name(), (old, new), &mut edits));
                    }
                }
                name = next.parent();
            }
        }
        (!edits.is_empty()).then(|| DenialChain {
            kind: self.kind.clone(),
            apex: self.apex,
            apex_key_len: self.apex_key_len,
            members: self.members.edited(edits),
        })
    }

    /// Adds the edit that a change requires for one name, if any.
    fn note(&self, name: Name<'_>, (old, new): (&Zone, &Zone), edits: &mut Vec<MemberEdit>) {
        let is_there = self.has_member(new, name);
        if self.has_member(old, name) != is_there {
            let member = self.member_of(name);
            edits.push(MemberEdit { member, is_there });
        }
    }

    fn has_member(&self, zone: &Zone, name: Name<'_>) -> bool {
        let node = zone.node_of(name);
        node.is_some_and(|node| self.kind.has(node)) && !zone.is_hidden(name)
    }
}

impl Zone {
    /// Checks whether a name is below a delegation or a DNAME, so that it is never used in answers.
    pub fn is_hidden(&self, name: Name<'_>) -> bool {
        let apex = self.apex_name();
        let mut above = name;
        while let Some(parent) = above.parent().filter(|name| name.is_at_or_below(apex)) {
            if self.node_of(parent).is_some_and(hides_below) {
                return true;
            }
            above = parent;
        }
        false
    }

    /// Returns all nodes that are not below a delegation or a DNAME, in canonical order.
    pub fn nodes_with_authority(&self) -> impl Iterator<Item = Node<'_>> {
        // Names below another one follow it in canonical order.
        let mut hides: Option<Name<'_>> = None;
        self.nodes_in_order().filter(move |node| {
            let is_hidden = hides.is_some_and(|above| node.name().is_at_or_below(above));
            if !is_hidden {
                hides = hides_below(*node).then(|| node.name());
            }
            !is_hidden
        })
    }
}

impl<'a> Node<'a> {
    /// Returns the types that a denial record lists for the node; NSEC, NSEC3 and RRSIG are added when it is made. At a
    /// delegation, the parent only has NS and DS (RFC 4035 section 2.3).
    ///
    /// If a record is unreadable, the types at the name are not fully known: with CNAME in the bitmap no type is denied
    /// (RFC 5155 section 8.5, RFC 6840 section 4.3), and at a delegation DS is not denied.
    pub fn types_of_denial(self) -> impl Iterator<Item = Type> + use<'a> {
        let is_cut = self.has(flags::CUT);
        let of_node = self.rrsets().map(|rrset| rrset.rtype());
        let of_node = of_node.filter(move |&rtype| match rtype {
            Type::NS | Type::DS => true,
            Type::RRSIG | Type::NSEC | Type::NSEC3 => false,
            _ => !is_cut,
        });
        let of_broken: &[Type] = match (self.has(flags::BROKEN), is_cut) {
            (false, _) => &[],
            (true, false) => &[Type::CNAME],
            (true, true) => &[Type::NS, Type::DS],
        };
        of_node.chain(of_broken.iter().copied())
    }
}
