//! The runtime state of one secondary zone.

use super::storage::{
    HeldVersion, SecondaryStorage, StorageError, StorageOutcome, StorageStates, ZoneInStorage,
};
use crate::secondary::zone::{SecondarySettings, ZoneState};
use crate::transfer_in::MemoryShare;
use nameward_maintain::schedule::{EventUrgency, Lane, Moment, ZoneNumber};
use nameward_state::ZoneTimers;
use nameward_wire::NameBuf;
use nameward_zone::Serial;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Secondary {
    pub(super) settings: SecondarySettings,
    /// Storage for its contents and timers.
    pub(super) storage: Arc<dyn SecondaryStorage>,
    pub(super) state: ZoneState,
    /// The last version, also while it is too old to be served.
    pub(super) held: Option<HeldVersion>,
    pub(super) timers: ZoneTimers,
    /// When it expires, while it is served.
    pub(super) expiry: Option<Moment>,
    /// The query in flight.
    pub(super) request_id: Option<u64>,
    /// The next primary to query, and how many were tried in this check.
    pub(super) next_primary: usize,
    pub(super) primaries_tried: usize,
    /// The check continues with the next primary when its event starts.
    pub(super) is_check_continued: bool,
    /// Whether the current check was requested by a NOTIFY or an operator.
    pub(super) urgency: EventUrgency,
    /// An operator requested the next check, or the current one, to transfer the whole zone whatever its serial is.
    pub(super) is_force_requested: bool,
    pub(super) is_forced: bool,
    /// Differences did not fit: the whole zone is requested.
    pub(super) wants_whole: bool,
    /// Number of consecutive failed checks.
    pub(super) failures: u32,
    pub(super) last_error: Option<String>,
    /// The primary that was queried last, and the last serial it reported.
    pub(super) primary: Option<SocketAddr>,
    pub(super) serial_there: Option<Serial>,
    /// The lower serial that a primary had in the last check, if none confirmed our version.
    pub(super) behind: Option<Serial>,
    /// The remaining lifetime of the primary's own copy, as last reported (RFC 7314).
    pub(super) expire_there: Option<Duration>,
    /// A primary has confirmed the zone since the start.
    pub(super) is_confirmed: bool,
    /// When the zone was listed here, since the start.
    pub(super) listed: Moment,
    /// When the last check started; not stored.
    pub(super) checked: Option<Moment>,
    /// The next check was requested explicitly: it is made even if another server has just made one.
    pub(super) is_check_requested: bool,
    pub(super) is_bringing: bool,
    pub(super) transfer: Option<TransferSize>,
    /// The memory of the version being committed.
    pub(super) memory: Option<Box<MemoryShare>>,
}

/// The size of the transfer being committed.
#[derive(Debug, Clone, Copy)]
pub(super) struct TransferSize {
    pub(super) word: &'static str,
    pub(super) records: u64,
    pub(super) took: Duration,
}

impl Secondary {
    /// Returns a primary's address with its transport, for messages.
    pub(super) fn label(&self, peer: SocketAddr) -> String {
        let mut primaries = self.settings.policy.primaries.iter();
        let known = primaries.find(|primary| primary.address == peer);
        known.map_or_else(|| peer.to_string(), ToString::to_string)
    }

    pub(super) fn new(
        settings: SecondarySettings,
        storage: Arc<dyn SecondaryStorage>,
        held: Option<HeldVersion>,
        timers: Option<ZoneTimers>,
        now: Moment,
    ) -> Self {
        let mut timers = timers.unwrap_or_default();
        // The clock was ahead when these were written.
        if timers.refreshed > now.seconds() {
            let ahead = Moment::from_seconds(timers.refreshed).0 - now.0;
            shift_timers(&mut timers, -i64::try_from(ahead).unwrap_or(i64::MAX));
        }
        let is_good = held.is_some() && now.seconds() < timers.expires;
        Secondary {
            state: match (&held, is_good) {
                (None, _) => ZoneState::Empty,
                (_, true) => ZoneState::Current,
                (_, false) => ZoneState::Expired,
            },
            settings,
            storage,
            held,
            timers,
            expiry: None,
            request_id: None,
            next_primary: 0,
            primaries_tried: 0,
            is_check_continued: false,
            urgency: EventUrgency::Timed,
            is_force_requested: false,
            is_forced: false,
            wants_whole: false,
            failures: 0,
            last_error: None,
            primary: None,
            serial_there: None,
            behind: None,
            expire_there: None,
            is_confirmed: false,
            listed: now,
            checked: None,
            is_check_requested: false,
            is_bringing: false,
            transfer: None,
            memory: None,
        }
    }

    /// Shifts its times by this many milliseconds; the owner of the schedule shifts `expiry`.
    pub(super) fn shift(&mut self, milliseconds: i64) {
        shift_timers(&mut self.timers, milliseconds);
        self.listed = self.listed.shifted(milliseconds);
        self.checked = self.checked.map(|at| at.shifted(milliseconds));
    }

    /// Returns the lane of the primary that is queried next.
    pub(super) fn lane(&self) -> Lane {
        let primaries = &self.settings.policy.primaries;
        let next = self.next_primary.checked_rem(primaries.len())?;
        Some(primaries[next].address.ip().to_canonical())
    }

    pub(super) fn serial(&self) -> Option<Serial> {
        self.held.as_ref().map(|held| held.serial)
    }

    /// Returns the facts of the zone for its storage.
    pub(super) fn in_storage(&self) -> ZoneInStorage<'_> {
        ZoneInStorage {
            settings: &self.settings,
            state: self.state,
            held: self.held.as_ref(),
            primary: self.primary,
            is_forced: self.is_forced,
        }
    }
}

fn shift_timers(timers: &mut ZoneTimers, milliseconds: i64) {
    for seconds in [
        &mut timers.refreshed,
        &mut timers.next_check,
        &mut timers.expires,
    ] {
        *seconds = Moment::from_seconds(*seconds)
            .shifted(milliseconds)
            .seconds();
    }
}

/// Why a storage was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PollReason {
    /// A check starts.
    Check,
    /// The zone is about to expire.
    Expiry,
}

/// A report from a storage.
pub(super) enum StorageReport {
    /// A version was stored or rejected.
    Brought(ZoneNumber, StorageOutcome),
    /// A zone was read.
    Seen(ZoneNumber, PollReason, Result<StorageStates, StorageError>),
    /// Zones were read that must be taken over.
    Listed(Vec<NameBuf>, Result<StorageStates, StorageError>),
}
