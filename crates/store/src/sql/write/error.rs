//! Errors of zone changes: which rule a change would violate, and why it was not made.

use super::super::SqlError;
use super::check::MAX_NAME_TEXT;
use super::keys::KeyRefusal;
use super::session::Failure;
use nameward_wire::Type;
use nameward_zone::MAX_RRSET_OCTETS;
use nameward_zone::change::{ChangeError, ChangeRefused};

/// The rule that a change would violate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidChange {
    /// An owner is outside the zone.
    #[error("{name} is outside the zone {apex}")]
    OutsideZone {
        /// The owner.
        name: String,
        /// The zone.
        apex: String,
    },
    /// An owner does not fit into its column.
    #[error("{name} is too long for the database: {characters} characters of {MAX_NAME_TEXT}")]
    NameTooLong {
        /// The owner.
        name: String,
        /// Its length as text.
        characters: usize,
    },
    /// A record that only a signer makes.
    #[error("{0} records are made by the server that signs the zone")]
    MadeBySigning(Type),
    /// An edit that is invalid in any zone.
    #[error("{0}")]
    Edit(ChangeError),
    /// Record data does not fit into its column.
    #[error("the data of {0} {1} is too long for the database")]
    DataTooLong(String, Type),
    /// A zone must have one SOA (RFC 1035 section 5.2).
    #[error("expected one SOA at {0}")]
    NotOneSoa(String),
    /// The stored SOA is unreadable, so its serial cannot be increased.
    #[error("the SOA of {0} cannot be read: set a new one first")]
    UnreadableSoa(String),
    /// Nothing may exist below a DNAME (RFC 6672 section 2.4).
    #[error("{name} stands below {above}, which has a DNAME: nothing below it would be served")]
    BelowDname {
        /// The owner.
        name: String,
        /// The owner of the DNAME.
        above: String,
    },
    /// A new DNAME would hide existing records (RFC 6672 section 2.4).
    #[error("{below} has records, and a DNAME at {name} would hide them: delete them first")]
    HiddenByDname {
        /// The owner of the new DNAME.
        name: String,
        /// An owner below it.
        below: String,
    },
    /// The RRset would not fit into a message.
    #[error(
        "{name} {rtype} would have {octets} octets: no answer can hold more than {MAX_RRSET_OCTETS}"
    )]
    RrsetTooLarge {
        /// The owner.
        name: String,
        /// The record type.
        rtype: Type,
        /// Its size in octets.
        octets: usize,
    },
    /// A failed check of zone contents, as for a zone file.
    #[error("{0}")]
    Contents(String),
}

/// The reason why an operator cannot change a zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadOnly {
    /// It is transferred from a primary.
    #[error("zone {0} is a secondary zone: change it at its primary")]
    Secondary(String),
    /// It is no longer transferred from a primary.
    #[error("zone {0} is no secondary zone any more")]
    NotSecondary(String),
    /// Its signatures are part of its data.
    #[error("zone {0} was signed elsewhere (PRESIGNED): change it where it is signed")]
    Presigned(String),
}

/// The reason why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The change is invalid. Nothing was written.
    #[error("{0}")]
    Invalid(InvalidChange),
    /// The zone is not changed here. Nothing was written.
    #[error("{0}")]
    ReadOnly(ReadOnly),
    /// A condition on the zone's contents is not met. Nothing was written.
    #[error(transparent)]
    Refused(#[from] ChangeRefused),
    /// The keys of a zone cannot be changed this way. Nothing was written.
    #[error(transparent)]
    Keys(#[from] KeyRefusal),
    /// The zone to be created exists. Nothing was written.
    #[error("zone {0} exists already")]
    Exists(String),
    /// The zone is not, or no longer, in this database.
    #[error("the zone is not in the database")]
    NoSuchZone,
    /// A copy of the zone cannot be kept or read. Nothing was written.
    #[error("{0}")]
    NoCopy(String),
    /// The database failed. Nothing was written.
    #[error("{0}")]
    Sql(SqlError),
    /// Other changes conflicted each time. Nothing was written.
    #[error("other changes were in the way: {0}")]
    Conflict(String),
    /// The connection broke during COMMIT.
    #[error(
        "the database did not confirm the change; it may have been made, check before you repeat it: {0}"
    )]
    Unknown(SqlError),
}

impl From<InvalidChange> for WriteError {
    fn from(rule: InvalidChange) -> Self {
        WriteError::Invalid(rule)
    }
}

impl From<Failure> for WriteError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Conflict(text) => WriteError::Conflict(text),
            Failure::Sql(error) => WriteError::Sql(error),
        }
    }
}
