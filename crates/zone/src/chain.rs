//! The chain of NSEC or NSEC3 over the names of a zone that is signed here (RFC 4034 section 4, RFC 5155 section 7.1).
//!
//! The chain knows names and their order; the types of a name are read from its node when its record is made, so a change
//! of types alone changes no chain. Members stand in blocks that versions share: a change copies the blocks that it
//! touches and the list of blocks, and a zone of a million names has a thousand of these.
//!
//! ```text
//! NSEC    member = key of the name whose plain order is the canonical one (RFC 4034 section 6.1), without the apex
//! NSEC3   member = hash of the name, the name without the apex
//! ```

mod block;
mod listed;
mod members;

use crate::order::sort_key;
use block::MemberList;
pub use listed::{ChainLister, ListedChain, ListedTypes, NameRecord, SigningWithList};
use nameward_dnssec::{Denial, Nsec3, Nsec3Hash, ReusedBytes, Signing};
use nameward_wire::name::{MAX_LABEL, MAX_NAME};
use nameward_wire::{Name, NameBuf};
use std::ops::Range;
use std::sync::Arc;

/// Octets of a hashed name.
const HASH: usize = size_of::<Nsec3Hash>();

/// The kind of a chain: which names are its members, and their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChainKind {
    /// Names with records, in canonical order.
    Nsec,
    /// All names, in the order of their hashes; with `opt_out` without delegations that have no DS.
    Nsec3 { hashing: Nsec3, opt_out: bool },
}

impl ChainKind {
    pub(crate) fn of(signing: &Signing) -> Self {
        match signing.denial() {
            Denial::Nsec => ChainKind::Nsec,
            Denial::Nsec3(hashing) => ChainKind::Nsec3 {
                hashing: hashing.clone(),
                opt_out: signing.is_opt_out(),
            },
        }
    }
}

/// The members of the chain of one version of a zone, in order.
pub struct DenialChain {
    kind: ChainKind,
    apex: NameBuf,
    /// Octets that the keys of all names begin with.
    apex_key_len: usize,
    members: MemberList,
}

/// An NSEC record of a chain: the name it stands at, and the next one.
pub struct NsecLink {
    /// The name, in lower case.
    pub name: NameBuf,
    /// The next name, in lower case; that of the zone after the last.
    pub next: NameBuf,
}

/// An NSEC3 record of a chain: the name that it is made from, its hash and the next one.
pub struct Nsec3Link {
    /// The name, in lower case.
    pub name: NameBuf,
    /// The hash of the name.
    pub hash: Nsec3Hash,
    /// The next hash; the first one after the last.
    pub next: Nsec3Hash,
}

impl DenialChain {
    fn empty(kind: ChainKind, apex: Name<'_>) -> Self {
        let mut key = ReusedBytes::take();
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

    /// How names are hashed, if the chain is one of NSEC3.
    pub fn hashing(&self) -> Option<&Nsec3> {
        match &self.kind {
            ChainKind::Nsec => None,
            ChainKind::Nsec3 { hashing, .. } => Some(hashing),
        }
    }

    /// How many records the chain has.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Finds the NSEC record that matches or covers a name of the zone: the last at or before it.
    pub fn nsec_at_or_before(&self, name: Name<'_>) -> Option<NsecLink> {
        let mut key = ReusedBytes::take();
        sort_key(name, &mut key);
        let key = key.get(self.apex_key_len..)?;
        let place = self.members.last_where(|member| member <= key, key)?;
        self.nsec_link(place)
    }

    /// Finds the NSEC3 record that matches or covers a hash: the last at or before it, and before the first the last of all
    /// (RFC 5155 section 1.3: hashes are a circle).
    pub fn nsec3_at_or_before(&self, hash: &Nsec3Hash) -> Option<Nsec3Link> {
        let is_before = |member: &[u8]| member.get(..HASH).is_some_and(|own| own <= &hash[..]);
        let place = self.members.last_where(is_before, hash);
        self.nsec3_link(place.or_else(|| self.members.last())?)
    }

    /// How many blocks the records stand in. Several threads may take a block each.
    pub fn blocks(&self) -> usize {
        self.members.blocks()
    }

    /// How many records a block has.
    pub fn block_len(&self, block: usize) -> usize {
        self.members.places_of(block).count()
    }

    /// Some NSEC records of a block, in order.
    pub fn nsec_links_in(
        &self,
        block: usize,
        range: Range<usize>,
    ) -> impl Iterator<Item = NsecLink> {
        let places = self.members.places_of(block);
        let places = places.skip(range.start).take(range.len());
        places.filter_map(|place| self.nsec_link(place))
    }

    /// Some NSEC3 records of a block, in the order of their hashes.
    pub fn nsec3_links_in(
        &self,
        block: usize,
        range: Range<usize>,
    ) -> impl Iterator<Item = Nsec3Link> {
        let places = self.members.places_of(block);
        let places = places.skip(range.start).take(range.len());
        places.filter_map(|place| self.nsec3_link(place))
    }

    /// All NSEC records, in order.
    pub fn nsec_links(&self) -> impl Iterator<Item = NsecLink> {
        (0..self.blocks()).flat_map(|block| self.nsec_links_in(block, 0..usize::MAX))
    }

    /// All NSEC3 records, in the order of their hashes.
    pub fn nsec3_links(&self) -> impl Iterator<Item = Nsec3Link> {
        (0..self.blocks()).flat_map(|block| self.nsec3_links_in(block, 0..usize::MAX))
    }

    fn nsec_link(&self, place: block::MemberPlace) -> Option<NsecLink> {
        let next = self.members.after(place)?;
        Some(NsecLink {
            name: name_of_key(self.members.member(place)?, self.apex.as_name())?,
            next: name_of_key(next, self.apex.as_name())?,
        })
    }

    fn nsec3_link(&self, place: block::MemberPlace) -> Option<Nsec3Link> {
        let (hash, name) = self.members.member(place)?.split_first_chunk()?;
        let (next, _) = self.members.after(place)?.split_first_chunk()?;
        Some(Nsec3Link {
            name: NameBuf::join(name, self.apex.as_name()).ok()?,
            hash: *hash,
            next: *next,
        })
    }

    /// The member that stands for a name of the zone.
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

/// Reads the name back out of its key ([`sort_key`]): labels from the right, each ended by 0, 0 and 1 as two octets.
fn name_of_key(key: &[u8], apex: Name<'_>) -> Option<NameBuf> {
    let mut wire = [0; MAX_NAME];
    let mut start = wire.len();
    let mut label = [0; MAX_LABEL];
    let (mut len, mut octets) = (0, key.iter());
    while let Some(&octet) = octets.next() {
        let octet = match octet {
            0 => {
                let end = start;
                start = start.checked_sub(len + 1)?;
                wire[start] = len as u8;
                wire[start + 1..end].copy_from_slice(&label[..len]);
                len = 0;
                continue;
            }
            1 => octets.next()?.checked_sub(1)?,
            octet => octet,
        };
        *label.get_mut(len)? = octet;
        len += 1;
    }
    NameBuf::join(&wire[start..], apex).ok()
}

/// A zone that is signed here and has its chain: both are shared by versions.
pub struct ChainedSigning {
    /// Its keys and its policy.
    pub signing: Arc<Signing>,
    /// Its chain.
    pub chain: Arc<DenialChain>,
}
