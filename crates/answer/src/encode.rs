//! Writes a plan as a message: the one place where answers become bytes.
//!
//! Names are compressed against the question and the last few names written, by comparing from the right:
//! the common tail of two uncompressed names is found without splitting them into labels, and a pointer may go to
//! any label of a name written in full. The number of names compared with is bounded, so the cost is linear in the
//! size of the message (known attack: quadratic compression).

use crate::plan::{Data, Entry, Owner, Plan, Section};
use crate::view::ZoneView;
use arrayvec::ArrayVec;
use nameward_dnssec::{Proof, Signing};
use nameward_wire::message::{HEADER, OPT_FIXED, Query, ReplyFlags, write_reply_header};
use nameward_wire::{Class, Name, NameBuf, Rcode, Type};
use nameward_zone::{Form, Node, Rrset};

/// Names written in full that later names are compressed with.
const MAX_ANCHORS: usize = 16;
/// Hosts whose addresses are added for MX, SRV and the like (CVE-2024-11187: additional data as amplifier).
const MAX_TARGETS: usize = 32;
/// A pointer has 14 bits (RFC 1035 section 4.1.4).
pub(crate) const MAX_POINTER: usize = 0x3fff;

/// The OPT record of a reply and what goes into it.
#[derive(Clone, Copy, Default)]
pub(crate) struct OptOut<'a> {
    pub(crate) payload: u16,
    pub(crate) dnssec_ok: bool,
    pub(crate) nsid: Option<&'a [u8]>,
    /// Extended error (RFC 8914).
    pub(crate) error: Option<u16>,
}

impl OptOut<'_> {
    fn len(&self) -> usize {
        OPT_FIXED + self.nsid.map_or(0, |id| 4 + id.len()) + self.error.map_or(0, |_| 6)
    }
}

/// A name that stands in the message: `name[..literal]` at `at`, the rest behind a pointer.
#[derive(Clone, Copy)]
struct Anchor<'n> {
    name: &'n [u8],
    at: u16,
    literal: u8,
}

pub(crate) struct Encoder<'n, 'b> {
    out: &'b mut [u8],
    at: usize,
    limit: usize,
    anchors: ArrayVec<Anchor<'n>, MAX_ANCHORS>,
    counts: [u16; 4],
    /// The client wants signatures.
    pub(crate) dnssec_ok: bool,
    /// Seconds since 1970.
    pub(crate) now: u32,
    pub(crate) signatures: u32,
    /// What was proven so far.
    pub(crate) proofs: Vec<Proof>,
}

/// Why a record was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The message does not fit.
    Full,
    /// A key of the zone cannot be used.
    CannotSign,
}

pub(crate) type Fit = Result<(), Stop>;

/// What came of a reply.
pub(crate) struct Written {
    pub(crate) len: usize,
    pub(crate) truncated: bool,
    /// Signatures that were made.
    pub(crate) signatures: u32,
    /// The reply is of no use.
    pub(crate) cannot_sign: bool,
}

impl<'n, 'b> Encoder<'n, 'b> {
    /// Starts a reply with the question of `query` copied.
    #[inline]
    pub(crate) fn new(query: &Query<'n>, out: &'b mut [u8], limit: usize) -> Self {
        let limit = limit.min(out.len());
        let end = query.question_end;
        copy_short(&mut out[HEADER..end], &query.packet()[HEADER..end]);
        let name = query.qname.as_wire();
        let mut anchors = ArrayVec::new();
        anchors.push(Anchor {
            name,
            at: HEADER as u16,
            literal: (name.len() - 1) as u8,
        });
        Encoder {
            out,
            at: end,
            limit,
            anchors,
            counts: [1, 0, 0, 0],
            dnssec_ok: false,
            now: 0,
            signatures: 0,
            proofs: Vec::new(),
        }
    }

