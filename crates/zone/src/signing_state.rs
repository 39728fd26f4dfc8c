//! How the answers of a zone are signed, and the index of the proofs that a zone brings with it.
//!
//! A zone is unsigned, signed with keys while it is served (with a chain of denial over all its names, or without one where
//! records of denial are made for each answer), or it has its signatures among its records: RRSIG beside the
//! RRsets that they cover, and a chain of NSEC or NSEC3. The last kind needs the owners of the chain in canonical order
//! (RFC 4034 section 6.1); for NSEC3 that is the order of the hashes, since base32hex keeps it (RFC 5155 section 1.3).

use crate::chain::{ChainKind, ChainedSigning, DenialChain, SigningWithList};
use crate::zone::Zone;
use nameward_dnssec::{Denial, DenialStyle, Nsec3, Signing};
use nameward_wire::{Name, Type};
use std::cmp::Ordering;
use std::sync::{Arc, PoisonError};

/// How the answers of a zone are signed.
#[derive(Clone, Default)]
pub enum SigningState {
    /// Not at all.
    #[default]
    Unsigned,
    /// With keys, while they are given; records of denial are made for each.
    Online(Arc<Signing>),
    /// With keys, while they are given; records of denial are those of the zone's chain.
    Chained(Arc<ChainedSigning>),
    /// With keys, while they are given; records of denial are those of the chain over names that were listed, as far as that
    /// agrees with what was looked up.
    Listed(Arc<SigningWithList>),
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
    pub fn online(&self) -> Option<&Arc<Signing>> {
        match self {
            SigningState::Online(signing) => Some(signing),
            SigningState::Chained(chained) => Some(&chained.signing),
            SigningState::Listed(listed) => Some(&listed.signing),
            SigningState::Unsigned | SigningState::Stored(_) => None,
        }
    }

    /// Whether a negative answer has one NSEC record, of the name that was asked for (RFC 9824).
    #[inline]
    pub fn is_compact(&self) -> bool {
        matches!(self, SigningState::Online(signing) if signing.style() == DenialStyle::Compact)
    }

    /// Whether names are denied by their hashes.
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
    /// Says with which keys its answers are signed, now that all its contents are here: with the chain over its names, if
    /// that is how they are denied. The records that a signed zone has at its apex are there already.
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

    /// Returns the chain of NSEC or NSEC3 over the zone's names. It is made when it is first asked for, in time of the
    /// zone's size, and follows changes from then on.
    pub fn chain_for(&self, signing: &Signing) -> Arc<DenialChain> {
        let kind = ChainKind::of(signing);
        let kept = &self.indexes().chain;
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chain) = kept.as_ref().filter(|chain| chain.is_of(&kind)) {
            return Arc::clone(chain);
        }
        let chain = Arc::new(DenialChain::of_zone(self, kind));
        *kept = Some(Arc::clone(&chain));
        chain
    }

    pub(crate) fn kept_chain(&self) -> Option<Arc<DenialChain>> {
        let kept = &self.indexes_if_made()?.chain;
        kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn keep_chain(&self, chain: Option<Arc<DenialChain>>) {
        let kept = &self.indexes().chain;
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = chain;
    }

    /// Forgets the chain of denial: nobody signs the zone any more.
    pub fn forget_chain(&self) {
        if self.kept_chain().is_some() {
            self.keep_chain(None);
        }
    }

    /// Brings the chain that was inherited from the version before up to this one, in which records of `owners` went or
    /// came.
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
