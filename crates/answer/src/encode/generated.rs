//! Writes RRsets that are not in the zone as they are sent: computed and prepared records, addresses of external targets,
//! records with automatic hints. In a zone that is signed online they are signed like any other.

use super::{Encoder, Stop, split_name};
use crate::hints::hinted_records;
use crate::view::ZoneView;
use nameward_dnssec::{CanonicalSet, Rrsigs};
use nameward_wire::message::OwnerForm;
use nameward_wire::{Class, Type};
use nameward_zone::{CompressibleNames, Node, Rrset, SigningState};

impl<'n> Encoder<'n, '_> {
    /// Writes the addresses of an external target.
    pub(super) fn foreign_addresses(
        &mut self,
        owner: OwnerForm<'n>,
        of: (Node<'n>, u32),
        state: &SigningState,
    ) -> Result<u16, Stop> {
        let Some(addresses) = self.addresses else {
            return Ok(0);
        };
        let records = addresses.records.iter().map(|data| &data[..]);
        self.outside_rrset(owner, (addresses.rtype, records), of, state)
    }

    /// Writes a computed RRset.
    pub(super) fn computed(
        &mut self,
        owner: OwnerForm<'n>,
        (index, number): (usize, usize),
        of: (Node<'n>, u32),
        state: &SigningState,
    ) -> Result<u16, Stop> {
        let rrsets = self.computed_names[index].rrsets.as_deref();
        let Some(rrset) = rrsets.and_then(|rrsets| rrsets.get(number)) else {
            return Ok(0);
        };
        let records = rrset.records.iter().map(|data| &data[..]);
        self.outside_rrset(owner, (rrset.rtype, records), of, state)
    }

    /// Writes prepared addresses.
    pub(super) fn prepared(
        &mut self,
        owner: OwnerForm<'n>,
        (rtype, octets): (Type, &'n [u8]),
        of: (Node<'n>, u32),
        state: &SigningState,
    ) -> Result<u16, Stop> {
        let each = if rtype == Type::A { 4 } else { 16 };
        self.outside_rrset(owner, (rtype, octets.chunks_exact(each)), of, state)
    }

    /// Returns the signatures of records that are not stored as they are sent; none if the zone is not signed online.
    pub(super) fn made_rrsigs<'r>(
        &mut self,
        (rtype, records): (Type, impl Iterator<Item = &'r [u8]> + Clone),
        (node, ttl): (Node<'n>, u32),
        state: &SigningState,
    ) -> Result<Rrsigs, Stop> {
        match state.online() {
            Some(signing) if self.dnssec_ok => {
                let name = self.signed_as.unwrap_or(node.name());
                let set = CanonicalSet::new(name, rtype, ttl, records);
                self.rrsigs(&set, signing)
            }
            _ => Ok(Rrsigs::new()),
        }
    }

    /// Writes an RRset that is not in the zone, signed like any other record if the zone is signed online. A zone with
    /// stored signatures has none for it. The node is the one it belongs to.
    #[inline]
    pub(super) fn outside_rrset(
        &mut self,
        owner: OwnerForm<'n>,
        (rtype, records): (Type, impl Iterator<Item = &'n [u8]> + Clone),
        (node, ttl): (Node<'n>, u32),
        state: &SigningState,
    ) -> Result<u16, Stop> {
        let rrsigs = self.made_rrsigs((rtype, records.clone()), (node, ttl), state)?;
        self.undo_if_full(|this| {
            let mut count = rrsigs.len() as u16;
            for data in records {
                this.writer.owner(owner)?;
                let length_at = this.writer.fixed(rtype, Class::IN, ttl)?;
                match CompressibleNames::for_type(rtype) {
                    CompressibleNames::Opaque => this.writer.bytes(data)?,
                    CompressibleNames::NameAt(offset) => {
                        let (head, name) = data.split_at(usize::from(offset).min(data.len()));
                        this.writer.bytes(head)?;
                        this.writer.name(name)?;
                    }
                    CompressibleNames::TwoNames => {
                        let (first, rest) = split_name(data);
                        let (second, rest) = split_name(rest);
                        this.writer.name(first)?;
                        this.writer.name(second)?;
                        this.writer.bytes(rest)?;
                    }
                }
                this.writer.set_length(length_at);
                count += 1;
            }
            for rrsig in &rrsigs {
                this.writer.owner(owner)?;
                this.rrsig(rrsig, ttl)?;
            }
            Ok(count)
        })
    }

    /// Writes records with their hints filled in, signed like any other if the zone is signed online.
    #[cold]
    #[inline(never)]
    pub(super) fn hinted<V: ZoneView>(
        &mut self,
        owner: OwnerForm<'n>,
        rrset: Rrset<'n>,
        (node, ttl): (Node<'n>, u32),
        zone: &V,
    ) -> Result<u16, Stop> {
        let (rtype, records) = (rrset.rtype(), hinted_records(zone, node, rrset));
        let data = records.iter().map(|data| &data[..]);
        let rrsigs = self.made_rrsigs((rtype, data), (node, ttl), zone.signing())?;
        self.undo_if_full(|this| {
            // RFC 9460 section 2.2: the target is not compressed.
            for data in &records {
                this.writer.owner(owner)?;
                let length_at = this.writer.fixed(rtype, Class::IN, ttl)?;
                this.writer.bytes(data)?;
                this.writer.set_length(length_at);
            }
            for rrsig in &rrsigs {
                this.writer.owner(owner)?;
                this.rrsig(rrsig, ttl)?;
            }
            Ok((records.len() + rrsigs.len()) as u16)
        })
    }
}
