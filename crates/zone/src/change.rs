//! The vocabulary of change: an edit, a change, a difference, and why a change cannot be made.
//!
//! ```text
//! Edit         one step, as it is asked for: replace an RRset, add or delete records
//! ZoneChange   edits in order, all or none, with the one who asks
//! Difference   the records that go and the records that come: what a change does to one version of a zone
//! ```
//! A change asked of a zone in memory becomes a difference by [`Zone::difference_of`], two versions of a zone by
//! [`Zone::difference_from`]; either is applied by [`Zone::apply`], written to a journal, or sent as an IXFR (RFC 1995).
//! `apply(difference_from(a, b), a)` has the records of `b`.

mod author;
mod condition;
mod difference;
mod editor;
mod overlay;
mod pack;
mod plan;

use crate::record_list::{RecordList, WireRecord};
use crate::serial::{Serial, SerialRule};
pub use author::{ChangeAuthor, MESSAGE_MAX};
pub use condition::{ChangeRefused, ConditionalChange, RecordsAt, SignedBy, UnsignedRecords};
use nameward_wire::{NameBuf, Type};
pub(crate) use overlay::Changes;
use std::time::SystemTime;

#[cfg(doc)]
use crate::Zone;

/// A record of an [`RrsetData`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// Uncompressed wire form.
    pub rdata: Vec<u8>,
    /// Kept by a database but not served.
    pub disabled: bool,
}

/// All records of one name and type, as an edit gives them.
#[derive(Debug, Clone)]
pub struct RrsetData {
    /// The owner, absolute.
    pub name: NameBuf,
    /// The type.
    pub rtype: Type,
    /// The TTL of all its records.
    pub ttl: u32,
    /// The records.
    pub records: Vec<NewRecord>,
}

/// One step of a change. Steps are applied in order, and all or none of them.
#[derive(Debug, Clone)]
pub enum Edit {
    /// These records and no others; none deletes the RRset.
    Replace(RrsetData),
    /// These records besides those that are there; the TTL becomes that of all.
    Add(RrsetData),
    /// Deletes records with this data.
    DeleteRecords {
        /// The owner.
        name: NameBuf,
        /// The type.
        rtype: Type,
        /// Data in wire form.
        rdata: Vec<Vec<u8>>,
    },
    /// Deletes all records of a name and type.
    DeleteRrset {
        /// The owner.
        name: NameBuf,
        /// The type.
        rtype: Type,
    },
    /// Deletes all records of a name; at the apex SOA and NS stay (RFC 2136 section 3.4.2.3).
    DeleteName {
        /// The owner.
        name: NameBuf,
    },
}

impl Edit {
    /// The owner of the records it is about.
    pub fn name(&self) -> &NameBuf {
        match self {
            Edit::Replace(rrset) | Edit::Add(rrset) => &rrset.name,
            Edit::DeleteRecords { name, .. }
            | Edit::DeleteRrset { name, .. }
            | Edit::DeleteName { name } => name,
        }
    }

    /// The type it is about; `None` if it is about all of a name.
    pub fn rtype(&self) -> Option<Type> {
        match self {
            Edit::Replace(rrset) | Edit::Add(rrset) => Some(rrset.rtype),
            Edit::DeleteRecords { rtype, .. } | Edit::DeleteRrset { rtype, .. } => Some(*rtype),
            Edit::DeleteName { .. } => None,
        }
    }

    /// Whether it brings a SOA, so that the serial is the caller's. A deletion does not: the apex keeps its SOA, and other names
    /// have none.
    pub fn sets_soa(&self) -> bool {
        match self {
            Edit::Replace(rrset) | Edit::Add(rrset) => rrset.rtype == Type::SOA,
            Edit::DeleteRecords { .. } | Edit::DeleteRrset { .. } | Edit::DeleteName { .. } => {
                false
            }
        }
    }
}

/// Who asks for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeOrigin {
    /// An operator or a client of this server: not for zones that come from elsewhere.
    Operator,
    /// The primary of the zone.
    Transfer,
}

/// A change of one zone.
#[derive(Debug, Clone)]
pub struct ZoneChange {
    /// The steps, in this order.
    pub edits: Vec<Edit>,
    /// Who asks.
    pub origin: ChangeOrigin,
    /// For serials that are dates.
    pub now: SystemTime,
    /// The way in which the serial is raised, where the change does not set the SOA.
    pub serial: SerialRule,
}

/// The records that turn one version of a zone into another (the content of an IXFR, RFC 1995).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Records that go.
    pub removed: RecordList,
    /// Records that come.
    pub added: RecordList,
}

impl Difference {
    /// Whether the versions are equal.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }

    /// Octets of its records in wire form.
    pub fn octets(&self) -> usize {
        self.removed.as_bytes().len() + self.added.as_bytes().len()
    }

    /// The serials of the versions before and after; `None` if the SOA stays as it is.
    pub fn serials(&self) -> Option<(Serial, Serial)> {
        let serial = |list: &RecordList| {
            list.first_of(Type::SOA)
                .and_then(|soa| soa_serial(soa.rdata))
        };
        Some((serial(&self.removed)?, serial(&self.added)?))
    }
}

/// Reads the serial out of the data of a SOA.
pub fn soa_serial(rdata: &[u8]) -> Option<Serial> {
    let at = rdata.len().checked_sub(20)?;
    let octets = rdata.get(at..)?.first_chunk()?;
    Some(Serial(u32::from_be_bytes(*octets)))
}

/// Why a change or a difference cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// A record to remove is not there.
    #[error("{owner} {rtype} to be removed is not in the zone")]
    NotThere {
        /// Its owner.
        owner: String,
        /// Its type.
        rtype: Type,
    },
    /// An owner is not at or below the apex.
    #[error("{0} is outside the zone")]
    OutOfZone(String),
    /// The result would break a rule of zones.
    #[error("{owner}: {what}")]
    Invalid {
        /// The name.
        owner: String,
        /// The rule, or what would be wrong.
        what: String,
    },
    /// The change brings a record that only the signer of the zone makes.
    #[error("{owner} {rtype}: records of this type are made by the server that signs the zone")]
    MadeBySigner {
        /// Its owner.
        owner: String,
        /// Its type.
        rtype: Type,
    },
    /// The zone has no contents in memory.
    #[error("the contents of the zone are not in memory")]
    NotResident,
}

impl ChangeError {
    fn not_there(record: &WireRecord<'_>) -> Self {
        ChangeError::NotThere {
            owner: record.owner.to_string(),
            rtype: record.rtype,
        }
    }
}
