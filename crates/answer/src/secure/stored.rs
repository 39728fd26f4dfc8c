//! Proofs and signatures that are records of the zone.
//!
//! NSEC: the record of the name, or else the one before it in canonical order, matches or covers (RFC 4035 section 3.1.3); an
//! empty non-terminal has none of its own and is shown by the one before it. NSEC3: the same with the hash of the name
//! (RFC 5155 section 7.2); where Opt-Out has left a name without a record, its closest provable encloser stands
//! for it (section 7.2.4).

use super::{Claim, wildcard_below};
use crate::encode::{Encoder, Stop};
use crate::plan::PlanEntry;
use crate::view::ZoneView;
use nameward_dnssec::Nsec3;
use nameward_wire::message::OwnerForm;
use nameward_wire::{Name, Type};
use nameward_zone::{DenialIndex, NameKey, Node, Rrset};

impl<'n> Encoder<'n, '_> {
    /// Writes the records that prove a claim.
    pub(super) fn stored_proof<V: ZoneView>(
        &mut self,
        entry: &PlanEntry<'n, V>,
        (claim, next_closer): (Claim, Name<'_>),
        index: &DenialIndex,
    ) -> Result<u16, Stop> {
        let wildcard = wildcard_below(entry.node.name());
        let name = match (claim, &wildcard) {
            (Claim::Types, _) => entry.node.name(),
            (Claim::Absent, _) => next_closer,
            (Claim::NoWildcard, Some(wildcard)) => wildcard.as_name(),
            (Claim::NoWildcard, None) => return Ok(0),
        };
        match (index.hashing(), claim) {
            (None, _) => self.chain_record(entry.zone, Type::NSEC, index.at_or_before(name)),
            (Some(hashing), Claim::Types) => self.nsec3_of(entry.zone, name, (index, hashing)),
            (Some(hashing), _) => self.nsec3_over(entry.zone, name, (index, hashing)),
        }
    }

    /// The NSEC3 that matches a name, or those that prove its closest provable encloser.
    fn nsec3_of<V: ZoneView>(
        &mut self,
        zone: &'n V,
        name: Name<'_>,
        (index, hashing): (&DenialIndex, &Nsec3),
    ) -> Result<u16, Stop> {
        let apex = zone.apex().name();
        let (mut name, mut next_closer) = (name, None);
        loop {
            let hashed = hashing.owner(name, apex).ok_or(Stop::CannotSign)?;
            let owner = index.at_or_before(hashed.as_name());
            if owner.is_some_and(|owner| owner == hashed.as_name()) {
                let mut count = self.chain_record(zone, Type::NSEC3, owner)?;
                if let Some(next_closer) = next_closer {
                    count += self.nsec3_over(zone, next_closer, (index, hashing))?;
                }
                return Ok(count);
            }
            // A chain without its apex proves nothing.
            let parent = name.parent().filter(|_| name != apex);
            next_closer = Some(name);
            name = parent.ok_or(Stop::CannotSign)?;
        }
    }

    /// The NSEC3 that covers a name.
    fn nsec3_over<V: ZoneView>(
        &mut self,
        zone: &'n V,
        name: Name<'_>,
        (index, hashing): (&DenialIndex, &Nsec3),
    ) -> Result<u16, Stop> {
        let hashed = hashing.owner(name, zone.apex().name());
        let hashed = hashed.ok_or(Stop::CannotSign)?;
        self.chain_record(zone, Type::NSEC3, index.at_or_before(hashed.as_name()))
    }

    /// One record of the chain with its signatures, unless the answer has it already.
    fn chain_record<V: ZoneView>(
        &mut self,
        zone: &'n V,
        rtype: Type,
        owner: Option<Name<'_>>,
    ) -> Result<u16, Stop> {
        let key = owner.map(NameKey::new);
        let node = key.and_then(|key| zone.node(&key, key.labels()));
        let found = node.and_then(|node| Some((node, node.rrset(rtype)?)));
        let (node, rrset) = found.ok_or(Stop::CannotSign)?;
        if self.proven.iter().any(|other| other.is_same(node)) {
            return Ok(0);
        }
        let owner = OwnerForm::Name(node.name().as_wire());
        let count = self.with_stored_signatures(owner, (rrset, rrset.ttl()), node)?;
        self.proven.push(node);
        Ok(count)
    }

    /// An RRset and the signatures beside it, both or neither.
    pub(super) fn with_stored_signatures(
        &mut self,
        owner: OwnerForm<'n>,
        (rrset, ttl): (Rrset<'n>, u32),
        node: Node<'n>,
    ) -> Result<u16, Stop> {
        self.undo_if_full(|this| {
            let mut count = this.further_rrset(owner, rrset, ttl)?;
            for rrsig in node.signatures(rrset.rtype()) {
                this.writer.owner(owner)?;
                this.rrsig(rrsig, ttl)?;
                count += 1;
            }
            Ok(count)
        })
    }
}
