//! The chain of NSEC or NSEC3 of a zone that is looked up: its names, listed from its backend, in order, with their types.
//!
//! The nodes of such a zone are elsewhere, so the chain knows the types of each name itself: a number of one of the few sets
//! of types that a zone has. A list is of the moment when it was read. Whoever makes an answer compares it with what
//! was looked up for the one name and does without the list where both do not agree.
//!
//! ```text
//! NSEC    member = key of the name (RFC 4034 section 6.1), without the apex
//! NSEC3   member = hash of the name
//! ```

mod lister;

use super::{ChainKind, HASH, NsecLink, name_of_key};
use crate::order::sort_key;
use crate::signing_state::SigningState;
pub use lister::{ChainLister, NameRecord};
use nameward_dnssec::{Nsec3, Nsec3Hash, ReusedBytes, Signing};
use nameward_wire::{Name, NameBuf, Type};
use std::sync::{Arc, Weak};

/// The types of a listed name, as a record of denial names them; NSEC, NSEC3 and RRSIG are added where it is made.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ListedTypes(Box<[Type]>);

impl ListedTypes {
    /// The types.
    pub fn iter(&self) -> impl Iterator<Item = Type> {
        self.0.iter().copied()
    }

    /// Whether the name is a delegation or has a DNAME, so that the list has no names below it (RFC 6840 section 4.1).
    pub fn hides_below(&self) -> bool {
        let has = |rtype| self.0.contains(&rtype);
        has(Type::DNAME) || has(Type::NS) && !has(Type::SOA)
    }
}

/// The names of a zone in the order of its chain.
#[derive(Debug, PartialEq, Eq)]
pub struct ListedChain {
    kind: ChainKind,
    apex: NameBuf,
    /// Octets that the keys of all names begin with.
    apex_key_len: usize,
    /// The types that signing adds to the apex.
    apex_types: Vec<Type>,
    /// All members, one after the other.
    octets: Box<[u8]>,
    /// Where each ends; hashes have one length.
    ends: Box<[u32]>,
    /// The number of each member's set in `sets`.
    set_numbers: Box<[u16]>,
    sets: Box<[ListedTypes]>,
}

/// An NSEC3 record of a listed chain.
pub struct ListedHash<'c> {
    /// The hash it stands at.
    pub hash: Nsec3Hash,
    /// The next hash; the first one after the last.
    pub next: Nsec3Hash,
    /// The types of the name.
    pub types: &'c ListedTypes,
}

impl ListedChain {
    /// How names are hashed, if the chain is one of NSEC3.
    pub fn hashing(&self) -> Option<&Nsec3> {
        match &self.kind {
            ChainKind::Nsec => None,
            ChainKind::Nsec3 { hashing, .. } => Some(hashing),
        }
    }

    /// Whether it is the chain that a zone with these keys and this policy has.
    pub fn fits(&self, signing: &Signing) -> bool {
        self.kind == ChainKind::of(signing) && self.apex_types[..] == signing.apex_types()[..]
    }

    /// How many records the chain has.
    pub fn len(&self) -> usize {
        self.set_numbers.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory that it takes.
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

    /// How many members are at or before a key or hash.
    fn count_to(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.member(middle).is_some_and(|member| member <= key) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// Finds the NSEC record that matches or covers a name of the zone: the last at or before it.
    pub fn nsec_at_or_before(&self, name: Name<'_>) -> Option<(NsecLink, &ListedTypes)> {
        let mut key = ReusedBytes::take();
        sort_key(name, &mut key);
        let at = self
            .count_to(key.get(self.apex_key_len..)?)
            .checked_sub(1)?;
        let apex = self.apex.as_name();
        // After the last comes the first, which is the apex.
        let next = self.member(at + 1).unwrap_or_default();
        let link = NsecLink {
            name: name_of_key(self.member(at)?, apex)?,
            next: name_of_key(next, apex)?,
        };
        Some((link, self.types(at)?))
    }

    /// Finds the NSEC3 record that matches or covers a hash: the last at or before it, and before the first the last of all
    /// (RFC 5155 section 1.3: hashes are a circle).
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

/// A zone that is signed here and whose names were listed. Parts of the zone are kept for longer than a list is good, and
/// shall not keep it.
pub struct SigningWithList {
    /// Its keys and its policy.
    pub signing: Arc<Signing>,
    chain: Weak<ListedChain>,
}

impl SigningWithList {
    /// The state of a zone whose names were listed in `chain`.
    pub fn state(signing: Arc<Signing>, chain: &Arc<ListedChain>) -> SigningState {
        let chain = Arc::downgrade(chain);
        SigningState::Listed(Arc::new(SigningWithList { signing, chain }))
    }

    /// The chain, as long as the list is good.
    pub fn chain(&self) -> Option<Arc<ListedChain>> {
        self.chain.upgrade()
    }
}
