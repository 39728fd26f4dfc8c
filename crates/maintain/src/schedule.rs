//! The schedule of zone events: each zone has at most one scheduled event per kind and one running event.
//!
//! The schedule has no clock and does no work: callers pass `now` to get the event that may start, and report which has
//! ended.
//!
//! ```text
//! class   checks and transfers have separate limits: a check never waits for a transfer to end
//! lane    the events of one primary: the lane with the fewest running events goes first, so a primary with 200,000 zones
//!         delays the zones of another by one event
//! order   within a lane, requested events (NOTIFY, an operator) go before timed ones
//! ```
//! A lane may use as many slots as are still free, and its first slot in any case ([`ClassLimit`]): one primary alone
//! takes at most half of the slots, the next one half of the rest. All operations are logarithmic in the number of
//! zones.

mod queue;

use queue::ClassQueue;
pub use queue::{ClassLimit, Lane};
use std::collections::HashMap;
use std::time::Duration;

/// A time in milliseconds since 1970. It is passed in from outside, so that a simulation has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub u64);

impl Moment {
    /// Returns the moment later by `wait`.
    #[must_use]
    pub fn plus(self, wait: Duration) -> Moment {
        Moment(
            self.0
                .saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        )
    }

    /// Returns the moment shifted by this many milliseconds, forward or back.
    #[must_use]
    pub fn shifted(self, milliseconds: i64) -> Moment {
        Moment(self.0.saturating_add_signed(milliseconds))
    }

    /// Returns whole seconds since 1970.
    pub fn seconds(self) -> u64 {
        self.0 / 1000
    }

    /// Returns the moment of a time in seconds since 1970.
    pub fn from_seconds(seconds: u64) -> Moment {
        Moment(seconds.saturating_mul(1000))
    }
}

/// A zone event. Of two that are due at the same time, the one listed first starts first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ZoneEvent {
    /// Query a primary for its serial.
    Refresh,
    /// Transfer the zone from a primary.
    Transfer,
    /// Check the keys: a rollover step may be due.
    RollKeys,
    /// Query the parent for the DS.
    QueryParent,
}

impl ZoneEvent {
    fn class(self) -> usize {
        usize::from(self == ZoneEvent::Transfer)
    }
}

/// How urgent an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventUrgency {
    /// Its time has come.
    Timed,
    /// A client or an operator requested it: it goes before all timed events of its lane.
    Requested,
}

/// A number that the caller assigns to a zone.
pub type ZoneNumber = u32;

/// An event that has started.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartedEvent {
    pub zone: ZoneNumber,
    pub event: ZoneEvent,
    pub urgency: EventUrgency,
}

#[derive(Default)]
struct ZonePlan {
    running: Option<(ZoneEvent, Lane)>,
    /// At most one per kind, and usually a single one.
    planned: Vec<PlannedEvent>,
}

#[derive(Clone, Copy)]
struct PlannedEvent {
    event: ZoneEvent,
    at: Moment,
    urgency: EventUrgency,
    lane: Lane,
}

impl ZonePlan {
    fn find(&self, event: ZoneEvent) -> Option<&PlannedEvent> {
        self.planned.iter().find(|planned| planned.event == event)
    }

    fn remove(&mut self, event: ZoneEvent) -> Option<PlannedEvent> {
        let mut places = self.planned.iter();
        let place = places.position(|planned| planned.event == event)?;
        Some(self.planned.swap_remove(place))
    }
}

/// All scheduled and running events.
#[derive(Default)]
pub struct Schedule {
    zones: HashMap<ZoneNumber, ZonePlan>,
    /// The events of zones without a running event: checks and all others, then transfers.
    queues: [ClassQueue; 2],
}

impl Schedule {
    /// Sets the maximum number of concurrent transfers.
    pub fn limit_transfers(&mut self, limit: ClassLimit) {
        self.queues[ZoneEvent::Transfer.class()].set_limit(limit);
    }

    /// Sets the maximum number of concurrent events other than transfers.
    pub fn limit_checks(&mut self, limit: ClassLimit) {
        self.queues[ZoneEvent::Refresh.class()].set_limit(limit);
    }

    /// Schedules an event, replacing one of the same kind.
    pub fn plan(
        &mut self,
        zone: ZoneNumber,
        event: ZoneEvent,
        at: Moment,
        (urgency, lane): (EventUrgency, Lane),
    ) {
        self.cancel(zone, event);
        let plan = self.zones.entry(zone).or_default();
        let planned = PlannedEvent {
            event,
            at,
            urgency,
            lane,
        };
        // A hundred thousand zones have one event each: reserve no room for more.
        plan.planned.reserve_exact(1);
        plan.planned.push(planned);
        if plan.running.is_none() {
            self.enqueue(zone, &planned);
        }
    }

