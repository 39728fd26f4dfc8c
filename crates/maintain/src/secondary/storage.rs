//! The home of a secondary zone: where its contents and its times are kept, and who shows it to clients.
//!
//! ```text
//! state store   zones that the configuration, catalogs and autoprimaries declare: nobody else changes them
//! database      zones whose rows say that they are secondary: other servers on the database transfer them, too
//! ```
//! The life of a zone is the same in both. Nothing here may wait: results come back by the functions that are handed over.

use super::ZoneHeir;
use crate::schedule::Moment;
use crate::transfer::WholeZone;
use crate::zone::{SecondarySettings, SoaTimes, ZoneState};
use nameward_store::sql::write::WriteError;
use nameward_store::state::ZoneTimers;
use nameward_wire::NameBuf;
use nameward_zone::change::Difference;
use nameward_zone::{Serial, Zone};
use std::net::SocketAddr;
use std::sync::Arc;

/// The version of a zone that its home has.
#[derive(Clone)]
pub struct HeldVersion {
    /// Its serial.
    pub serial: Serial,
    /// The times in its SOA.
    pub times: SoaTimes,
    /// Its contents, where the home has them in memory.
    pub contents: Option<Arc<Zone>>,
}

impl From<Arc<Zone>> for HeldVersion {
    fn from(zone: Arc<Zone>) -> Self {
        HeldVersion {
            serial: zone.serial(),
            times: SoaTimes::of(&zone),
            contents: Some(zone),
        }
    }
}

/// The facts of a secondary zone that its home gets.
pub struct HomedZone<'z> {
    /// Its settings.
    pub settings: &'z SecondarySettings,
    /// Whether it is served.
    pub state: ZoneState,
    /// The version that its home had when it was last seen.
    pub held: Option<&'z HeldVersion>,
    /// The primary that was asked last.
    pub primary: Option<SocketAddr>,
    /// Whether a version with a serial that is not newer is taken, too.
    pub is_forced: bool,
}

/// The result of bringing a transferred version home.
pub struct HomeOutcome {
    /// The version that the home has now, if it is known to be another one: of several differences some may be there.
    pub held: Option<HeldVersion>,
    /// Why not all of it was taken.
    pub error: Option<String>,
}

/// The state of a zone in a home that others change, too.
pub struct HomeState {
    /// The version that is there.
    pub held: Option<HeldVersion>,
    /// When a primary last confirmed it, in seconds since 1970, if that is known.
    pub refreshed: Option<u64>,
}

/// The states of zones by their names; those that are not there any more are missing.
pub type HomeStates = Vec<(NameBuf, HomeState)>;

/// Why it is not known what a home has of a zone.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The database does not answer, or refuses.
    #[error(transparent)]
    Database(#[from] WriteError),
    /// The zone was deleted from its database.
    #[error("the zone is not in its database any more")]
    ZoneGone,
}

/// Called with what a home has, or with the reason why that is not known.
pub type SeenDone = Box<dyn FnOnce(Result<HomeStates, HomeError>) + Send>;
/// Called once, when a version is there or was refused.
pub type BroughtDone = Box<dyn FnOnce(HomeOutcome) + Send>;

/// The home of the contents and times of secondary zones.
pub trait SecondaryHome: Send + Sync {
    /// Returns whether others change zones there, so that a zone is looked at before each check.
    fn is_shared(&self) -> bool;

    /// Looks at zones and hands over what is there.
    fn look(&self, zones: Vec<NameBuf>, done: SeenDone);

    /// Brings differences home that lead from the version that is there to a newer one: durable, then served.
    fn bring_differences(
        &self,
        zone: &HomedZone<'_>,
        differences: Vec<Difference>,
        now: Moment,
        done: BroughtDone,
    );

    /// Brings a whole version home: durable, then served.
    fn bring_whole(&self, zone: &HomedZone<'_>, whole: WholeZone, now: Moment, done: BroughtDone);

    /// Keeps the times of a zone that a primary has confirmed.
    fn confirm(&self, zone: &NameBuf, timers: ZoneTimers);

    /// Shows a zone to clients as its state says.
    fn show(&self, zone: &HomedZone<'_>);

    /// Forgets a zone that is no secondary zone any more.
    fn forget(&self, zone: &HomedZone<'_>, heir: ZoneHeir);
}
