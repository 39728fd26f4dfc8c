//! Tests of the schedule alone, and against a list with linear search.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

const REFRESH: ZoneEvent = ZoneEvent::Refresh;
const TIMED: (EventUrgency, Lane) = (EventUrgency::Timed, None);
const REQUESTED: (EventUrgency, Lane) = (EventUrgency::Requested, None);

fn lane(octet: u8) -> Lane {
    Some(IpAddr::from([192, 0, 2, octet]))
}

fn timed(octet: u8) -> (EventUrgency, Lane) {
    (EventUrgency::Timed, lane(octet))
}

fn limit(running: usize, per_lane: usize) -> ClassLimit {
    ClassLimit { running, per_lane }
}

fn begin(schedule: &mut Schedule, now: u64) -> Option<(ZoneNumber, ZoneEvent)> {
    let started = schedule.begin(Moment(now))?;
    Some((started.zone, started.event))
}

#[test]
fn a_notify_overtakes_a_hundred_thousand_checks_that_are_due() {
    let mut schedule = Schedule::default();
    for zone in 0..100_000 {
        schedule.plan(zone, REFRESH, Moment(u64::from(zone)), TIMED);
    }
    schedule.hasten(99_999, REFRESH, Moment(200_000), REQUESTED);
    assert_eq!(begin(&mut schedule, 200_000), Some((99_999, REFRESH)));
    assert_eq!(begin(&mut schedule, 200_000), Some((0, REFRESH)));
}

#[test]
fn two_hundred_thousand_zones_of_one_primary_delay_another_by_one_event() {
    let mut schedule = Schedule::default();
    schedule.limit_checks(limit(400, usize::MAX));
    for zone in 0..200_000 {
        schedule.plan(zone, REFRESH, Moment(1), timed(1));
    }
    // It becomes due long after all of them, and each of them was requested by a NOTIFY.
    for zone in 0..1000 {
        let requested = (EventUrgency::Requested, lane(1));
        schedule.hasten(zone, REFRESH, Moment(2), requested);
    }
    schedule.plan(200_000, REFRESH, Moment(5000), timed(2));
    assert_eq!(begin(&mut schedule, 5000).unwrap().0, 0);
    assert_eq!(begin(&mut schedule, 5000), Some((200_000, REFRESH)));
}

#[test]
fn slow_primaries_never_take_the_last_place() {
    let mut schedule = Schedule::default();
    schedule.limit_transfers(limit(100, 50));
    let transfer = ZoneEvent::Transfer;
    for zone in 0..110 {
        schedule.plan(zone, transfer, Moment(0), timed(zone as u8 % 2));
    }
    while begin(&mut schedule, 1).is_some() {}
    // Two primaries have about a third each, however many zones they have.
    assert_eq!(schedule.running_count(), 67);
    // Neither waits for anything but the end of a transfer.
    assert_eq!(schedule.next(), None);
    schedule.plan(200, transfer, Moment(1), timed(9));
    assert_eq!(begin(&mut schedule, 1), Some((200, transfer)));
    // And a check needs none of these slots.
    schedule.plan(300, REFRESH, Moment(1), timed(0));
    assert_eq!(begin(&mut schedule, 1), Some((300, REFRESH)));
}

#[test]
fn one_primary_alone_has_half_of_the_places_and_the_only_place_if_there_is_one() {
    for (places, own) in [(1, 1), (2, 1), (4, 2), (100, 50)] {
        let mut schedule = Schedule::default();
        schedule.limit_transfers(limit(places, usize::MAX));
        for zone in 0..200 {
            schedule.plan(zone, ZoneEvent::Transfer, Moment(0), timed(1));
        }
        while begin(&mut schedule, 1).is_some() {}
        assert_eq!(schedule.running_count(), own, "of {places}");
        // A slot that becomes free is used again.
        let first = (0..200).find(|zone| schedule.running(*zone).is_some());
        schedule.finish(first.unwrap());
        assert!(schedule.next().is_some() && begin(&mut schedule, 1).is_some());
    }
}

#[test]
fn a_zone_has_one_event_running_and_the_others_wait() {
    let mut schedule = Schedule::default();
    schedule.plan(1, REFRESH, Moment(5), TIMED);
    schedule.plan(1, ZoneEvent::RollKeys, Moment(6), TIMED);
    schedule.plan(2, REFRESH, Moment(7), TIMED);
    assert_eq!(begin(&mut schedule, 4), None);
    assert_eq!(begin(&mut schedule, 9), Some((1, REFRESH)));
    assert_eq!(begin(&mut schedule, 9), Some((2, REFRESH)));
    // Scheduled again while it runs.
    schedule.plan(1, REFRESH, Moment(5), REQUESTED);
    assert_eq!((begin(&mut schedule, 9), schedule.next()), (None, None));
    schedule.finish(1);
    assert_eq!(begin(&mut schedule, 9), Some((1, REFRESH)));
    schedule.finish(1);
    assert_eq!(begin(&mut schedule, 9), Some((1, ZoneEvent::RollKeys)));
}

