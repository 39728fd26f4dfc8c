//! Changes that depend on the zone's contents at commit time (RFC 2136).
//!
//! The commit path requests the edits inside the commit, when no other change to the zone is possible: under the lock
//! of an in-memory zone, or inside a database transaction.

use super::{ChangeAuthor, ChangeError, ChangeOrigin, Edit, ZoneChange};
use crate::serial::SerialRule;
use crate::signing_state::SigningState;
use crate::zone::Zone;
use nameward_dnssec::{MadeTypes, is_signature_or_denial};
use nameward_wire::{Name, NameBuf, Rcode, Type};
use std::sync::Arc;

/// Access to the records of a zone by owner.
pub trait RecordsAt {
    /// Calls `each` with type, TTL and data of every record served at a name, one RRset after another.
    fn each_record(&self, owner: Name<'_>, each: &mut dyn FnMut(Type, u32, &[u8]));

    /// Returns the source of the zone's DNSSEC records.
    fn signed_by(&self) -> SignedBy;

    /// Returns how a change by the API raises the serial, if that is stored with the records: SOA-EDIT-API.
    fn api_serial_rule(&self) -> Option<SerialRule> {
        None
    }
}

/// The source of a zone's DNSSEC records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignedBy {
    /// The zone is not signed.
    NoSigner,
    /// This server signs the zone online, and makes these types.
    ThisServer(MadeTypes),
    /// The signatures are part of the zone data, and no change could update them.
    Elsewhere,
}

impl SignedBy {
    /// Checks whether a change may add records of a type to the zone.
    pub fn takes(self, rtype: Type, is_apex: bool) -> bool {
        match self {
            SignedBy::NoSigner => !is_signature_or_denial(rtype),
            SignedBy::ThisServer(made) => !made.contains(rtype, is_apex),
            SignedBy::Elsewhere => false,
        }
    }

    /// Rejects an edit that adds records which only the zone's signer may create. Deletions are allowed, so that
    /// leftovers in the zone file or database can be cleaned up.
    pub fn check_edit(self, edit: &Edit, apex: Name<'_>) -> Result<(), ChangeError> {
        let (Edit::Replace(rrset) | Edit::Add(rrset)) = edit else {
            return Ok(());
        };
        let is_taken = self.takes(rrset.rtype, rrset.name.as_name() == apex);
        if is_taken || rrset.records.is_empty() {
            return Ok(());
        }
        Err(ChangeError::MadeBySigner {
            owner: rrset.name.to_string(),
            rtype: rrset.rtype,
        })
    }
}

/// A change whose edits are computed at commit time.
pub trait ConditionalChange: Send + Sync {
    /// Returns the origin of the change.
    fn origin(&self) -> ChangeOrigin {
        ChangeOrigin::Operator
    }

    /// Returns the author for the zone's history, if known.
    fn author(&self) -> Option<Arc<ChangeAuthor>> {
        None
    }

    /// Lists the names whose records the decision depends on.
    fn names(&self) -> Vec<NameBuf>;

    /// Returns the change to apply to a zone with these records, or the reason for refusing.
    fn decide(&self, records: &dyn RecordsAt) -> Result<ZoneChange, ChangeRefused>;
}

/// The reason why a conditional change is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ChangeRefused {
    /// The response code for the client.
    pub rcode: Rcode,
    /// The reason in words, for the log.
    pub reason: String,
}

/// A version without the records that signing adds, and the signer of the version that is served.
pub struct UnsignedRecords<'z> {
    /// The unsigned version.
    pub records: &'z Zone,
    /// The source of the DNSSEC records that the version lacks.
    pub signed_by: SignedBy,
}

impl RecordsAt for UnsignedRecords<'_> {
    fn each_record(&self, owner: Name<'_>, each: &mut dyn FnMut(Type, u32, &[u8])) {
        self.records.each_record(owner, each);
    }

    fn signed_by(&self) -> SignedBy {
        self.signed_by
    }
}

impl RecordsAt for Zone {
    fn each_record(&self, owner: Name<'_>, each: &mut dyn FnMut(Type, u32, &[u8])) {
        let Some(node) = self.node_of(owner) else {
            return;
        };
        for rrset in node.rrsets() {
            for record in rrset.records() {
                each(rrset.rtype(), rrset.ttl(), record.rdata);
            }
        }
    }

    fn signed_by(&self) -> SignedBy {
        match self.signing() {
            SigningState::Stored(_) => SignedBy::Elsewhere,
            state => match state.online() {
                Some(signing) => SignedBy::ThisServer(signing.made_types()),
                None => SignedBy::NoSigner,
            },
        }
    }
}