    /// Schedules an event unless one of the same kind is scheduled in the same lane for an earlier time, or is more
    /// urgent.
    pub fn hasten(
        &mut self,
        zone: ZoneNumber,
        event: ZoneEvent,
        at: Moment,
        (urgency, lane): (EventUrgency, Lane),
    ) {
        let planned = self.zones.get(&zone).and_then(|plan| plan.find(event));
        let Some(planned) = planned.copied() else {
            return self.plan(zone, event, at, (urgency, lane));
        };
        let is_more_urgent =
            urgency == EventUrgency::Requested && planned.urgency == EventUrgency::Timed;
        if at < planned.at || is_more_urgent {
            self.plan(zone, event, at, (urgency, lane));
        } else if lane != planned.lane {
            self.plan(zone, event, planned.at, (planned.urgency, lane));
        }
    }

    /// Cancels a scheduled event.
    pub fn cancel(&mut self, zone: ZoneNumber, event: ZoneEvent) {
        let plan = self.zones.get_mut(&zone);
        if let Some(planned) = plan.and_then(|plan| plan.remove(event)) {
            self.dequeue(zone, &planned);
        }
    }

    /// Removes a zone. A running event of it may still end.
    pub fn remove(&mut self, zone: ZoneNumber) {
        let Some(plan) = self.zones.remove(&zone) else {
            return;
        };
        for planned in &plan.planned {
            self.dequeue(zone, planned);
        }
        if let Some((event, lane)) = plan.running {
            self.queues[event.class()].end(lane);
        }
    }

    /// Starts the next event that is due, if the limit of its class allows. The zone has nothing else running until
    /// [`Schedule::finish`].
    pub fn begin(&mut self, now: Moment) -> Option<StartedEvent> {
        let next = self.queues.iter_mut().find_map(|queue| queue.start(now));
        let (zone, event, lane) = next?;
        let plan = self.zones.get_mut(&zone)?;
        plan.running = Some((event, lane));
        let urgency = plan.remove(event).map(|started| started.urgency);
        // All its other events wait until it ends.
        for waiting in plan.planned.clone() {
            self.dequeue(zone, &waiting);
        }
        Some(StartedEvent {
            zone,
            event,
            urgency: urgency.unwrap_or(EventUrgency::Timed),
        })
    }

    /// Ends the running event of a zone.
    pub fn finish(&mut self, zone: ZoneNumber) {
        let Some(plan) = self.zones.get_mut(&zone) else {
            return;
        };
        let Some((event, lane)) = plan.running.take() else {
            return;
        };
        let waiting = plan.planned.clone();
        self.queues[event.class()].end(lane);
        for planned in &waiting {
            self.enqueue(zone, planned);
        }
    }

    /// Shifts every scheduled time by this many milliseconds, since the clock was set.
    pub fn shift(&mut self, milliseconds: i64) {
        let zones: Vec<ZoneNumber> = self.zones.keys().copied().collect();
        for zone in zones {
            let planned = self.zones.get(&zone).map(|plan| plan.planned.clone());
            for event in planned.unwrap_or_default() {
                let at = event.at.shifted(milliseconds);
                self.plan(zone, event.event, at, (event.urgency, event.lane));
            }
        }
    }

    /// Returns the time at which an event may start, if no running event ends before.
    pub fn next(&self) -> Option<Moment> {
        self.queues.iter().filter_map(ClassQueue::next).min()
    }

    /// Returns the time for which an event of a zone is scheduled.
    pub fn planned(&self, zone: ZoneNumber, event: ZoneEvent) -> Option<Moment> {
        self.zones.get(&zone)?.find(event).map(|planned| planned.at)
    }

    /// Returns the running event of a zone.
    pub fn running(&self, zone: ZoneNumber) -> Option<ZoneEvent> {
        self.zones.get(&zone)?.running.map(|(event, _)| event)
    }

    /// Returns the number of running events.
    pub fn running_count(&self) -> usize {
        self.queues.iter().map(ClassQueue::running).sum()
    }

    fn enqueue(&mut self, zone: ZoneNumber, planned: &PlannedEvent) {
        let due = (planned.at, planned.event, zone);
        self.queues[planned.event.class()].insert(planned.lane, planned.urgency, due);
    }

    fn dequeue(&mut self, zone: ZoneNumber, planned: &PlannedEvent) {
        let due = (planned.at, planned.event, zone);
        self.queues[planned.event.class()].remove(planned.lane, planned.urgency, due);
    }
}

#[cfg(test)]
mod tests;