    /// Writes the whole reply; returns its length and whether it was truncated.
    #[inline]
    pub(crate) fn write<V: ZoneView>(
        mut self,
        query: &Query<'n>,
        plan: &Plan<'n, V>,
        made: &'n [NameBuf],
        opt: Option<OptOut<'_>>,
    ) -> Written {
        // The OPT record always fits: room for it is kept.
        let reserved = opt.map_or(0, |opt| opt.len());
        self.limit = self.limit.saturating_sub(reserved);
        let result = match plan.truncate {
            true => Err(Stop::Full),
            false => self.sections(plan, made),
        };
        let truncated = result.is_err();
        if truncated && plan.truncate {
            self.counts = [1, 0, 0, 0];
            self.at = query.question_end;
        }
        self.limit += reserved;
        if let Some(opt) = opt {
            self.opt(opt, plan.rcode);
        }
        let flags = ReplyFlags {
            aa: plan.authoritative,
            tc: truncated,
            rcode: plan.rcode as u8 & 0x0f,
        };
        write_reply_header(query.packet(), self.out, flags, self.counts);
        Written {
            len: self.at,
            truncated,
            signatures: self.signatures,
            cannot_sign: result == Err(Stop::CannotSign),
        }
    }

    #[inline]
    fn sections<V: ZoneView>(&mut self, plan: &Plan<'n, V>, made: &'n [NameBuf]) -> Fit {
        let mut wants_additional = false;
        for entry in &plan.entries {
            self.counts[if entry.section == Section::Answer {
                1
            } else {
                2
            }] += self.entry(entry, made)?;
            wants_additional |= matches!(entry.data, Data::Rrset(rrset) if rrset.has_targets());
        }
        for proof in &plan.proofs {
            self.counts[2] += self.entry(proof, made)?;
        }
        if wants_additional {
            for entry in &plan.entries {
                if let Data::Rrset(rrset) = entry.data
                    && rrset.has_targets()
                {
                    match entry.section {
                        Section::Referral => self.glue(entry, rrset)?,
                        _ => {
                            let owner = self.owner_form(entry.owner, made);
                            self.additional(entry, owner, rrset);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes one planned RRset; returns how many records it had.
    #[inline]
    fn entry<V: ZoneView>(
        &mut self,
        entry: &Entry<'n, V>,
        made: &'n [NameBuf],
    ) -> Result<u16, Stop> {
        let owner = self.owner_form(entry.owner, made);
        if let Some(signing) = entry.zone.signing() {
            return self.secure_entry(entry, owner, signing, made);
        }
        match entry.data {
            Data::Rrset(rrset) => self.rrset(owner, rrset, entry.ttl),
            Data::All(node) => {
                let mut count = 0;
                for rrset in node.rrsets() {
                    count += self.rrset(owner, rrset, rrset.ttl())?;
                }
                Ok(count)
            }
            Data::MadeCname(index, ttl) => self.made_cname(owner, &made[index], ttl),
            // Planned for signed zones only.
            Data::Types | Data::Absent | Data::NoWildcard => Ok(0),
        }
    }

    pub(crate) fn made_cname(
        &mut self,
        owner: OwnerForm<'n>,
        target: &'n NameBuf,
        ttl: u32,
    ) -> Result<u16, Stop> {
        self.undo_if_full(|this| {
            this.owner(owner)?;
            let length_at = this.fixed(Type::CNAME, ttl)?;
            this.name(target.as_name().as_wire())?;
            this.set_length(length_at);
            Ok(1)
        })
    }

    /// The octets of an owner.
    pub(crate) fn spelled(&self, owner: Owner<'n>, made: &'n [NameBuf]) -> &'n [u8] {
        match owner {
            Owner::Question(skip) => &self.anchors[0].name[skip..],
            Owner::Name(name) => name.as_wire(),
            Owner::Made(index, skip) => &made[index].as_name().as_wire()[skip..],
        }
    }

    #[inline]
    fn owner_form(&self, owner: Owner<'n>, made: &'n [NameBuf]) -> OwnerForm<'n> {
        match owner {
            Owner::Question(skip) => {
                OwnerForm::pointer(HEADER + skip, skip + 1 == self.anchors[0].name.len())
            }
            Owner::Name(name) => OwnerForm::Name(name.as_wire()),
            Owner::Made(index, skip) => OwnerForm::Name(&made[index].as_name().as_wire()[skip..]),
        }
    }

    /// Truncation is by whole RRsets (RFC 2181 section 9): one that does not fit leaves no trace.
    #[inline]
    pub(crate) fn undo_if_full<T>(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let (at, anchors) = (self.at, self.anchors.len());
        let result = write(self);
        if result.is_err() {
            self.at = at;
            self.anchors.truncate(anchors);
        }
        result
    }

    #[inline]
    pub(crate) fn rrset(
        &mut self,
        owner: OwnerForm<'n>,
        rrset: Rrset<'n>,
        ttl: u32,
    ) -> Result<u16, Stop> {
        self.undo_if_full(|this| {
            let mut owner = owner;
            for record in rrset.records() {
                owner = this.owner(owner)?;
                let length_at = this.fixed(rrset.rtype(), ttl)?;
                match rrset.form() {
                    Form::Opaque => this.bytes(record.rdata)?,
                    Form::NameAt(offset) => {
                        let (head, name) = record.rdata.split_at(offset as usize);
                        this.bytes(head)?;
                        this.name(name)?;
                    }
                    Form::TwoNames => {
                        let (first, rest) = split_name(record.rdata);
                        let (second, rest) = split_name(rest);
                        this.name(first)?;
                        this.name(second)?;
                        this.bytes(rest)?;
                    }
                }
                this.set_length(length_at);
            }
            Ok(rrset.count())
        })
    }

    /// As [`Encoder::rrset`], away from the path of unsigned zones, into which that is built.
    #[cold]
    #[inline(never)]
    pub(crate) fn rrset_of_signed(
        &mut self,
        owner: OwnerForm<'n>,
        rrset: Rrset<'n>,
        ttl: u32,
    ) -> Result<u16, Stop> {
        self.rrset(owner, rrset, ttl)
    }

    /// Turns an owner that has to be spelled out into a pointer to where it was written, so that an RRset
    /// spells its owner once.
    #[inline]
    pub(crate) fn owner(&mut self, owner: OwnerForm<'n>) -> Result<OwnerForm<'n>, Stop> {
        match owner {
            OwnerForm::Pointer(pointer) => {
                self.bytes(&pointer.to_be_bytes())?;
                Ok(owner)
            }
            OwnerForm::Root => {
                self.bytes(&[0])?;
                Ok(owner)
            }
            OwnerForm::Name(name) => {
                let at = self.name(name)?;
                Ok(if name.len() > 1 && at <= MAX_POINTER {
                    OwnerForm::pointer(at, false)
                } else {
                    owner
                })
            }
        }
    }

    /// Type, class and TTL; returns where the length of the data goes.
    #[inline]
    pub(crate) fn fixed(&mut self, rtype: Type, ttl: u32) -> Result<usize, Stop> {
        let at = self.at;
        if at + 10 > self.limit {
            return Err(Stop::Full);
        }
        let fixed = &mut self.out[at..at + 10];
        fixed[..2].copy_from_slice(&rtype.0.to_be_bytes());
        fixed[2..4].copy_from_slice(&Class::IN.0.to_be_bytes());
        fixed[4..8].copy_from_slice(&ttl.to_be_bytes());
        self.at = at + 10;
        Ok(at + 8)
    }

    #[inline]
    pub(crate) fn set_length(&mut self, length_at: usize) {
        let len = (self.at - length_at - 2) as u16;
        self.out[length_at..length_at + 2].copy_from_slice(&len.to_be_bytes());
    }

    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Fit {
        let end = self.at + bytes.len();
        if end > self.limit {
            return Err(Stop::Full);
        }
        copy_short(&mut self.out[self.at..end], bytes);
        self.at = end;
        Ok(())
    }

    /// Writes a name, compressed if that helps; returns where the written name can be pointed at.
    #[inline]
    pub(crate) fn name(&mut self, name: &'n [u8]) -> Result<usize, Stop> {
        let (at, best, pointer) = self.compressed(name)?;
        if best > 0 && at + best <= MAX_POINTER {
            let _ = self.anchors.try_push(Anchor {
                name,
                at: at as u16,
                literal: best as u8,
            });
        }
        Ok(if best == 0 { pointer.unwrap_or(at) } else { at })
    }

    /// Writes a name; returns where it starts, its octets before the pointer, and where that points.
    #[inline(always)]
    fn compressed(&mut self, name: &[u8]) -> Result<(usize, usize, Option<usize>), Stop> {
        let (mut best, mut pointer) = (name.len() - 1, None);
        for anchor in &self.anchors {
            let common = common_tail(name, anchor.name);
            if common <= name.len() - best {
                continue;
            }
            // The first label boundary of ours inside the common tail.
            let mut start = 0;
            while name.len() - start > common {
                start += 1 + name[start] as usize;
            }
            let there = (anchor.name.len() + start).wrapping_sub(name.len());
            if start < best && there < anchor.literal as usize {
                best = start;
                pointer = Some(anchor.at as usize + there);
                if start == 0 {
                    break;
                }
            }
        }
        let at = self.at;
        self.bytes(&name[..best])?;
        match pointer {
            Some(target) => self.bytes(&(0xc000 | target as u16).to_be_bytes())?,
            None => self.bytes(&[0])?,
        }
        Ok((at, best, pointer))
    }

    /// Writes a name that nothing can point at later; returns what [`Encoder::compressed`] does.
    #[cold]
    pub(crate) fn passing_name(
        &mut self,
        name: &[u8],
    ) -> Result<(usize, usize, Option<usize>), Stop> {
        self.compressed(name)
    }

    /// RFC 9471: all glue of servers at or below the delegation, or TC; addresses of other servers that the zone
    /// knows as far as there is room.
    fn glue<V: ZoneView>(&mut self, entry: &Entry<'n, V>, rrset: Rrset<'n>) -> Fit {
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

    /// Addresses of the hosts an answer names, as far as there is room (RFC 1034 section 3.7, RFC 9460 section 4.1).
    fn additional<V: ZoneView>(
        &mut self,
        entry: &Entry<'n, V>,
        owner: OwnerForm<'n>,
        rrset: Rrset<'n>,
    ) {
        let mut seen = ArrayVec::<Node<'n>, MAX_TARGETS>::new();
        for record in rrset.records() {
            let (node, name) = match entry.zone.target(record) {
                Some(node) => (node, OwnerForm::Name(node.name().as_wire())),
                // RFC 9460 section 2.5.2: "." in ServiceMode is the owner itself, also where a wildcard made it.
                None if is_own_service(rrset.rtype(), record.rdata) => (entry.node, owner),
                None => continue,
            };
            if seen.iter().any(|other| other.is_same(node)) {
                continue;
            }
            let signing = self.signing_of_host(entry.zone, node);
            if seen.try_push(node).is_err() || self.addresses(node, name, signing).is_err() {
                return;
            }
            // RFC 9460 section 4.1: the SVCB records of a target go with its addresses.
            if matches!(rrset.rtype(), Type::SVCB | Type::HTTPS)
                && !node.is_same(entry.node)
                && let Some(service) = node.rrset(rrset.rtype())
            {
                match self.maybe_signed(name, service, node, signing) {
                    Ok(count) => self.counts[3] += count,
                    Err(_) => return,
                }
            }
        }
    }

    fn addresses(
        &mut self,
        node: Node<'n>,
        owner: OwnerForm<'n>,
        signing: Option<&Signing>,
    ) -> Fit {
        for rtype in [Type::A, Type::AAAA] {
            if let Some(rrset) = node.rrset(rtype) {
                self.counts[3] += self.maybe_signed(owner, rrset, node, signing)?;
            }
        }
        Ok(())
    }

    fn opt(&mut self, opt: OptOut<'_>, rcode: Rcode) {
        let options = (opt.len() - OPT_FIXED) as u16;
        let extended = (rcode as u16 >> 4) as u8;
        let payload = opt.payload.to_be_bytes();
        let flags = if opt.dnssec_ok { 0x80 } else { 0 };
        let len = options.to_be_bytes();
        let fixed = [
            0, 0, 41, payload[0], payload[1], extended, 0, flags, 0, len[0], len[1],
        ];
        // Room was kept, so none of these fails.
        let _ = self.bytes(&fixed);
        if let Some(id) = opt.nsid {
            let _ = self.bytes(&[0, 3]);
            let _ = self.bytes(&(id.len() as u16).to_be_bytes());
            let _ = self.bytes(id);
        }
        if let Some(code) = opt.error {
            let _ = self.bytes(&[0, 15, 0, 2]);
            let _ = self.bytes(&code.to_be_bytes());
        }
        self.counts[3] += 1;
    }
}

/// How an owner name is written.
#[derive(Clone, Copy)]
pub(crate) enum OwnerForm<'n> {
    Pointer(u16),
    Root,
    Name(&'n [u8]),
}

impl OwnerForm<'_> {
    pub(crate) fn pointer(at: usize, is_root: bool) -> Self {
        if is_root {
            OwnerForm::Root
        } else {
            OwnerForm::Pointer(0xc000 | at as u16)
        }
    }
}

/// Splits uncompressed data at the end of the name it starts with.
pub(crate) fn split_name(data: &[u8]) -> (&[u8], &[u8]) {
    match Name::split_from(data) {
        Ok((name, rest)) => (name.as_wire(), rest),
        Err(_) => (&[0], &[]),
    }
}

/// RFC 9460: SVCB or HTTPS in ServiceMode (priority not 0) with target ".".
fn is_own_service(rtype: Type, rdata: &[u8]) -> bool {
    matches!(rtype, Type::SVCB | Type::HTTPS)
        && matches!(rdata, [a, b, 0, ..] if (*a, *b) != (0, 0))
}

/// Copies a slice that is mostly shorter than 32 octets: by two overlapping words instead of a call.
#[inline(always)]
fn copy_short(out: &mut [u8], bytes: &[u8]) {
    #[inline(always)]
    fn ends<const N: usize>(out: &mut [u8], bytes: &[u8]) -> Option<()> {
        let (head, tail) = (*bytes.first_chunk::<N>()?, *bytes.last_chunk::<N>()?);
        *out.first_chunk_mut::<N>()? = head;
        *out.last_chunk_mut::<N>()? = tail;
        Some(())
    }
    debug_assert_eq!(out.len(), bytes.len());
    match bytes.len() {
        0 => {}
        1..4 => out.copy_from_slice(bytes),
        4..8 => ends::<4>(out, bytes).unwrap_or(()),
        8..16 => ends::<8>(out, bytes).unwrap_or(()),
        16..32 => ends::<16>(out, bytes).unwrap_or(()),
        _ => out.copy_from_slice(bytes),
    }
}

/// Octets of the longest common tail of two names, ignoring case.
#[inline(always)]
fn common_tail(a: &[u8], b: &[u8]) -> usize {
    let most = a.len().min(b.len());
    let (a, b) = (&a[a.len() - most..], &b[b.len() - most..]);
    let mut common = 0;
    // Eight octets at a time; equal up to the bit that tells the case of letters is looked at again.
    while let (Some(x), Some(y)) = (word_before(a, common), word_before(b, common)) {
        if x != y && !x.to_le_bytes().eq_ignore_ascii_case(&y.to_le_bytes()) {
            break;
        }
        common += 8;
    }
    let rest = a[..most - common]
        .iter()
        .rev()
        .zip(b[..most - common].iter().rev());
    common + rest.take_while(|(x, y)| x.eq_ignore_ascii_case(y)).count()
}

/// The eight octets that end `skip` octets before the end.
#[inline]
fn word_before(bytes: &[u8], skip: usize) -> Option<u64> {
    bytes[..bytes.len() - skip]
        .last_chunk()
        .map(|chunk| u64::from_le_bytes(*chunk))
}
