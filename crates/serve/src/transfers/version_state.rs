//! The state of a zone that a version of it was made of: while it is the same, the version goes out again as it is.

use std::sync::{Arc, Weak};

use nameward_dnssec::Signing;
use nameward_maintain::policy::Policies;
use nameward_zone::Zone;

/// All that decides what goes out of a zone.
pub(super) struct VersionState {
    /// The version as its home has it. Kept so that no other one gets its address.
    contents: Weak<Zone>,
    signing: Option<Weak<Signing>>,
    serial: u32,
    /// When the first of its signatures ends: another time when they are renewed.
    signatures_end: Option<u64>,
    /// Whether it goes out without them.
    goes_unsigned: bool,
}

impl VersionState {
    pub(super) fn of(zone: &Arc<Zone>, policies: &Policies, now: u32) -> Self {
        let signing = zone.signing().online();
        let serial = zone.serial().0;
        VersionState {
            contents: Arc::downgrade(&zone.unsigned()),
            serial: signing.map_or(serial, |signing| signing.soa_edit().serial(serial, now)),
            signatures_end: signing.map(|signing| signing.earliest_end(now.into())),
            signing: signing.map(Arc::downgrade),
            goes_unsigned: policies.of(zone.apex_name()).transfer_unsigned,
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
            && self.goes_unsigned == other.goes_unsigned
            && self.serial == other.serial
            && self.contents.ptr_eq(&other.contents)
    }
}
