//! Proofs from the records of a chain over all names of a zone.
//!
//! NSEC: the record of the name, or else the one before it in canonical order, matches or covers (RFC 4035 section
//! 3.1.3); an empty non-terminal has none of its own and is proven by the one before it. NSEC3: the same with the hash
//! of the name (RFC 5155 section 7.2); if Opt-Out has left a name without a record, its closest provable encloser is
//! used instead (section 7.2.4).
//!
//! A zone with stored signatures contains these records. For a zone signed here they are made, always identically, so
//! that their signatures come from the cache whatever name is queried.

use super::types;
use crate::claim::{Claim, wildcard_below};
use crate::encode::{Encoder, Stop};
use crate::plan::PlanEntry;
use crate::view::ZoneView;
use nameward_dnssec::{Nsec3, Nsec3Hash, Signing};
use nameward_wire::message::OwnerForm;
use nameward_wire::{Name, Type};
use nameward_zone::{ChainedSigning, DenialChain, DenialIndex, NameKey, Node, Rrset};

/// An NSEC or NSEC3 chain.
#[derive(Clone, Copy)]
pub(super) enum ProofChain<'c> {
    /// Records stored in the zone.
    Stored(&'c DenialIndex),
    /// Records made and signed here.
    Made(&'c DenialChain, &'c Signing),
}

impl<'c> From<&'c ChainedSigning> for ProofChain<'c> {
    fn from(chained: &'c ChainedSigning) -> Self {
        ProofChain::Made(&chained.chain, &chained.signing)
    }
}

impl<'c> ProofChain<'c> {
    fn hashing(self) -> Option<&'c Nsec3> {
        match self {
            ProofChain::Stored(index) => index.hashing(),
            ProofChain::Made(chain, _) => chain.hashing(),
        }
    }
}

impl<'n> Encoder<'n, '_> {
    /// Writes the records that prove a claim.
    pub(super) fn proof_of_chain<V: ZoneView>(
        &mut self,
        entry: &PlanEntry<'n, V>,
        (claim, next_closer): (Claim, Name<'_>),
        chain: ProofChain<'_>,
    ) -> Result<u16, Stop> {
        let wildcard = wildcard_below(entry.node.name());
        let name = match (claim, &wildcard) {
            (Claim::Types | Claim::NoType, _) => entry.node.name(),
            (Claim::Absent | Claim::NoName, _) => next_closer,
            (Claim::NoWildcard, Some(wildcard)) => wildcard.as_name(),
            (Claim::NoWildcard, None) => return Ok(0),
        };
        match (chain.hashing(), claim) {
            (None, _) => self.nsec_for((entry, claim), name, chain),
            (Some(hashing), Claim::Types | Claim::NoType) => {
                self.nsec3_of((entry, claim), name, (chain, hashing))
            }
            (Some(hashing), _) => {
                let hash = self.hashed(hashing, name)?;
                self.nsec3_for((entry, claim), &hash, chain)
            }
        }
    }

    /// Writes the NSEC that matches or covers a name.
    fn nsec_for<V: ZoneView>(
        &mut self,
        (entry, claim): (&PlanEntry<'n, V>, Claim),
        name: Name<'_>,
        chain: ProofChain<'_>,
    ) -> Result<u16, Stop> {
        match chain {
            ProofChain::Stored(index) => {
                self.chain_record(entry.zone, Type::NSEC, index.at_or_before(name))
            }
            ProofChain::Made(chain, signing) => {
                let link = chain.nsec_at_or_before(name).ok_or(Stop::CannotSign)?;
                let node = node_of(entry.zone, link.name.as_name())?;
                let types = types(node, self.absent_at((entry, claim), node));
                let proof = signing.nsec_of_chain(node.name(), link.next, types);
                self.proof(Some(proof), entry.ttl, signing)
            }
        }
    }

    /// Writes the NSEC3 that matches a name, or the ones that prove its closest provable encloser.
    fn nsec3_of<V: ZoneView>(
        &mut self,
        (entry, claim): (&PlanEntry<'n, V>, Claim),
        name: Name<'_>,
        (chain, hashing): (ProofChain<'_>, &Nsec3),
    ) -> Result<u16, Stop> {
        let apex = entry.zone.apex_name();
        let (mut name, mut next_closer) = (name, None);
        loop {
            let hash = self.hashed(hashing, name)?;
            let is_there = match chain {
                ProofChain::Stored(index) => {
                    let owner = Nsec3::owner_of(&hash, apex).ok_or(Stop::CannotSign)?;
                    let owner = owner.as_name();
                    index
                        .at_or_before(owner)
                        .is_some_and(|found| found == owner)
                }
                ProofChain::Made(chain, _) => {
                    let link = chain.nsec3_at_or_before(&hash);
                    link.is_some_and(|link| link.hash == hash)
                }
            };
            if is_there {
                let mut count = self.nsec3_for((entry, claim), &hash, chain)?;
                if let Some(next_closer) = next_closer {
                    let hash = self.hashed(hashing, next_closer)?;
                    count += self.nsec3_for((entry, claim), &hash, chain)?;
                }
                return Ok(count);
            }
            // A chain without its apex proves nothing.
            let parent = name.parent().filter(|_| name != apex);
            next_closer = Some(name);
            name = parent.ok_or(Stop::CannotSign)?;
        }
    }

    /// Writes the NSEC3 that matches or covers a hash.
    fn nsec3_for<V: ZoneView>(
        &mut self,
        (entry, claim): (&PlanEntry<'n, V>, Claim),
        hash: &Nsec3Hash,
        chain: ProofChain<'_>,
    ) -> Result<u16, Stop> {
        match chain {
            ProofChain::Stored(index) => {
                let owner = Nsec3::owner_of(hash, entry.zone.apex_name());
                let owner = owner.ok_or(Stop::CannotSign)?;
                let owner = index.at_or_before(owner.as_name());
                self.chain_record(entry.zone, Type::NSEC3, owner)
            }
            ProofChain::Made(chain, signing) => {
                let link = chain.nsec3_at_or_before(hash).ok_or(Stop::CannotSign)?;
                let hashing = chain.hashing().ok_or(Stop::CannotSign)?;
                let node = node_of(entry.zone, link.name.as_name())?;
                let types = types(node, self.absent_at((entry, claim), node));
                let proof = signing.nsec3_of_chain(hashing, (&link.hash, &link.next), types);
                self.proof(proof, entry.ttl, signing)
            }
        }
    }

    /// Returns the type that the answer denies at a node.
    fn absent_at<V: ZoneView>(
        &self,
        (entry, claim): (&PlanEntry<'n, V>, Claim),
        node: Node<'_>,
    ) -> Option<Type> {
        let is_queried = claim == Claim::NoType && entry.node.name() == node.name();
        self.absent.filter(|_| is_queried)
    }

    /// Writes one record of the chain with its signatures, unless the answer already has it.
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

    /// Writes an RRset and the signatures stored with it, both or neither.
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

/// Returns the node of a chain member, which exists in every version the chain belongs to.
fn node_of<'z, V: ZoneView>(zone: &'z V, name: Name<'_>) -> Result<Node<'z>, Stop> {
    let key = NameKey::new(name);
    zone.node(&key, key.labels()).ok_or(Stop::CannotSign)
}
