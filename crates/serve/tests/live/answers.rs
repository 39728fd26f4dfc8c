//! Answers of live zones, and chains in and out of them.

use super::*;

#[test]
fn a_live_zone_answers_like_a_zone_in_memory() {
    for source in [Memory::new(false), Memory::new(true)] {
        let server = Server::with(LiveSettings::for_tests(), source, "127.0.0.1:0");
        // The first is looked up, the second is built from the query cache, the third is from the packet cache.
        for _ in 0..3 {
            let reply = server.exchange("www.example.", 1);
            assert_eq!((rcode(&reply), answers(&reply)), (0, 1));
            assert_eq!(reply[reply.len() - 4..], [192, 0, 2, 80]);
            assert_eq!(rcode(&server.exchange("missing.example.", 1)), 3);
        }
        assert_eq!(server.source.started(), 2);
        server.wait_counter("udp-answers", 6);
        assert_eq!(server.counter("backend-queries"), 2);
        assert_eq!(server.counter("packetcache-hit"), 2);
        assert_eq!(server.counter("packetcache-miss"), 4);
        assert_eq!(server.counter("query-cache-hit"), 2);
        assert_eq!(server.counter("nxdomain-packets"), 3);
        assert_eq!(server.counter("zone-cache-hit"), 6);
        assert_eq!(server.counter("ring-nxdomain-queries-size"), 3);
    }
}

#[test]
fn a_late_reply_leaves_a_wildcard_socket_from_the_queried_address() {
    let server = Server::with(LiveSettings::for_tests(), Memory::new(false), "0.0.0.0:0");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let asked: SocketAddr = format!("127.0.0.77:{}", server.address.port())
        .parse()
        .unwrap();
    socket.send_to(&query("www.example.", 1), asked).unwrap();
    let mut reply = [0; 512];
    let (_, from) = socket.recv_from(&mut reply).unwrap();
    assert_eq!(from, asked);
}

#[test]
fn chains_lead_into_and_out_of_live_zones() {
    let server = Server::start(LiveSettings::for_tests());
    for _ in 0..2 {
        assert_eq!(answers(&server.exchange("out.example.", 1)), 2);
        assert_eq!(answers(&server.exchange("back.example.", 1)), 3);
        assert_eq!(answers(&server.exchange("in.resident.", 1)), 2);
        assert_eq!(answers(&server.exchange("www.moved.example.", 1)), 3);
    }
    // An answer from more than one zone is not in the packet cache.
    server.wait_counter("udp-answers", 8);
    assert_eq!(server.counter("packetcache-size"), 0);
}

#[test]
fn a_chain_that_ends_at_a_zone_that_is_not_ready_is_not_cached() {
    let server = Server::start(LiveSettings::for_tests());
    let offer = |zone: Zone| {
        let mut table = ZoneTable::clone(&server.shared.zones.load());
        table.insert(Arc::new(zone));
        server.shared.zones.store(Arc::new(table));
    };
    offer(Zone::not_ready(name("other.").as_name()));
    let reply = server.exchange("out.example.", 1);
    assert_eq!((rcode(&reply), answers(&reply)), (0, 1));
    assert_eq!(rcode(&server.exchange("www.other.", 1)), 2);
    server.wait_counter("servfail-packets", 1);
    assert_eq!(server.counter("ring-servfail-queries-size"), 1);
    offer(zone("other.", OTHER));
    assert_eq!(answers(&server.exchange("out.example.", 1)), 2);
}
