//! When something is due for a zone: each zone has at most one event of a kind planned and one event running.
//!
//! The schedule knows no clock and does nothing: callers ask with `now` what may begin, and report what has ended. Events
//! that a caller waits for go before those whose time has merely come, so a NOTIFY overtakes a hundred thousand checks
//! that a start has spread over the next minutes. All work is logarithmic in the number of zones.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// A time in milliseconds since 1970. It comes in from outside, so that a simulation has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub u64);

impl Moment {
    /// Returns the moment so much later.
    #[must_use]
    pub fn plus(self, wait: Duration) -> Moment {
        Moment(
            self.0
                .saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        )
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

/// An event in the life of a zone. Of two that are due at the same time the first goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ZoneEvent {
    /// The contents are too old to be served (RFC 1035 section 3.3.13, EXPIRE).
    Expire,
    /// A primary is asked for its serial, and for the zone if that is newer.
    Refresh,
    /// The secondaries are notified of a new serial (RFC 1996).
    Notify,
    /// The contents are written to the state store as a whole, because the journal has grown too long.
    WriteContents,
    /// The zone is packed anew in memory.
    Pack,
    /// The keys are looked at: a step of a rollover may be due.
    RollKeys,
    /// The parent is asked for the DS.
    AskParent,
}

/// How urgent an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventUrgency {
    /// Its time has come.
    Timed,
    /// A client or an operator asked for it: before all that is merely timed.
    Asked,
}

/// A zone by a number of the caller's.
pub type ZoneNumber = u32;

type Due = BTreeSet<(Moment, ZoneEvent, ZoneNumber)>;

/// The events of one zone.
#[derive(Default)]
struct ZonePlan {
    running: Option<ZoneEvent>,
    /// At most one of a kind, and mostly one at all.
    planned: Vec<PlannedEvent>,
}

#[derive(Clone, Copy)]
struct PlannedEvent {
    event: ZoneEvent,
    at: Moment,
    is_asked: bool,
}

impl ZonePlan {
    fn of(&self, event: ZoneEvent) -> Option<&PlannedEvent> {
        self.planned.iter().find(|planned| planned.event == event)
    }

    fn remove(&mut self, event: ZoneEvent) -> Option<PlannedEvent> {
        let mut places = self.planned.iter();
        let place = places.position(|planned| planned.event == event)?;
        Some(self.planned.swap_remove(place))
    }
}

/// All that is planned.
#[derive(Default)]
pub struct Schedule {
    zones: HashMap<ZoneNumber, ZonePlan>,
    /// Events of zones for which nothing runs.
    asked: Due,
    timed: Due,
    running: usize,
}

impl Schedule {
    /// Plans an event, in place of one of the same kind.
    pub fn plan(&mut self, zone: ZoneNumber, event: ZoneEvent, at: Moment, urgency: EventUrgency) {
        self.cancel(zone, event);
        let plan = self.zones.entry(zone).or_default();
        let is_asked = urgency == EventUrgency::Asked;
        // A hundred thousand zones have one event each: no room for more.
        plan.planned.reserve_exact(1);
        plan.planned.push(PlannedEvent {
            event,
            at,
            is_asked,
        });
        if plan.running.is_none() {
            self.due(is_asked).insert((at, event, zone));
        }
    }

    /// Plans an event unless one of the same kind is planned for an earlier time, or is more urgent.
    pub fn hasten(
        &mut self,
        zone: ZoneNumber,
        event: ZoneEvent,
        at: Moment,
        urgency: EventUrgency,
    ) {
        let there = self.zones.get(&zone).and_then(|plan| plan.of(event));
        let is_asked = urgency == EventUrgency::Asked;
        let is_sooner = there.is_none_or(|there| at < there.at || is_asked && !there.is_asked);
        if is_sooner {
            self.plan(zone, event, at, urgency);
        }
    }

    /// Takes a planned event back.
    pub fn cancel(&mut self, zone: ZoneNumber, event: ZoneEvent) {
        let plan = self.zones.get_mut(&zone);
        if let Some(planned) = plan.and_then(|plan| plan.remove(event)) {
            self.due(planned.is_asked)
                .remove(&(planned.at, event, zone));
        }
    }

    /// Forgets a zone. An event of it that runs may still end.
    pub fn remove(&mut self, zone: ZoneNumber) {
        let Some(plan) = self.zones.remove(&zone) else {
            return;
        };
        for planned in &plan.planned {
            self.due(planned.is_asked)
                .remove(&(planned.at, planned.event, zone));
        }
        self.running -= usize::from(plan.running.is_some());
    }

    /// Begins the next event that is due, if there is one and fewer than `limit` run. The zone has nothing else running
    /// until [`Schedule::finish`].
    pub fn begin(&mut self, now: Moment, limit: usize) -> Option<(ZoneNumber, ZoneEvent)> {
        if self.running >= limit {
            return None;
        }
        let is_due = |set: &Due| set.first().copied().filter(|(at, ..)| *at <= now);
        let (_, event, zone) = is_due(&self.asked).or_else(|| is_due(&self.timed))?;
        let plan = self.zones.get_mut(&zone)?;
        plan.running = Some(event);
        // All its others wait until it ends.
        let waiting = plan.planned.clone();
        plan.remove(event);
        for planned in waiting {
            self.due(planned.is_asked)
                .remove(&(planned.at, planned.event, zone));
        }
        self.running += 1;
        Some((zone, event))
    }

    /// Ends the event of a zone that runs.
    pub fn finish(&mut self, zone: ZoneNumber) {
        let Some(plan) = self.zones.get_mut(&zone) else {
            return;
        };
        if plan.running.take().is_none() {
            return;
        }
        for planned in plan.planned.clone() {
            self.due(planned.is_asked)
                .insert((planned.at, planned.event, zone));
        }
        self.running -= 1;
    }

