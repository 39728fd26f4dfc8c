//! DNS cookies on every path of an answer: from memory, from the packet cache, after a look-up, over TCP.

use std::sync::Arc;

use nameward_serve::cookies::{CookieSecret, CookieSettings, Cookies, TimedCookieSecret};
use nameward_serve::rate_limit::{AnswerRates, RateLimitSettings, RateLimiter};
use nameward_testkit::wait_until;
use nameward_wire::Type;

use crate::loopback::{Loopback, is_truncated, plain_query, query, rcode, zone};

/// The TXT record fits into 512 octets, but not together with a cookie.
fn text() -> String {
    let long = "x".repeat(220);
    format!(
        "@ 3600 SOA ns1 host 1 7200 3600 1209600 300\n@ 3600 NS ns1\nns1 3600 A 192.0.2.1\nwww 60 A 192.0.2.2\n\
         big 60 TXT \"{long}\" \"{long}\"\n"
    )
}

fn with_cookies(server: &Loopback, require: bool, require_above: u32) {
    let settings = CookieSettings {
        secrets: vec![TimedCookieSecret::always(CookieSecret::random())],
        require,
        require_above,
    };
    let cookies = Arc::new(Cookies::new(settings));
    server.shared.cookies.store(Some(cookies));
}

fn server(require: bool) -> Loopback {
    let server = Loopback::start(vec![zone("example.", &text())], Some(("live.", &text())));
    with_cookies(&server, require, 0);
    server
}

/// Returns a query with a COOKIE option and this UDP payload size.
fn with_cookie(name: &str, qtype: Type, cookie: &[u8], payload: u16) -> Vec<u8> {
    let mut packet = plain_query(name, qtype);
    packet[11] = 1;
    packet.extend_from_slice(&opt(cookie, payload));
    packet
}

fn opt(cookie: &[u8], payload: u16) -> Vec<u8> {
    let mut opt = vec![0, 0, 41];
    opt.extend_from_slice(&payload.to_be_bytes());
    opt.extend_from_slice(&[
        0,
        0,
        0,
        0,
        0,
        4 + cookie.len() as u8,
        0,
        10,
        0,
        cookie.len() as u8,
    ]);
    opt.extend_from_slice(cookie);
    opt
}

/// Returns the cookie at the end of a reply.
fn cookie_of(reply: &[u8]) -> &[u8] {
    let at = reply.len() - 28;
    assert_eq!(reply[at..at + 4], [0, 10, 0, 24], "{reply:?}");
    &reply[at + 4..]
}

fn extended_rcode(reply: &[u8], octets_of_opt: usize) -> u16 {
    let opt = reply.len() - octets_of_opt;
    u16::from(reply[opt + 5]) << 4 | u16::from(rcode(reply))
}

/// The OPT record with a cookie.
const OPT: usize = 11 + 28;
const BADCOOKIE: u16 = 23;

#[test]
fn a_client_gets_a_cookie_and_returns_it() {
    let server = server(false);
    for name in ["www.example.", "www.live."] {
        for over_tcp in [false, true] {
            // The third answer of a live zone is from the packet cache.
            for client in [*b"client-1", *b"client-2", *b"client-3"] {
                let reply = server.exchange(&with_cookie(name, Type::A, &client, 1232), over_tcp);
                let cookie = cookie_of(&reply);
                assert_eq!(cookie[..8], client, "{name}");
                assert_eq!(reply[7], 1, "an answer: {reply:?}");
                let before = server.counter("cookies-valid");
                let again = server.exchange(&with_cookie(name, Type::A, cookie, 1232), over_tcp);
                assert_eq!(cookie_of(&again), cookie);
                server.wait_counter("cookies-valid", before + 1);
            }
        }
        // Clients without a cookie get none, not even from the cache.
        let reply = server.exchange(&query(name, Type::A), false);
        assert_eq!(reply.len(), plain_query(name, Type::A).len() + 16 + 11);
    }
    assert!(server.counter("packetcache-hit") > 0);
    assert_eq!(server.counter("cookies-invalid"), 0);
}

#[test]
fn a_cookie_counts_against_the_size_of_the_reply() {
    let server = server(false);
    for name in ["big.example.", "big.live."] {
        for _ in 0..3 {
            let without = server.exchange(&plain_query(name, Type::TXT), false);
            assert!(
                !is_truncated(&without) && without.len() > 512 - 11 - 28,
                "{}",
                without.len()
            );
            let reply = server.exchange(&with_cookie(name, Type::TXT, b"01234567", 512), false);
            assert!(is_truncated(&reply) && reply.len() <= 512);
            assert_eq!(cookie_of(&reply)[..8], *b"01234567");
            let reply = server.exchange(&with_cookie(name, Type::TXT, b"01234567", 1232), false);
            assert!(!is_truncated(&reply));
        }
    }
}

