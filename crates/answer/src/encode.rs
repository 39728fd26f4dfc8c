//! The response encoder: writes a plan as a message, sections in order, RRsets whole or not at all, additional data as
//! far as there is room.

mod generated;
mod secure;

use crate::alias::AliasAddresses;
use crate::computed::ComputedName;
use crate::hints::{has_auto_hints, is_own_service, service_data};
use crate::plan::{Data, MAX_PROOFS, Owner, Plan, PlanEntry, Section};
use crate::view::ZoneView;
use arrayvec::ArrayVec;
use nameward_dnssec::{CanonicalSet, Making, NoSignature, RecentSignatures, Rrsigs, Signing};
use nameward_wire::message::{
    HEADER, MessageFull, MessageSection, MessageWriter, OptRecord, OwnerForm, Query, ReplyFlags,
};
use nameward_wire::{Class, Name, NameBuf, Type};
use nameward_zone::{CompressibleNames, Node, Rrset, SigningState};

/// Maximum number of hosts whose addresses are added for MX, SRV and similar (CVE-2024-11187: additional data as
/// amplifier).
const MAX_TARGETS: usize = 32;

/// Writes one answer.
pub(crate) struct Encoder<'n, 'b> {
    writer: MessageWriter<'n, 'b>,
    /// The client requested signatures.
    pub(crate) dnssec_ok: bool,
    /// The name under which the RRsets of the current entry are signed, if it differs from that of their node.
    signed_as: Option<Name<'n>>,
    /// Seconds since 1970.
    pub(crate) now: u32,
    pub(crate) making: Making,
    /// Signatures that the thread served last.
    pub(crate) recent: Option<&'n mut RecentSignatures>,
    /// Addresses of the external target of an ALIAS.
    pub(crate) addresses: Option<&'n AliasAddresses>,
    /// Names whose records were computed.
    pub(crate) computed_names: &'n [ComputedName],
    /// The queried type, if it does not exist.
    pub(crate) absent: Option<Type>,
    /// Hashes of the synthesised denial records written so far.
    proofs: ArrayVec<u64, MAX_PROOFS>,
    /// The name lists agree with everything the answer has to prove.
    uses_lists: bool,
    /// Nodes whose NSEC or NSEC3 has been written so far.
    proven: Vec<Node<'n>>,
}

/// The reason why a record was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The message is full.
    Full,
    /// A key of the zone is unusable.
    CannotSign,
    /// A signature has not been made yet.
    NotSigned,
}

impl From<MessageFull> for Stop {
    #[inline]
    fn from(_: MessageFull) -> Self {
        Stop::Full
    }
}

type Fit = Result<(), Stop>;

/// The outcome of encoding a reply.
pub(crate) struct WrittenReply {
    pub(crate) len: usize,
    /// Why the reply is incomplete or unusable.
    pub(crate) stop: Option<Stop>,
    pub(crate) making: Making,
}

impl<'n, 'b> Encoder<'n, 'b> {
    /// Starts a reply, copying the question of `query`.
    #[inline]
    pub(crate) fn new(query: &Query<'n>, out: &'b mut [u8], limit: usize) -> Self {
        Encoder {
            writer: MessageWriter::reply(query, out, limit),
            dnssec_ok: false,
            signed_as: None,
            now: 0,
            making: Making::NOW,
            recent: None,
            addresses: None,
            computed_names: &[],
            absent: None,
            proofs: ArrayVec::new(),
            uses_lists: false,
            proven: Vec::new(),
        }
    }

    /// Writes the whole reply, once; returns its length and whether it was truncated. Not by value: the encoder would be
    /// copied.
    #[inline]
    pub(crate) fn write<V: ZoneView>(
        &mut self,
        query: &Query<'n>,
        plan: &Plan<'n, V>,
        made: &'n [NameBuf],
        opt: Option<&OptRecord<'_>>,
    ) -> WrittenReply {
        let opt = opt.map(|opt| (opt, opt.octets()));
        if let Some((_, octets)) = opt {
            self.writer.reserve(octets);
        }
        let result = if plan.truncate {
            Err(Stop::Full)
        } else {
            self.sections(plan, made)
        };
        let truncated = result.is_err();
        self.writer.release_reserved();
        if let Some((opt, octets)) = opt {
            // Room was reserved, so it fits.
            let _ = self.writer.opt_of_len(opt, octets, plan.rcode);
        }
        let flags = ReplyFlags {
            aa: plan.authoritative,
            tc: truncated,
            rcode: plan.rcode as u8 & 0x0f,
        };
        WrittenReply {
            len: self.writer.finish(query.packet(), flags),
            stop: result.err(),
            making: self.making,
        }
    }