#[test]
fn a_removed_zone_gives_its_place_back_once() {
    let mut schedule = Schedule::default();
    schedule.limit_checks(limit(2, 2));
    (0..5).for_each(|zone| schedule.plan(zone, REFRESH, Moment(0), timed(zone as u8)));
    assert!(begin(&mut schedule, 1).is_some() && begin(&mut schedule, 1).is_some());
    assert_eq!(begin(&mut schedule, 1), None);
    schedule.finish(0);
    assert!(begin(&mut schedule, 1).is_some());
    schedule.remove(1);
    schedule.finish(1);
    assert_eq!(schedule.running_count(), 1);
}

#[test]
fn all_times_move_with_a_clock_that_is_set() {
    let mut schedule = Schedule::default();
    schedule.plan(1, REFRESH, Moment(10_000), TIMED);
    schedule.plan(2, REFRESH, Moment(3000), REQUESTED);
    schedule.shift(-5000);
    assert_eq!(schedule.next(), Some(Moment(0)));
    assert_eq!(schedule.planned(1, REFRESH), Some(Moment(5000)));
    schedule.shift(1000);
    assert_eq!(schedule.next(), Some(Moment(1000)));
}

/// An event in the list: its lane, whether it was requested, and its time.
type Listed = (Lane, bool, Moment);

proptest! {
    #[test]
    fn it_behaves_like_a_plain_list(steps in proptest::collection::vec((0..6u8, 0..6u32, 0..20u64), 1..200)) {
        let events = [REFRESH, ZoneEvent::RollKeys, ZoneEvent::QueryParent];
        let mut schedule = Schedule::default();
        schedule.limit_checks(limit(4, 2));
        let has_place = |all: usize, own: usize| all < 4 && (own == 0 || own < 2.min(4 - all));
        let mut list: BTreeMap<(u32, ZoneEvent), Listed> = BTreeMap::new();
        let mut running: BTreeMap<u32, Lane> = BTreeMap::new();
        for (step, zone, number) in steps {
            let (event, at, own) = (events[number as usize % 3], Moment(number), lane(zone as u8 % 3));
            match step {
                0 | 1 => {
                    let urgency = if step == 0 { EventUrgency::Timed } else { EventUrgency::Requested };
                    schedule.plan(zone, event, at, (urgency, own));
                    list.insert((zone, event), (own, step == 1, at));
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
                    let count = |lane: Lane| running.values().filter(|one| **one == lane).count();
                    let free = list.iter().filter(|((z, _), _)| !running.contains_key(z));
                    let due: Vec<_> = free.filter(|(_, (.., time))| *time <= at).collect();
                    let first = |lane: Lane| due.iter().filter(|(_, (of, ..))| *of == lane).map(|(_, (.., time))| *time).min();
                    let lanes = due.iter().map(|(_, (lane, ..))| (count(*lane), first(*lane), *lane)).min();
                    let lanes = lanes.filter(|(own, ..)| has_place(running.len(), *own));
                    let expected = lanes.and_then(|(.., lane)| {
                        let own = due.iter().filter(|(_, (of, ..))| *of == lane);
                        own.map(|((z, e), (_, requested, time))| (!requested, *time, *e, *z)).min()
                    });
                    prop_assert_eq!(begin(&mut schedule, at.0), expected.map(|(_, _, e, z)| (z, e)));
                    if let Some((_, _, e, z)) = expected {
                        list.remove(&(z, e));
                        running.insert(z, lane(z as u8 % 3));
                    }
                }
            }
            prop_assert_eq!(schedule.running_count(), running.len());
            // A time is returned whenever an event may start.
            let free = list.iter().filter(|((z, _), _)| !running.contains_key(z));
            let count = |lane: Lane| running.values().filter(|one| **one == lane).count();
            let may = free.filter(|(_, (lane, ..))| has_place(running.len(), count(*lane)));
            if let Some(first) = may.map(|(_, (.., time))| *time).min() {
                prop_assert!(schedule.next().is_some_and(|next| next <= first));
            }
        }
    }
}
