//! Backends that fail, hang or have bugs, and stale answers in the meantime.

use super::*;

#[test]
fn a_backend_that_is_down_fails_its_queries_and_no_others() {
    let server = Server::start(LiveSettings::for_tests());
    server.source.set_down(true);
    let reply = server.exchange_packet(&with_edns(query("www.example.", 1), 1232, false, &[]));
    assert_eq!(rcode(&reply), 2);
    assert_eq!(reply[reply.len() - 2..], [0, 23], "Network Error");
    assert_eq!(answers(&server.exchange("a.resident.", 1)), 1);
    server.wait_counter("servfail-packets", 1);
    assert_eq!(server.counter("ring-servfail-queries-size"), 1);
    server.source.set_down(false);
    assert_eq!(answers(&server.exchange("www.example.", 1)), 1);
}

#[test]
fn invalid_data_fails_its_name_and_no_other() {
    let server = Server::start(LiveSettings::for_tests());
    let reply = server.exchange_packet(&with_edns(query("broken.example.", 1), 1232, false, &[]));
    assert_eq!((rcode(&reply), &reply[reply.len() - 2..]), (2, &[0, 0][..]));
    assert_eq!(answers(&server.exchange("www.example.", 1)), 1);
}

#[test]
fn a_bug_in_a_source_costs_one_answer() {
    for source in [Memory::new(false), Memory::new(true)] {
        let server = Server::with(uncached(), source, "127.0.0.1:0");
        for _ in 0..5 {
            server.udp().send(&query("bug.example.", 1)).unwrap();
        }
        // All replies: a late one would be taken for the reply to the next query.
        server.wait_counter("udp-queries", 5);
        wait_until("look-up", || server.source.started() > 0);
        server.wait_counter("qsize-q", 0);
        assert_eq!(answers(&server.exchange("www.example.", 1)), 1);
    }
}

#[test]
fn stale_data_is_served_only_while_the_backend_is_down() {
    let settings = LiveSettings {
        query_ttl: Duration::ZERO,
        ..without_packet_cache()
    };
    let server = Server::start(settings);
    assert_eq!(answers(&server.exchange("www.example.", 1)), 1);
    assert_eq!(answers(&server.exchange("www.example.", 1)), 1);
    assert_eq!(server.source.started(), 2, "its time is over at once");
    server.source.set_down(true);
    assert_eq!(answers(&server.exchange("www.example.", 1)), 1);
    assert_eq!(rcode(&server.exchange("ns1.example.", 1)), 2, "never seen");
    // While one query tries the source, others do not wait for it.
    server.source.hold();
    let waiting = server.udp();
    waiting.send(&query("ns1.example.", 1)).unwrap();
    server.wait_counter("qsize-q", 1);
    assert_eq!(answers(&server.exchange("www.example.", 1)), 1);
    // Data that is known to have changed is not served.
    server.handles[0].advance();
    server.source.release();
    assert_eq!(rcode(&server.exchange("www.example.", 1)), 2);
}

#[test]
fn stale_answers_end_after_a_time_limit() {
    let settings = LiveSettings {
        query_ttl: Duration::ZERO,
        stale_while_down: Duration::ZERO,
        ..without_packet_cache()
    };
    let server = Server::start(settings);
    assert_eq!(answers(&server.exchange("www.example.", 1)), 1);
    server.source.set_down(true);
    assert_eq!(rcode(&server.exchange("www.example.", 1)), 2);
}

#[test]
fn a_panic_costs_its_batch_and_not_later_ones() {
    for blocking in [false, true] {
        // Printing a panic may take longer than a query waits.
        let settings = LiveSettings {
            query_timeout: TIMEOUT,
            ..uncached()
        };
        let server = Server::with(settings, Memory::with_batches(blocking), "127.0.0.1:0");
        let socket = server.udp();
        socket.send(&query("bug.example.", 1)).unwrap();
        server.wait_started(1);
        wait_until("the end", || server.counter("qsize-q") == 0);
        assert_eq!(rcode(&server.exchange("www.example.", 1)), 0);
    }
}

#[test]
fn stale_data_replaces_a_source_that_hangs_before_the_client_gives_up() {
    for blocking in [false, true] {
        let settings = LiveSettings {
            query_ttl: Duration::ZERO,
            stale_after: Duration::from_millis(50),
            // Longer than the test waits for any answer.
            query_timeout: 10 * TIMEOUT,
            threads: 1,
            ..without_packet_cache()
        };
        let server = Server::with(settings, Memory::new(blocking), "127.0.0.1:0");
        for qname in ["www.example.", "ns1.example."] {
            assert_eq!(answers(&server.exchange(qname, 1)), 1);
        }
        server.source.hold();
        for qname in ["www.example.", "ns1.example.", "www.example."] {
            assert_eq!(answers(&server.exchange(qname, 1)), 1, "{qname}");
        }
        // Only the first one had to wait; the others were not looked up at all.
        server.wait_started(3);
        let socket = server.udp();
        socket.send(&query("never-seen.example.", 1)).unwrap();
        wait_until("a question", || server.counter("qsize-q") == 1);
        server.source.release();
        assert_eq!(rcode(&receive(&socket)), 3);
    }
}

#[test]
fn invalid_data_is_not_read_again_for_each_query() {
    let server = Server::start(LiveSettings::for_tests());
    for _ in 0..3 {
        let packet = with_edns(query("broken.example.", 1), 1232, false, &[]);
        let reply = server.exchange_packet(&packet);
        assert_eq!((rcode(&reply), &reply[reply.len() - 2..]), (2, &[0, 0][..]));
    }
    assert_eq!(server.source.started(), 1);
    server.wait_counter("servfail-packets", 3);
    // A change of the zone may have fixed it.
    server.handles[0].advance();
    assert_eq!(rcode(&server.exchange("broken.example.", 1)), 2);
    assert_eq!(server.source.started(), 2);
}