    #[inline]
    fn sections<V: ZoneView>(&mut self, plan: &Plan<'n, V>, made: &'n [NameBuf]) -> Fit {
        let mut wants_additional = false;
        for entry in &plan.entries {
            let section = match entry.section {
                Section::Answer => MessageSection::Answer,
                Section::Authority | Section::Referral => MessageSection::Authority,
            };
            let records = self.entry(entry, made)?;
            self.writer.add_count(section, records);
            wants_additional |= matches!(
                entry.data, Data::Rrset(rrset) | Data::Hinted(rrset) if rrset.has_targets()
            );
        }
        if !plan.proofs.is_empty() {
            self.proofs(plan, made)?;
        }
        if wants_additional {
            for entry in &plan.entries {
                if let Data::Rrset(rrset) | Data::Hinted(rrset) = entry.data
                    && rrset.has_targets()
                {
                    match entry.section {
                        Section::Referral => self.glue(entry, rrset)?,
                        _ => {
                            let owner = self.owner_form(entry.owner, made);
                            self.additional(entry, owner, rrset)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn proofs<V: ZoneView>(&mut self, plan: &Plan<'n, V>, made: &'n [NameBuf]) -> Fit {
        self.uses_lists = self.agrees_with_lists(plan, made);
        for proof in &plan.proofs {
            let records = self.entry(proof, made)?;
            self.writer.add_count(MessageSection::Authority, records);
        }
        Ok(())
    }

    /// Writes one planned RRset; returns the number of its records.
    #[inline(always)]
    fn entry<V: ZoneView>(
        &mut self,
        entry: &PlanEntry<'n, V>,
        made: &'n [NameBuf],
    ) -> Result<u16, Stop> {
        let owner = self.owner_form(entry.owner, made);
        if entry.zone.signing().is_signed() {
            return self.secure_entry(entry, owner, made);
        }
        match entry.data {
            Data::Rrset(rrset) => self.rrset(owner, rrset, entry.ttl),
            Data::Hinted(rrset) => self.hinted(owner, rrset, (entry.node, entry.ttl), entry.zone),
            Data::All(node) => {
                let mut count = 0;
                let shown = node.rrsets();
                for rrset in shown.filter(|rrset| !rrset.rtype().is_server_internal()) {
                    count += if matches!(service_data(entry.zone, rrset), Data::Hinted(_)) {
                        self.hinted(owner, rrset, (node, rrset.ttl()), entry.zone)?
                    } else {
                        self.further_rrset(owner, rrset, rrset.ttl())?
                    };
                }
                Ok(count)
            }
            Data::MadeCname(index, ttl) => self.made_cname(owner, &made[index], ttl),
            Data::Addresses => {
                let state = entry.zone.signing();
                self.foreign_addresses(owner, (entry.node, entry.ttl), state)
            }
            Data::Computed(index, number) => {
                let state = entry.zone.signing();
                self.computed(owner, (index, number), (entry.node, entry.ttl), state)
            }
            Data::Prepared(rtype, octets) => {
                let state = entry.zone.signing();
                self.prepared(owner, (rtype, octets), (entry.node, entry.ttl), state)
            }
            // Only planned for signed zones.
            Data::Proof(_) => Ok(0),
        }
    }

    fn made_cname(
        &mut self,
        owner: OwnerForm<'n>,
        target: &'n NameBuf,
        ttl: u32,
    ) -> Result<u16, Stop> {
        self.undo_if_full(|this| {
            this.writer.owner(owner)?;
            let length_at = this.writer.fixed(Type::CNAME, Class::IN, ttl)?;
            this.writer.name(target.as_name().as_wire())?;
            this.writer.set_length(length_at);
            Ok(1)
        })
    }

    /// Returns the octets of an owner.
    fn spelled(&self, owner: Owner<'n>, made: &'n [NameBuf]) -> &'n [u8] {
        match owner {
            Owner::Question(skip) => &self.writer.question_name()[skip..],
            Owner::Name(name) => name.as_wire(),
            Owner::Made(index, skip) => &made[index].as_name().as_wire()[skip..],
        }
    }

    #[inline]
    fn owner_form(&self, owner: Owner<'n>, made: &'n [NameBuf]) -> OwnerForm<'n> {
        match owner {
            Owner::Question(skip) => {
                OwnerForm::pointer(HEADER + skip, skip + 1 == self.writer.question_name().len())
            }
            Owner::Name(name) => OwnerForm::Name(name.as_wire()),
            Owner::Made(index, skip) => OwnerForm::Name(&made[index].as_name().as_wire()[skip..]),
        }
    }

    /// Truncates by whole RRsets (RFC 2181 section 9): an RRset that does not fit leaves nothing behind.
    #[inline(always)]
    fn undo_if_full<T>(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let mark = self.writer.mark();
        let result = write(self);
        if result.is_err() {
            self.writer.take_back(mark);
        }
        result
    }

    #[inline(always)]
    fn rrset(&mut self, owner: OwnerForm<'n>, rrset: Rrset<'n>, ttl: u32) -> Result<u16, Stop> {
        self.undo_if_full(|this| {
            let (mut owner, writer) = (owner, &mut this.writer);
            for record in rrset.records() {
                owner = writer.owner(owner)?;
                let length_at = writer.fixed(rrset.rtype(), Class::IN, ttl)?;
                match rrset.form() {
                    CompressibleNames::Opaque => writer.bytes(record.rdata)?,
                    CompressibleNames::NameAt(offset) => {
                        let (head, name) = record.rdata.split_at(offset as usize);
                        writer.bytes(head)?;
                        writer.name(name)?;
                    }
                    CompressibleNames::TwoNames => {
                        let (first, rest) = split_name(record.rdata);
                        let (second, rest) = split_name(rest);
                        writer.name(first)?;
                        writer.name(second)?;
                        writer.bytes(rest)?;
                    }
                }
                writer.set_length(length_at);
            }
            Ok(rrset.count())
        })
    }

    /// Like [`Encoder::rrset`], but not inlined, to keep it off the path of answers with one RRset.
    #[inline(never)]
    fn further_rrset(
        &mut self,
        owner: OwnerForm<'n>,
        rrset: Rrset<'n>,
        ttl: u32,
    ) -> Result<u16, Stop> {
        self.rrset(owner, rrset, ttl)
    }

    /// Writes glue (RFC 9471): all glue of servers at or below the delegation, or TC; addresses of other servers in the
    /// zone as far as there is room.
    fn glue<V: ZoneView>(&mut self, entry: &PlanEntry<'n, V>, rrset: Rrset<'n>) -> Fit {
        let cut = entry.node.name();
        let in_domain = |node: Node<'_>| node.name().is_at_or_below(cut);
        for required in [true, false] {
            for record in rrset.records() {
                let Some(node) = entry.zone.target(record) else {
                    continue;
                };
                let name = OwnerForm::Name(node.name().as_wire());
                if in_domain(node) == required && self.addresses(node, name, None).is_err() {
                    if required {
                        return Err(Stop::Full);
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Writes the addresses of hosts that an answer names, as far as there is room: they never cause truncation (RFC
    /// 1034 section 3.7, RFC 9460 section 4.1).
    fn additional<V: ZoneView>(
        &mut self,
        entry: &PlanEntry<'n, V>,
        owner: OwnerForm<'n>,
        rrset: Rrset<'n>,
    ) -> Fit {
        let mut seen = ArrayVec::<Node<'n>, MAX_TARGETS>::new();
        for record in rrset.records() {
            let (node, name) = match entry.zone.target(record) {
                Some(node) => (node, OwnerForm::Name(node.name().as_wire())),
                // RFC 9460 section 2.5.2: "." in ServiceMode is the owner itself, even if a wildcard was expanded.
                None if is_own_service(rrset.rtype(), record.rdata) => (entry.node, owner),
                None => continue,
            };
            // RFC 2181 section 5: an RRset is sent whole or not at all.
            if node.has_unreadable_address() || seen.iter().any(|other| other.is_same(node)) {
                continue;
            }
            let signing = self.signing_of_host(entry.zone, node);
            if seen.try_push(node).is_err() {
                return Ok(());
            }
            match self.addresses(node, name, signing) {
                Ok(()) => {}
                Err(Stop::NotSigned) => return Err(Stop::NotSigned),
                Err(Stop::Full | Stop::CannotSign) => return Ok(()),
            }
            // RFC 9460 section 4.1: the SVCB records of a target accompany its addresses.
            if matches!(rrset.rtype(), Type::SVCB | Type::HTTPS)
                && !node.is_same(entry.node)
                && let Some(service) = node.rrset(rrset.rtype())
                && !has_auto_hints(service)
            {
                match self.maybe_signed(name, service, node, signing) {
                    Ok(count) => self.writer.add_count(MessageSection::Additional, count),
                    Err(Stop::NotSigned) => return Err(Stop::NotSigned),
                    Err(Stop::Full | Stop::CannotSign) => return Ok(()),
                }
            }
        }
        Ok(())
    }

    fn addresses(
        &mut self,
        node: Node<'n>,
        owner: OwnerForm<'n>,
        signing: Option<&SigningState>,
    ) -> Fit {
        for rtype in [Type::A, Type::AAAA] {
            if let Some(rrset) = node.rrset(rtype) {
                let records = self.maybe_signed(owner, rrset, node, signing)?;
                self.writer.add_count(MessageSection::Additional, records);
            }
        }
        Ok(())
    }

    fn rrsigs(&mut self, set: &CanonicalSet, signing: &Signing) -> Result<Rrsigs, Stop> {
        if !self.dnssec_ok {
            return Ok(Rrsigs::new());
        }
        signing
            .signatures(set, self.now, &mut self.making)
            .map_err(|error| match error {
                NoSignature::CannotSign => Stop::CannotSign,
                NoSignature::NotMade => Stop::NotSigned,
            })
    }

    fn rrsig(&mut self, rdata: &[u8], ttl: u32) -> Fit {
        let length_at = self.writer.fixed(Type::RRSIG, Class::IN, ttl)?;
        self.writer.bytes(rdata)?;
        self.writer.set_length(length_at);
        Ok(())
    }
}

/// Splits uncompressed data at the end of its first name.
fn split_name(data: &[u8]) -> (&[u8], &[u8]) {
    match Name::split_from(data) {
        Ok((name, rest)) => (name.as_wire(), rest),
        Err(_) => (&[0], &[]),
    }
}
