//! The errors of changes: which rule a change would break, and why it was not made.

use super::super::SqlError;
use super::check::MAX_NAME_TEXT;
use super::keys::KeyRefusal;
use super::session::Failure;
use nameward_wire::Type;
use nameward_zone::MAX_RRSET_OCTETS;
use nameward_zone::change::{ChangeError, ChangeRefused};

/// The rule that a change would break.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidChange {
    /// An owner is in another zone.
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
    /// An edit that is wrong in any zone.
    #[error("{0}")]
    Edit(ChangeError),
    /// The data of a record does not fit into its column.
    #[error("the data of {0} {1} is too long for the database")]
    DataTooLong(String, Type),
    /// RFC 1035 section 5.2: a zone has one SOA.
    #[error("expected one SOA at {0}")]
    NotOneSoa(String),
    /// The SOA that is stored cannot be read, so its serial cannot be raised.
    #[error("the SOA of {0} cannot be read: set a new one first")]
    UnreadableSoa(String),
    /// RFC 6672 section 2.4: nothing stands below a DNAME.
    #[error("{name} stands below {above}, which has a DNAME: nothing below it would be served")]
    BelowDname {
        /// The owner.
        name: String,
        /// The owner of the DNAME.
        above: String,
    },
    /// RFC 6672 section 2.4, the other way round.
    #[error("{below} has records, and a DNAME at {name} would hide them: delete them first")]
    HiddenByDname {
        /// The owner of the new DNAME.
        name: String,
        /// An owner below it.
        below: String,
    },
    /// No message could carry the RRset.
    #[error(
        "{name} {rtype} would have {octets} octets: no answer can hold more than {MAX_RRSET_OCTETS}"
    )]
    RrsetTooLarge {
        /// The owner.
        name: String,
        /// The type.
        rtype: Type,
        /// Its size.
        octets: usize,
    },
    /// A check of zone contents, as for a zone file.
    #[error("{0}")]
    Contents(String),
}

/// Why a zone is not for an operator to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadOnly {
    /// It comes from a primary.
    #[error("zone {0} is a secondary zone: change it at its primary")]
    Secondary(String),
    /// It does not come from a primary any more.
    #[error("zone {0} is no secondary zone any more")]
    NotSecondary(String),
    /// Its signatures are part of its data.
    #[error("zone {0} was signed elsewhere (PRESIGNED): change it where it is signed")]
    Presigned(String),
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The change is wrong. Nothing was written.
    #[error("{0}")]
    Invalid(InvalidChange),
    /// The zone is not changed here. Nothing was written.
    #[error("{0}")]
    ReadOnly(ReadOnly),
    /// The change depends on what the zone has, and that is not so. Nothing was written.
    #[error(transparent)]
    Refused(#[from] ChangeRefused),
    /// The keys of a zone are not to be changed so. Nothing was written.
    #[error(transparent)]
    Keys(#[from] KeyRefusal),
    /// The zone to be created exists. Nothing was written.
    #[error("zone {0} exists already")]
    Exists(String),
    /// The zone is not in this database (any more).
    #[error("the zone is not in the database")]
    NoSuchZone,
    /// A copy of the zone cannot be kept or read. Nothing was written.
    #[error("{0}")]
    NoCopy(String),
    /// The database failed. Nothing was written.
    #[error("{0}")]
    Sql(SqlError),
    /// Other changes were in the way each time. Nothing was written.
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
