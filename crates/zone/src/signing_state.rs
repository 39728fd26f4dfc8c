//! How the answers of a zone are signed, and the index of the proofs that a zone brings with it.
//!
//! A zone is unsigned, signed with keys while it is served, or it has its signatures among its records: RRSIG beside the
//! RRsets that they cover, and a chain of NSEC or NSEC3. The last kind needs the owners of the chain in canonical order
//! (RFC 4034 section 6.1); for NSEC3 that is the order of the hashes, since base32hex keeps it (RFC 5155 section 1.3).

use crate::zone::Zone;
use nameward_dnssec::{Nsec3, Signing};
use nameward_wire::{Name, Type};
use std::cmp::Ordering;
use std::sync::Arc;

/// How the answers of a zone are signed.
#[derive(Clone, Default)]
pub enum SigningState {
    /// Not at all.
    #[default]
    Unsigned,
    /// With keys, while they are given.
    Online(Arc<Signing>),
    /// By records of the zone.
    Stored(Arc<DenialIndex>),
}

impl SigningState {
    /// Whether answers come with signatures.
    #[inline]
    pub fn is_signed(&self) -> bool {
        !matches!(self, SigningState::Unsigned)
    }

    /// The keys and the policy of a zone that is signed while it is served.
    #[inline]
    pub fn online(&self) -> Option<&Signing> {
        match self {
            SigningState::Online(signing) => Some(signing),
            SigningState::Unsigned | SigningState::Stored(_) => None,
        }
    }

    /// Whether names are denied by their hashes.
    pub fn uses_nsec3(&self) -> bool {
        match self {
            SigningState::Unsigned => false,
            SigningState::Online(signing) => {
                matches!(signing.denial(), nameward_dnssec::Denial::Nsec3(_))
            }
            SigningState::Stored(index) => index.hashing().is_some(),
        }
    }
}

impl From<Option<Arc<Signing>>> for SigningState {
    fn from(signing: Option<Arc<Signing>>) -> Self {
        signing.map_or(SigningState::Unsigned, SigningState::Online)
    }
}

/// The owners of a zone's NSEC or NSEC3 records, in canonical order.
pub struct DenialIndex {
    hashing: Option<Nsec3>,
    owners: Box<[Box<[u8]>]>,
}

impl DenialIndex {
    /// How names are hashed, if the chain is one of NSEC3.
    pub fn hashing(&self) -> Option<&Nsec3> {
        self.hashing.as_ref()
    }

    /// The owner of the record that matches `name` (the hashed one, for NSEC3) or covers it: the last at or before it, and
    /// before the first the last of all.
    pub fn at_or_before(&self, name: Name<'_>) -> Option<Name<'_>> {
        let order = |owner: &[u8]| Name::from_valid_wire(owner).canonical_cmp(name);
        let place = self
            .owners
            .partition_point(|owner| order(owner) != Ordering::Greater);
        let place = match place {
            0 => self.owners.len(),
            place => place,
        };
        let owner = self.owners.get(place.checked_sub(1)?)?;
        Some(Name::from_valid_wire(owner))
    }
}

impl Zone {
    /// Finds out whether the zone has its signatures among its records: its SOA is signed, and there is a chain of NSEC
    /// or NSEC3.
    pub fn stored_signatures(&self) -> SigningState {
        let apex = self.apex();
        if apex.signatures(Type::SOA).next().is_none() {
            return SigningState::Unsigned;
        }
        let params = apex.rrset(Type::NSEC3PARAM);
        let mut params = params.into_iter().flat_map(|rrset| rrset.records());
        let hashing = params.find_map(|record| Nsec3::from_param(record.rdata));
        let rtype = match hashing {
            Some(_) => Type::NSEC3,
            None => Type::NSEC,
        };
        let chain = self
            .nodes_in_order()
            .filter(|node| node.rrset(rtype).is_some());
        let owners: Box<[Box<[u8]>]> = chain.map(|node| node.name().as_wire().into()).collect();
        match owners.is_empty() {
            true => SigningState::Unsigned,
            false => SigningState::Stored(Arc::new(DenialIndex { hashing, owners })),
        }
    }
}
