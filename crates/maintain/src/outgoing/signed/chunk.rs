//! Parts of a zone that threads sign beside each other: runs of names, and blocks of its chain.

use super::SignedCopyError;
use nameward_dnssec::{CanonicalSet, Making, Proof, Signing, SoaEdit};
use nameward_wire::zonefile::Record;
use nameward_wire::{Name, Type};
use nameward_zone::node::flags;
use nameward_zone::{DenialChain, Node, Zone, ZoneBuilder};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;

/// Names of a chunk. Their signatures take some milliseconds, beside which handing them over is nothing.
const NAMES: usize = 256;

/// The fate of the ZONEMD records at the apex of a zone in its copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyDigests {
    Kept,
    LeftOut,
}

/// The chunks of a copy, and the next one that nobody has taken.
pub(super) struct CopyWork<'z> {
    zone: &'z Zone,
    signing: &'z Signing,
    now: u32,
    digests: CopyDigests,
    nodes: Vec<Node<'z>>,
    chain: Arc<DenialChain>,
    denial_ttl: u32,
    next: AtomicUsize,
}

impl<'z> CopyWork<'z> {
    pub(super) fn new(
        zone: &'z Zone,
        (signing, now): (&'z Signing, u32),
        digests: CopyDigests,
    ) -> Self {
        CopyWork {
            zone,
            signing,
            now,
            digests,
            nodes: zone.nodes_in_order().collect(),
            chain: zone.chain_for(signing),
            // RFC 9077: the lesser of the SOA's TTL and its minimum.
            denial_ttl: zone.soa().map_or(0, nameward_zone::negative_ttl),
            next: AtomicUsize::new(0),
        }
    }

    pub(super) fn chunks(&self) -> usize {
        self.chunks_of_names() + self.chain.blocks()
    }

    fn chunks_of_names(&self) -> usize {
        self.nodes.len().div_ceil(NAMES)
    }

    /// Signs chunks until there are no more, one failed, or nobody takes them.
    pub(super) fn run(
        &self,
        sender: &SyncSender<Result<SignedChunk, SignedCopyError>>,
        mut pause: impl FnMut(),
    ) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.chunks() {
                return;
            }
            let chunk = self.signed_chunk(index, &mut pause);
            let is_last = chunk.is_err();
            if sender.send(chunk).is_err() || is_last {
                return;
            }
        }
    }

    fn signed_chunk(
        &self,
        index: usize,
        pause: &mut impl FnMut(),
    ) -> Result<SignedChunk, SignedCopyError> {
        let mut signer = ChunkSigner {
            work: self,
            making: Making::NOW,
            chunk: SignedChunk::default(),
        };
        match index.checked_sub(self.chunks_of_names()) {
            Some(block) => signer.add_block(block, pause)?,
            None => {
                let nodes = self.nodes.iter().skip(index * NAMES).take(NAMES);
                for &node in nodes {
                    match self.zone.is_hidden(node.name()) {
                        true => signer.add_unsigned(node),
                        false => signer.add_node(node)?,
                    }
                    pause();
                }
            }
        }
        signer.chunk.made = signer.making.take_made();
        Ok(signer.chunk)
    }
}

/// A chunk in the making.
struct ChunkSigner<'w> {
    work: &'w CopyWork<'w>,
    making: Making,
    chunk: SignedChunk,
}

