//! The proofs that an answer from a signed zone needs (RFC 4035 section 3.1).
//!
//! | answer | NSEC (RFC 4035 section 3.1.3) | NSEC3 (RFC 5155 section 7.2) |
//! |---|---|---|
//! | type not there | types of the name | types of the name |
//! | name not there | next closer name, wildcard absent | types of the closest encloser; next closer name, wildcard absent |
//! | from a wildcard | next closer name absent | next closer name absent |
//! | type not at a wildcard | types of the wildcard, next closer name absent | the same, and types of the closest encloser |
//! | delegation without DS | types of the delegation | types of the delegation |
//!
//! Compact denial (RFC 9824) only proves the query name, as a name that exists; one that does not exist has the type
//! NXNAME.

use super::{Current, Planner, owner};
use crate::AnswerKind;
use crate::claim::{Claim, is_left_out};
use crate::plan::{Data, Owner, PlanEntry, Section};
use crate::view::{ZoneView, Zones};
use nameward_dnssec::Denial;
use nameward_wire::{Name, Rcode, Type};
use nameward_zone::{NameKey, Node, SigningState, negative_ttl};

/// Returns the TTL of NSEC and NSEC3 records: that of negative answers (RFC 9077).
pub(super) fn proof_ttl(zone: &impl ZoneView) -> u32 {
    zone.apex().rrset(Type::SOA).map_or(0, negative_ttl)
}

/// Checks whether a name represented by a node has an NSEC record, which is made when it is queried.
#[cold]
pub(super) fn has_own_nsec(zone: &impl ZoneView, node: Node<'_>, name: Name<'_>) -> bool {
    let state = zone.signing();
    // In a chain, an empty non-terminal has none (RFC 4035 section 2.3).
    let is_left_out = match state {
        SigningState::Chained(_) => node.is_empty(),
        SigningState::Listed(listed) => name == node.name() && is_left_out(node, listed),
        SigningState::Unsigned | SigningState::Online(_) | SigningState::Stored(_) => false,
    };
    let signing = state.online();
    signing.is_some_and(|signing| *signing.denial() == Denial::Nsec) && !is_left_out
}

impl<'z, Z: Zones> Planner<'z, '_, Z> {
    fn prove(&mut self, claim: Claim, owner: Owner<'z>, (zone, node): (&'z Z::View, Node<'z>)) {
        // MAX_PROOFS covers the longest chain.
        let _ = self.plan.proofs.try_push(PlanEntry {
            section: Section::Authority,
            owner,
            data: Data::Proof(claim),
            ttl: proof_ttl(zone),
            zone,
            node,
        });
    }

    /// Proves that the type does not exist at the name.
    #[cold]
    pub(super) fn prove_no_type(
        &mut self,
        zone: &'z Z::View,
        node: Node<'z>,
        current: Current<'z>,
    ) {
        let state = zone.signing();
        if state.is_signed() {
            // RFC 9824 section 3.3: a name matched by a wildcard is presented as one that exists.
            let owner = if state.is_compact() {
                owner(current)
            } else {
                Owner::Name(node.name())
            };
            self.prove(Claim::NoType, owner, (zone, node));
        }
    }

    /// Proves that the name exists.
    fn prove_types(&mut self, zone: &'z Z::View, node: Node<'z>) {
        if zone.signing().is_signed() {
            self.prove(Claim::Types, Owner::Name(node.name()), (zone, node));
        }
    }

    /// Proves that the name does not exist, and that no wildcard matches it.
    #[cold]
    pub(super) fn prove_missing(
        &mut self,
        zone: &'z Z::View,
        (key, encloser): (&NameKey, usize),
        current: Current<'z>,
    ) {
        let Some(node) = signed_node(zone, key, encloser) else {
            return;
        };
        if zone.signing().is_compact() {
            return self.prove_no_name(zone, node, current);
        }
        if zone.signing().uses_nsec3() {
            self.prove_types(zone, node);
        }
        self.prove_absent(zone, (key, encloser), current, node);
        // A query for the wildcard itself has it as its next closer name.
        if !key.suffix(encloser + 1).is_wildcard() {
            self.prove(Claim::NoWildcard, Owner::Name(node.name()), (zone, node));
        }
    }

    /// Presents the name as one that exists and only has an NSEC record (RFC 9824 section 3.1).
    fn prove_no_name(&mut self, zone: &'z Z::View, node: Node<'z>, current: Current<'z>) {
        if !self.compact_ok {
            self.plan.rcode = Rcode::NoError;
        }
        match self.qtype {
            // It is the answer to a query for NSEC.
            Type::NSEC => {
                self.plan
                    .entries
                    .retain(|entry| entry.section != Section::Authority);
                let (section, data) = (Section::Answer, Data::Proof(Claim::NoName));
                self.push(section, owner(current), data, proof_ttl(zone), (zone, node));
            }
            _ => self.prove(Claim::NoName, owner(current), (zone, node)),
        }
    }

    /// Proves that a name matched by a wildcard does not exist itself.
    #[cold]
    pub(super) fn prove_expansion(
        &mut self,
        zone: &'z Z::View,
        (key, encloser): (&NameKey, usize),
        current: Current<'z>,
    ) {
        let Some(node) = signed_node(zone, key, encloser) else {
            return;
        };
        if zone.signing().is_compact() {
            return;
        }
        // RFC 5155 section 7.2.5: only a negative answer has to prove the closest encloser.
        if zone.signing().uses_nsec3() && self.plan.outcome == AnswerKind::NoData {
            self.prove_types(zone, node);
        }
        self.prove_absent(zone, (key, encloser), current, node);
    }

    fn prove_absent(
        &mut self,
        zone: &'z Z::View,
        (key, encloser): (&NameKey, usize),
        current: Current<'z>,
        node: Node<'z>,
    ) {
        let skip = key.prefix_len(encloser + 1);
        let next_closer = match current {
            Current::Question => Owner::Question(skip),
            Current::Name(name) => Owner::Name(Name::from_valid_wire(&name.as_wire()[skip..])),
            Current::Made(index) => Owner::Made(index, skip),
        };
        self.prove(Claim::Absent, next_closer, (zone, node));
    }

    /// Adds the DS of a delegation, or the proof that it has none (RFC 4035 section 3.1.4).
    #[cold]
    pub(super) fn prove_delegation(&mut self, zone: &'z Z::View, node: Node<'z>) {
        match node.rrset(Type::DS) {
            Some(ds) if zone.signing().is_signed() => {
                let _ = self.plan.proofs.try_push(PlanEntry {
                    section: Section::Authority,
                    owner: Owner::Name(node.name()),
                    data: Data::Rrset(ds),
                    ttl: ds.ttl(),
                    zone,
                    node,
                });
            }
            _ => self.prove_types(zone, node),
        }
    }
}

/// Returns the closest encloser in a signed zone.
fn signed_node<'z, V: ZoneView>(zone: &'z V, key: &NameKey, encloser: usize) -> Option<Node<'z>> {
    zone.node(key, encloser)
        .filter(|_| zone.signing().is_signed())
}
