//! Proofs from the records of a chain over names that were listed before the answer was looked up.
//!
//! The list can be older than the data of the answer. It is used if both agree on all names that the answer has to
//! prove, so that each answer is consistent with its proof; otherwise all denial records are made for the answer, which
//! needs no list.

use super::types;
use crate::claim::{Claim, is_proven, name_of_claim, wildcard_below};
use crate::encode::{Encoder, Stop};
use crate::plan::{Data, Plan, PlanEntry};
use crate::view::ZoneView;
use nameward_dnssec::{Denial, Nsec3, Nsec3Hash, Signing};
use nameward_wire::{Name, NameBuf, Type};
use nameward_zone::{ListedChain, SigningState, SigningWithList};

impl<'n> Encoder<'n, '_> {
    /// Checks whether the name lists agree with everything the answer has to prove about their zones.
    pub(crate) fn agrees_with_lists<V: ZoneView>(
        &self,
        plan: &Plan<'n, V>,
        made: &'n [NameBuf],
    ) -> bool {
        plan.proofs.iter().all(|entry| {
            let (SigningState::Listed(listed), Data::Proof(claim)) =
                (entry.zone.signing(), entry.data)
            else {
                return true;
            };
            let Some(chain) = listed.chain() else {
                return false;
            };
            let next_closer = Name::from_valid_wire(self.spelled(entry.owner, made));
            let wildcard = wildcard_below(entry.node.name());
            let name = name_of_claim(claim, entry.node, next_closer, &wildcard);
            let listed = (&*chain, &*listed.signing);
            name.is_none_or(|name| {
                let hash = |hashing: &Nsec3| self.hashed(hashing, name).ok();
                is_proven(claim, entry.node, name, listed, hash)
            })
        })
    }

    /// Writes the records that prove a claim: those of the list, or else records made for the answer.
    pub(super) fn proof_with_list<V: ZoneView>(
        &mut self,
        entry: &PlanEntry<'n, V>,
        (claim, next_closer): (Claim, Name<'_>),
        listed: &SigningWithList,
    ) -> Result<u16, Stop> {
        let signing = &*listed.signing;
        let Some(chain) = listed.chain().filter(|_| self.uses_lists) else {
            // The list was dropped after it had shown that there is no NSEC: the record made here would be one.
            let is_nsec = self.absent == Some(Type::NSEC) && *signing.denial() == Denial::Nsec;
            if is_nsec && claim == Claim::NoType {
                return Err(Stop::CannotSign);
            }
            return self.made_proof(entry, (claim, next_closer), signing);
        };
        let wildcard = wildcard_below(entry.node.name());
        let Some(name) = name_of_claim(claim, entry.node, next_closer, &wildcard) else {
            return Ok(0);
        };
        match chain.hashing() {
            None => self.listed_nsec((entry, claim), name, (&chain, signing)),
            Some(hashing) => {
                let hash = self.hashed(hashing, name)?;
                self.listed_nsec3((entry, claim), (name, hash), (&chain, hashing, signing))
            }
        }
    }

    /// Writes the NSEC that matches or covers a name.
    pub(super) fn listed_nsec<V: ZoneView>(
        &mut self,
        (entry, claim): (&PlanEntry<'n, V>, Claim),
        name: Name<'_>,
        (chain, signing): (&ListedChain, &Signing),
    ) -> Result<u16, Stop> {
        let found = chain.nsec_at_or_before(name);
        let (link, listed) = found.ok_or(Stop::CannotSign)?;
        let owner = link.name.as_name();
        // The data looked up is newer than the list.
        let proof = if owner == entry.node.name() {
            let absent = self.absent.filter(|_| claim == Claim::NoType);
            signing.nsec_of_chain(owner, link.next, types(entry.node, absent))
        } else {
            signing.nsec_of_chain(owner, link.next, listed.iter())
        };
        self.proof(Some(proof), entry.ttl, signing)
    }

    /// Writes the NSEC3 that matches or covers the hash of a name.
    fn listed_nsec3<V: ZoneView>(
        &mut self,
        (entry, claim): (&PlanEntry<'n, V>, Claim),
        (name, hash): (Name<'_>, Nsec3Hash),
        (chain, hashing, signing): (&ListedChain, &Nsec3, &Signing),
    ) -> Result<u16, Stop> {
        let link = chain.nsec3_at_or_before(&hash).ok_or(Stop::CannotSign)?;
        let links = (&link.hash, &link.next);
        let is_claimed = matches!(claim, Claim::Types | Claim::NoType);
        let proof = match link.hash == hash {
            true => {
                let absent = self.absent.filter(|_| claim == Claim::NoType);
                signing.nsec3_of_chain(hashing, links, types(entry.node, absent))
            }
            false if is_claimed => {
                return self.opted_out_nsec3s(entry, name, (chain, hashing, signing));
            }
            false => signing.nsec3_of_chain(hashing, links, link.types.iter()),
        };
        self.proof(proof, entry.ttl, signing)
    }

    /// Writes the NSEC3s for a delegation that has none: they prove its closest provable encloser (RFC 5155 section
    /// 7.2.4).
    fn opted_out_nsec3s<V: ZoneView>(
        &mut self,
        entry: &PlanEntry<'n, V>,
        delegation: Name<'_>,
        (chain, hashing, signing): (&ListedChain, &Nsec3, &Signing),
    ) -> Result<u16, Stop> {
        let apex = entry.zone.apex_name();
        let mut next_closer = delegation;
        while let Some(encloser) = next_closer.parent().filter(|_| next_closer != apex) {
            let hash = self.hashed(hashing, encloser)?;
            let matching = chain.nsec3_at_or_before(&hash);
            if let Some(matching) = matching.filter(|link| link.hash == hash) {
                let covering = chain.nsec3_at_or_before(&self.hashed(hashing, next_closer)?);
                let covering = covering.ok_or(Stop::CannotSign)?;
                let mut count = 0;
                for link in [matching, covering] {
                    let links = (&link.hash, &link.next);
                    let proof = signing.nsec3_of_chain(hashing, links, link.types.iter());
                    count += self.proof(proof, entry.ttl, signing)?;
                }
                return Ok(count);
            }
            next_closer = encloser;
        }
        // A chain without its apex proves nothing.
        Err(Stop::CannotSign)
    }
}