#[test]
fn a_malformed_cookie_is_a_format_error() {
    let server = server(false);
    for len in [0, 1, 7, 9, 15, 41, 60] {
        for over_tcp in [false, true] {
            let query = with_cookie("www.example.", Type::A, &vec![1; len], 1232);
            assert_eq!(rcode(&server.exchange(&query, over_tcp)), 1, "{len}");
        }
    }
}

#[test]
fn required_cookies_are_handed_out_with_badcookie_and_clients_without_go_to_tcp() {
    let server = server(true);
    let plain = server.exchange(&query("www.example.", Type::A), false);
    assert!(is_truncated(&plain) && plain[7] == 0);
    assert_eq!(server.exchange(&query("www.example.", Type::A), true)[7], 1);
    let wrong = with_cookie("www.example.", Type::A, &[1; 24], 1232);
    let refused = server.exchange(&wrong, false);
    assert_eq!(extended_rcode(&refused, OPT), BADCOOKIE);
    let good = with_cookie("www.example.", Type::A, cookie_of(&refused), 1232);
    let reply = server.exchange(&good, false);
    assert_eq!((extended_rcode(&reply, OPT), reply[7]), (0, 1));
    assert_eq!(server.exchange(&wrong, true)[7], 1, "TCP needs no cookie");
    assert_eq!(server.counter("cookie-refusals"), 2);
    assert_eq!(server.counter("cookies-invalid"), 2);
}

#[test]
fn above_a_rate_only_clients_with_cookies_are_answered() {
    let server = server(false);
    with_cookies(&server, false, 1);
    let plain = query("www.example.", Type::A);
    assert!(!is_truncated(&server.exchange(&plain, false)));
    // Two queries in one second are above the rate; a slow machine may need some attempts to send two.
    wait_until("a query above the rate", || {
        is_truncated(&server.exchange(&plain, false))
    });
    let learnt = with_cookie("www.example.", Type::A, b"client-1", 1232);
    let cookie = server.exchange(&learnt, true);
    let valid = with_cookie("www.example.", Type::A, cookie_of(&cookie), 1232);
    for _ in 0..10 {
        assert_eq!(server.exchange(&valid, false)[7], 1, "a valid cookie");
    }
    assert!(server.counter("cookie-refusals") > 0);
}

#[test]
fn a_request_without_a_question_gets_a_cookie_only() {
    let server = server(false);
    for over_tcp in [false, true] {
        let exchange = |cookie: &[u8]| {
            let header = b"\x12\x34\0\0\0\0\0\0\0\0\0\x01";
            server.exchange(&[&header[..], &opt(cookie, 1232)].concat(), over_tcp)
        };
        let reply = exchange(b"01234567");
        assert_eq!(reply.len(), 12 + OPT);
        assert_eq!(extended_rcode(&reply, OPT), 0);
        assert_eq!(extended_rcode(&exchange(cookie_of(&reply)), OPT), 0);
        assert_eq!(extended_rcode(&exchange(&[9; 24]), OPT), BADCOOKIE);
    }
}

/// Lets the server send one answer and one error a second.
fn limit(server: &Loopback) {
    let limiter = RateLimiter::new(RateLimitSettings {
        rates: AnswerRates {
            responses: 1,
            errors: 1,
            ..AnswerRates::default()
        },
        slip: 1,
        window_seconds: 3600,
        ipv4_prefix: 24,
        ipv6_prefix: 56,
        table_size: 1024,
        ..RateLimitSettings::default()
    });
    server.shared.rate_limiter.store(limiter.map(Arc::new));
}

#[test]
fn replies_that_require_a_cookie_are_rate_limited_and_truncated_ones_have_one() {
    let server = server(true);
    limit(&server);
    // Enough debt for minutes, whatever the names are.
    for n in 0..300 {
        let name = format!("r{n}.example.");
        server.exchange(&with_cookie(&name, Type::A, b"01234567", 1232), false);
    }
    let limited = server.exchange(
        &with_cookie("www.example.", Type::A, b"01234567", 1232),
        false,
    );
    assert!(is_truncated(&limited));
    assert_eq!(extended_rcode(&limited, OPT), 0);
    let slips = server.counter("rate-limit-slips");
    assert!(slips > 100, "{slips}");
    let plain = server.exchange(&query("www.example.", Type::A), false);
    assert!(is_truncated(&plain));
    server.wait_counter("rate-limit-slips", slips + 1);
    let good = with_cookie("www.example.", Type::A, cookie_of(&limited), 1232);
    assert_eq!(server.exchange(&good, false)[7], 1);
}

#[test]
fn a_client_with_a_valid_cookie_is_not_rate_limited() {
    let server = server(false);
    limit(&server);
    for name in ["www.example.", "www.live."] {
        // Enough debt for minutes.
        for _ in 0..300 {
            server.exchange(&query(name, Type::A), false);
        }
        let limited = server.exchange(&with_cookie(name, Type::A, b"01234567", 1232), false);
        assert!(is_truncated(&limited));
        let cookie = cookie_of(&limited);
        let reply = server.exchange(&with_cookie(name, Type::A, cookie, 1232), false);
        assert!(!is_truncated(&reply), "{name}");
    }
}
