//! Tests of future steps as shown to the operator.

use super::*;

#[test]
fn the_next_step_is_shown_from_the_first_moment_and_a_key_without_a_ds_is_replaced_when_asked() {
    let life = Life::new(policy(&[(KeyRole::Combined, 13, 0)]));
    let zone = life.zone;
    let zone = zone.as_name();
    life.keeper().take_due_steps(zone, BEGIN).unwrap();
    let next = life.keeper().status(zone, BEGIN).unwrap().next.unwrap();
    assert_eq!(
        next.words,
        "key 1: DS submission (CDS and CDNSKEY published)"
    );
    let at = next.at.filter(|at| *at > BEGIN).unwrap();
    let readiness = life.keeper().ds_readiness(zone, BEGIN);
    assert_eq!(readiness, Ok(DsReadiness::At(at)));
    let (rolled, progress) = life.keeper().roll(zone, None, BEGIN + 60).unwrap();
    assert_eq!((rolled, progress.made), (vec![1], vec![2]));
    let next = life
        .keeper()
        .status(zone, BEGIN + 60)
        .unwrap()
        .next
        .unwrap();
    assert!(next.at.is_some() && !next.words.is_empty(), "{next:?}");
    // The second one waits for the first.
    let (rolled, progress) = life.keeper().roll(zone, None, BEGIN + 120).unwrap();
    assert_eq!((rolled, progress.made), (vec![2], vec![]));
    life.keeper().take_due_steps(zone, at + 10 * DAY).unwrap();
    let readiness = life.keeper().ds_readiness(zone, at + 10 * DAY);
    assert_eq!(readiness, Ok(DsReadiness::Ready));
}
