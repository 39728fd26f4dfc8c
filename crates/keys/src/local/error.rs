//! The errors of key storage, wherever the keys are.

use super::{KeyPairError, MAX_KEYS};
use nameward_dnssec::KeyError;
use nameward_sql::write::{KeyRefusal, WriteError};
use nameward_state::StateError;

/// Why keys cannot be read or changed.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZoneKeysError {
    #[error("no state directory to store keys in; set server.state_directory")]
    NoStore,
    /// The store failed.
    #[error("{0}")]
    Store(#[from] StateError),
    /// A key is unusable.
    #[error("key {number}: {error}")]
    Key { number: u32, error: KeyError },
    /// The files of a key cannot be read or written.
    #[error("{0}")]
    Pair(#[from] KeyPairError),
    #[error("key {0} in the state store has an unknown format")]
    Form(u32),
    #[error("a key in the state store belongs to no zone: restore the store from a backup")]
    UnknownZone,
    #[error("the zone already has this key: number {0}")]
    Same(u32),
    #[error("the zone has {MAX_KEYS} keys, the maximum; remove one first")]
    TooMany,
    #[error("the zone has no key {0}")]
    NotThere(u32),
    #[error("key {0} is the only one that signs the zone")]
    Last(u32),
    #[error("the zone's keys are not managed by a dnssec_policy")]
    NoPolicy,
    #[error("the zone does not exist")]
    NoSuchZone,
    /// The zone is not in memory yet, or no longer in its database.
    #[error("the zone is not loaded")]
    NotLoaded,
    #[error("the zone is presigned: its signatures are served unchanged")]
    Presigned,
    #[error("the zone is a secondary zone in a database: dnssec_policy is ignored")]
    Secondary,
    /// The rows of the zone's keys do not permit the change.
    #[error("{0}")]
    Refused(KeyRefusal),
    #[error(
        "key {0} signs the DNSKEY RRset but has flags 256, which the database schema cannot express next to another \
         key: sign the zone again with new keys, or roll this key manually"
    )]
    Unfit(u32),
    #[error("database: {error}")]
    Database {
        /// Its address, without the password.
        address: String,
        error: Box<WriteError>,
    },
    #[error("changed in the database, but this server does not serve the change yet: {0}")]
    NotServed(String),
}
