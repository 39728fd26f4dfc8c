//! The state that determines a version of a zone: while it is unchanged, the version can be sent again.

use std::sync::{Arc, Weak};

use nameward_dnssec::Signing;
use nameward_maintain::policy::Policies;
use nameward_zone::Zone;

/// Everything that determines what is sent of a zone.
pub(super) struct VersionState {
    /// The stored version. The weak reference keeps its address from being reused.
    contents: Weak<Zone>,
    signing: Option<Weak<Signing>>,
    serial: u32,
    /// When the first of its signatures expires; it changes when they are renewed.
    signatures_end: Option<u64>,
    /// Whether it is sent without signatures.
    is_sent_unsigned: bool,
}

impl VersionState {
    pub(super) fn from_zone(zone: &Arc<Zone>, policies: &Policies, now: u32) -> Self {
        let signing = zone.signing().online();
        let serial = zone.serial().0;
        VersionState {
            contents: Arc::downgrade(&zone.unsigned()),
            serial: signing.map_or(serial, |signing| signing.soa_edit().serial(serial, now)),
            signatures_end: signing.map(|signing| signing.earliest_end(now.into())),
            signing: signing.map(Arc::downgrade),
            is_sent_unsigned: policies.get(zone.id()).transfer_unsigned,
        }
    }

    pub(super) fn is_same(&self, other: &VersionState) -> bool {
        let is_signed_alike = match (&self.signing, &other.signing) {
            (Some(one), Some(other)) => one.ptr_eq(other),
            (None, None) => true,
            _ => false,
        };
        is_signed_alike
            && self.signatures_end == other.signatures_end
            && self.is_sent_unsigned == other.is_sent_unsigned
            && self.serial == other.serial
            && self.contents.ptr_eq(&other.contents)
    }
}
