//! The in-memory form of a name and its records: one run of bytes, read in place.
//!
//! ```text
//! node:   children u32 | flags u8 | name length u8 | rrset count u16 | name (wire, case kept) | rrsets
//! chain:  nodes of empty non-terminals without their names, each with an offset u32 | name of the deepest
//! rrset:  type u16 | count u16 | ttl u32 | length u32 | form u8 | target u8 | records, sorted
//! record: rdata length u16 | [location of the target's node u32, if the rrset has targets] | rdata (wire)
//! ```
//! Integers are little-endian. Record data is uncompressed wire form, so answering means copying; `form` gives the
//! position of compressible names, and `target` the position of the name whose addresses belong in the additional
//! section. RRsets are sorted by type and records are in canonical order (RFC 4034 section 6.3), so that equal nodes
//! are byte-identical (except for target locations).
//!
//! Empty non-terminals created by one name are ancestors of each other, so each name is a suffix of the deepest one.
//! They share it: the 126 ancestors of a name with 127 labels cost 12 octets each plus one name, not 126 names.

use nameward_wire::{Name, Type};
use std::borrow::Cow;

/// Octets before the name.
pub(crate) const NODE_HEADER: usize = 8;
/// Octets before the records of an RRset.
pub(crate) const RRSET_HEADER: usize = 14;
/// Octets of an empty non-terminal in a chain, a multiple of [`crate::packed::ALIGN`].
pub(crate) const CHAIN_NODE: usize = 12;
/// Value of `target` for an RRset without targets.
pub(crate) const NO_TARGET: u8 = 0xff;

/// Octets of a record besides its data: owner pointer, type, class, TTL and length.
pub(crate) const RECORD_OVERHEAD: usize = 12;

/// Returns the octets that an RRset with data of these lengths takes in a message.
pub(crate) fn rrset_octets(lengths: impl Iterator<Item = usize>) -> usize {
    lengths.map(|length| length + RECORD_OVERHEAD).sum()
}

/// Node properties that lookups need without reading the RRsets.
pub mod flags {
    /// The node is a delegation: it has NS and is not the apex.
    pub const CUT: u8 = 1;
    /// The node has a DNAME.
    pub const DNAME: u8 = 2;
    /// The node has a CNAME, or a LUA record, which answers for another type: queries for types that it does not have are
    /// not necessarily negative.
    pub const CNAME_OR_LUA: u8 = 4;
    /// The node has a child `*`.
    pub const WILDCARD_CHILD: u8 = 8;
    /// A record of the node is unreadable: answers from it fail.
    pub const BROKEN: u8 = 16;
    /// The unreadable record affects names below the node: answers for them fail.
    pub const BROKEN_ABOVE: u8 = 32;
    /// The unreadable record affects the addresses of the node: answers that need them fail.
    pub const BROKEN_HOST: u8 = 64;
    /// All flags of names with unreadable records.
    pub(crate) const ANY_BROKEN: u8 = BROKEN | BROKEN_ABOVE | BROKEN_HOST;
    /// The name is stored after the nodes of a chain of empty non-terminals, not after the header.
    pub(crate) const SHARED_NAME: u8 = 128;
}

/// The position of compressible names in the data of a type (RFC 3597 section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressibleNames {
    /// No compressible names: the data is copied.
    Opaque,
    /// One name from this offset to the end.
    NameAt(u8),
    /// Two names, then fixed data: SOA, MINFO, RP.
    TwoNames,
}

impl CompressibleNames {
    pub(crate) fn to_byte(self) -> u8 {
        match self {
            CompressibleNames::Opaque => 0xff,
            CompressibleNames::TwoNames => 0xfe,
            CompressibleNames::NameAt(offset) => offset,
        }
    }

    #[inline]
    fn from_byte(byte: u8) -> CompressibleNames {
        match byte {
            0xff => CompressibleNames::Opaque,
            0xfe => CompressibleNames::TwoNames,
            offset => CompressibleNames::NameAt(offset),
        }
    }
}

/// A name in a zone and its RRsets.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    bytes: &'a [u8],
}

impl<'a> Node<'a> {
    /// Reads the node at the start of `bytes`; more data may follow.
    #[inline]
    pub(crate) fn at(bytes: &'a [u8]) -> Self {
        Node { bytes }
    }

    /// Returns the number of direct children.
    pub fn children(self) -> u32 {
        read_u32(self.bytes, 0)
    }

    /// Returns the [`flags`] bits.
    #[inline]
    pub fn flags(self) -> u8 {
        self.bytes[Node::FLAGS_AT] & !flags::SHARED_NAME
    }

    /// Checks whether all bits of `mask` are set.
    #[inline]
    pub fn has(self, mask: u8) -> bool {
        self.flags() & mask == mask
    }