    /// Returns the time at which something may begin, if anything is planned for zones that have nothing running.
    pub fn next(&self) -> Option<Moment> {
        let first = |set: &Due| set.first().map(|(at, ..)| *at);
        [first(&self.asked), first(&self.timed)]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns the time an event of a zone is planned for.
    pub fn planned(&self, zone: ZoneNumber, event: ZoneEvent) -> Option<Moment> {
        self.zones.get(&zone)?.of(event).map(|planned| planned.at)
    }

    /// Returns the event of a zone that runs.
    pub fn running(&self, zone: ZoneNumber) -> Option<ZoneEvent> {
        self.zones.get(&zone)?.running
    }

    /// Returns how many events run.
    pub fn running_count(&self) -> usize {
        self.running
    }

    fn due(&mut self, is_asked: bool) -> &mut Due {
        match is_asked {
            true => &mut self.asked,
            false => &mut self.timed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const REFRESH: ZoneEvent = ZoneEvent::Refresh;

    #[test]
    fn a_notify_overtakes_a_hundred_thousand_checks_that_are_due() {
        let mut schedule = Schedule::default();
        for zone in 0..100_000 {
            schedule.plan(zone, REFRESH, Moment(u64::from(zone)), EventUrgency::Timed);
        }
        schedule.hasten(99_999, REFRESH, Moment(200_000), EventUrgency::Asked);
        assert_eq!(schedule.begin(Moment(200_000), 10), Some((99_999, REFRESH)));
        assert_eq!(schedule.begin(Moment(200_000), 10), Some((0, REFRESH)));
    }

    #[test]
    fn a_zone_has_one_event_running_and_the_others_wait() {
        let mut schedule = Schedule::default();
        schedule.plan(1, REFRESH, Moment(5), EventUrgency::Timed);
        schedule.plan(1, ZoneEvent::Expire, Moment(6), EventUrgency::Timed);
        schedule.plan(2, REFRESH, Moment(7), EventUrgency::Timed);
        assert_eq!(schedule.begin(Moment(4), 9), None);
        assert_eq!(schedule.begin(Moment(9), 9), Some((1, REFRESH)));
        assert_eq!(schedule.begin(Moment(9), 9), Some((2, REFRESH)));
        // Planned again while it runs.
        schedule.plan(1, REFRESH, Moment(5), EventUrgency::Asked);
        assert_eq!(
            (schedule.begin(Moment(9), 9), schedule.next()),
            (None, None)
        );
        schedule.finish(1);
        assert_eq!(schedule.begin(Moment(9), 9), Some((1, REFRESH)));
        schedule.finish(1);
        assert_eq!(schedule.begin(Moment(9), 9), Some((1, ZoneEvent::Expire)));
    }

    #[test]
    fn no_more_than_the_limit_run() {
        let mut schedule = Schedule::default();
        (0..5).for_each(|zone| schedule.plan(zone, REFRESH, Moment(0), EventUrgency::Timed));
        assert!(schedule.begin(Moment(1), 2).is_some() && schedule.begin(Moment(1), 2).is_some());
        assert_eq!(schedule.begin(Moment(1), 2), None);
        schedule.finish(0);
        assert!(schedule.begin(Moment(1), 2).is_some());
        // A zone that is removed while its event runs gives its place back, once.
        schedule.remove(1);
        schedule.finish(1);
        assert_eq!(schedule.running_count(), 1);
    }

    proptest! {
        /// Against a list that is searched from end to end.
        #[test]
        fn it_does_what_a_plain_list_does(steps in proptest::collection::vec((0..6u8, 0..4u32, 0..20u64), 1..200)) {
            let events = [ZoneEvent::Expire, REFRESH, ZoneEvent::Notify];
            let mut schedule = Schedule::default();
            let mut list: BTreeMap<(u32, ZoneEvent), (bool, Moment)> = BTreeMap::new();
            let mut running: BTreeMap<u32, ZoneEvent> = BTreeMap::new();
            for (step, zone, number) in steps {
                let (event, at) = (events[number as usize % 3], Moment(number));
                match step {
                    0 | 1 => {
                        let urgency = if step == 0 { EventUrgency::Timed } else { EventUrgency::Asked };
                        schedule.plan(zone, event, at, urgency);
                        list.insert((zone, event), (step == 1, at));
                    }
                    2 => {
                        schedule.cancel(zone, event);
                        list.remove(&(zone, event));
                    }
                    3 => {
                        schedule.remove(zone);
                        list.retain(|(z, _), _| *z != zone);
                        running.remove(&zone);
                    }
                    4 => {
                        schedule.finish(zone);
                        running.remove(&zone);
                    }
                    _ => {
                        let free = list.iter().filter(|((z, _), _)| !running.contains_key(z));
                        let due = free.filter(|(_, (_, time))| *time <= at);
                        let first = due.map(|((z, e), (asked, time))| (!asked, *time, *e, *z)).min();
                        let expected = first.filter(|_| running.len() < 3).map(|(_, _, e, z)| (z, e));
                        prop_assert_eq!(schedule.begin(at, 3), expected);
                        if let Some((z, e)) = expected {
                            list.remove(&(z, e));
                            running.insert(z, e);
                        }
                    }
                }
                prop_assert_eq!(schedule.running_count(), running.len());
                let free = list.iter().filter(|((z, _), _)| !running.contains_key(z));
                prop_assert_eq!(schedule.next(), free.map(|(_, (_, time))| *time).min());
            }
        }
    }
}
