//! Pools and maps: weights, orders, failures, stickiness, clients.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use nameward_wire::Type;

use super::*;
use crate::Steering;
use crate::health::{CheckKind, ForcedHealth};

fn member(address: &str, weight: u32, order: u32) -> PoolMember {
    let address: IpAddr = address.parse().unwrap();
    PoolMember {
        address,
        weight,
        order,
        check: Some(HealthCheck {
            address: Some(address),
            kind: CheckKind::Port(80),
            source: None,
            timeout_ms: 1000,
            interval: 1,
            minimum_failures: 1,
            minimum_successes: 1,
        }),
    }
}

fn pool(name: &str, members: Vec<PoolMember>) -> PoolRule {
    PoolRule {
        name: name.to_owned(),
        members,
        answers: 1,
        is_sticky: false,
        all_down: AllDown::Serve,
    }
}

fn with(pools: Vec<PoolRule>, maps: Vec<MapRule>) -> Arc<Steering> {
    let steering = Arc::<Steering>::default();
    steering.set_pools(PoolRules { pools, maps });
    steering
}

/// Returns the addresses of an answer; `None` is SERVFAIL.
fn query(steering: &Steering, name: &str, client: &str) -> Option<Vec<String>> {
    let address: IpAddr = client.parse().unwrap();
    let prefix = if address.is_ipv4() { 32 } else { 128 };
    let prepared = steering.pools().prepared().load();
    let client = PoolClient { address, prefix };
    let choice = prepared.choose(name.as_bytes(), Type::A, client).unwrap();
    let text = |data: &[u8]| IpAddr::from(<[u8; 4]>::try_from(data).unwrap()).to_string();
    choice
        .records
        .map(|records| records.iter().map(text).collect())
}

fn down(steering: &Steering, address: &str) {
    assert!(steering.force(address.parse().unwrap(), ForcedHealth::Down) > 0);
}

#[test]
fn members_are_chosen_by_their_weights() {
    crate::random::seed(1);
    let members = vec![
        member("192.0.2.1", 1, 0),
        member("192.0.2.2", 3, 0),
        member("192.0.2.3", 0, 0),
    ];
    let steering = with(vec![pool("web", members)], Vec::new());
    let mut counts = HashMap::<String, u32>::new();
    for _ in 0..4000 {
        let answer = query(&steering, "web", "192.0.2.99").unwrap();
        assert_eq!(answer.len(), 1);
        *counts.entry(answer[0].clone()).or_default() += 1;
    }
    // 1000 expected, with a standard deviation of 27.
    assert!((900..1100).contains(&counts["192.0.2.1"]), "{counts:?}");
    assert_eq!(counts.len(), 2);
}

#[test]
fn a_higher_order_serves_while_no_lower_one_works() {
    let members = vec![member("192.0.2.1", 1, 0), member("192.0.2.2", 1, 1)];
    let steering = with(vec![pool("web", members)], Vec::new());
    assert_eq!(query(&steering, "web", "::1").unwrap(), ["192.0.2.1"]);
    down(&steering, "192.0.2.1");
    assert_eq!(query(&steering, "web", "::1").unwrap(), ["192.0.2.2"]);
    down(&steering, "192.0.2.2");
    // All are down: as if all worked.
    assert_eq!(query(&steering, "web", "::1").unwrap(), ["192.0.2.1"]);
}

#[test]
fn a_pool_without_working_members_answers_as_configured() {
    for (all_down, expected) in [
        (AllDown::Serve, Some(vec!["192.0.2.1".to_owned()])),
        (AllDown::Empty, Some(Vec::new())),
        (AllDown::Fail, None),
    ] {
        let mut rule = pool("web", vec![member("192.0.2.1", 1, 0)]);
        rule.all_down = all_down;
        let steering = with(vec![rule], Vec::new());
        down(&steering, "192.0.2.1");
        assert_eq!(query(&steering, "web", "::1"), expected, "{all_down:?}");
    }
}