    /// Checks whether an address record, or a record used along with addresses, is unreadable.
    #[inline]
    pub fn has_unreadable_address(self) -> bool {
        self.has(flags::BROKEN_HOST)
    }

    /// Returns the owner name, with the case used in the zone.
    #[inline]
    pub fn name(self) -> Name<'a> {
        let start = match self.bytes[Node::FLAGS_AT] & flags::SHARED_NAME {
            0 => NODE_HEADER,
            _ => read_u32(self.bytes, NODE_HEADER) as usize,
        };
        Name::from_valid_wire(&self.bytes[start..start + self.bytes[5] as usize])
    }

    /// Checks whether the node has no RRsets: an empty non-terminal.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.rrset_count() == 0
    }

    pub(crate) fn rrset_count(self) -> u16 {
        read_u16(self.bytes, 6)
    }

    /// Returns the RRsets, sorted by type.
    #[inline]
    pub fn rrsets(self) -> Rrsets<'a> {
        let start = NODE_HEADER + self.bytes[5] as usize;
        Rrsets {
            bytes: &self.bytes[start..],
            left: self.rrset_count(),
        }
    }

    /// Returns the RRset of a type.
    #[inline]
    pub fn rrset(self, rtype: Type) -> Option<Rrset<'a>> {
        self.rrsets().find(|rrset| rrset.rtype() == rtype)
    }

    /// Returns the data of the RRSIG records that cover the RRset of a type. They have the TTL of that RRset (RFC 4034
    /// section 3) and do not form an RRset (RFC 4035 section 2.2); in canonical order, the ones for a type are
    /// adjacent.
    pub fn signatures(self, covered: Type) -> impl Iterator<Item = &'a [u8]> {
        let covered = covered.0.to_be_bytes();
        let all = self.rrset(Type::RRSIG).into_iter();
        let data = all.flat_map(|rrset| rrset.records().map(|record| record.rdata));
        data.filter(move |rdata| rdata.starts_with(&covered))
    }

    /// Returns exactly the node's bytes; a shared name is copied into them.
    pub(crate) fn bytes(self) -> Cow<'a, [u8]> {
        if self.bytes[Node::FLAGS_AT] & flags::SHARED_NAME != 0 {
            let mut bytes = self.bytes[..NODE_HEADER].to_vec();
            bytes[Node::FLAGS_AT] = self.flags();
            bytes.extend_from_slice(self.name().as_wire());
            return Cow::Owned(bytes);
        }
        Cow::Borrowed(&self.bytes[..self.octets()])
    }

    /// Returns the octets of a node that has its own name, without padding.
    #[inline]
    pub(crate) fn octets(self) -> usize {
        let mut rrsets = self.rrsets();
        while rrsets.next().is_some() {}
        self.bytes.len() - rrsets.bytes.len()
    }

    /// Returns the octets of the chain of empty non-terminals that starts with this node: their nodes and the name.
    pub(crate) fn chain_octets(self) -> usize {
        read_u32(self.bytes, NODE_HEADER) as usize + self.bytes[5] as usize
    }

    /// Returns the octets before the RRsets of a node that has some.
    pub(crate) fn rrsets_at(self) -> usize {
        NODE_HEADER + self.bytes[5] as usize
    }

    /// Offset of the flags in a node.
    pub(crate) const FLAGS_AT: usize = 4;

    /// Checks whether both are the same node of the same snapshot.
    #[inline]
    pub fn is_same(self, other: Node<'_>) -> bool {
        core::ptr::eq(self.bytes.as_ptr(), other.bytes.as_ptr())
    }
}

/// Appends a chain of `count` empty non-terminals: `deepest` and its ancestors, each one label shorter. Each has the
/// previous one as its child; the deepest has none yet.
pub(crate) fn encode_chain(deepest: Name<'_>, count: usize, out: &mut Vec<u8>) {
    let mut wire = deepest.as_wire();
    let name_at = count * CHAIN_NODE;
    for n in 0..count {
        let children = u32::from(n > 0);
        let cut = deepest.as_wire().len() - wire.len();
        out.extend_from_slice(&children.to_le_bytes());
        out.extend_from_slice(&[flags::SHARED_NAME, wire.len() as u8, 0, 0]);
        out.extend_from_slice(&((name_at - n * CHAIN_NODE + cut) as u32).to_le_bytes());
        wire = &wire[(1 + wire[0] as usize).min(wire.len() - 1)..];
    }
    out.extend_from_slice(deepest.as_wire());
}

/// Iterates over the RRsets of a node.
#[derive(Clone)]
pub struct Rrsets<'a> {
    bytes: &'a [u8],
    left: u16,
}

impl<'a> Iterator for Rrsets<'a> {
    type Item = Rrset<'a>;

