//! One zone that comes from a primary, while the server runs.

use crate::commit::{CommitError, VersionSource};
use crate::schedule::{Moment, ZoneNumber};
use crate::zone::{SecondarySettings, ZoneState};
use nameward_store::state::{JournalOrigin, ZoneHome, ZoneTimers};
use nameward_zone::Zone;
use std::sync::Arc;

/// One zone.
pub(super) struct Secondary {
    pub(super) settings: SecondarySettings,
    pub(super) state: ZoneState,
    /// The last version, also while it is too old to be served.
    pub(super) version: Option<Arc<Zone>>,
    pub(super) timers: ZoneTimers,
    /// The question that is under way.
    pub(super) ticket: Option<u64>,
    /// The next primary to ask, and how many were asked in this check.
    pub(super) next_primary: usize,
    pub(super) asked: usize,
    /// Checks that failed since the last that did not.
    pub(super) failures: u32,
    pub(super) last_error: Option<String>,
    /// Commits that have not ended.
    pub(super) commits: usize,
    pub(super) commit_error: Option<String>,
}

/// The end of a commit.
pub(super) struct Ended {
    pub(super) zone: ZoneNumber,
    pub(super) result: Result<Arc<Zone>, CommitError>,
}

/// The source of versions that a primary gave at `now`.
pub(super) fn source_of(zone: &Secondary, now: Moment) -> VersionSource {
    VersionSource {
        zone: zone.settings.name,
        rank: zone.settings.rank,
        home: ZoneHome::Store,
        origin: JournalOrigin::Transfer,
        confirmed: Some(now),
    }
}
