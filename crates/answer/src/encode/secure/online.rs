//! Proofs and signatures made for a single answer.
//!
//! Proofs only cover the names they are about (RFC 4470, RFC 7129 appendix B), so the names need not be sorted and the
//! zone cannot be walked.

use super::types;
use crate::claim::{Claim, wildcard_below};
use crate::encode::{Encoder, Stop, split_name};
use crate::plan::PlanEntry;
use crate::view::ZoneView;
use nameward_dnssec::{CanonicalSet, Denial, Proof, ReusableBytes, Signing, SoaEdit, StoredSet};
use nameward_wire::message::{MAX_POINTER, OwnerForm, WrittenName};
use nameward_wire::{Class, Name, NameBuf, Type};
use nameward_zone::{Node, Rrset};
use std::hash::{DefaultHasher, Hasher};

/// Returns a hash that identifies a proof within an answer. A collision would make the answer to one query bogus, with
/// a probability of 2^-64.
fn hash_of(proof: &Proof) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(proof.owner.as_name().as_wire());
    hasher.write_u16(proof.rtype.0);
    hasher.write(&proof.rdata);
    hasher.finish()
}

impl<'n> Encoder<'n, '_> {
    /// Makes and writes the record that proves a claim.
    pub(super) fn made_proof<V: ZoneView>(
        &mut self,
        entry: &PlanEntry<'n, V>,
        (claim, next_closer): (Claim, Name<'_>),
        signing: &Signing,
    ) -> Result<u16, Stop> {
        let node = entry.node;
        // Only the queried name is known to lack the type.
        let absent = self.absent.filter(|_| claim == Claim::NoType);
        let is_free = |sibling: Name<'_>| entry.zone.is_free(sibling);
        if let Denial::Nsec3(hashing) = signing.denial() {
            let wildcard = wildcard_below(node.name());
            let name = match claim {
                Claim::Types => Some(node.name()),
                Claim::NoType | Claim::NoName | Claim::Absent => Some(next_closer),
                Claim::NoWildcard => wildcard.as_ref().map(NameBuf::as_name),
            };
            // From here on the hash is known.
            name.map(|name| self.hashed(hashing, name)).transpose()?;
        }
        let types_at = |owner: Name<'_>| Some(types(entry.zone.known_node(owner)?, None));
        let proof = match claim {
            Claim::Types => signing.matching(node.name(), types(node, absent)),
            // The name of the node, or in compact denial the name it matches as a wildcard.
            Claim::NoType => signing.matching(next_closer, types(node, absent)),
            Claim::NoName => signing.matching(next_closer, std::iter::once(Type::NXNAME)),
            Claim::Absent => {
                let parent = types(node, absent);
                signing.covering(next_closer, parent, is_free, types_at)
            }
            Claim::NoWildcard => match wildcard_below(node.name()) {
                Some(wildcard) => {
                    let parent = types(node, absent);
                    signing.covering(wildcard.as_name(), parent, is_free, types_at)
                }
                None => return Ok(0),
            },
        };
        self.proof(proof, entry.ttl, signing)
    }

    /// Writes an RRset and its signatures, both or neither. `node` is its node in the zone.
    pub(super) fn signed_online(
        &mut self,
        owner: OwnerForm<'n>,
        (rrset, ttl): (Rrset<'n>, u32),
        node: Node<'n>,
        signing: &Signing,
    ) -> Result<u16, Stop> {
        if rrset.rtype() == Type::SOA && signing.soa_edit() != SoaEdit::None {
            return self.edited_soa(owner, (rrset, ttl), node, signing);
        }
        if !self.dnssec_ok {
            return self.further_rrset(owner, rrset, ttl);
        }
        let name = self.signed_as.unwrap_or(node.name());
        let stored = StoredSet {
            owner: name.as_wire(),
            octets: rrset.bytes(),
        };
        let recent = self.recent.take();
        let found = recent
            .as_deref()
            .and_then(|recent| recent.find(stored, signing, self.now));
        if let Some(rrsigs) = found {
            let result = self.with_rrsigs(owner, (rrset, ttl), rrsigs);
            self.recent = recent;
            return result;
        }
        self.recent = recent;
        let data = rrset.records().map(|record| record.rdata);
        let set = CanonicalSet::new(name, rrset.rtype(), rrset.ttl(), data);
        let rrsigs = self.rrsigs(&set, signing)?;
        if let Some(recent) = self.recent.as_deref_mut()
            && signing.caches_signatures()
        {
            let times = signing.served_times(&set, self.now);
            recent.keep(stored, signing, times, &rrsigs);
        }
        self.with_rrsigs(owner, (rrset, ttl), rrsigs.iter().map(|rrsig| &rrsig[..]))
    }

    /// Writes an RRset and the given signatures, both or neither.
    fn with_rrsigs<'s>(
        &mut self,
        owner: OwnerForm<'n>,
        (rrset, ttl): (Rrset<'n>, u32),
        rrsigs: impl Iterator<Item = &'s [u8]>,
    ) -> Result<u16, Stop> {
        self.undo_if_full(|this| {
            let mut count = this.further_rrset(owner, rrset, ttl)?;
            for rrsig in rrsigs {
                this.writer.owner(owner)?;
                this.rrsig(rrsig, ttl)?;
                count += 1;
            }
            Ok(count)
        })
    }

    /// Writes the SOA, with the serial according to the zone's policy.
    fn edited_soa(
        &mut self,
        owner: OwnerForm<'n>,
        (rrset, ttl): (Rrset<'n>, u32),
        node: Node<'n>,
        signing: &Signing,
    ) -> Result<u16, Stop> {
        let Some(record) = rrset.records().next() else {
            return Ok(0);
        };
        let (primary, rest) = split_name(record.rdata);
        let (mailbox, rest) = split_name(rest);
        let Some((serial, rest)) = rest.split_first_chunk() else {
            return Ok(0);
        };
        let serial = signing
            .soa_edit()
            .serial(u32::from_be_bytes(*serial), self.now);
        let serial = serial.to_be_bytes();
        let mut shown = ReusableBytes::take();
        for part in [primary, mailbox, &serial, rest] {
            shown.extend_from_slice(part);
        }
        let data = std::iter::once(&shown[..]);
        let set = CanonicalSet::new(node.name(), Type::SOA, rrset.ttl(), data);
        let rrsigs = self.rrsigs(&set, signing)?;
        self.undo_if_full(|this| {
            this.writer.owner(owner)?;
            let length_at = this.writer.fixed(Type::SOA, Class::IN, ttl)?;
            this.writer.name(primary)?;
            this.writer.name(mailbox)?;
            this.writer.bytes(&serial)?;
            this.writer.bytes(rest)?;
            this.writer.set_length(length_at);
            for rrsig in &rrsigs {
                this.writer.owner(owner)?;
                this.rrsig(rrsig, ttl)?;
            }
            Ok(1 + rrsigs.len() as u16)
        })
    }

    /// Writes the NSEC of a name for which NSEC was queried, and its signatures. A name matched by a wildcard has its
    /// own (RFC 4592 section 4.8 allows the one of the wildcard, but that would seem to deny other names, RFC 8198
    /// section 5.3).
    pub(super) fn queried_nsec<V: ZoneView>(
        &mut self,
        (owner, name): (OwnerForm<'n>, Name<'_>),
        (entry, claim): (&PlanEntry<'n, V>, Claim),
        signing: &Signing,
    ) -> Result<u16, Stop> {
        let (node, ttl) = (entry.node, entry.ttl);
        let proof = match claim {
            Claim::NoName => signing.matching(name, std::iter::once(Type::NXNAME)),
            _ => signing.matching(name, types(node, self.absent)),
        };
        let proof = proof.ok_or(Stop::CannotSign)?;
        let data = std::iter::once(&proof.rdata[..]);
        let set = CanonicalSet::new(name, proof.rtype, ttl, data);
        let rrsigs = self.rrsigs(&set, signing)?;
        self.undo_if_full(|this| {
            this.writer.owner(owner)?;
            let length_at = this.writer.fixed(proof.rtype, Class::IN, ttl)?;
            this.writer.bytes(&proof.rdata)?;
            this.writer.set_length(length_at);
            for rrsig in &rrsigs {
                this.writer.owner(owner)?;
                this.rrsig(rrsig, ttl)?;
            }
            Ok(1 + rrsigs.len() as u16)
        })
    }

    /// Writes a proof and its signatures. Its owner was made for it and is not used in other compression pointers.
    pub(super) fn proof(
        &mut self,
        proof: Option<Proof>,
        ttl: u32,
        signing: &Signing,
    ) -> Result<u16, Stop> {
        // The hash does not fit in front of the zone name: the zone cannot use NSEC3.
        let proof = proof.ok_or(Stop::CannotSign)?;
        // Two names in a chain may need the same proof, if both are below one name that does not exist.
        let hash = hash_of(&proof);
        if self.proofs.contains(&hash) {
            return Ok(0);
        }
        let name = proof.owner.as_name();
        let data = std::iter::once(&proof.rdata[..]);
        let set = CanonicalSet::new(name, proof.rtype, ttl, data);
        let rrsigs = self.rrsigs(&set, signing)?;
        let count = self.undo_if_full(|this| {
            let WrittenName {
                at,
                literal,
                pointer,
            } = this.writer.passing_name(name.as_wire())?;
            let length_at = this.writer.fixed(proof.rtype, Class::IN, ttl)?;
            this.writer.bytes(&proof.rdata)?;
            this.writer.set_length(length_at);
            let at = if literal == 0 {
                pointer.unwrap_or(at)
            } else {
                at
            };
            for rrsig in &rrsigs {
                if name.is_root() || at > MAX_POINTER {
                    this.writer.passing_name(name.as_wire())?;
                } else {
                    this.writer.owner(OwnerForm::pointer(at, false))?;
                }
                this.rrsig(rrsig, ttl)?;
            }
            Ok(1 + rrsigs.len() as u16)
        })?;
        // If there is no room in the list, an identical record may be written twice, which is harmless.
        let _ = self.proofs.try_push(hash);
        Ok(count)
    }
}
