//! The signing state of a zone, and the index over stored denial records.
//!
//! A zone is unsigned; signed online with keys (with a denial chain over all its names, or with denial records made for
//! each answer); or it has its signatures among its records: RRSIG next to the RRsets they cover, and an NSEC or NSEC3
//! chain. The last kind needs the chain owners in canonical order (RFC 4034 section 6.1); for NSEC3 that is hash order,
//! because base32hex preserves it (RFC 5155 section 1.3).

use crate::chain::{ChainedSigning, SigningWithList};
use nameward_dnssec::{Denial, DenialStyle, Nsec3, Signing};
use nameward_wire::Name;
use std::cmp::Ordering;
use std::sync::Arc;

/// How the answers of a zone are signed.
#[derive(Clone, Default)]
pub enum SigningState {
    /// Answers are not signed.
    #[default]
    Unsigned,
    /// Signed online with keys; denial records are made for each answer.
    Online(Arc<Signing>),
    /// Signed online with keys; denial records come from the zone's chain.
    Chained(Arc<ChainedSigning>),
    /// Signed online with keys; denial records come from the chain over the listed names, as far as it agrees with the
    /// data looked up.
    Listed(Arc<SigningWithList>),
    /// Signed by records stored in the zone.
    Stored(Arc<DenialIndex>),
}

impl SigningState {
    /// Checks whether answers are signed.
    #[inline]
    pub fn is_signed(&self) -> bool {
        !matches!(self, SigningState::Unsigned)
    }

    /// Returns the keys and policy of a zone that is signed online.
    #[inline]
    pub fn online(&self) -> Option<&Arc<Signing>> {
        match self {
            SigningState::Online(signing) => Some(signing),
            SigningState::Chained(chained) => Some(&chained.signing),
            SigningState::Listed(listed) => Some(&listed.signing),
            SigningState::Unsigned | SigningState::Stored(_) => None,
        }
    }

    /// Checks whether a negative answer has a single NSEC record, for the queried name (RFC 9824).
    #[inline]
    pub fn is_compact(&self) -> bool {
        matches!(self, SigningState::Online(signing) if signing.style() == DenialStyle::Compact)
    }

    /// Checks whether denial uses hashed names.
    pub fn uses_nsec3(&self) -> bool {
        match self {
            SigningState::Unsigned => false,
            SigningState::Online(signing) => matches!(signing.denial(), Denial::Nsec3(_)),
            SigningState::Listed(listed) => matches!(listed.signing.denial(), Denial::Nsec3(_)),
            SigningState::Chained(chained) => chained.chain.hashing().is_some(),
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
    pub(crate) hashing: Option<Nsec3>,
    pub(crate) owners: Box<[Box<[u8]>]>,
}

impl DenialIndex {
    /// Returns the hash parameters of an NSEC3 chain.
    pub fn hashing(&self) -> Option<&Nsec3> {
        self.hashing.as_ref()
    }

    /// Returns the owner of the record that matches or covers `name` (the hashed name, for NSEC3): the last one at or
    /// before it, wrapping around to the last owner of all.
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
