//! One piece of a signed copy: the records of some names or links of the chain, with their signatures.

use super::{CopyDigest, SignedCopy, SignedCopyError};
use crate::transfer_out::encode::BROKEN;
use nameward_dnssec::{CanonicalSet, Making, Proof, SoaEdit, is_signature_or_denial};
use nameward_wire::zonefile::Record;
use nameward_wire::{Name, Type};
use nameward_zone::change::set_soa_serial;
use nameward_zone::node::flags;
use nameward_zone::{Node, Serial, ZoneBuilder};
use std::ops::Range;

/// Size of a record in a message without its owner and data, in octets.
const RECORD_HEAD: usize = 10;

/// A chunk in progress.
pub(super) struct ChunkSigner<'c> {
    copy: &'c SignedCopy,
    making: Making,
    chunk: SignedChunk,
}

impl<'c> ChunkSigner<'c> {
    pub(super) fn new(copy: &'c SignedCopy) -> Self {
        ChunkSigner {
            copy,
            making: Making::NOW,
            chunk: SignedChunk::default(),
        }
    }

    /// Returns the chunk and how many signatures were made for it.
    pub(super) fn finish(mut self) -> (SignedChunk, u32) {
        let made = self.making.take_made();
        (self.chunk, made)
    }

    /// Adds the records of a name, and signatures of those that the zone is authoritative for.
    pub(super) fn add_node(&mut self, node: Node<'_>) -> Result<(), SignedCopyError> {
        if node.flags() & BROKEN != 0 {
            return Err(SignedCopyError::Broken(Box::new(node.name().into())));
        }
        let zone = self.copy.zone();
        let is_hidden = zone.is_hidden(node.name());
        let is_cut = node.has(flags::CUT);
        let edit = self.copy.signing.soa_edit();
        for rrset in node.rrsets() {
            let (rtype, ttl) = (rrset.rtype(), rrset.ttl());
            let is_digest = rtype == Type::ZONEMD && node.name() == zone.apex_name();
            if is_digest && self.copy.digest == CopyDigest::Made {
                continue;
            }
            // Left behind by another signer. Answers leave them out, too.
            if is_signature_or_denial(rtype) {
                continue;
            }
            let mut data: Vec<Vec<u8>> = rrset
                .records()
                .map(|record| record.rdata.to_vec())
                .collect();
            if rtype == Type::SOA && edit != SoaEdit::None {
                let shown = Serial(edit.serial(zone.serial().0, self.copy.now));
                for rdata in &mut data {
                    set_soa_serial(rdata, shown);
                }
            }
            for rdata in &data {
                self.chunk.push(node.name(), rtype, ttl, rdata);
            }
            // RFC 4035 section 2.2: the NS and glue of a delegation are not signed, its DS is.
            if !is_hidden && (!is_cut || rtype == Type::DS) {
                self.add_signatures(node.name(), rtype, ttl, &data)?;
            }
        }
        Ok(())
    }

