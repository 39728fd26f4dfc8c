//! The errors of key storage, wherever the keys are.

use super::{KeyPairError, MAX_KEYS};
use nameward_dnssec::KeyError;
use nameward_sql::write::{KeyRefusal, WriteError};
use nameward_state::StateError;

/// Why keys cannot be read or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZoneKeysError {
    /// There is no state store.
    #[error("no state directory to store keys in; set server.state_directory")]
    NoStore,
    /// The store failed.
    #[error("{0}")]
    Store(#[from] StateError),
    /// A key is unusable.
    #[error("key {number}: {error}")]
    Key {
        /// The number of the key.
        number: u32,
        /// The reason.
        error: KeyError,
    },
    /// The files of a key cannot be read or written.
    #[error("{0}")]
    Pair(#[from] KeyPairError),
    /// A value has an unknown format.
    #[error("key {0} in the state store has an unknown format")]
    Form(u32),
    /// The zone of a key is unknown.
    #[error("a key in the state store belongs to no zone: restore the store from a backup")]
    UnknownZone,
    /// The zone already has the key.
    #[error("the zone already has this key: number {0}")]
    Same(u32),
    /// The limit is reached.
    #[error("the zone has {MAX_KEYS} keys, the maximum; remove one first")]
    TooMany,
    /// There is no such key.
    #[error("the zone has no key {0}")]
    NotThere(u32),
    /// It is the last one that signs.
    #[error("key {0} is the only one that signs the zone")]
    Last(u32),
    /// No policy manages the keys.
    #[error("the zone's keys are not managed by a dnssec_policy")]
    NoPolicy,
    /// No backend has the zone.
    #[error("the zone does not exist")]
    NoSuchZone,
    /// The zone is not in memory yet, or no longer in its database.
    #[error("the zone is not loaded")]
    NotLoaded,
    /// The zone has its own signatures.
    #[error("the zone is presigned: its signatures are served unchanged")]
    Presigned,
    /// The zone is transferred from a primary into a database.
    #[error("the zone is a secondary zone in a database: dnssec_policy is ignored")]
    Secondary,
    /// The rows of the zone's keys do not permit the change.
    #[error("{0}")]
    Refused(KeyRefusal),
    /// The database cannot express the role of each key.
    #[error(
        "key {0} signs the DNSKEY RRset but has flags 256, which the database schema cannot express next to another \
         key: sign the zone again with new keys, or roll this key manually"
    )]
    Unfit(u32),
    /// The database failed.
    #[error("database: {error}")]
    Database {
        /// Its address, without the password.
        address: String,
        /// The error.
        error: Box<WriteError>,
    },
    /// A change is in the database, but not in the server's answers.
    #[error("changed in the database, but this server does not serve the change yet: {0}")]
    NotServed(String),
}
