//! NSEC and NSEC3 chains over the names of a zone signed here (RFC 4034 section 4, RFC 5155 section 7.1).
//!
//! The chain holds names and their order; the types of a name are read from its node when its record is made, so a
//! change that only affects types leaves the chain unchanged. Members are stored in blocks that versions share: a
//! change copies the blocks it touches and the list of blocks, of which a zone with a million names has about a
//! thousand.
//!
//! ```text
//! NSEC    member = key of the name whose plain order is the canonical one (RFC 4034 section 6.1), without the apex
//! NSEC3   member = hash of the name, the name without the apex
//! ```

mod block;
mod listed;
mod members;

use crate::sort_key::{name_of_key, sort_key};
use block::MemberList;
pub use listed::{ChainLister, ListedChain, ListedTypes, NameRecord, SigningWithList};
use nameward_dnssec::{Denial, Nsec3, Nsec3Hash, ReusableBytes, Signing};
use nameward_wire::{Name, NameBuf};
use std::ops::Range;
use std::sync::Arc;

/// Octets of a hashed name.
const HASH: usize = size_of::<Nsec3Hash>();

/// The kind of a chain: which names are members, and in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChainKind {
    /// Names with records, in canonical order.
    Nsec,
    /// All names, in hash order; with `opt_out`, delegations without a DS are excluded.
    Nsec3 { hashing: Nsec3, opt_out: bool },
}

impl ChainKind {
    pub(crate) fn from_signing(signing: &Signing) -> Self {
        match signing.denial() {
            Denial::Nsec => ChainKind::Nsec,
            Denial::Nsec3(hashing) => ChainKind::Nsec3 {
                hashing: hashing.clone(),
                opt_out: signing.is_opt_out(),
            },
        }
    }
}

/// The chain members of one zone version, in order.
pub struct DenialChain {
    kind: ChainKind,
    apex: NameBuf,
    /// Length of the prefix shared by the keys of all names.
    apex_key_len: usize,
    members: MemberList,
}

/// An NSEC record of a chain: its owner and the next name.
pub struct NsecLink {
    /// The owner, in lower case.
    pub name: NameBuf,
    /// The next name, in lower case; after the last one, the zone name.
    pub next: NameBuf,
}

/// An NSEC3 record of a chain: the original name, its hash and the next hash.
pub struct Nsec3Link {
    /// The original name, in lower case.
    pub name: NameBuf,
    /// The hash of the name.
    pub hash: Nsec3Hash,
    /// The next hash; after the last one, the first.
    pub next: Nsec3Hash,
}

impl DenialChain {
    fn empty(kind: ChainKind, apex: Name<'_>) -> Self {
        let mut key = ReusableBytes::take();
        sort_key(apex, &mut key);
        let mut apex = NameBuf::from(apex);
        apex.make_lowercase();
        DenialChain {
            kind,
            apex,
            apex_key_len: key.len(),
            members: MemberList::default(),
        }
    }

    pub(crate) fn is_of(&self, kind: &ChainKind) -> bool {
        self.kind == *kind
    }

    /// Returns the hash parameters of an NSEC3 chain.
    pub fn hashing(&self) -> Option<&Nsec3> {
        match &self.kind {
            ChainKind::Nsec => None,
            ChainKind::Nsec3 { hashing, .. } => Some(hashing),
        }
    }

    /// Returns the number of records in the chain.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Checks whether the chain has no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Finds the NSEC record that matches or covers a name in the zone: the last one at or before it.
    pub fn nsec_at_or_before(&self, name: Name<'_>) -> Option<NsecLink> {
        let mut key = ReusableBytes::take();
        sort_key(name, &mut key);
        let key = key.get(self.apex_key_len..)?;
        let place = self.members.last_where(|member| member <= key, key)?;
        self.nsec_link(place)
    }

    /// Finds the NSEC3 record that matches or covers a hash: the last one at or before it, wrapping around to the last
    /// record of the chain (RFC 5155 section 1.3: hashes form a circle).
    pub fn nsec3_at_or_before(&self, hash: &Nsec3Hash) -> Option<Nsec3Link> {
        let is_before = |member: &[u8]| member.get(..HASH).is_some_and(|own| own <= &hash[..]);
        let place = self.members.last_where(is_before, hash);
        self.nsec3_link(place.or_else(|| self.members.last())?)
    }

    /// Returns the number of blocks. Several threads can process one block each.
    pub fn blocks(&self) -> usize {
        self.members.blocks()
    }

    /// Returns the number of records in a block.
    pub fn block_len(&self, block: usize) -> usize {
        self.members.places_of(block).count()
    }

    /// Returns a range of the NSEC records in a block, in order.
    pub fn nsec_links_in(
        &self,
        block: usize,
        range: Range<usize>,
    ) -> impl Iterator<Item = NsecLink> {
        let places = self.members.places_of(block);
        let places = places.skip(range.start).take(range.len());
        places.filter_map(|place| self.nsec_link(place))
    }

    /// Returns a range of the NSEC3 records in a block, in hash order.
    pub fn nsec3_links_in(
        &self,
        block: usize,
        range: Range<usize>,
    ) -> impl Iterator<Item = Nsec3Link> {
        let places = self.members.places_of(block);
        let places = places.skip(range.start).take(range.len());
        places.filter_map(|place| self.nsec3_link(place))
    }

    /// Returns all NSEC records, in order.
    pub fn nsec_links(&self) -> impl Iterator<Item = NsecLink> {
        (0..self.blocks()).flat_map(|block| self.nsec_links_in(block, 0..usize::MAX))
    }

    /// Returns all NSEC3 records, in hash order.
    pub fn nsec3_links(&self) -> impl Iterator<Item = Nsec3Link> {
        (0..self.blocks()).flat_map(|block| self.nsec3_links_in(block, 0..usize::MAX))
    }

    fn nsec_link(&self, place: block::MemberLocation) -> Option<NsecLink> {
        let next = self.members.after(place)?;
        Some(NsecLink {
            name: name_of_key(self.members.member(place)?, self.apex.as_name())?,
            next: name_of_key(next, self.apex.as_name())?,
        })
    }

    fn nsec3_link(&self, place: block::MemberLocation) -> Option<Nsec3Link> {
        let (hash, name) = self.members.member(place)?.split_first_chunk()?;
        let (next, _) = self.members.after(place)?.split_first_chunk()?;
        Some(Nsec3Link {
            name: NameBuf::join(name, self.apex.as_name()).ok()?,
            hash: *hash,
            next: *next,
        })
    }

    /// Returns the member that represents a name.
    fn member_of(&self, name: Name<'_>) -> Vec<u8> {
        match &self.kind {
            ChainKind::Nsec => {
                let mut key = Vec::new();
                sort_key(name, &mut key);
                key.split_off(self.apex_key_len.min(key.len()))
            }
            ChainKind::Nsec3 { hashing, .. } => {
                let wire = name.as_wire();
                let below = wire
                    .len()
                    .saturating_sub(self.apex.as_name().as_wire().len());
                let mut member = hashing.hash(name).to_vec();
                member.extend(wire[..below].iter().map(u8::to_ascii_lowercase));
                member
            }
        }
    }
}

/// The signing state and the chain of a zone signed here; versions share both.
pub struct ChainedSigning {
    /// The zone's keys and policy.
    pub signing: Arc<Signing>,
    /// The zone's NSEC or NSEC3 chain.
    pub chain: Arc<DenialChain>,
}