#[test]
fn several_or_all_members_are_answered_at_once() {
    let members: Vec<_> = (1..=5)
        .map(|last| member(&format!("192.0.2.{last}"), 1, 0))
        .collect();
    let mut rule = pool("web", members);
    rule.answers = 0;
    let steering = with(vec![rule.clone()], Vec::new());
    assert_eq!(query(&steering, "web", "::1").unwrap().len(), 5);
    down(&steering, "192.0.2.3");
    assert_eq!(query(&steering, "web", "::1").unwrap().len(), 4);
    rule.answers = 2;
    let steering = with(vec![rule], Vec::new());
    assert_eq!(query(&steering, "web", "::1").unwrap().len(), 2);
}

#[test]
fn a_sticky_client_moves_only_if_its_member_fails() {
    let members: Vec<_> = (1..=4)
        .map(|last| member(&format!("192.0.2.{last}"), 1, 0))
        .collect();
    let mut rule = pool("web", members);
    rule.is_sticky = true;
    let steering = with(vec![rule], Vec::new());
    let clients: Vec<String> = (0..200).map(|n| format!("10.0.{}.{}", n % 7, n)).collect();
    let answers = || {
        let answer = |client: &String| query(&steering, "web", client).unwrap()[0].clone();
        clients.iter().map(answer).collect::<Vec<_>>()
    };
    let before = answers();
    assert_eq!(before, answers());
    down(&steering, "192.0.2.2");
    let moved = |(old, new): &(&String, &String)| old != new;
    let after = answers();
    let of_failed = before.iter().filter(|one| **one == "192.0.2.2").count();
    assert!(of_failed > 20, "{of_failed}");
    assert_eq!(before.iter().zip(&after).filter(moved).count(), of_failed);
}

#[test]
fn the_narrowest_network_decides_and_its_pools_fail_over() {
    let pools = vec![
        pool("one", vec![member("192.0.2.1", 1, 0)]),
        pool("two", vec![member("192.0.2.2", 1, 0)]),
        pool("other", vec![member("192.0.2.3", 1, 0)]),
    ];
    let entry = |network: &str, pools: &[&str]| MapEntry {
        networks: vec![network.parse().unwrap()],
        pools: pools.iter().map(|name| (*name).to_owned()).collect(),
        ..MapEntry::default()
    };
    let map = MapRule {
        name: "geo".to_owned(),
        entries: vec![
            entry("10.0.0.0/8", &["one", "two"]),
            entry("10.1.0.0/16", &["two"]),
        ],
        default: vec!["other".to_owned()],
    };
    let steering = with(pools, vec![map]);
    assert_eq!(query(&steering, "geo", "10.2.0.1").unwrap(), ["192.0.2.1"]);
    assert_eq!(query(&steering, "geo", "10.1.0.1").unwrap(), ["192.0.2.2"]);
    assert_eq!(query(&steering, "geo", "11.0.0.1").unwrap(), ["192.0.2.3"]);
    down(&steering, "192.0.2.1");
    assert_eq!(query(&steering, "geo", "10.2.0.1").unwrap(), ["192.0.2.2"]);
    let prepared = steering.pools().prepared().load();
    let unknown = PoolClient {
        address: "10.0.0.0".parse().unwrap(),
        prefix: 0,
    };
    let choice = prepared.choose(b"geo", Type::A, unknown).unwrap();
    assert_eq!(choice.records.unwrap().octets, [192, 0, 2, 3]);
    assert_eq!(choice.bits, 16);
    assert!(prepared.choose(b"nosuch", Type::A, unknown).is_none());
}

#[test]
fn only_a_plain_call_of_pool_is_read_without_an_interpreter() {
    let named = |code: &str| {
        let data = [&[0, 1, code.len() as u8], code.as_bytes()].concat();
        pool_name(&data).map(|(rtype, name)| (rtype, String::from_utf8_lossy(name).into_owned()))
    };
    let web = Some((Type::A, "web".to_owned()));
    for code in ["pool('web')", "pool(\"web\")", " pool ( 'web' ) "] {
        assert_eq!(named(code), web, "{code}");
    }
    for code in [
        "",
        "pool",
        "pool('')",
        "pool('web'",
        "pool('a')..'b'",
        "pools('web')",
        "pool(\"web')",
        ";return pool('web')",
    ] {
        assert_eq!(named(code), None, "{code}");
    }
    assert_eq!(pool_name(&[0, 1]), None);
    assert_eq!(pool_name(&[]), None);
}
