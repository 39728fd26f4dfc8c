//! NSEC and NSEC3 chains of looked-up zones: the names listed from the backend, in order, with their types.
//!
//! The nodes of such a zone are elsewhere, so the chain stores the types of each name itself, as the number of one of
//! the few type sets a zone has. A list is a snapshot of the time it was read. The answer code compares it with the
//! result of the lookup for the one name, and ignores the list where they disagree.
//!
//! ```text
//! NSEC    member = key of the name (RFC 4034 section 6.1), without the apex
//! NSEC3   member = hash of the name
//! ```

mod lister;

use super::{ChainKind, HASH, NsecLink};
use crate::signing_state::SigningState;
use crate::sort_key::{name_of_key, sort_key};
pub use lister::{ChainLister, NameRecord};
use nameward_dnssec::{Nsec3, Nsec3Hash, ReusableBytes, Signing};
use nameward_wire::{Name, NameBuf, Type};
use std::sync::{Arc, Weak};

/// The types of a listed name as they appear in a denial record; NSEC, NSEC3 and RRSIG are added when it is made.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ListedTypes(Box<[Type]>);

impl ListedTypes {
    /// Returns the types in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Type> {
        self.0.iter().copied()
    }

    /// Checks whether the name is a delegation or has a DNAME, so that the list contains no names below it (RFC 6840
    /// section 4.1).
    pub fn hides_below(&self) -> bool {
        let has = |rtype| self.0.contains(&rtype);
        has(Type::DNAME) || has(Type::NS) && !has(Type::SOA)
    }
}

/// The names of a zone in chain order.
#[derive(Debug, PartialEq, Eq)]
pub struct ListedChain {
    kind: ChainKind,
    apex: NameBuf,
    /// Length of the prefix shared by the keys of all names.
    apex_key_len: usize,
    /// Types that signing adds at the apex.
    apex_types: Vec<Type>,
    /// All members, concatenated.
    octets: Box<[u8]>,
    /// End offset of each member; unused for hashes, which have a fixed length.
    ends: Box<[u32]>,
    /// The index of each member's type set in `sets`.
    set_numbers: Box<[u16]>,
    sets: Box<[ListedTypes]>,
}

/// An NSEC3 record of a listed chain.
pub struct ListedHash<'c> {
    /// The hash of the owner.
    pub hash: Nsec3Hash,
    /// The next hash; after the last one, the first.
    pub next: Nsec3Hash,
    /// The types at the name.
    pub types: &'c ListedTypes,
}

impl ListedChain {
    /// Returns the hash parameters of an NSEC3 chain.
    pub fn hashing(&self) -> Option<&Nsec3> {
        match &self.kind {
            ChainKind::Nsec => None,
            ChainKind::Nsec3 { hashing, .. } => Some(hashing),
        }
    }

    /// Checks whether this is the chain for a zone with these keys and this policy.
    pub fn fits(&self, signing: &Signing) -> bool {
        self.kind == ChainKind::from_signing(signing)
            && self.apex_types[..] == signing.apex_types()[..]
    }

    /// Returns the number of records in the chain.
    pub fn len(&self) -> usize {
        self.set_numbers.len()
    }

    /// Checks whether the chain has no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the octets of memory the chain takes.
    pub fn heap_bytes(&self) -> usize {
        let of_sets = self.sets.iter().map(|set| size_of_val(&*set.0));
        self.octets.len()
            + size_of_val(&*self.ends)
            + size_of_val(&*self.set_numbers)
            + size_of_val(&*self.sets)
            + of_sets.sum::<usize>()
    }

    fn member(&self, at: usize) -> Option<&[u8]> {
        if let ChainKind::Nsec3 { .. } = self.kind {
            return self.octets.get(at * HASH..(at + 1) * HASH);
        }
        let start = match at.checked_sub(1) {
            None => 0,
            Some(before) => *self.ends.get(before)? as usize,
        };
        self.octets.get(start..*self.ends.get(at)? as usize)
    }

    fn types(&self, at: usize) -> Option<&ListedTypes> {
        self.sets.get(usize::from(*self.set_numbers.get(at)?))
    }

    /// Counts the members at or before a key or hash.
    fn count_to(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.member(middle).is_some_and(|member| member <= key) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        low
    }

    /// Finds the NSEC record that matches or covers a name in the zone: the last one at or before it.
    pub fn nsec_at_or_before(&self, name: Name<'_>) -> Option<(NsecLink, &ListedTypes)> {
        let mut key = ReusableBytes::take();
        sort_key(name, &mut key);
        let at = self
            .count_to(key.get(self.apex_key_len..)?)
            .checked_sub(1)?;
        let apex = self.apex.as_name();
        // The last member is followed by the first, which is the apex.
        let next = self.member(at + 1).unwrap_or_default();
        let link = NsecLink {
            name: name_of_key(self.member(at)?, apex)?,
            next: name_of_key(next, apex)?,
        };
        Some((link, self.types(at)?))
    }

    /// Finds the NSEC3 record that matches or covers a hash: the last one at or before it, wrapping around to the last
    /// record of the chain (RFC 5155 section 1.3: hashes form a circle).
    pub fn nsec3_at_or_before(&self, hash: &Nsec3Hash) -> Option<ListedHash<'_>> {
        let last = self.len().checked_sub(1)?;
        let at = self.count_to(hash).checked_sub(1).unwrap_or(last);
        let next = self.member(at + 1).or_else(|| self.member(0))?;
        Some(ListedHash {
            hash: self.member(at)?.try_into().ok()?,
            next: next.try_into().ok()?,
            types: self.types(at)?,
        })
    }
}

/// The signing state of a looked-up zone whose names were listed. Fragments outlive the validity of a list, so they
/// only hold a weak reference to it.
pub struct SigningWithList {
    /// The zone's keys and policy.
    pub signing: Arc<Signing>,
    chain: Weak<ListedChain>,
}

impl SigningWithList {
    /// Returns the signing state of a zone whose names are listed in `chain`.
    pub fn state(signing: Arc<Signing>, chain: &Arc<ListedChain>) -> SigningState {
        let chain = Arc::downgrade(chain);
        SigningState::Listed(Arc::new(SigningWithList { signing, chain }))
    }

    /// Returns the chain while the list is valid.
    pub fn chain(&self) -> Option<Arc<ListedChain>> {
        self.chain.upgrade()
    }
}
