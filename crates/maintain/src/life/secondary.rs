//! One zone that comes from a primary, while the server runs.

use crate::commit::{CommitError, VersionSource};
use crate::schedule::{Moment, ZoneNumber};
use crate::zone::{SecondarySettings, ZoneState};
use nameward_store::state::{JournalOrigin, ZoneHome, ZoneTimers};
use nameward_zone::{Serial, Zone};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// One zone.
pub(super) struct Secondary {
    pub(super) settings: SecondarySettings,
    pub(super) state: ZoneState,
    /// The last version, also while it is too old to be served.
    pub(super) version: Option<Arc<Zone>>,
    pub(super) timers: ZoneTimers,
    /// When it expires, while it is served.
    pub(super) expiry: Option<Moment>,
    /// The question that is under way.
    pub(super) ticket: Option<u64>,
    /// The next primary to ask, and how many were asked in this check.
    pub(super) next_primary: usize,
    pub(super) asked: usize,
    /// Differences did not fit: the zone is asked for as a whole.
    pub(super) wants_whole: bool,
    /// Checks that failed since the last that did not.
    pub(super) failures: u32,
    pub(super) last_error: Option<String>,
    /// The primary that was asked last, and the serial it had when it last said so.
    pub(super) primary: Option<SocketAddr>,
    pub(super) serial_there: Option<Serial>,
    /// When the last check began; nothing of it is kept.
    pub(super) checked: Option<Moment>,
    /// Commits that have not ended.
    pub(super) commits: usize,
    pub(super) commit_error: Option<String>,
    pub(super) transfer: Option<TransferSize>,
}

/// The size of the transfer that is being committed.
#[derive(Debug, Clone, Copy)]
pub(super) struct TransferSize {
    pub(super) word: &'static str,
    pub(super) records: u64,
    pub(super) took: Duration,
}

impl Secondary {
    pub(super) fn new(
        settings: SecondarySettings,
        version: Option<Arc<Zone>>,
        timers: Option<ZoneTimers>,
        now: Moment,
    ) -> Self {
        let timers = timers.unwrap_or_default();
        let is_good = version.is_some() && now.seconds() < timers.expires;
        Secondary {
            state: match (&version, is_good) {
                (None, _) => ZoneState::Empty,
                (_, true) => ZoneState::Current,
                (_, false) => ZoneState::Expired,
            },
            settings,
            version,
            timers,
            expiry: None,
            ticket: None,
            next_primary: 0,
            asked: 0,
            wants_whole: false,
            failures: 0,
            last_error: None,
            primary: None,
            serial_there: None,
            checked: None,
            commits: 0,
            commit_error: None,
            transfer: None,
        }
    }

    /// Returns the serial that is here.
    pub(super) fn serial(&self) -> Option<Serial> {
        self.version.as_ref().map(|version| version.serial())
    }
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