impl ChunkSigner<'_> {
    /// Adds the records of a name that is not signed.
    fn add_unsigned(&mut self, node: Node<'_>) {
        for rrset in node.rrsets() {
            for record in rrset.records() {
                self.chunk
                    .push(node.name(), rrset.rtype(), rrset.ttl(), record.rdata);
            }
        }
    }

    /// Adds the records of a name, and signatures of those that the zone is authoritative for.
    fn add_node(&mut self, node: Node<'_>) -> Result<(), SignedCopyError> {
        let zone = self.work.zone;
        let is_cut = node.has(flags::CUT);
        let edit = self.work.signing.soa_edit();
        for rrset in node.rrsets() {
            let (rtype, ttl) = (rrset.rtype(), rrset.ttl());
            let is_digest = rtype == Type::ZONEMD && node.name() == zone.apex_name();
            if is_digest && self.work.digests == CopyDigests::LeftOut {
                continue;
            }
            let mut data: Vec<Vec<u8>> = rrset
                .records()
                .map(|record| record.rdata.to_vec())
                .collect();
            if rtype == Type::SOA && edit != SoaEdit::None {
                let shown = edit.serial(zone.serial().0, self.work.now);
                data.iter_mut().for_each(|rdata| set_serial(rdata, shown));
            }
            for rdata in &data {
                self.chunk.push(node.name(), rtype, ttl, rdata);
            }
            // RFC 4035 section 2.2: the NS and glue of a delegation are not signed, its DS is.
            if !is_cut || rtype == Type::DS {
                self.add_signatures(node.name(), rtype, ttl, &data)?;
            }
        }
        Ok(())
    }

    /// Adds the NSEC or NSEC3 records of a block of the chain.
    fn add_block(&mut self, block: usize, pause: &mut impl FnMut()) -> Result<(), SignedCopyError> {
        let (zone, signing, chain) = (self.work.zone, self.work.signing, &self.work.chain);
        let Some(hashing) = chain.hashing() else {
            for link in chain.nsec_links_of(block) {
                if let Some(node) = zone.node_of(link.name.as_name()) {
                    let types = node.types_of_denial();
                    let proof = signing.nsec_of_chain(node.name(), link.next, types);
                    self.add_proof(&proof)?;
                }
                pause();
            }
            return Ok(());
        };
        for link in chain.nsec3_links_of(block) {
            let node = zone.node_of(link.name.as_name());
            let types = node.into_iter().flat_map(|node| node.types_of_denial());
            let links = (&link.hash, &link.next);
            let proof = signing.nsec3_of_chain(hashing, links, types);
            self.add_proof(&proof.ok_or(SignedCopyError::TooLong)?)?;
            pause();
        }
        Ok(())
    }

    fn add_proof(&mut self, proof: &Proof) -> Result<(), SignedCopyError> {
        let (owner, ttl) = (proof.owner.as_name(), self.work.denial_ttl);
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
        let set = CanonicalSet::new(owner, rtype, ttl, data.iter().map(AsRef::as_ref));
        let signing = self.work.signing;
        let made = signing.signatures(&set, self.work.now, &mut self.making);
        for rrsig in made.map_err(|_| SignedCopyError::CannotSign)? {
            self.chunk.push(owner, Type::RRSIG, ttl, &rrsig);
        }
        Ok(())
    }
}

/// Puts a serial into the data of a SOA.
fn set_serial(rdata: &mut [u8], serial: u32) {
    if let Some(at) = rdata.len().checked_sub(20) {
        rdata[at..at + 4].copy_from_slice(&serial.to_be_bytes());
    }
}

/// The records of a chunk, on their way to the copy.
#[derive(Default)]
pub(super) struct SignedChunk {
    octets: Vec<u8>,
    records: Vec<ChunkRecord>,
    /// Signatures that were made for it.
    pub(super) made: u32,
}

struct ChunkRecord {
    owner: Range<usize>,
    rtype: Type,
    ttl: u32,
    rdata: Range<usize>,
}

impl SignedChunk {
    fn push(&mut self, owner: Name<'_>, rtype: Type, ttl: u32, rdata: &[u8]) {
        let last = self.records.last().map(|record| record.owner.clone());
        let same = last.filter(|range| self.octets.get(range.clone()) == Some(owner.as_wire()));
        let owner = same.unwrap_or_else(|| self.keep(owner.as_wire()));
        let rdata = self.keep(rdata);
        self.records.push(ChunkRecord {
            owner,
            rtype,
            ttl,
            rdata,
        });
    }

    fn keep(&mut self, octets: &[u8]) -> Range<usize> {
        let start = self.octets.len();
        self.octets.extend_from_slice(octets);
        start..self.octets.len()
    }

    /// Adds its records to the copy.
    pub(super) fn add_to(&self, builder: &mut ZoneBuilder) {
        for record in &self.records {
            let owner = Name::from_wire(&self.octets[record.owner.clone()]);
            let rdata = &self.octets[record.rdata.clone()];
            if let Ok(owner) = owner {
                builder.add(&Record::new(owner, record.rtype, record.ttl, rdata));
            }
        }
    }
}
