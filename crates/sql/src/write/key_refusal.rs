//! Why keys in a database are not changed.

/// Maximum number of keys per zone. More are not read when it is signed.
pub const STORED_KEYS_MAX: usize = crate::signing_data::keys::MAX_KEYS;

/// The reason why keys are not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyRefusal {
    /// There are keys already.
    #[error("the zone already has keys")]
    HasKeys,
    /// There are no keys.
    #[error("the zone has no keys")]
    NoKeys,
    /// The zone does not have the key.
    #[error("the zone has no key {0}")]
    NotThere(i64),
    /// The zone already has the key.
    #[error("the zone already has this key: number {0}")]
    Same(i64),
    /// It is the last one that signs.
    #[error("key {0} is the only one that signs the zone")]
    Last(i64),
    /// Its rows have changed in the meantime.
    #[error("the zone's keys were changed concurrently; try again")]
    ChangedMeanwhile,
    /// Another server manages them.
    #[error(
        "another server manages the zone's keys, see the metadata X-NAMEWARD-KEY-SERVER; another one takes over when \
         its lease ends, or without the table nameward_leases, when this metadata is removed"
    )]
    OtherServer,
    /// There are too many.
    #[error("the zone has {STORED_KEYS_MAX} keys, the maximum; remove one first")]
    TooMany,
    /// The zone has stored signatures.
    #[error("the zone is presigned: its signatures are served unchanged")]
    Presigned,
    /// The zone would be served without signatures.
    #[error("the zone has keys but no stored signatures: as PRESIGNED it would be served unsigned")]
    NoSignatures,
}
