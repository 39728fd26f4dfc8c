//! The edns-tcp-keepalive option (RFC 7828) on every path of an answer: from memory, from the packet cache, after a
//! look-up, over UDP and TCP.

use nameward_wire::Type;

use crate::loopback::{Loopback, plain_query, rcode, receive, send, zone};

const ZONE: &str = "@ 3600 SOA ns1 host 1 7200 3600 1209600 300\n@ 3600 NS ns1\nns1 3600 A 192.0.2.1\n\
                    www 60 A 192.0.2.2\n";
/// The idle timeout of the server in the test, in units of 100 milliseconds.
const IDLE: u16 = 100;

fn server() -> Loopback {
    Loopback::start(vec![zone("example.", ZONE)], Some(("live.", ZONE)))
}

/// Returns a query with these EDNS options.
fn query(name: &str, options: &[u8]) -> Vec<u8> {
    let mut packet = plain_query(name, Type::A);
    packet[11] = 1;
    packet.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, options.len() as u8]);
    packet.extend_from_slice(options);
    packet
}

const KEEPALIVE: &[u8] = &[0, 11, 0, 0];
const WITH_VALUE: &[u8] = &[0, 11, 0, 2, 0, 50];
const COOKIE: &[u8] = b"\0\x0a\0\x08client-1";

/// Returns the timeout of an option in the last `end` octets of a reply.
fn timeout(reply: &[u8], end: usize) -> u16 {
    let option = &reply[reply.len() - end..][..6];
    assert_eq!(option[..4], [0, 11, 0, 2], "{reply:?}");
    u16::from_be_bytes([option[4], option[5]])
}

#[test]
fn the_idle_timeout_is_announced_to_clients_that_request_it_over_tcp() {
    let server = server();
    for name in ["www.example.", "www.live."] {
        // The third answer of a live zone is in the packet cache.
        for _ in 0..3 {
            let reply = server.exchange(&query(name, KEEPALIVE), true);
            assert_eq!((timeout(&reply, 6), reply[7]), (IDLE, 1), "{name}");
            let both = [KEEPALIVE, COOKIE].concat();
            let reply = server.exchange(&query(name, &both), true);
            assert_eq!(reply[7], 1);
            assert_eq!(reply.len(), query(name, &[]).len() + 16 + 6);
            let without = server.exchange(&query(name, &[]), true);
            assert_eq!(without.len(), query(name, &[]).len() + 16);
        }
    }
    assert!(server.counter("packetcache-hit") > 0);
}

#[test]
fn an_option_with_a_value_is_a_format_error_over_tcp_and_over_udp_every_option_is_ignored() {
    let server = server();
    for name in ["www.example.", "www.live.", "no.such.zone."] {
        assert_eq!(
            rcode(&server.exchange(&query(name, WITH_VALUE), true)),
            1,
            "{name}"
        );
    }
    for name in ["www.example.", "www.live."] {
        for options in [KEEPALIVE, WITH_VALUE] {
            let reply = server.exchange(&query(name, options), false);
            assert_eq!((rcode(&reply), reply[7]), (0, 1));
            assert_eq!(reply.len(), query(name, &[]).len() + 16, "no option");
        }
    }
}

#[test]
fn the_timeout_of_a_cached_answer_is_that_of_the_connection() {
    let server = server();
    let mut stream = server.tcp();
    let mut exchange = |options: &[u8]| {
        send(&mut stream, &query("www.live.", options));
        receive(&mut stream).expect("a reply")
    };
    for _ in 0..3 {
        assert_eq!(timeout(&exchange(KEEPALIVE), 6), IDLE);
    }
    // 2,000 connections of one client are allowed. With 1,500 open, half of the timeout is left.
    let others: Vec<_> = (0..1499).map(|_| server.tcp()).collect();
    server.wait_counter("open-tcp-connections", 1500);
    assert_eq!(timeout(&exchange(KEEPALIVE), 6), IDLE / 2);
    drop(others);
    server.wait_counter("open-tcp-connections", 1);
    assert_eq!(timeout(&exchange(KEEPALIVE), 6), IDLE);
}
