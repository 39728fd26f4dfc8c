//! An online-signed zone as sent to secondaries: with its signatures and its NSEC or NSEC3 chain.
//!
//! A secondary only has records, so it gets the chain over all names (RFC 4034 section 4, RFC 5155 section 7.1) even
//! if answers use white lies. A copy is signed piece by piece, by the caller's threads, and each piece can be sent as
//! soon as it is ready ([`SignedMessages`]): a large zone starts to arrive before its last signature is made.
//! Signatures are taken from the previously sent version where nothing changed, then from the signature cache, and
//! made only if both lack them.
//!
//! Invariant: a piece never changes once it is stored, so all clients of one copy get the same records.

mod chunk;
mod messages;

use chunk::{ChunkSigner, SignedChunk};
pub use messages::{SignedMessages, SignedReady};
use nameward_dnssec::{CanonicalSet, Making, Signing, SoaEdit, ZonemdHash, have_distinct_tags};
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::set_soa_serial;
use nameward_zone::{DenialChain, Serial, WalkPosition, WireRecord, Zone, ZoneBuilder, ZoneWalk};
use std::sync::{Arc, OnceLock};

/// Names, or links of the chain, per piece. Small, so that a slow signer still has something to send every few
/// seconds.
const PIECE: usize = 16;

/// Why a zone has no signed copy.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignedCopyError {
    #[error("it uses narrow NSEC3, which cannot be transferred; remove NSEC3NARROW to get a chain")]
    Narrow,
    /// A key is unusable.
    #[error("a DNSSEC key cannot be used")]
    CannotSign,
    #[error("the zone's name is too long for NSEC3")]
    TooLong,
    /// A name has records that could not be read from its source.
    #[error("{0} has invalid records")]
    Broken(Box<NameBuf>),
    #[error("the signed copy is incomplete: {0}")]
    Invalid(String),
}

/// Whether a copy gets its own digest (ZONEMD, RFC 8976).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyDigest {
    /// ZONEMD records at the apex are copied like all others.
    Kept,
    /// The digest over the copy replaces those at the apex. The zone must already have one, so that the chain lists
    /// the type.
    Made,
}

/// A piece of the work.
#[derive(Clone, Copy)]
enum CopyPiece {
    /// Names from this one on.
    Names(WalkPosition),
    /// Links of a chain block, from this one on.
    Links { block: usize, start: usize },
}

/// A copy in progress.
pub struct SignedCopy {
    walk: ZoneWalk,
    signing: Arc<Signing>,
    chain: Arc<DenialChain>,
    /// The previously sent version, if its signatures may be reused.
    previous: Option<Arc<Zone>>,
    /// Time at which all signatures are made, in seconds since 1970.
    now: u32,
    digest: CopyDigest,
    soa: (u32, Box<[u8]>),
    denial_ttl: u32,
    pieces: Box<[CopyPiece]>,
    chunks: Box<[OnceLock<SignedChunk>]>,
    /// The digest and its signatures.
    tail: OnceLock<SignedChunk>,
}

impl SignedCopy {
    /// Prepares the copy of a version. Takes time in proportion to the zone's size, much more if its chain has to be
    /// built.
    pub fn new(
        zone: Arc<Zone>,
        signing: Arc<Signing>,
        now: u32,
        digest: CopyDigest,
    ) -> Result<Self, SignedCopyError> {
        if signing.is_narrow() {
            return Err(SignedCopyError::Narrow);
        }
        let soa = zone.soa().and_then(|soa| {
            let rdata = soa.records().next()?.rdata.to_vec();
            Some((soa.ttl(), rdata))
        });
        let (soa_ttl, mut rdata) =
            soa.ok_or_else(|| SignedCopyError::Invalid("no SOA record".into()))?;
        if signing.soa_edit() != SoaEdit::None {
            let shown = signing.soa_edit().serial(zone.serial().0, now);
            set_soa_serial(&mut rdata, Serial(shown));
        }
        let chain = zone.chain_for(&signing);
        // RFC 9077: the lesser of the SOA's TTL and its MINIMUM field.
        let denial_ttl = zone.soa().map_or(0, nameward_zone::negative_ttl);
        let walk = ZoneWalk::new(zone);
        let places = std::iter::successors(walk.first(), |place| walk.next(*place));
        let names = places.step_by(PIECE).map(CopyPiece::Names);
        let links = (0..chain.blocks()).flat_map(|block| {
            let starts = (0..chain.block_len(block)).step_by(PIECE);
            starts.map(move |start| CopyPiece::Links { block, start })
        });
        let pieces: Box<[CopyPiece]> = names.chain(links).collect();
        let chunks = pieces.iter().map(|_| OnceLock::new()).collect();
        Ok(SignedCopy {
            walk,
            signing,
            chain,
            previous: None,
            now,
            digest,
            soa: (soa_ttl, rdata.into()),
            denial_ttl,
            pieces,
            chunks,
            tail: OnceLock::new(),
        })
    }

    /// Allows signatures of an older signed version to be reused for RRsets that are the same there. Nothing is
    /// reused if two different keys of both versions share a key tag: an RRSIG identifies its key by the tag alone.
    pub fn with_previous(mut self, previous: Option<Arc<Zone>>) -> Self {
        self.previous = previous.filter(|previous| {
            let dnskeys = |zone: &Zone| -> Vec<Vec<u8>> {
                let rrset = zone.apex().rrset(Type::DNSKEY).into_iter();
                let records = rrset.flat_map(|rrset| rrset.records());
                records.map(|record| record.rdata.to_vec()).collect()
            };
            let mut keys = dnskeys(previous);
            keys.extend(dnskeys(self.zone()));
            have_distinct_tags(&keys)
        });
        self
    }

