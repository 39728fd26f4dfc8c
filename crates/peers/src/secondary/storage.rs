//! Storage for secondary zones: their contents and timers, and their publication.
//!
//! ```text
//! state store   zones that the configuration, catalogs and autoprimaries declare: no other process changes them
//! database      zones whose rows declare them secondary: other servers on the database transfer them, too
//! ```
//! Refresh is the same for both. Nothing here may block: results come back through callbacks.

use super::ZoneSuccessor;
use crate::secondary::zone::{SecondarySettings, ZoneState};
use crate::transfer_in::WholeZone;
use nameward_maintain::SoaTimes;
use nameward_maintain::schedule::Moment;
use nameward_sql::write::WriteError;
use nameward_state::ZoneTimers;
use nameward_wire::NameBuf;
use nameward_zone::change::Difference;
use nameward_zone::{Serial, Zone};
use std::net::SocketAddr;
use std::sync::Arc;

/// The stored version of a zone.
#[derive(Clone)]
pub struct HeldVersion {
    /// Its serial.
    pub serial: Serial,
    /// The timers in its SOA.
    pub times: SoaTimes,
    /// Its contents, if the storage has them in memory.
    pub contents: Option<Arc<Zone>>,
}

impl From<Arc<Zone>> for HeldVersion {
    fn from(zone: Arc<Zone>) -> Self {
        HeldVersion {
            serial: zone.serial(),
            times: SoaTimes::from_zone(&zone),
            contents: Some(zone),
        }
    }
}

/// The facts of a secondary zone that its storage gets.
pub struct ZoneInStorage<'z> {
    /// Its settings.
    pub settings: &'z SecondarySettings,
    /// Whether it is served.
    pub state: ZoneState,
    /// The stored version when it was last read.
    pub held: Option<&'z HeldVersion>,
    /// The primary that was queried last.
    pub primary: Option<SocketAddr>,
    /// Whether a version with a serial that is not newer is accepted, too.
    pub is_forced: bool,
}

/// The result of storing a transferred version.
pub struct StorageOutcome {
    /// The version now stored, if it is known to have changed: of several differences some may be stored.
    pub held: Option<HeldVersion>,
    /// Why not all of it was accepted.
    pub error: Option<String>,
}

/// The state of a zone in a storage that others change, too.
pub struct StorageState {
    /// The stored version.
    pub held: Option<HeldVersion>,
    /// When a primary last confirmed it, in seconds since 1970, if known.
    pub refreshed: Option<u64>,
}

/// The states of zones by name; those that no longer exist are missing.
pub type StorageStates = Vec<(NameBuf, StorageState)>;

/// Why the stored state of a zone is unknown.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The database does not answer, or refuses.
    #[error(transparent)]
    Database(#[from] WriteError),
    #[error("the zone is no longer in its database")]
    ZoneGone,
}

/// Called with the stored states, or with the reason why they are unknown.
pub type SeenDone = Box<dyn FnOnce(Result<StorageStates, StorageError>) + Send>;
/// Called once, when a version is stored or was rejected.
pub type VersionDone = Box<dyn FnOnce(StorageOutcome) + Send>;

/// Storage for the contents and timers of secondary zones.
pub trait SecondaryStorage: Send + Sync {
    /// Checks whether others change zones there, so that a zone is read before each check.
    fn is_shared(&self) -> bool;

    /// Checks whether this server queries primaries when a zone is due; otherwise another one does.
    fn leads_refresh(&self) -> bool {
        true
    }

    /// Reads zones and passes on their state.
    fn read_states(&self, zones: Vec<NameBuf>, done: SeenDone);

    /// Stores differences that lead from the stored version to a newer one: durable, then served.
    fn bring_differences(
        &self,
        zone: &ZoneInStorage<'_>,
        differences: Vec<Difference>,
        now: Moment,
        done: VersionDone,
    );

    /// Stores a whole version: durable, then served.
    fn bring_whole(
        &self,
        zone: &ZoneInStorage<'_>,
        whole: WholeZone,
        now: Moment,
        done: VersionDone,
    );

    /// Stores the timers of a zone that a primary has confirmed.
    fn confirm(&self, zone: &NameBuf, timers: ZoneTimers);

    /// Publishes a zone according to its state.
    fn show(&self, zone: &ZoneInStorage<'_>);

    /// Removes a zone that is no longer a secondary zone.
    fn forget(&self, zone: &ZoneInStorage<'_>, successor: ZoneSuccessor);
}
