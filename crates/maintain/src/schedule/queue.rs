//! The due events of one class, fair by lane.
//!
//! ```text
//! by_time   lanes by the time of their first event
//! ready     lanes that were found due, by the number of their running events
//! ```
//! A lane is in one of the two while it has an event. A lane that may not start another event stays in `ready` until
//! one of its own ends or slots become free, so a full queue costs nothing while it waits.

use super::{EventUrgency, Moment, ZoneEvent, ZoneNumber};
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

/// The primary that the events of a lane concern; `None` for events without a peer.
pub type Lane = Option<IpAddr>;

/// The slots of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassLimit {
    /// Maximum number of running events.
    pub running: usize,
    /// Maximum number of running events per lane. Beyond the first, a lane also needs as many free slots as it has
    /// running events, so that others find one.
    pub per_lane: usize,
}

impl Default for ClassLimit {
    fn default() -> Self {
        ClassLimit {
            running: usize::MAX,
            per_lane: usize::MAX,
        }
    }
}

pub(super) type DueEvent = (Moment, ZoneEvent, ZoneNumber);

#[derive(Default)]
struct LaneEvents {
    requested: BTreeSet<DueEvent>,
    timed: BTreeSet<DueEvent>,
    running: usize,
    position: Option<Position>,
}

#[derive(Clone, Copy)]
enum Position {
    ByTime(Moment),
    Ready(usize, Moment),
}

impl LaneEvents {
    fn set(&mut self, urgency: EventUrgency) -> &mut BTreeSet<DueEvent> {
        match urgency {
            EventUrgency::Requested => &mut self.requested,
            EventUrgency::Timed => &mut self.timed,
        }
    }

    fn first_at(&self) -> Option<Moment> {
        let sets = [&self.requested, &self.timed];
        let first = sets.into_iter().filter_map(BTreeSet::first);
        first.map(|(at, ..)| *at).min()
    }

    fn take_due(&mut self, now: Moment) -> Option<DueEvent> {
        for set in [&mut self.requested, &mut self.timed] {
            if set.first().is_some_and(|(at, ..)| *at <= now) {
                return set.pop_first();
            }
        }
        None
    }

    fn is_empty(&self) -> bool {
        self.requested.is_empty() && self.timed.is_empty() && self.running == 0
    }
}

#[derive(Default)]
pub(super) struct ClassQueue {
    limit: ClassLimit,
    lanes: HashMap<Lane, LaneEvents>,
    by_time: BTreeSet<(Moment, Lane)>,
    ready: BTreeSet<(usize, Moment, Lane)>,
    running: usize,
}

impl ClassQueue {
    pub(super) fn set_limit(&mut self, limit: ClassLimit) {
        self.limit = limit;
    }

    pub(super) fn running(&self) -> usize {
        self.running
    }

    pub(super) fn insert(&mut self, lane: Lane, urgency: EventUrgency, due: DueEvent) {
        let events = self.lanes.entry(lane).or_default();
        events.set(urgency).insert(due);
        self.reposition(lane);
    }

    pub(super) fn remove(&mut self, lane: Lane, urgency: EventUrgency, due: DueEvent) {
        if let Some(events) = self.lanes.get_mut(&lane)
            && events.set(urgency).remove(&due)
        {
            self.reposition(lane);
        }
    }

    /// Starts the next event that is due, if there is a slot for it.
    pub(super) fn start(&mut self, now: Moment) -> Option<(ZoneNumber, ZoneEvent, Lane)> {
        while let Some(&(at, lane)) = self.by_time.first().filter(|(at, _)| *at <= now) {
            self.by_time.remove(&(at, lane));
            let Some(events) = self.lanes.get_mut(&lane) else {
                continue;
            };
            events.position = Some(Position::Ready(events.running, at));
            self.ready.insert((events.running, at, lane));
        }
        while let Some(&(running, _, lane)) = self.ready.first() {
            // Lanes after it have as many running events, or more.
            if !self.has_place(running) {
                return None;
            }
            let due = self.lanes.get_mut(&lane)?.take_due(now);
            if due.is_some() {
                self.lanes.get_mut(&lane)?.running += 1;
                self.running += 1;
            }
            self.reposition(lane);
            if let Some((_, event, zone)) = due {
                return Some((zone, event, lane));
            }
        }
        None
    }

    /// Ends an event of a lane.
    pub(super) fn end(&mut self, lane: Lane) {
        if let Some(events) = self.lanes.get_mut(&lane) {
            events.running -= 1;
            self.running -= 1;
            self.reposition(lane);
        }
    }

    /// Returns the time at which an event may start.
    pub(super) fn next(&self) -> Option<Moment> {
        if self.running >= self.limit.running {
            return None;
        }
        // Lanes are ordered by their running events. Few are left here: `start` takes those that have a slot.
        let ready = self.ready.iter();
        let ready = ready.take_while(|(running, ..)| self.has_place(*running));
        let later = self.by_time.first().map(|(at, _)| *at);
        ready.map(|(_, at, _)| *at).chain(later).min()
    }

    /// Checks whether a lane with this many running events may start another.
    fn has_place(&self, running: usize) -> bool {
        let free = self.limit.running.saturating_sub(self.running);
        free > 0 && (running == 0 || running < self.limit.per_lane.min(free))
    }

    /// Moves a lane to the position that matches its events.
    fn reposition(&mut self, lane: Lane) {
        let Some(events) = self.lanes.get_mut(&lane) else {
            return;
        };
        match events.position.take() {
            Some(Position::ByTime(at)) => drop(self.by_time.remove(&(at, lane))),
            Some(Position::Ready(running, at)) => drop(self.ready.remove(&(running, at, lane))),
            None => {}
        }
        if let Some(at) = events.first_at() {
            events.position = Some(Position::ByTime(at));
            self.by_time.insert((at, lane));
        } else if events.is_empty() {
            self.lanes.remove(&lane);
        }
    }
}
