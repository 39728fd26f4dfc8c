//! The life of keys over years: the steps of each kind of rollover, and that no moment is bogus.

mod world;

use nameward_dnssec::rollover::{
    KeyRole, KskRollover, MAX_KEYS, PolicyKey, RecordPhase, RolloverPolicy, RolloverStep,
    RolloverTimes,
};
use nameward_testkit::property_cases;
use proptest::prelude::*;
use world::{Dice, World};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

fn times() -> RolloverTimes {
    RolloverTimes {
        dnskey_ttl: HOUR,
        zone_ttl: DAY,
        negative_ttl: HOUR,
        zone_propagation: 300,
        ds_ttl: DAY,
        parent_propagation: HOUR,
        parent_registration: DAY,
        safety: HOUR,
        purge_after: 90 * DAY,
    }
}

fn key(role: KeyRole, algorithm: u8, lifetime: Option<u64>) -> PolicyKey {
    PolicyKey {
        role,
        algorithm,
        lifetime,
    }
}

fn world(keys: &[PolicyKey]) -> World {
    World::new(RolloverPolicy {
        keys: keys.to_vec(),
        ksk_rollover: KskRollover::default(),
        times: times(),
    })
}

/// The steps since `from`, with the seconds at which they came after it.
fn steps(world: &World, from: u64) -> Vec<(u64, RolloverStep)> {
    let all = world.log.iter().filter(|(at, _)| *at >= from);
    all.map(|(at, step)| (at - from, *step)).collect()
}

#[test]
fn a_zone_is_signed_everywhere_before_the_parent_is_asked_for_a_ds() {
    let mut world = world(&[key(KeyRole::Combined, 13, None)]);
    let begin = world.now;
    world.live_until(begin + 10 * DAY, &mut Dice(1));
    let signed_everywhere = 300 + DAY + HOUR;
    assert_eq!(
        steps(&world, begin),
        [
            (0, RolloverStep::Publish(1)),
            (0, RolloverStep::Activate(1)),
            (signed_everywhere, RolloverStep::SubmitDs(1)),
        ]
    );
    assert_eq!(world.keys[0].ds.phase, RecordPhase::Omnipresent);
    assert_eq!(world.next_at, None);
}

#[test]
fn a_zone_signing_key_is_published_before_it_signs_and_after() {
    let lifetime = 30 * DAY;
    let mut world = world(&[
        key(KeyRole::KeySigning, 13, None),
        key(KeyRole::ZoneSigning, 13, Some(lifetime)),
    ]);
    let begin = world.now;
    world.live_until(begin + 45 * DAY, &mut Dice(2));
    // RFC 7583 section 3.2.1: Ipub before it signs, Iret after.
    let (publication, retirement) = (300 + HOUR + HOUR, 300 + DAY + HOUR);
    assert_eq!(
        steps(&world, begin + 29 * DAY),
        [
            (DAY - publication, RolloverStep::Publish(3)),
            (DAY, RolloverStep::Activate(3)),
            (DAY, RolloverStep::Deactivate(2)),
            (DAY + retirement, RolloverStep::Unpublish(2)),
        ]
    );
}

#[test]
fn a_key_signing_key_waits_for_its_ds_however_late_it_is() {
    let mut world = world(&[
        key(KeyRole::KeySigning, 13, None),
        key(KeyRole::ZoneSigning, 13, None),
    ]);
    let mut dice = Dice(3);
    world.live_until(world.now + 10 * DAY, &mut dice);
    world.keys[0].is_rolled_by_hand = true;
    let begin = world.now;
    for _ in 0..100 {
        world.look();
        world.now += DAY;
    }
    let publication = DAY;
    assert_eq!(
        steps(&world, begin),
        [
            (0, RolloverStep::Publish(3)),
            (publication, RolloverStep::SubmitDs(3)),
            (publication, RolloverStep::WithdrawDs(1)),
        ]
    );
    let late = world.now;
    world.live_until(late + 30 * DAY, &mut dice);
    let after: Vec<_> = steps(&world, late).into_iter().map(|(_, s)| s).collect();
    assert_eq!(after, [RolloverStep::Unpublish(1)]);
}

