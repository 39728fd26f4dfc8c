//! What makes the answers of a signed zone verifiable (RFC 4035 section 3.1): which proofs belong to an answer, and how
//! RRsets are written with their signatures.
//!
//! | answer | NSEC (RFC 4470) | NSEC3 (RFC 5155 section 7.2) |
//! |---|---|---|
//! | type not there | types of the name | types of the name |
//! | name not there | next closer name, wildcard absent | types of the closest encloser; next closer name, wildcard absent |
//! | from a wildcard | next closer name absent | next closer name absent |
//! | type not at a wildcard | types of the wildcard, next closer name absent | the same, and types of the closest encloser |
//! | delegation without DS | types of the delegation | types of the delegation |
//!
//! Proofs are made for the one answer and cover nothing but the names they are about, so no order of names is needed and
//! nobody can walk the zone.

use crate::Outcome;
use crate::encode::{Encoder, Fit, Stop, split_name};
use crate::plan::{Current, Data, Entry, Owner, Planner, Section};
use crate::view::{ZoneView, Zones};
use nameward_dnssec::{CanonicalSet, Denial, NoSignature, Proof, Signing, SoaEdit};
use nameward_wire::message::{MAX_POINTER, OwnerForm, WrittenName};
use nameward_wire::{Class, Name, NameBuf, Type};
use nameward_zone::node::flags;
use nameward_zone::{Find, NameKey, Node, Rrset, negative_ttl};
use std::sync::Arc;

/// TTL of NSEC and NSEC3: that of negative answers (RFC 9077).
pub(crate) fn proof_ttl(zone: &impl ZoneView) -> u32 {
    zone.apex().rrset(Type::SOA).map_or(0, negative_ttl)
}

/// The types that a proof names. At a delegation the parent has NS and DS only (RFC 4035 section 2.3).
fn types(node: Node<'_>) -> impl Iterator<Item = Type> {
    let is_cut = node.has(flags::CUT);
    node.rrsets()
        .map(|rrset| rrset.rtype())
        .filter(move |&rtype| match rtype {
            Type::NS | Type::DS => true,
            Type::RRSIG | Type::NSEC | Type::NSEC3 => false,
            _ => !is_cut,
        })
}

