//! Input and outcome of a commit: the source of a version, and its result.

use crate::schedule::Moment;
use nameward_state::{JournalOrigin, StateError, ZoneStorage};
use nameward_wire::{NameBuf, Type};
use nameward_zone::change::{ChangeAuthor, ChangeError, ChangeRefused, Difference};
use nameward_zone::{Serial, Zone};
use std::sync::Arc;

/// The zone and the source of a change.
#[derive(Debug, Clone)]
pub struct VersionSource {
    /// The name of the zone.
    pub zone: NameBuf,
    /// The rank of the source that publishes it.
    pub rank: u16,
    /// Where its contents are stored.
    pub storage: ZoneStorage,
    /// The origin of the change.
    pub origin: JournalOrigin,
    /// When a primary sent the new version, if one did: its timers are stored with it.
    pub confirmed: Option<Moment>,
    /// The author recorded in the zone's history, if known.
    pub author: Option<Arc<ChangeAuthor>>,
}

impl VersionSource {
    /// Returns the source of a version that no primary sent, and whose author is not known.
    pub fn new(zone: NameBuf, rank: u16, storage: ZoneStorage, origin: JournalOrigin) -> Self {
        VersionSource {
            zone,
            rank,
            storage,
            origin,
            confirmed: None,
            author: None,
        }
    }

    /// Checks whether the new version is durable before it arrives here: its storage has it.
    pub(super) fn is_storage_first(&self) -> bool {
        self.storage == ZoneStorage::Database || self.origin == JournalOrigin::Storage
    }
}

/// A change that is durable and published.
#[derive(Clone)]
pub struct CommittedVersion {
    /// The served version.
    pub zone: Arc<Zone>,
    /// The removed and added records; empty if the zone already had this state.
    pub difference: Arc<Difference>,
    /// Whether it is the first version of a zone that had no contents here.
    pub is_first: bool,
    /// The origin of the change.
    pub origin: JournalOrigin,
    /// The author, if known.
    pub author: Option<Arc<ChangeAuthor>>,
}

/// Why a change was not made.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The source does not publish the zone, or has withdrawn it.
    #[error("no such zone in this source")]
    NoSuchZone,
    /// The change violates a zone rule.
    #[error(transparent)]
    Invalid(#[from] ChangeError),
    /// A condition of the change is not met.
    #[error(transparent)]
    Refused(#[from] ChangeRefused),
    /// The digests of the version (ZONEMD) do not match its contents, or there is no memory for it.
    #[error("{0}")]
    Unusable(String),
    /// A file was edited where changes that it lacks were made.
    #[error(
        "the edited file conflicts with updates in the journal at {owner} {rtype}; still serving the previous version. \
         Make the file match at this RRset, or overwrite it with `nameward zone sync --rewrite`"
    )]
    Clash { owner: String, rtype: Type },
    #[error("the zone has serial {have}, but the difference starts at serial {from}")]
    Stale { have: Serial, from: Serial },
    /// The change cannot be made durable.
    #[error(transparent)]
    State(#[from] StateError),
    #[error("zone {0}: changes need a state store; set state_directory")]
    NoStore(String),
}