/// A zone with a key of each kind, in use for days.
fn established_pair(lifetime: Option<u64>, dice: &mut Dice) -> World {
    let mut world = world(&[
        key(KeyRole::KeySigning, 13, lifetime),
        key(KeyRole::ZoneSigning, 13, None),
    ]);
    world.policy.ksk_rollover = KskRollover::DoubleDs;
    world.live_until(world.now + 10 * DAY, dice);
    world
}

/// Looks every day, with a parent that does nothing.
fn wait_for(world: &mut World, days: u64) {
    for _ in 0..days {
        world.look();
        world.now += DAY;
    }
}

#[test]
fn double_ds_has_both_ds_at_the_parent_and_one_key_in_the_zone() {
    let mut dice = Dice(7);
    let mut world = established_pair(None, &mut dice);
    world.roll_by_hand();
    let begin = world.now;
    // However late the parent is, nothing moves.
    wait_for(&mut world, 100);
    assert_eq!(steps(&world, begin), [(0, RolloverStep::SubmitDs(3))]);
    let late = world.now;
    world.act_as_parent(late, &mut dice);
    world.look_at_parent();
    assert_eq!(world.ds.current(), [1, 3].into());
    world.live_until(late + 30 * DAY, &mut dice);
    // RFC 7583 section 3.3.2: the DS is known, the key is replaced, the key is known, the old DS goes.
    let ds_known = HOUR + DAY + HOUR;
    let key_known = ds_known + 300 + HOUR + HOUR;
    assert_eq!(
        steps(&world, late),
        [
            (ds_known, RolloverStep::Publish(3)),
            (ds_known, RolloverStep::Unpublish(1)),
            (key_known, RolloverStep::WithdrawDs(1)),
        ]
    );
    assert_eq!(world.ds.current(), [3].into());
    assert_eq!(world.dnskey.current(), [2, 3].into());
}

#[test]
fn a_key_lives_as_long_with_double_ds_as_its_policy_says() {
    let mut dice = Dice(8);
    let lifetime = 100 * DAY;
    let mut world = established_pair(Some(lifetime), &mut dice);
    world.live_until(world.now + 4 * lifetime, &mut dice);
    let all = world.log.iter();
    let replaced: Vec<u64> = all
        .filter(|(_, step)| matches!(step, RolloverStep::Unpublish(_)))
        .map(|(at, _)| *at)
        .collect();
    assert_eq!(replaced.len(), 4, "{:?}", world.log);
    for pair in replaced.windows(2) {
        // The parent may be a day late and is not.
        let between = pair[1] - pair[0];
        assert!((lifetime - DAY..=lifetime).contains(&between), "{between}");
    }
}

#[test]
fn both_keys_roll_at_once_and_the_new_ksk_stays_out_of_the_zone_until_its_ds_is_known() {
    let mut dice = Dice(9);
    let mut world = established_pair(None, &mut dice);
    world.roll_by_hand();
    world.keys[1].is_rolled_by_hand = true;
    let begin = world.now;
    wait_for(&mut world, 20);
    let taken: Vec<_> = steps(&world, begin).into_iter().map(|(_, s)| s).collect();
    assert_eq!(
        taken,
        [
            RolloverStep::SubmitDs(3),
            RolloverStep::Publish(4),
            RolloverStep::Activate(4),
            RolloverStep::Deactivate(2),
            RolloverStep::Unpublish(2),
        ]
    );
}

#[test]
fn a_rollover_switches_methods_when_the_policy_changes() {
    let mut dice = Dice(10);
    // The DS is requested; then both keys have to be published: the new one is at once.
    let mut world = established_pair(None, &mut dice);
    world.roll_by_hand();
    wait_for(&mut world, 2);
    world.policy.ksk_rollover = KskRollover::DoubleSignature;
    let begin = world.now;
    wait_for(&mut world, 20);
    assert_eq!(
        steps(&world, begin),
        [
            (0, RolloverStep::Publish(3)),
            (DAY, RolloverStep::WithdrawDs(1))
        ]
    );
    world.live_until(world.now + 30 * DAY, &mut dice);
    assert_eq!(world.ds.current(), [3].into());
    assert_eq!(world.dnskey.current(), [2, 3].into());
    // Both are shown, and then the DS is to come first: what is shown stays, and the DS follows.
    world.roll_by_hand();
    world.look();
    assert_eq!(world.dnskey.current(), [2, 3, 4].into());
    world.policy.ksk_rollover = KskRollover::DoubleDs;
    let begin = world.now;
    world.live_until(begin + 30 * DAY, &mut dice);
    let taken: Vec<_> = steps(&world, begin).into_iter().map(|(_, s)| s).collect();
    assert_eq!(
        taken,
        [
            RolloverStep::Publish(4),
            RolloverStep::SubmitDs(4),
            RolloverStep::WithdrawDs(3),
            RolloverStep::Unpublish(3),
        ]
    );
    assert_eq!(world.ds.current(), [4].into());
    // The next one is by the DS again, and a new algorithm never is.
    world.policy.keys[0].algorithm = 15;
    world.policy.keys[1].algorithm = 15;
    world.live_until(world.now + 60 * DAY, &mut dice);
    assert_eq!(world.ds.current(), [5].into());
}

