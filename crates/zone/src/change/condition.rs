//! Changes that depend on what the zone has at the moment they are made (RFC 2136).
//!
//! Whoever makes a change durable asks for its edits within the commit, when nobody else can change the zone any more: under
//! the lock of a zone in memory, or within the transaction of a database.

use super::{ChangeAuthor, ChangeError, ChangeOrigin, Edit, ZoneChange};
use crate::signing_state::SigningState;
use crate::zone::Zone;
use nameward_dnssec::{MadeTypes, is_signature_or_denial};
use nameward_wire::{Name, NameBuf, Rcode, Type};
use std::sync::Arc;

/// The records of a zone by their owners.
pub trait RecordsAt {
    /// Hands over type, TTL and data of each record that is served at a name, one RRset after another.
    fn each_record(&self, owner: Name<'_>, each: &mut dyn FnMut(Type, u32, &[u8]));

    /// Returns who makes the DNSSEC records of the zone.
    fn signed_by(&self) -> SignedBy;
}

/// The maker of a zone's DNSSEC records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignedBy {
    /// The zone is not signed.
    Nobody,
    /// This server signs while it answers, and makes these types.
    ThisServer(MadeTypes),
    /// The signatures are among the records, and no change could mend them.
    Elsewhere,
}

impl SignedBy {
    /// Returns whether a change may bring records of a type into the zone.
    pub fn takes(self, rtype: Type, is_apex: bool) -> bool {
        match self {
            SignedBy::Nobody => !is_signature_or_denial(rtype),
            SignedBy::ThisServer(made) => !made.contains(rtype, is_apex),
            SignedBy::Elsewhere => false,
        }
    }

    /// Refuses an edit that brings records which only the signer of the zone makes. Deletions pass: what the zone's file or
    /// database still has of them can be cleaned up.
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

/// A change whose edits are decided when it is made.
pub trait ConditionalChange: Send + Sync {
    /// Returns who asks for it.
    fn origin(&self) -> ChangeOrigin {
        ChangeOrigin::Operator
    }

    /// Returns who is noted in the history of the zone, if that is known.
    fn author(&self) -> Option<Arc<ChangeAuthor>> {
        None
    }

    /// Lists the names whose records decide it.
    fn names(&self) -> Vec<NameBuf>;

    /// Returns the change that is to be made of a zone with these records, or why none is.
    fn decide(&self, records: &dyn RecordsAt) -> Result<ZoneChange, ChangeRefused>;
}

/// The reason why a conditional change is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ChangeRefused {
    /// The response code for the one who asked.
    pub rcode: Rcode,
    /// The reason in words, for the log.
    pub reason: String,
}

/// A version without the records that signing adds, and who signs the one that is served of it.
pub struct UnsignedRecords<'z> {
    /// The version.
    pub records: &'z Zone,
    /// The maker of the DNSSEC records that it does not have.
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
                None => SignedBy::Nobody,
            },
        }
    }
}