    /// Returns the unsigned version that the copy is made from.
    pub fn zone(&self) -> &Arc<Zone> {
        self.walk.zone()
    }

    /// Returns the serial of the copy.
    pub fn serial(&self) -> Serial {
        let edit = self.signing.soa_edit();
        Serial(edit.serial(self.zone().serial().0, self.now))
    }

    /// Returns the SOA of the copy.
    pub fn soa(&self) -> WireRecord<'_> {
        WireRecord {
            owner: self.zone().apex_name(),
            rtype: Type::SOA,
            ttl: self.soa.0,
            rdata: &self.soa.1,
        }
    }

    /// Returns the number of pieces.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Checks whether a piece is signed.
    pub fn has(&self, piece: usize) -> bool {
        self.chunks
            .get(piece)
            .is_some_and(|chunk| chunk.get().is_some())
    }

    /// Checks whether all pieces are signed.
    pub fn is_whole(&self) -> bool {
        self.chunks.iter().all(|chunk| chunk.get().is_some())
    }

    /// Returns the octets of the signed pieces.
    pub fn octets(&self) -> usize {
        let signed = self.chunks.iter().filter_map(OnceLock::get);
        signed.map(SignedChunk::octets).sum()
    }

    /// Signs a piece and returns how many signatures were made. `pause` is called after each name and may sleep; if
    /// it returns false, the piece is given up.
    pub fn sign(
        &self,
        piece: usize,
        pause: &mut dyn FnMut() -> bool,
    ) -> Result<u32, SignedCopyError> {
        let Some(work) = self.pieces.get(piece) else {
            return Ok(0);
        };
        let mut signer = ChunkSigner::new(self);
        match *work {
            CopyPiece::Links { block, start } => {
                if !signer.add_links(block, start..start + PIECE, pause)? {
                    return Ok(signer.finish().1);
                }
            }
            CopyPiece::Names(first) => {
                let places = std::iter::successors(Some(first), |place| self.walk.next(*place));
                for place in places.take(PIECE) {
                    signer.add_node(self.walk.node(place))?;
                    if !pause() {
                        return Ok(signer.finish().1);
                    }
                }
            }
        }
        let (chunk, made) = signer.finish();
        let _ = self.chunks[piece].set(chunk);
        Ok(made)
    }

    /// Builds the zone from all pieces, with the digest if the copy gets one; returns how many signatures were made.
    pub fn finish(&self) -> Result<(Arc<Zone>, u32), SignedCopyError> {
        let mut builder = ZoneBuilder::new(self.zone().id());
        for chunk in &self.chunks {
            let chunk = chunk.get();
            let chunk =
                chunk.ok_or_else(|| SignedCopyError::Invalid("part of it is missing".into()))?;
            chunk.add_to(&mut builder);
        }
        let (built, findings) = builder.finish();
        let built = built.ok_or_else(|| {
            let first = findings.into_iter().next();
            SignedCopyError::Invalid(first.map_or_else(String::new, |finding| finding.message))
        })?;
        match self.digest {
            CopyDigest::Kept => Ok((Arc::new(built), 0)),
            CopyDigest::Made => self.add_digest(&Arc::new(built)),
        }
    }

    /// Adds the digest over a copy, and keeps it for the clients that wait for it.
    fn add_digest(&self, copy: &Arc<Zone>) -> Result<(Arc<Zone>, u32), SignedCopyError> {
        let (apex, ttl) = (self.zone().apex_name(), self.soa.0);
        let zonemd = copy.zonemd(ZonemdHash::Sha384);
        let set = CanonicalSet::new(apex, Type::ZONEMD, ttl, std::iter::once(&zonemd[..]));
        let mut making = Making::NOW;
        let rrsigs = self
            .signing
            .signatures(&set, self.now, &mut making)
            .map_err(|_| SignedCopyError::CannotSign)?;
        let mut records = vec![(Type::ZONEMD, zonemd)];
        records.extend(rrsigs.iter().map(|rrsig| (Type::RRSIG, rrsig.to_vec())));
        let mut tail = SignedChunk::default();
        for (rtype, rdata) in &records {
            tail.push(apex, *rtype, ttl, rdata);
        }
        let digested = copy.with_digest(&records);
        let digested = digested.map_err(|error| SignedCopyError::Invalid(error.to_string()))?;
        let _ = self.tail.set(tail);
        Ok((Arc::new(digested), making.take_made()))
    }

    /// Returns the number of chunks that a client gets, including the digest.
    fn sent_chunks(&self) -> usize {
        self.chunks.len() + usize::from(self.digest == CopyDigest::Made)
    }

    /// Returns a chunk that a client gets, if it is ready.
    fn sent_chunk(&self, index: usize) -> Option<&SignedChunk> {
        match self.chunks.get(index) {
            Some(chunk) => chunk.get(),
            None => self.tail.get(),
        }
    }
}

/// Signs a whole version on the calling thread; returns how many signatures were made.
pub fn signed_copy(
    zone: &Arc<Zone>,
    signing: &Arc<Signing>,
    now: u32,
) -> Result<(Arc<Zone>, u32), SignedCopyError> {
    let copy = SignedCopy::new(Arc::clone(zone), Arc::clone(signing), now, CopyDigest::Kept)?;
    let mut made = 0;
    for piece in 0..copy.pieces() {
        made += copy.sign(piece, &mut || true)?;
    }
    let (zone, of_digest) = copy.finish()?;
    Ok((zone, made + of_digest))
}

#[cfg(test)]
mod tests;