#[test]
fn a_zone_goes_insecure_in_the_middle_of_a_double_ds_rollover() {
    let mut dice = Dice(11);
    let mut world = established_pair(None, &mut dice);
    world.roll_by_hand();
    world.look();
    world.act_as_parent(world.now, &mut dice);
    assert_eq!(world.ds.current(), [1, 3].into());
    world.policy.keys.clear();
    world.live_until(world.now + 200 * DAY, &mut dice);
    assert!(world.keys.is_empty() && world.ds.current().is_empty());
}

#[test]
fn an_algorithm_is_added_signatures_first_and_removed_keys_first() {
    let mut world = world(&[key(KeyRole::Combined, 8, None)]);
    let mut dice = Dice(4);
    world.live_until(world.now + 10 * DAY, &mut dice);
    let begin = world.now;
    world.policy.keys = vec![
        key(KeyRole::KeySigning, 13, None),
        key(KeyRole::ZoneSigning, 13, None),
    ];
    world.live_until(begin + 30 * DAY, &mut dice);
    let taken: Vec<_> = steps(&world, begin).into_iter().map(|(_, s)| s).collect();
    assert_eq!(
        taken,
        [
            RolloverStep::Activate(3),
            RolloverStep::Publish(2),
            RolloverStep::Publish(3),
            RolloverStep::SubmitDs(2),
            RolloverStep::WithdrawDs(1),
            RolloverStep::Unpublish(1),
            RolloverStep::Deactivate(1),
        ]
    );
}

#[test]
fn a_zone_goes_insecure_by_its_parent_and_comes_back() {
    let mut world = world(&[key(KeyRole::Combined, 13, None)]);
    let mut dice = Dice(5);
    world.live_until(world.now + 10 * DAY, &mut dice);
    let secure = std::mem::take(&mut world.policy.keys);
    let begin = world.now;
    for _ in 0..50 {
        world.look();
        world.now += DAY;
    }
    // As long as the parent has the DS, the zone stays signed.
    assert_eq!(steps(&world, begin), [(0, RolloverStep::WithdrawDs(1))]);
    assert!(world.keys[0].dnskey.is_shown() && world.keys[0].zone_rrsig.is_shown());
    world.live_until(world.now + 200 * DAY, &mut dice);
    assert!(world.keys.is_empty() && world.ds.current().is_empty());
    world.policy.keys = secure;
    world.live_until(world.now + 10 * DAY, &mut dice);
    assert_eq!(world.ds.current(), [2].into());
}

#[test]
fn an_algorithm_that_signs_no_keys_is_never_shown() {
    // RFC 4035 section 2.2: each algorithm of the DNSKEY RRset signs it, too (RFC 6840 section 5.11). A zone-signing key
    // whose algorithm has no key-signing key waits for one for ever; the zone stays as it is.
    let own = [
        key(KeyRole::KeySigning, 13, None),
        key(KeyRole::ZoneSigning, 13, None),
    ];
    let mut world = world(&own);
    let mut dice = Dice(6);
    world.live_until(world.now + 10 * DAY, &mut dice);
    world.policy.keys = [&own[..], &[key(KeyRole::ZoneSigning, 8, None)]].concat();
    let begin = world.now;
    world.live_until(begin + 100 * DAY, &mut dice);
    assert_eq!(steps(&world, begin), [(0, RolloverStep::Activate(3))]);
    // And one that is there leaves with its key-signing key, not after it: each moment is checked.
    world.policy.keys = vec![key(KeyRole::Combined, 15, None)];
    world.live_until(world.now + 100 * DAY, &mut dice);
    assert_eq!(world.ds.current(), [4].into());
}