    #[inline]
    fn next(&mut self) -> Option<Rrset<'a>> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let len = RRSET_HEADER + read_u32(self.bytes, 8) as usize;
        let (rrset, rest) = self.bytes.split_at(len);
        self.bytes = rest;
        Some(Rrset { bytes: rrset })
    }
}

/// The records of one name and type.
#[derive(Clone, Copy)]
pub struct Rrset<'a> {
    bytes: &'a [u8],
}

impl<'a> Rrset<'a> {
    /// Returns the record type.
    #[inline]
    pub fn rtype(self) -> Type {
        Type(read_u16(self.bytes, 0))
    }

    /// Returns the number of records, at least one.
    #[inline]
    pub fn count(self) -> u16 {
        read_u16(self.bytes, 2)
    }

    /// Returns the TTL shared by all records (RFC 2181 section 5.2).
    #[inline]
    pub fn ttl(self) -> u32 {
        read_u32(self.bytes, 4)
    }

    /// Returns the stored bytes of the RRset: type, TTL and records.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the positions of compressible names.
    #[inline]
    pub fn form(self) -> CompressibleNames {
        CompressibleNames::from_byte(self.bytes[12])
    }

    /// Returns the octets that the RRset takes in a message. One with more than [`crate::MAX_RRSET_OCTETS`] fits into none.
    pub fn message_octets(self) -> usize {
        rrset_octets(self.records().map(|record| record.rdata.len()))
    }

    /// Returns the octets of all records.
    pub(crate) fn records_len(self) -> usize {
        self.bytes.len() - RRSET_HEADER
    }

    /// Checks whether the records name hosts whose addresses belong in the additional section.
    #[inline]
    pub fn has_targets(self) -> bool {
        self.bytes[13] != NO_TARGET
    }

    /// Returns the records in canonical order.
    #[inline]
    pub fn records(self) -> Records<'a> {
        Records {
            bytes: &self.bytes[RRSET_HEADER..],
            target: self.bytes[13],
        }
    }
}

/// Iterates over the records of an RRset.
#[derive(Clone)]
pub struct Records<'a> {
    bytes: &'a [u8],
    target: u8,
}

impl<'a> Iterator for Records<'a> {
    type Item = RecordData<'a>;

    #[inline]
    fn next(&mut self) -> Option<RecordData<'a>> {
        if self.bytes.is_empty() {
            return None;
        }
        let len = read_u16(self.bytes, 0) as usize;
        let has_target = self.target != NO_TARGET;
        let start = if has_target { 6 } else { 2 };
        let place = if has_target {
            read_u32(self.bytes, 2)
        } else {
            0
        };
        let (record, rest) = self.bytes.split_at(start + len);
        self.bytes = rest;
        Some(RecordData {
            rdata: &record[start..],
            target_offset: self.target,
            place,
        })
    }
}

/// The data of one record.
#[derive(Clone, Copy)]
pub struct RecordData<'a> {
    /// Uncompressed wire form.
    pub rdata: &'a [u8],
    target_offset: u8,
    /// Location of the target's node in the packed contents; 0 if it is not in the zone.
    pub(crate) place: u32,
}

impl<'a> RecordData<'a> {
    /// Returns the name whose addresses belong in the additional section, and its offset in the data.
    pub(crate) fn target_place(self) -> Option<(usize, Name<'a>)> {
        self.target()
            .map(|name| (self.target_offset as usize, name))
    }

    /// Returns the octets the record takes in its RRset.
    pub(crate) fn stored_len(self) -> usize {
        self.rdata.len()
            + if self.target_offset == NO_TARGET {
                2
            } else {
                6
            }
    }

    /// Returns the name whose addresses belong in the additional section.
    #[inline]
    pub fn target(self) -> Option<Name<'a>> {
        if self.target_offset == NO_TARGET {
            return None;
        }
        Name::split_from(self.rdata.get(self.target_offset as usize..)?)
            .ok()
            .map(|(name, _)| name)
    }
}

#[inline]
pub(crate) fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
pub(crate) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Returns a 32-bit field of a SOA, at an offset in octets from the end of its data.
pub(crate) fn soa_field(soa: Rrset<'_>, from_end: usize) -> Option<u32> {
    let rdata = soa.records().next()?.rdata;
    let at = rdata.len().checked_sub(from_end)?;
    rdata
        .get(at..)?
        .first_chunk()
        .map(|bytes| u32::from_be_bytes(*bytes))
}

/// Returns the TTL of the SOA in a negative answer: the lesser of its TTL and its MINIMUM field (RFC 2308 section 3).
pub fn negative_ttl(soa: Rrset<'_>) -> u32 {
    soa.ttl().min(soa_field(soa, 4).unwrap_or(0))
}
