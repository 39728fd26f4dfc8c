//! Response rate limiting on every path of an answer over UDP. Each test first floods an account, so that its debt is
//! minutes long and nothing depends on how fast the test runs.

use std::sync::Arc;

use nameward_serve::rate_limit::{AnswerRates, RateLimitSettings, RateLimiter};
use nameward_stats::Ring;
use nameward_wire::{NameBuf, Type};

use crate::loopback::{Loopback, is_truncated, query, rcode, zone};

const ZONE: &str = "
@ 3600 SOA ns1 host 1 7200 3600 1209600 300
@ 3600 NS ns1
ns1 3600 A 192.0.2.1
www 60 A 192.0.2.2
mail 60 A 192.0.2.3
*.wild 60 TXT \"any\"
moved 60 DNAME elsewhere
sub 3600 NS ns.sub
ns.sub 3600 A 192.0.2.53
";
/// Queries of a flood: at one token a second, debt for minutes.
const FLOOD: usize = 300;

fn settings() -> RateLimitSettings {
    RateLimitSettings {
        rates: AnswerRates {
            responses: 1,
            nxdomains: 1,
            referrals: 1,
            errors: 1,
            all: 0,
        },
        slip: 1,
        window_seconds: 3600,
        ipv4_prefix: 24,
        ipv6_prefix: 56,
        table_size: 1024,
        ..RateLimitSettings::default()
    }
}

fn limit(server: &Loopback, settings: RateLimitSettings) {
    let limiter = RateLimiter::new(settings).map(Arc::new);
    server.shared.rate_limiter.store(limiter);
}

fn resident() -> Loopback {
    Loopback::start(vec![zone("example.", ZONE)], None)
}

/// Sends queries for the names that `name` returns, and waits until all of them were received.
fn flood(server: &Loopback, name: impl Fn(usize) -> String, qtype: Type) {
    let (socket, before) = (server.udp(), server.counter("udp-queries"));
    for n in 0..FLOOD {
        socket.send(&query(&name(n), qtype)).unwrap();
        // One batch after the other: a socket's buffer is finite.
        if n % 32 == 31 {
            server.wait_counter("udp-queries", before + n as u64 + 1);
        }
    }
    server.wait_counter("udp-queries", before + FLOOD as u64);
}

fn is_answered(server: &Loopback, name: &str, qtype: Type, over_tcp: bool) -> bool {
    let reply = server.exchange(&query(name, qtype), over_tcp);
    let records =
        u16::from_be_bytes([reply[6], reply[7]]) + u16::from_be_bytes([reply[8], reply[9]]);
    assert_eq!(records == 0, is_truncated(&reply), "{name}: {reply:?}");
    records > 0
}

#[test]
fn a_flooded_name_is_truncated_over_udp_and_answered_over_tcp() {
    let server = resident();
    limit(&server, settings());
    flood(&server, |_| "www.example.".into(), Type::A);
    assert!(!is_answered(&server, "WWW.example.", Type::A, false));
    assert!(is_answered(&server, "www.example.", Type::A, true));
    assert!(is_answered(&server, "mail.example.", Type::A, false));
    assert!(server.counter("rate-limit-slips") > 0);
    assert_eq!(server.counter("rate-limit-drops"), 0);
    let snapshot = server.shared.stats.snapshot();
    let entries = snapshot.ring(Ring::RemotesLimited).entries(&|_| None);
    assert_eq!(entries.last().map(String::as_str), Some("127.0.0.0/24"));
}

#[test]
fn random_names_share_one_rate_per_zone_whether_they_exist_or_not() {
    let server = resident();
    limit(&server, settings());
    for (below, qtype) in [
        ("example.", Type::A),
        ("wild.example.", Type::TXT),
        ("sub.example.", Type::A),
    ] {
        flood(&server, |n| format!("r{n}.{below}"), qtype);
        assert!(
            !is_answered(&server, &format!("new.{below}"), qtype, false),
            "{below}"
        );
        assert!(
            is_answered(&server, &format!("new.{below}"), qtype, true),
            "{below}"
        );
    }
    // Without the type, the answers of the wildcard share the same rate.
    assert!(!is_answered(&server, "other.wild.example.", Type::A, false));
    assert!(is_answered(&server, "www.example.", Type::A, false));
}

#[test]
fn errors_and_replies_to_malformed_packets_share_one_rate_and_are_dropped() {
    let server = resident();
    limit(&server, settings());
    flood(&server, |n| format!("r{n}.not-ours."), Type::A);
    let drops = server.counter("rate-limit-drops");
    assert!(drops > FLOOD as u64 / 2, "{drops}");
    assert_eq!(server.counter("rate-limit-slips"), 0);
    let mut cut = query("www.example.", Type::A);
    cut.truncate(20);
    server.udp().send(&cut).unwrap();
    server.wait_counter("rate-limit-drops", drops + 1);
    assert_eq!(
        rcode(&server.exchange(&query("r.not-ours.", Type::A), true)),
        5
    );
}

#[test]
fn looked_up_and_cached_answers_of_live_zones_are_limited() {
    let server = Loopback::start(vec![], Some(("example.", ZONE)));
    limit(&server, settings());
    flood(&server, |_| "www.example.".into(), Type::A);
    assert!(server.counter("packetcache-hit") > 0);
    assert!(!is_answered(&server, "www.example.", Type::A, false));
    assert!(is_answered(&server, "mail.example.", Type::A, false));
    // Each of these waits for a look-up, and its reply is sent later.
    flood(&server, |n| format!("r{n}.example."), Type::A);
    assert!(!is_answered(&server, "new.example.", Type::A, false));
    assert!(is_answered(&server, "new.example.", Type::A, true));
}

#[test]
fn log_only_sends_every_answer_and_counts_those_over_the_limit() {
    let server = resident();
    let dry = RateLimitSettings {
        log_only: true,
        ..settings()
    };
    limit(&server, dry);
    flood(&server, |_| "www.example.".into(), Type::A);
    assert!(is_answered(&server, "www.example.", Type::A, false));
    server.wait_counter("udp-answers", FLOOD as u64 + 1);
    assert!(server.counter("rate-limit-logged") > FLOOD as u64 / 2);
    assert_eq!(
        server.counter("rate-limit-drops") + server.counter("rate-limit-slips"),
        0
    );
}

#[test]
fn the_rate_of_a_zone_replaces_the_general_one() {
    let server = Loopback::start(vec![zone("example.", ZONE), zone("busy.", ZONE)], None);
    let busy: NameBuf = "busy.".parse().unwrap();
    let own = RateLimitSettings {
        zones: vec![(busy, 0)],
        ..settings()
    };
    limit(&server, own);
    for zone in ["example.", "busy."] {
        flood(&server, |n| format!("r{n}.{zone}"), Type::A);
    }
    assert!(!is_answered(&server, "new.example.", Type::A, false));
    assert!(is_answered(&server, "new.busy.", Type::A, false));
}
