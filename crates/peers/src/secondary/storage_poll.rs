//! Reads of storage that others change, too: before a check, and before a zone expires.

use super::Secondaries;
use super::check::JITTER;
use super::query::QueryPrimary;
use super::storage::{StorageError, StorageState, StorageStates};
use super::zone_state::{PollReason, StorageReport};
use crate::secondary::zone::ZoneState;
use nameward_maintain::schedule::{EventUrgency, Moment, ZoneNumber};
use std::time::Duration;

/// Interval at which a zone that another server refreshes is read while its check is due, and one without contents.
const LEFT: Duration = Duration::from_secs(30);
const LEFT_EMPTY: Duration = Duration::from_secs(5);

impl<O: QueryPrimary> Secondaries<O> {
    /// Starts a check: the storage is read if others change it, then a primary is queried.
    pub(super) fn begin_check(&mut self, number: ZoneNumber, urgency: EventUrgency, now: Moment) {
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        if std::mem::take(&mut zone.is_check_continued) {
            return self.ask_next(number, now);
        }
        (zone.primaries_tried, zone.urgency) = (0, urgency);
        zone.is_forced = std::mem::take(&mut zone.is_force_requested);
        if zone.storage.is_shared() {
            self.poll_storage(number, PollReason::Check)
        } else {
            zone.is_check_requested = false;
            self.ask_next(number, now);
        }
    }

    pub(super) fn poll_storage(&self, number: ZoneNumber, reason: PollReason) {
        let done = self.report(move |seen| StorageReport::Seen(number, reason, seen));
        if let Some(zone) = self.zones.get(&number) {
            zone.storage
                .read_states(vec![zone.settings.name.to_buf()], done);
        }
    }

    /// Processes the result of reading a storage.
    pub(super) fn take_seen(
        &mut self,
        number: ZoneNumber,
        reason: PollReason,
        seen: Result<StorageStates, StorageError>,
        now: Moment,
    ) {
        let state = seen.and_then(|states| {
            let first = states.into_iter().next();
            first.map(|(_, state)| state).ok_or(StorageError::ZoneGone)
        });
        let is_newer = match state {
            Ok(state) => self.take_state(number, state, now),
            Err(error) => {
                let Some(zone) = self.zones.get_mut(&number) else {
                    return;
                };
                zone.last_error = Some(error.to_string());
                return match reason {
                    PollReason::Check => self.give_up(number, now),
                    PollReason::Expiry => self.expire_now(number, now),
                };
            }
        };
        if reason == PollReason::Expiry {
            return self.expire_now(number, now);
        }
        let Some(zone) = self.zones.get_mut(&number) else {
            return;
        };
        let is_requested = std::mem::take(&mut zone.is_check_requested);
        let is_due = now.seconds() >= zone.timers.next_check || zone.state != ZoneState::Current;
        if is_newer && !is_requested && !is_due {
            // Another server on the same storage has made the check.
            self.end_check(number, now)
        } else if !is_requested && !zone.storage.leads_refresh() {
            self.leave_check(number, now);
        } else {
            self.ask_next(number, now)
        }
    }

    /// Leaves a check that is due to the server that refreshes the zones of the storage, and looks again for its result.
    fn leave_check(&mut self, number: ZoneNumber, now: Moment) {
        let Some(zone) = self.zones.get(&number) else {
            return;
        };
        let wait = match zone.state {
            ZoneState::Empty => LEFT_EMPTY,
            _ => LEFT,
        };
        self.left.insert(number);
        self.schedule.finish(number);
        self.plan_check(number, now.plus(wait), EventUrgency::Timed);
    }

    /// Makes the checks that were left to another server: this one now refreshes zones.
    pub fn take_over_checks(&mut self, now: Moment) {
        for number in std::mem::take(&mut self.left) {
            if self.zones.contains_key(&number) {
                self.plan_check(number, now, EventUrgency::Timed);
            }
        }
    }

    /// Adopts the stored state of a zone; returns whether a primary has confirmed it to another server in the
    /// meantime.
    fn take_state(&mut self, number: ZoneNumber, state: StorageState, now: Moment) -> bool {
        let jitter = self.draw(JITTER);
        let Some(zone) = self.zones.get_mut(&number) else {
            return false;
        };
        zone.held = state.held;
        let Some(held) = &zone.held else {
            zone.state = ZoneState::Empty;
            self.plan_expiry(number, None);
            return false;
        };
        // A time in the future is from another clock, or from this one before it was set back: it is meaningless.
        let newer = state
            .refreshed
            .filter(|refreshed| *refreshed > zone.timers.refreshed && *refreshed <= now.seconds());
        let times = held.times;
        let early = jitter.min(times.refresh / 8);
        if let Some(refreshed) = newer {
            zone.timers = times.confirmed(Moment::from_seconds(refreshed), early);
        } else if zone.state == ZoneState::Empty {
            // Contents were inserted without their age: it counts from now.
            zone.timers = times.confirmed(now, early);
        }
        let is_good = now.seconds() < zone.timers.expires;
        let was = zone.state;
        if is_good {
            zone.state = ZoneState::Current;
            if was == ZoneState::Expired {
                zone.storage.show(&zone.in_storage());
            }
        }
        let expires = is_good.then(|| Moment::from_seconds(zone.timers.expires));
        self.plan_expiry(number, expires);
        newer.is_some()
    }
}
