//! One zone that comes from a primary, while the server runs.

use super::storage::{HeldVersion, HomeError, HomeOutcome, HomeStates, HomedZone, SecondaryHome};
use crate::schedule::{EventUrgency, Lane, Moment, ZoneNumber};
use crate::transfer::MemoryShare;
use crate::zone::{SecondarySettings, ZoneState};
use nameward_store::state::ZoneTimers;
use nameward_wire::NameBuf;
use nameward_zone::Serial;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// One zone.
pub(super) struct Secondary {
    pub(super) settings: SecondarySettings,
    /// Where its contents and times are.
    pub(super) home: Arc<dyn SecondaryHome>,
    pub(super) state: ZoneState,
    /// The last version, also while it is too old to be served.
    pub(super) held: Option<HeldVersion>,
    pub(super) timers: ZoneTimers,
    /// When it expires, while it is served.
    pub(super) expiry: Option<Moment>,
    /// The question that is under way.
    pub(super) ticket: Option<u64>,
    /// The next primary to ask, and how many were asked in this check.
    pub(super) next_primary: usize,
    pub(super) asked: usize,
    /// The check goes on with the next primary when its event starts.
    pub(super) is_check_continued: bool,
    /// Whether the current check was requested by a NOTIFY or an operator.
    pub(super) urgency: EventUrgency,
    /// An operator requested the next check, or the current one, to transfer the whole zone whatever its serial is.
    pub(super) is_force_requested: bool,
    pub(super) is_forced: bool,
    /// Differences did not fit: the zone is asked for as a whole.
    pub(super) wants_whole: bool,
    /// Checks that failed since the last that did not.
    pub(super) failures: u32,
    pub(super) last_error: Option<String>,
    /// The primary that was asked last, and the serial it had when it last said so.
    pub(super) primary: Option<SocketAddr>,
    pub(super) serial_there: Option<Serial>,
    /// The lower serial that a primary had in the last check, if none confirmed the version that is here.
    pub(super) behind: Option<Serial>,
    /// How long the primary's own copy is good, as it last said (RFC 7314).
    pub(super) expire_there: Option<Duration>,
    /// When the zone was listed here, since the start.
    pub(super) listed: Moment,
    /// When the last check began; nothing of it is kept.
    pub(super) checked: Option<Moment>,
    /// The next check was asked for: it is made even if another server has just made one.
    pub(super) is_check_asked: bool,
    /// A version is on its way home.
    pub(super) is_bringing: bool,
    pub(super) transfer: Option<TransferSize>,
    /// The memory of the version that is being committed.
    pub(super) memory: Option<Box<MemoryShare>>,
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
        home: Arc<dyn SecondaryHome>,
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
            home,
            held,
            timers,
            expiry: None,
            ticket: None,
            next_primary: 0,
            asked: 0,
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
            listed: now,
            checked: None,
            is_check_asked: false,
            is_bringing: false,
            transfer: None,
            memory: None,
        }
    }

    /// Moves its times by so many milliseconds; the owner of the schedule moves `expiry`.
    pub(super) fn shift(&mut self, milliseconds: i64) {
        shift_timers(&mut self.timers, milliseconds);
        self.listed = self.listed.shifted(milliseconds);
        self.checked = self.checked.map(|at| at.shifted(milliseconds));
    }

    /// Returns the lane of the primary that is asked next.
    pub(super) fn lane(&self) -> Lane {
        let primaries = &self.settings.policy.primaries;
        let next = self.next_primary.checked_rem(primaries.len())?;
        Some(primaries[next].address.ip().to_canonical())
    }

    /// Returns the serial that is here.
    pub(super) fn serial(&self) -> Option<Serial> {
        self.held.as_ref().map(|held| held.serial)
    }

    /// Returns the facts of the zone that its home gets.
    pub(super) fn homed(&self) -> HomedZone<'_> {
        HomedZone {
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

/// The reason why a home was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookReason {
    /// A check begins.
    Check,
    /// The zone is about to expire.
    Expiry,
}

/// A report of a home.
pub(super) enum HomeReport {
    /// A version is there, or was refused.
    Brought(ZoneNumber, HomeOutcome),
    /// A home was looked at for a zone.
    Seen(ZoneNumber, LookReason, Result<HomeStates, HomeError>),
    /// A home was looked at for zones that are to be taken over from it.
    Listed(Vec<NameBuf>, Result<HomeStates, HomeError>),
}
