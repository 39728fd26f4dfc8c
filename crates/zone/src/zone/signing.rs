//! The denial chain of a zone signed here, and the detection of stored signatures.

use super::Zone;
use crate::chain::{ChainKind, ChainedSigning, DenialChain};
use crate::signing_state::{DenialIndex, SigningState};
use nameward_dnssec::{DenialStyle, Nsec3, Signing};
use nameward_wire::{Name, Type};
use std::sync::Arc;

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
        let mut cached = self.indexes().chain.lock();
        if let Some(chain) = cached.as_ref().filter(|chain| chain.is_of(&kind)) {
            return Arc::clone(chain);
        }
        let chain = Arc::new(DenialChain::from_zone(self, kind));
        *cached = Some(Arc::clone(&chain));
        chain
    }

    pub(crate) fn kept_chain(&self) -> Option<Arc<DenialChain>> {
        self.indexes_if_made()?.chain.lock().clone()
    }

    pub(crate) fn keep_chain(&self, chain: Option<Arc<DenialChain>>) {
        *self.indexes().chain.lock() = chain;
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
