//! Types that describe zone changes: edit, change, difference, and the reasons why a change fails.
//!
//! ```text
//! Edit         one requested step: replace an RRset, add or delete records
//! ZoneChange   edits in order, all or none, and who requested them
//! Difference   records removed and records added: the effect of a change on one version of a zone
//! ```
//! [`Zone::difference_of`] turns a change to an in-memory zone into a difference, [`Zone::difference_from`] compares
//! two versions; either result is applied by [`Zone::apply`], written to a journal, or sent as an IXFR (RFC 1995).
//! `apply(difference_from(a, b), a)` has the records of `b`.

mod author;
mod condition;
mod difference;
mod editor;
mod layered;
mod pack;
mod plan;

use crate::record_list::{RecordList, WireRecord};
use crate::serial::{Serial, SerialRule};
pub use author::{ChangeAuthor, MESSAGE_MAX};
pub use condition::{ChangeRefused, ConditionalChange, RecordsAt, SignedBy, UnsignedRecords};
pub use layered::LayerError;
use nameward_wire::{NameBuf, Type};
use std::time::SystemTime;

#[cfg(doc)]
use crate::Zone;

/// A record of an [`RrsetData`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// Data in uncompressed wire form.
    pub rdata: Vec<u8>,
    /// Stored in the database but not served.
    pub disabled: bool,
    /// The data as the client wrote it, for databases, which store text. `None` stores the standard form of the data.
    pub text: Option<Box<str>>,
}

/// A record that is served, stored in the standard form of its data.
impl From<Vec<u8>> for NewRecord {
    fn from(rdata: Vec<u8>) -> Self {
        NewRecord {
            rdata,
            disabled: false,
            text: None,
        }
    }
}

/// All records of one name and type, as given in an edit.
#[derive(Debug, Clone)]
pub struct RrsetData {
    /// The owner, absolute.
    pub name: NameBuf,
    /// The record type.
    pub rtype: Type,
    /// The TTL of all records.
    pub ttl: u32,
    /// The records; may be empty.
    pub records: Vec<NewRecord>,
}

/// One step of a change. Steps are applied in order, all or none of them.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone)]
pub enum Edit {
    /// Sets the RRset to exactly these records; an empty list deletes it.
    Replace(RrsetData),
    /// Adds these records to the existing ones; their TTL applies to the whole RRset.
    Add(RrsetData),
    /// Deletes the records with this data.
    DeleteRecords {
        name: NameBuf,
        rtype: Type,
        /// Data in wire form.
        rdata: Vec<Vec<u8>>,
    },
    /// Deletes all records of a name and type.
    DeleteRrset { name: NameBuf, rtype: Type },
    /// Deletes all records of a name; SOA and NS at the apex are kept (RFC 2136 section 3.4.2.3).
    DeleteName { name: NameBuf },
}

impl Edit {
    /// Returns the owner of the affected records.
    pub fn name(&self) -> &NameBuf {
        match self {
            Edit::Replace(rrset) | Edit::Add(rrset) => &rrset.name,
            Edit::DeleteRecords { name, .. }
            | Edit::DeleteRrset { name, .. }
            | Edit::DeleteName { name } => name,
        }
    }

    /// Returns the affected type; `None` if the edit affects all types of a name.
    pub fn rtype(&self) -> Option<Type> {
        match self {
            Edit::Replace(rrset) | Edit::Add(rrset) => Some(rrset.rtype),
            Edit::DeleteRecords { rtype, .. } | Edit::DeleteRrset { rtype, .. } => Some(*rtype),
            Edit::DeleteName { .. } => None,
        }
    }

    /// Checks whether the edit supplies a SOA, so that the caller determines the serial. Deletions do not: the apex
    /// keeps its SOA, and other names have none.
    pub fn sets_soa(&self) -> bool {
        match self {
            Edit::Replace(rrset) | Edit::Add(rrset) => rrset.rtype == Type::SOA,
            Edit::DeleteRecords { .. } | Edit::DeleteRrset { .. } | Edit::DeleteName { .. } => {
                false
            }
        }
    }
}

/// The origin of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeOrigin {
    /// An operator or a client of this server; not allowed for zones that are maintained elsewhere.
    Operator,
    /// The zone's primary.
    Transfer,
}

/// A change to one zone.
#[derive(Debug, Clone)]
pub struct ZoneChange {
    /// The steps, in order.
    pub edits: Vec<Edit>,
    /// Who requested the change.
    pub origin: ChangeOrigin,
    /// Current time, for date-based serials.
    pub now: SystemTime,
    /// How the serial is increased if the change does not set the SOA.
    pub serial: SerialRule,
}

/// The records that turn one version of a zone into another (the content of an IXFR, RFC 1995).
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    pub removed: RecordList,
    pub added: RecordList,
}

impl Difference {
    /// Checks whether the versions are equal.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }

    /// Returns the size of its records in wire form, in octets.
    pub fn octets(&self) -> usize {
        self.removed.as_bytes().len() + self.added.as_bytes().len()
    }

    /// Returns the serials before and after; `None` if the SOA does not change.
    pub fn serials(&self) -> Option<(Serial, Serial)> {
        let serial = |list: &RecordList| {
            list.first_of(Type::SOA)
                .and_then(|soa| soa_serial(soa.rdata))
        };
        Some((serial(&self.removed)?, serial(&self.added)?))
    }
}

/// Octets of a SOA's data from the serial on: five numbers (RFC 1035 section 3.3.13).
const SOA_NUMBERS: usize = 20;

/// Reads the serial from SOA record data.
pub fn soa_serial(rdata: &[u8]) -> Option<Serial> {
    let numbers: &[u8; SOA_NUMBERS] = rdata.last_chunk()?;
    numbers
        .first_chunk()
        .map(|octets| Serial(u32::from_be_bytes(*octets)))
}

/// Writes a serial into SOA record data; returns false if the data is too short for one.
pub fn set_soa_serial(rdata: &mut [u8], serial: Serial) -> bool {
    let numbers: Option<&mut [u8; SOA_NUMBERS]> = rdata.last_chunk_mut();
    let octets = numbers.and_then(|numbers| numbers.first_chunk_mut());
    octets
        .map(|octets| *octets = serial.0.to_be_bytes())
        .is_some()
}

/// The reason why a change or a difference cannot be applied.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// A record to remove does not exist.
    #[error("cannot delete {owner} {rtype}: no such record")]
    NotThere { owner: String, rtype: Type },
    /// An owner is not at or below the apex.
    #[error("{0} is outside the zone")]
    OutOfZone(String),
    /// The result would violate a zone rule.
    #[error("{owner}: {what}")]
    Invalid {
        owner: String,
        /// The rule that would be violated.
        what: String,
    },
    /// The change adds a record that only the zone's signer may create.
    #[error(
        "{owner} {rtype}: records of this type are generated by the signer and cannot be changed"
    )]
    MadeBySigner { owner: String, rtype: Type },
    /// The contents of the zone are not in memory.
    #[error("the zone is not in memory")]
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
