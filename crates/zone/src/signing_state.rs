//! The signing state of a zone, and the index over stored denial records.
//!
//! A zone is unsigned; signed online with keys (with a denial chain over all its names, or with denial records made for
//! each answer); or it has its signatures among its records: RRSIG next to the RRsets they cover, and an NSEC or NSEC3
//! chain. The last kind needs the chain owners in canonical order (RFC 4034 section 6.1); for NSEC3 that is hash order,
//! because base32hex preserves it (RFC 5155 section 1.3).

use crate::chain::{ChainKind, ChainedSigning, DenialChain, SigningWithList};
use crate::zone::Zone;
use nameward_dnssec::{Denial, DenialStyle, Nsec3, Signing};
use nameward_wire::{Name, Type};
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
    hashing: Option<Nsec3>,
    owners: Box<[Box<[u8]>]>,
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

impl Zone {
    /// Sets the keys for a zone whose contents are all in memory, and builds the chain over its names if denial uses
    /// one. The apex records of a signed zone must already be present.
    pub fn set_resident_signing(&mut self, signing: Option<Arc<Signing>>) {
        let chain = signing
            .as_ref()
            .filter(|signing| signing.style() == DenialStyle::Chain)
            .map(|signing| self.chain_for(signing));
        self.set_signing(match (signing, chain) {
            (Some(signing), Some(chain)) => {
                SigningState::Chained(Arc::new(ChainedSigning { signing, chain }))
            }
            (signing, _) => signing.into(),
        });
    }

    /// Returns the NSEC or NSEC3 chain over the zone's names. It is built on first use, in time proportional to the
    /// size of the zone, and follows changes from then on.
    pub fn chain_for(&self, signing: &Signing) -> Arc<DenialChain> {
        let kind = ChainKind::from_signing(signing);
        let kept = &self.indexes().chain;
        let mut kept = kept.lock();
        if let Some(chain) = kept.as_ref().filter(|chain| chain.is_of(&kind)) {
            return Arc::clone(chain);
        }
        let chain = Arc::new(DenialChain::from_zone(self, kind));
        *kept = Some(Arc::clone(&chain));
        chain
    }

    pub(crate) fn kept_chain(&self) -> Option<Arc<DenialChain>> {
        let kept = &self.indexes_if_made()?.chain;
        kept.lock().clone()
    }

    pub(crate) fn keep_chain(&self, chain: Option<Arc<DenialChain>>) {
        let kept = &self.indexes().chain;
        *kept.lock() = chain;
    }

    /// Drops the denial chain: the zone is no longer signed.
    pub fn forget_chain(&self) {
        if self.kept_chain().is_some() {
            self.keep_chain(None);
        }
    }

    /// Updates the chain inherited from the previous version to this one, in which records of `owners` were added or
    /// removed.
    pub(crate) fn follow_chain<'n>(
        &mut self,
        before: &Zone,
        owners: impl Iterator<Item = Name<'n>>,
    ) {
        let Some(chain) = self.kept_chain() else {
            return;
        };
        let Some(chain) = chain.changed((before, self), owners).map(Arc::new) else {
            return;
        };
        self.keep_chain(Some(Arc::clone(&chain)));
        if let SigningState::Chained(chained) = self.signing() {
            let signing = Arc::clone(&chained.signing);
            self.set_signing(SigningState::Chained(Arc::new(ChainedSigning {
                signing,
                chain,
            })));
        }
    }

    /// Detects whether the zone has its signatures among its records: its SOA is signed, and there is an NSEC or NSEC3
    /// chain.
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
        if owners.is_empty() {
            SigningState::Unsigned
        } else {
            SigningState::Stored(Arc::new(DenialIndex { hashing, owners }))
        }
    }
}