impl<'z, Z: Zones> Planner<'z, '_, Z> {
    /// Whether a name has an NSEC record that can be asked for.
    #[cold]
    pub(crate) fn has_own_nsec(&self, zone: &'z Z::View, node: Node<'z>, key: &NameKey) -> bool {
        // That of a wildcard says nothing about the names it stands for.
        node.name() == key.suffix(key.labels())
            && zone
                .signing()
                .is_some_and(|signing| *signing.denial() == Denial::Nsec)
    }

    fn prove(&mut self, data: Data<'z>, owner: Owner<'z>, (zone, node): (&'z Z::View, Node<'z>)) {
        // MAX_PROOFS covers the longest chain.
        let _ = self.plan.proofs.try_push(Entry {
            section: Section::Authority,
            owner,
            data,
            ttl: proof_ttl(zone),
            zone,
            node,
        });
    }

    /// The type is not there.
    #[cold]
    pub(crate) fn prove_types(&mut self, zone: &'z Z::View, node: Node<'z>) {
        if zone.signing().is_some() {
            self.prove(Data::Types, Owner::Name(node.name()), (zone, node));
        }
    }

    /// The name does not exist, and no wildcard stands for it.
    #[cold]
    pub(crate) fn prove_missing(
        &mut self,
        zone: &'z Z::View,
        (key, encloser): (&NameKey, usize),
        current: Current<'z>,
    ) {
        let (Some(signing), Some(node)) = (zone.signing(), zone.node(key, encloser)) else {
            return;
        };
        if matches!(signing.denial(), Denial::Nsec3(_)) {
            self.prove_types(zone, node);
        }
        self.prove_absent(zone, (key, encloser), current, node);
        // A question for the wildcard itself has it as its next closer name.
        if !key.suffix(encloser + 1).is_wildcard() {
            self.prove(Data::NoWildcard, Owner::Name(node.name()), (zone, node));
        }
    }

    /// A wildcard stands for the name: the name itself does not exist.
    #[cold]
    pub(crate) fn prove_expansion(
        &mut self,
        zone: &'z Z::View,
        (key, encloser): (&NameKey, usize),
        current: Current<'z>,
    ) {
        let (Some(signing), Some(node)) = (zone.signing(), zone.node(key, encloser)) else {
            return;
        };
        // RFC 5155 section 7.2.5: only a negative answer has to show the closest encloser.
        if matches!(signing.denial(), Denial::Nsec3(_)) && self.plan.outcome == Outcome::NoData {
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
        self.prove(Data::Absent, next_closer, (zone, node));
    }

    /// RFC 4035 section 3.1.4: a delegation comes with its DS, or with the proof that it has none.
    #[cold]
    pub(crate) fn prove_delegation(&mut self, zone: &'z Z::View, node: Node<'z>) {
        match node.rrset(Type::DS) {
            Some(ds) if zone.signing().is_some() => {
                let _ = self.plan.proofs.try_push(Entry {
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

type Rrsigs = Vec<Arc<[u8]>>;

impl<'n> Encoder<'n, '_> {
    /// Writes an entry of a signed zone; returns how many records it had.
    #[cold]
    pub(crate) fn secure_entry<V: ZoneView>(
        &mut self,
        entry: &Entry<'n, V>,
        owner: OwnerForm<'n>,
        signing: &Signing,
        made: &'n [NameBuf],
    ) -> Result<u16, Stop> {
        let node = entry.node;
        match entry.data {
            // RFC 4035 section 2.2: the NS of a delegation are not signed.
            Data::Rrset(rrset) if entry.section == Section::Referral => {
                self.further_rrset(owner, rrset, entry.ttl)
            }
            Data::Rrset(rrset) if rrset.rtype() == Type::SOA => {
                self.soa(owner, rrset, entry, signing)
            }
            Data::Rrset(rrset) => self.signed(owner, (rrset, entry.ttl), node, signing),
            Data::All(node) => {
                let mut count = 0;
                for rrset in node.rrsets() {
                    count += match rrset.rtype() {
                        Type::SOA => self.soa(owner, rrset, entry, signing)?,
                        _ => self.signed(owner, (rrset, rrset.ttl()), node, signing)?,
                    };
                }
                Ok(count)
            }
            // RFC 6672 section 5.3.1: it follows from the DNAME, which is signed.
            Data::MadeCname(index, ttl) => self.made_cname(owner, &made[index], ttl),
            Data::Types => self.proof(
                signing.matching(node.name(), types(node)),
                entry.ttl,
                signing,
            ),
            Data::Absent => {
                let name = Name::from_valid_wire(self.spelled(entry.owner, made));
                let is_free = |sibling: Name<'_>| entry.zone.is_free(sibling);
                let proof = signing.covering(name, types(node), is_free);
                self.proof(proof, entry.ttl, signing)
            }
            Data::NoWildcard => {
                // Where `*` does not fit before the name, it cannot exist.
                let Ok(wildcard) = NameBuf::join(b"\x01*", node.name()) else {
                    return Ok(0);
                };
                let is_free = |sibling: Name<'_>| entry.zone.is_free(sibling);
                let proof = signing.covering(wildcard.as_name(), types(node), is_free);
                self.proof(proof, entry.ttl, signing)
            }
        }
    }

    fn rrsigs(&mut self, set: &CanonicalSet, signing: &Signing) -> Result<Rrsigs, Stop> {
        if !self.dnssec_ok {
            return Ok(Vec::new());
        }
        signing
            .signatures(set, self.now, &mut self.making)
            .map_err(|error| match error {
                NoSignature::CannotSign => Stop::CannotSign,
                NoSignature::NotMade => Stop::NotSigned,
            })
    }

    /// An RRset and its signatures, both or neither. `node` is where it stands in the zone.
    fn signed(
        &mut self,
        owner: OwnerForm<'n>,
        (rrset, ttl): (Rrset<'n>, u32),
        node: Node<'n>,
        signing: &Signing,
    ) -> Result<u16, Stop> {
        if !self.dnssec_ok {
            return self.further_rrset(owner, rrset, ttl);
        }
        let data = rrset.records().map(|record| record.rdata);
        let set = CanonicalSet::new(node.name(), rrset.rtype(), rrset.ttl(), data);
        let rrsigs = self.rrsigs(&set, signing)?;
        self.undo_if_full(|this| {
            let count = this.further_rrset(owner, rrset, ttl)?;
            for rrsig in &rrsigs {
                this.writer.owner(owner)?;
                this.rrsig(rrsig, ttl)?;
            }
            Ok(count + rrsigs.len() as u16)
        })
    }

    fn rrsig(&mut self, rdata: &[u8], ttl: u32) -> Fit {
        let length_at = self.writer.fixed(Type::RRSIG, Class::IN, ttl)?;
        self.writer.bytes(rdata)?;
        self.writer.set_length(length_at);
        Ok(())
    }

    /// The SOA, its serial as the zone's policy has it.
    fn soa<V>(
        &mut self,
        owner: OwnerForm<'n>,
        rrset: Rrset<'n>,
        entry: &Entry<'n, V>,
        signing: &Signing,
    ) -> Result<u16, Stop> {
        let ttl = match entry.section {
            Section::Answer => rrset.ttl(),
            _ => entry.ttl,
        };
        let record = rrset.records().next();
        let Some(record) = record.filter(|_| signing.soa_edit() != SoaEdit::None) else {
            return self.signed(owner, (rrset, ttl), entry.node, signing);
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
        let shown = [primary, mailbox, &serial, rest].concat();
        let data = std::iter::once(&shown[..]);
        let set = CanonicalSet::new(entry.node.name(), Type::SOA, rrset.ttl(), data);
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

    /// A proof and its signatures. Its name was made for it and is pointed at by nothing else.
    fn proof(&mut self, proof: Option<Proof>, ttl: u32, signing: &Signing) -> Result<u16, Stop> {
        // A hash does not fit before the name of the zone: it cannot use NSEC3.
        let proof = proof.ok_or(Stop::CannotSign)?;
        // Two names of a chain may need the same: both below one name that does not exist.
        if self.proofs.contains(&proof) {
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
        self.proofs.push(proof);
        Ok(count)
    }

    /// How records of a host of the additional section are signed: not where they are glue.
    #[inline]
    pub(crate) fn signing_of_host<'v, V: ZoneView>(
        &self,
        zone: &'v V,
        node: Node<'_>,
    ) -> Option<&'v Signing> {
        let signing = zone.signing().filter(|_| self.dnssec_ok)?;
        let is_ours = matches!(zone.find(&NameKey::new(node.name())), Find::Exact(_));
        is_ours.then_some(signing)
    }

    /// An RRset of the additional section.
    #[inline]
    pub(crate) fn maybe_signed(
        &mut self,
        owner: OwnerForm<'n>,
        rrset: Rrset<'n>,
        node: Node<'n>,
        signing: Option<&Signing>,
    ) -> Result<u16, Stop> {
        match signing {
            Some(signing) => self.signed(owner, (rrset, rrset.ttl()), node, signing),
            None => self.further_rrset(owner, rrset, rrset.ttl()),
        }
    }
}
