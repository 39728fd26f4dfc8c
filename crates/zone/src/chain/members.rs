//! Which names of a zone are members of its chain, and how a change of the zone changes them.
//!
//! Members are the names that the zone has authority for, with its delegations (RFC 4035 section 2.3): not what stands below a
//! delegation or a DNAME. In a chain of NSEC3 empty non-terminals are among them (RFC 5155 section 7.1), all of them: that
//! those may be left out which only lead to delegations without a member is a freedom that saves little.

use super::{ChainKind, DenialChain, MemberList, block::MemberEdit};
use crate::node::{Node, flags};
use crate::zone::Zone;
use nameward_wire::{Name, Type};
use std::collections::HashSet;

impl ChainKind {
    /// Whether a name that the zone has authority for has a record in the chain.
    fn has(&self, node: Node<'_>) -> bool {
        // A name with a record that cannot be read has records.
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

/// Whether a node hides the names below it.
fn hides_below(node: Node<'_>) -> bool {
    node.flags() & (flags::CUT | flags::DNAME) != 0
}

impl DenialChain {
    /// Makes the chain of a zone.
    pub(crate) fn of_zone(zone: &Zone, kind: ChainKind) -> Self {
        let mut chain = DenialChain::empty(kind, zone.apex_name());
        let nodes = zone.nodes_with_authority();
        let nodes = nodes.filter(|node| chain.kind.has(*node));
        let members = nodes.map(|node| chain.member_of(node.name()));
        chain.members = match chain.kind {
            ChainKind::Nsec => MemberList::of_sorted(members),
            ChainKind::Nsec3 { .. } => {
                let mut members: Vec<Vec<u8>> = members.collect();
                members.sort_unstable();
                MemberList::of_sorted(members.into_iter())
            }
        };
        chain
    }

    /// Returns the chain of a version in which records of `owners` went or came; `None` if it is the same.
    pub(crate) fn changed<'n>(
        &self,
        (old, new): (&Zone, &Zone),
        owners: impl Iterator<Item = Name<'n>>,
    ) -> Option<Self> {
        let apex = new.apex_name();
        let (mut seen, mut edits) = (HashSet::new(), Vec::new());
        for owner in owners {
            // A name that comes or goes may make those above it come or go.
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

    /// Notes what a change makes of one name.
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
    /// Whether a name stands below a delegation or a DNAME, so that answers do not come from it.
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

    /// All nodes that are not below a delegation or a DNAME, in canonical order.
    pub fn nodes_with_authority(&self) -> impl Iterator<Item = Node<'_>> {
        // What is below a name follows it in canonical order.
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
    /// The types that a record of denial names for the node; NSEC, NSEC3 and RRSIG are added where it is made. At a
    /// delegation the parent has NS and DS only (RFC 4035 section 2.3).
    ///
    /// Which types a name has is not known where a record cannot be read: with CNAME among the types none is denied (RFC
    /// 5155 section 8.5, RFC 6840 section 4.3), and at a delegation DS is not.
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