fn random_keys(dice: &mut Dice) -> Vec<PolicyKey> {
    let algorithm = [8, 13, 15][dice.below(3) as usize];
    let zone_life = dice.percent(80).then(|| dice.between(20 * DAY, 120 * DAY));
    let key_life = dice.percent(60).then(|| dice.between(60 * DAY, 500 * DAY));
    match dice.below(10) {
        0 => Vec::new(),
        1..=4 => vec![key(KeyRole::Combined, algorithm, key_life)],
        _ => vec![
            key(KeyRole::KeySigning, algorithm, key_life),
            key(KeyRole::ZoneSigning, algorithm, zone_life),
        ],
    }
}

fn random_way(dice: &mut Dice) -> KskRollover {
    if dice.percent(50) {
        KskRollover::DoubleDs
    } else {
        KskRollover::DoubleSignature
    }
}

fn random_times(dice: &mut Dice) -> RolloverTimes {
    RolloverTimes {
        dnskey_ttl: dice.between(60, 2 * DAY),
        zone_ttl: dice.between(60, 7 * DAY),
        negative_ttl: dice.between(60, DAY),
        zone_propagation: dice.between(0, DAY),
        ds_ttl: dice.between(60, 2 * DAY),
        parent_propagation: dice.between(0, DAY),
        parent_registration: dice.between(0, 3 * DAY),
        safety: dice.below(HOUR),
        purge_after: dice.between(0, 90 * DAY),
    }
}

/// Years with a parent that acts when it likes, an operator who changes his mind, and a server that is down at times.
fn live_for_years(dice: &mut Dice) -> World {
    let mut world = World::new(RolloverPolicy {
        keys: random_keys(dice),
        ksk_rollover: random_way(dice),
        times: random_times(dice),
    });
    let (parent_chance, sight_chance) = (dice.between(1, 60), dice.between(5, 80));
    let end = world.now + 6 * YEAR;
    while world.now < end {
        let due = world.next_at.unwrap_or(world.now + 5 * DAY);
        let wait = due.saturating_sub(world.now).max(1);
        world.now += match dice.below(10) {
            0..=5 => wait.min(10 * DAY),
            6..=8 => dice.between(1, wait.min(3 * DAY)),
            // The server was down.
            _ => wait + dice.below(20 * DAY),
        };
        if dice.percent(parent_chance) {
            let times = &world.policy.times;
            let lag = dice.below(times.zone_propagation + times.parent_registration + 1);
            world.act_as_parent(world.now - lag, dice);
        }
        if dice.percent(sight_chance) {
            world.look_at_parent();
        }
        if dice.percent(1) {
            world.policy.keys = random_keys(dice);
        }
        // Often enough to come in the middle of rollovers.
        if dice.percent(3) {
            world.policy.ksk_rollover = random_way(dice);
        }
        if dice.percent(1) {
            for key in &mut world.keys {
                key.is_rolled_by_hand = true;
            }
        }
        world.look();
        assert!(world.keys.len() <= MAX_KEYS);
    }
    world
}

proptest! {
    #![proptest_config(property_cases(48))]

    #[test]
    fn no_moment_of_many_years_is_bogus_for_any_cache(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let mut world = live_for_years(&mut dice);
        // And when all have settled, the zone is as the policy asks.
        for key in &mut world.policy.keys {
            key.lifetime = None;
        }
        for key in &mut world.keys {
            key.is_rolled_by_hand = false;
        }
        world.live_until(world.now + YEAR, &mut dice);
        prop_assert_eq!(world.keys.len(), world.policy.keys.len(), "{:#?}", world.keys);
        for wanted in &world.policy.keys {
            let is_there = world.keys.iter().any(|key| {
                (key.role, key.algorithm) == (wanted.role, wanted.algorithm)
                    && key.dnskey.phase == RecordPhase::Omnipresent
            });
            prop_assert!(is_there);
        }
        let entries = world.keys.iter().filter(|key| key.role.signs_keys());
        prop_assert_eq!(world.ds.current(), entries.map(|key| key.id).collect());
    }
}
