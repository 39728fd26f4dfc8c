//! The packet cache and the query cache.

use super::*;

#[test]
fn a_name_that_does_not_exist_is_cached_for_the_negative_ttl() {
    let settings = LiveSettings {
        negative_ttl: Duration::ZERO,
        ..without_packet_cache()
    };
    let server = Server::start(settings);
    for _ in 0..3 {
        server.exchange("missing.example.", 1);
        server.exchange("www.example.", 1);
    }
    assert_eq!(server.source.started(), 4);
    server.wait_counter("query-cache-hit", 2);
}

#[test]
fn a_flush_removes_the_requested_names() {
    let server = Server::start(LiveSettings::for_tests());
    for _ in 0..2 {
        server.exchange("www.example.", 1);
        server.exchange("ns1.example.", 1);
    }
    server.wait_counter("query-cache-size", 2);
    server.wait_counter("packetcache-size", 2);
    let wanted = name("www.example.");
    assert_eq!(
        server.shared.live.flush(&|name| name == wanted.as_name()),
        2
    );
    server.exchange("www.example.", 1);
    server.exchange("ns1.example.", 1);
    assert_eq!(server.source.started(), 3);
    // www.example. was just looked up again: the next answer is stored in the packet cache.
    assert_eq!(server.shared.live.flush(&|_| true), 3);
}

#[test]
fn a_locked_cache_is_skipped_and_counted() {
    let server = Server::start(LiveSettings::for_tests());
    let counters = |names: [&str; 2]| names.map(|name| server.counter(name));
    let of_queries = ["deferred-cache-lookup", "deferred-cache-inserts"];
    let of_packets = [
        "deferred-packetcache-lookup",
        "deferred-packetcache-inserts",
    ];
    // The first query stores its fragment in the query cache, the second its answer in the packet cache.
    server.exchange("www.example.", 1);
    server.wait_counter("query-cache-size", 1);
    // A flush locks the shard that it examines; the query arrives in the meantime.
    server.shared.live.flush(&|_| {
        assert_eq!(server.exchange("www.example.", 1)[7], 1);
        false
    });
    wait_until("the query cache", || counters(of_queries) == [1, 1]);
    assert_eq!(counters(of_packets), [0, 0]);
    for _ in 0..2 {
        server.exchange("www.example.", 1);
    }
    server.wait_counter("packetcache-size", 1);
    let locked = AtomicUsize::new(0);
    server.shared.live.flush(&|_| {
        // First the entry of the query cache, then that of the packet cache.
        if locked.fetch_add(1, Ordering::Relaxed) == 1 {
            assert_eq!(server.exchange("www.example.", 1)[7], 1);
        }
        false
    });
    wait_until("the packet cache", || counters(of_packets) == [1, 1]);
    assert_eq!(counters(of_queries), [1, 1]);
}

#[test]
fn a_cached_answer_is_what_the_engine_would_write() {
    let cached = Server::start(LiveSettings::for_tests());
    let plain = Server::start(uncached());
    let names = [
        "www.example.",
        "WwW.eXample.",
        "many.example.",
        "nope.example.",
        "x.MOVED.example.",
        "example.",
    ];
    let mut packets: Vec<Vec<u8>> = Vec::new();
    for qname in names {
        for qtype in [1, 16, 2, 255] {
            let packet = query(qname, qtype);
            let mut checking = packet.clone();
            (checking[0], checking[2], checking[3]) = (0x77, 0, 0x10);
            let mut notify = packet.clone();
            notify[2] = 4 << 3;
            let mut chaos = packet.clone();
            let last = chaos.len() - 1;
            chaos[last] = 3;
            packets.push(with_edns(packet.clone(), 512, false, &[]));
            packets.push(with_edns(packet.clone(), 1232, true, &[]));
            packets.push(with_edns(packet.clone(), 4096, false, &[0, 3, 0, 0]));
            packets.push(with_edns(
                packet.clone(),
                1232,
                false,
                b"\0\x0a\0\x0812345678",
            ));
            let mut version = with_edns(packet.clone(), 1232, false, &[]);
            let at = packet.len() + 6;
            version[at] = 1;
            packets.extend([version, packet, checking, notify, chaos]);
        }
    }
    for round in 0..3 {
        for packet in &packets {
            assert_eq!(
                cached.exchange_packet(packet),
                plain.exchange_packet(packet),
                "{round} {packet:x?}"
            );
        }
        let streams = [packets.clone()].concat();
        assert_eq!(
            sorted(exchange_tcp(&cached, &streams)),
            sorted(exchange_tcp(&plain, &streams))
        );
    }
    assert!(cached.counter("packetcache-hit") > 100);
    assert_eq!(plain.counter("packetcache-hit"), 0);
}

fn sorted(mut replies: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    replies.sort();
    replies
}

#[test]
fn caches_stay_within_their_limits() {
    let settings = LiveSettings {
        packet_entries: 64,
        query_entries: 64,
        ..LiveSettings::for_tests()
    };
    let server = Server::start(settings);
    let packets: Vec<_> = (0..600)
        .map(|i| query(&format!("n{i}.example."), 1))
        .collect();
    assert_eq!(exchange_tcp(&server, &packets).len(), 600);
    assert!(server.counter("packetcache-size") <= 64);
    assert!(server.counter("query-cache-size") <= 64);
    assert!(server.counter("query-cache-size") > 0);
}

#[test]
fn a_query_with_a_cookie_is_answered_from_the_packet_cache() {
    let server = Server::start(LiveSettings::for_tests());
    let exchange = |cookie: &[u8]| {
        let option = [b"\0\x0a\0\x08", cookie].concat();
        server.exchange_packet(&with_edns(query("www.example.", 1), 1232, true, &option))
    };
    let first = exchange(b"cookie-0");
    assert_eq!(answers(&first), 1);
    assert_eq!(exchange(b"cookie-1"), first);
    // RFC 7873: this server does not answer cookies, so answers do not depend on them.
    assert_eq!(exchange(b"cookie-2"), first);
    let without = with_edns(query("www.example.", 1), 1232, true, b"");
    assert_eq!(server.exchange_packet(&without), first);
    server.wait_counter("udp-answers", 4);
    assert_eq!(server.counter("packetcache-hit"), 2);
    assert_eq!(server.counter("packetcache-miss"), 2);
    assert_eq!(server.counter("udp-cookie-queries"), 3);
}
