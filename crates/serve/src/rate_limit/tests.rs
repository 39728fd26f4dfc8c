//! Tests of the limiter: accounts, exemptions, slip.

use super::*;
use nameward_zone::{AccessEntry, AccessWord};

fn settings(rate: u32) -> RateLimitSettings {
    RateLimitSettings {
        rates: AnswerRates {
            responses: rate,
            nxdomains: rate,
            referrals: rate,
            errors: rate,
            all: 0,
        },
        slip: 2,
        window_seconds: 15,
        ipv4_prefix: 24,
        ipv6_prefix: 56,
        table_size: 1024,
        ..RateLimitSettings::default()
    }
}

fn account(class: AnswerClass, name: u64) -> Account {
    Account {
        class,
        name,
        zone: 7,
        version: 0,
    }
}

fn passed(limiter: &RateLimiter, client: &str, account: Account) -> usize {
    let client = client.parse().unwrap();
    (0..100)
        .filter(|_| limiter.charge(client, account, SECOND))
        .count()
}

#[test]
fn a_limiter_without_rates_does_not_exist() {
    assert!(RateLimiter::new(settings(0)).is_none());
}

#[test]
fn clients_of_one_prefix_share_a_bucket_and_others_do_not() {
    let limiter = RateLimiter::new(settings(5)).unwrap();
    let answer = account(AnswerClass::Answer, 1);
    assert_eq!(passed(&limiter, "192.0.2.1", answer), 5);
    assert_eq!(passed(&limiter, "192.0.2.200", answer), 0);
    assert_eq!(passed(&limiter, "::ffff:192.0.2.9", answer), 0);
    assert_eq!(passed(&limiter, "192.0.3.1", answer), 5);
    assert_eq!(passed(&limiter, "2001:db8:1:ff::1", answer), 5);
    assert_eq!(passed(&limiter, "2001:db8:1:1::1", answer), 0);
    assert_eq!(passed(&limiter, "2001:db8:1:100::1", answer), 5);
    assert_eq!(
        passed(&limiter, "192.0.2.1", account(AnswerClass::Answer, 2)),
        5
    );
    assert_eq!(
        passed(&limiter, "192.0.2.1", account(AnswerClass::NxDomain, 1)),
        5
    );
}

#[test]
fn the_rate_of_all_answers_limits_every_class_together() {
    let mut all = settings(5);
    all.rates.all = 8;
    let limiter = RateLimiter::new(all).unwrap();
    assert_eq!(
        passed(&limiter, "192.0.2.1", account(AnswerClass::Answer, 1)),
        5
    );
    // 100 answers were charged to the prefix, and all of them used up the rate of all answers.
    assert_eq!(
        passed(&limiter, "192.0.2.1", account(AnswerClass::Answer, 2)),
        0
    );
}

#[test]
fn a_zone_has_its_own_rate() {
    let name = NameBuf::from_text(b"example.org", Name::ROOT).unwrap();
    let key = NameKey::new(name.as_name());
    let version = NameBuf::zone_from_text("example.org..inside").unwrap();
    let mut own = settings(5);
    own.zones = vec![(name, 20), (version, 30)];
    let limiter = RateLimiter::new(own).unwrap();
    let of_zone = Account {
        zone: key.hash(key.labels()),
        ..account(AnswerClass::NxDomain, 3)
    };
    assert_eq!(passed(&limiter, "192.0.2.1", of_zone), 20);
    // A version for some views has its own, or that of the zone.
    let in_version = |version, name| Account {
        version,
        name,
        ..of_zone
    };
    let own = in_version(hash_of(version.as_name()), 5);
    assert_eq!(passed(&limiter, "192.0.2.1", own), 30);
    assert_eq!(passed(&limiter, "192.0.2.1", in_version(1, 6)), 20);
    assert_eq!(
        passed(&limiter, "192.0.2.1", account(AnswerClass::NxDomain, 4)),
        5
    );
}

#[test]
fn exempt_networks_and_keys_are_sent_everything() {
    let key = NameBuf::from_text(b"trusted.example.", Name::ROOT).unwrap();
    let mut exempt = settings(5);
    exempt.exempt = AccessList::new(&[
        AccessEntry::positive(AccessWord::Network("192.0.2.0".parse().unwrap(), 24)),
        AccessEntry::positive(AccessWord::Key(key)),
    ]);
    let limiter = RateLimiter::new(exempt).unwrap();
    let answer = account(AnswerClass::Answer, 1);
    let decide = |client: &str, key: Option<Name<'_>>| {
        limiter.decide(client.parse().unwrap(), key, answer, (1, SECOND))
    };
    assert_eq!(decide("192.0.2.1", None), OverLimit::Exempt);
    assert_ne!(decide("192.0.3.1", None), OverLimit::Exempt);
    assert_eq!(decide("192.0.3.1", Some(key.as_name())), OverLimit::Exempt);
    assert_eq!(limiter.limited().len(), 1);
}

#[test]
fn the_configured_share_of_limited_answers_slips_but_no_error() {
    for (slip, expected) in [(0, 0..=0), (1, 1000..=1000), (2, 400..=600), (10, 50..=150)] {
        let mut with_slip = settings(5);
        with_slip.slip = slip;
        let limiter = RateLimiter::new(with_slip).unwrap();
        let client = "192.0.2.1".parse().unwrap();
        let slipped = |account| {
            let decisions = (0..1000).map(|n| limiter.decide(client, None, account, (n, SECOND)));
            decisions.filter(|one| *one == OverLimit::Slip).count()
        };
        let number = slipped(account(AnswerClass::Answer, 1));
        assert!(expected.contains(&number), "slip {slip}: {number}");
        assert_eq!(slipped(Account::MALFORMED), 0);
    }
}

#[test]
fn log_only_sends_everything_and_lists_the_prefix() {
    let mut dry = settings(5);
    dry.log_only = true;
    let limiter = RateLimiter::new(dry).unwrap();
    let client = "192.0.2.1".parse().unwrap();
    let decision = limiter.decide(client, None, account(AnswerClass::Answer, 1), (1, SECOND));
    assert_eq!(decision, OverLimit::Logged);
    assert_eq!(
        limiter.limited()[0].network,
        "192.0.2.0".parse::<IpAddr>().unwrap()
    );
}