    /// Adds the NSEC or NSEC3 records of some links of a chain block; false if `pause` ended it.
    pub(super) fn add_links(
        &mut self,
        block: usize,
        links: Range<usize>,
        pause: &mut dyn FnMut() -> bool,
    ) -> Result<bool, SignedCopyError> {
        let copy = self.copy;
        let (zone, signing, chain) = (copy.zone(), &copy.signing, &copy.chain);
        let Some(hashing) = chain.hashing() else {
            for link in chain.nsec_links_in(block, links) {
                if let Some(node) = zone.node_of(link.name.as_name()) {
                    let types = node.types_of_denial();
                    let proof = signing.nsec_of_chain(node.name(), link.next, types);
                    self.add_proof(&proof)?;
                }
                if !pause() {
                    return Ok(false);
                }
            }
            return Ok(true);
        };
        for link in chain.nsec3_links_in(block, links) {
            let node = zone.node_of(link.name.as_name());
            let types = node.into_iter().flat_map(|node| node.types_of_denial());
            let ends = (&link.hash, &link.next);
            let proof = signing.nsec3_of_chain(hashing, ends, types);
            self.add_proof(&proof.ok_or(SignedCopyError::TooLong)?)?;
            if !pause() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn add_proof(&mut self, proof: &Proof) -> Result<(), SignedCopyError> {
        let (owner, ttl) = (proof.owner.as_name(), self.copy.denial_ttl);
        self.chunk.push(owner, proof.rtype, ttl, &proof.rdata);
        self.add_signatures(owner, proof.rtype, ttl, &[&proof.rdata[..]])
    }

    fn add_signatures(
        &mut self,
        owner: Name<'_>,
        rtype: Type,
        ttl: u32,
        data: &[impl AsRef<[u8]>],
    ) -> Result<(), SignedCopyError> {
        let copy = self.copy;
        let set = CanonicalSet::new(owner, rtype, ttl, data.iter().map(AsRef::as_ref));
        let before = copy.previous.as_ref().and_then(|previous| {
            let node = previous.node_of(owner)?;
            let rrset = node.rrset(rtype)?;
            let records = rrset.records().map(|record| record.rdata);
            let same = CanonicalSet::new(owner, rtype, rrset.ttl(), records);
            (same == set).then_some(node)
        });
        let known = |head: &[u8]| {
            let mut rrsigs = before?.signatures(rtype);
            rrsigs.find(|rrsig| rrsig.len() > head.len() && rrsig.starts_with(head))
        };
        let making = &mut self.making;
        let made = copy
            .signing
            .signatures_or_known(&set, copy.now, making, known);
        for rrsig in made.map_err(|_| SignedCopyError::CannotSign)? {
            self.chunk.push(owner, Type::RRSIG, ttl, &rrsig);
        }
        Ok(())
    }
}

/// The records of a piece.
#[derive(Default)]
pub(super) struct SignedChunk {
    octets: Vec<u8>,
    records: Vec<ChunkRecord>,
}

struct ChunkRecord {
    owner: Range<u32>,
    rdata: Range<u32>,
    rtype: Type,
    ttl: u32,
}

#[derive(Clone, Copy)]
pub(super) struct ChunkRecordView<'c> {
    pub(super) owner: &'c [u8],
    pub(super) rtype: Type,
    pub(super) ttl: u32,
    pub(super) rdata: &'c [u8],
}

impl SignedChunk {
    pub(super) fn push(&mut self, owner: Name<'_>, rtype: Type, ttl: u32, rdata: &[u8]) {
        let last = self.records.last().map(|record| record.owner.clone());
        let same = last.filter(|range| self.slice(range) == owner.as_wire());
        let owner = same.unwrap_or_else(|| self.append(owner.as_wire()));
        let rdata = self.append(rdata);
        self.records.push(ChunkRecord {
            owner,
            rdata,
            rtype,
            ttl,
        });
    }

    /// Stores octets. An RRset has far less than 4 GiB, and a chunk has a few of them.
    fn append(&mut self, octets: &[u8]) -> Range<u32> {
        let start = self.octets.len() as u32;
        self.octets.extend_from_slice(octets);
        start..self.octets.len() as u32
    }

    fn slice(&self, range: &Range<u32>) -> &[u8] {
        let range = range.start as usize..range.end as usize;
        self.octets.get(range).unwrap_or_default()
    }

    /// Returns approximately how many octets of messages the chunk fills.
    pub(super) fn octets(&self) -> usize {
        self.octets.len() + self.records.len() * RECORD_HEAD
    }

    pub(super) fn record(&self, index: usize) -> Option<ChunkRecordView<'_>> {
        let record = self.records.get(index)?;
        Some(ChunkRecordView {
            owner: self.slice(&record.owner),
            rtype: record.rtype,
            ttl: record.ttl,
            rdata: self.slice(&record.rdata),
        })
    }

    /// Adds its records to the copy.
    pub(super) fn add_to(&self, builder: &mut ZoneBuilder) {
        for index in 0..self.records.len() {
            if let Some(record) = self.record(index)
                && let Ok(owner) = Name::from_wire(record.owner)
            {
                builder.add(&Record::new(owner, record.rtype, record.ttl, record.rdata));
            }
        }
    }
}
