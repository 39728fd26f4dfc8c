//! Queries that wait for look-ups: shared, limited, batched, cancelled.

use super::*;

#[test]
fn a_query_in_flight_is_looked_up_once() {
    let server = Server::start(uncached());
    server.source.hold();
    let socket = server.udp();
    for case in ["www.example.", "WWW.example.", "wWw.Example."] {
        for _ in 0..5 {
            socket.send(&query(case, 1)).unwrap();
        }
    }
    server.wait_counter("qsize-q", 15);
    server.wait_started(1);
    server.source.release();
    for _ in 0..15 {
        assert_eq!(answers(&receive(&socket)), 1);
    }
    server.wait_counter("qsize-q", 0);
    assert_eq!(server.source.started(), 1);
}

#[test]
fn too_many_waiting_queries_are_dropped_and_others_answered() {
    let settings = LiveSettings {
        overload_queue: 4,
        ..uncached()
    };
    let server = Server::start(settings);
    server.source.hold();
    let socket = server.udp();
    for i in 0..10 {
        socket.send(&query(&format!("n{i}.example."), 1)).unwrap();
    }
    server.wait_counter("overload-drops", 6);
    assert_eq!(server.counter("qsize-q"), 4);
    // Zones in memory are not affected.
    assert_eq!(answers(&server.exchange("a.resident.", 1)), 1);
    server.source.release();
    for _ in 0..4 {
        assert_eq!(rcode(&receive(&socket)), 3);
    }
}

#[test]
fn one_zone_cannot_use_up_all_lookups() {
    let settings = LiveSettings {
        lookups_per_zone: 2,
        ..uncached()
    };
    let server = Server::start(settings);
    server.source.hold();
    let socket = server.udp();
    for i in 0..5 {
        socket.send(&query(&format!("n{i}.example."), 1)).unwrap();
    }
    server.wait_counter("overload-drops", 3);
    socket.send(&query("www.other.", 1)).unwrap();
    server.wait_counter("qsize-q", 3);
    server.wait_started(3);
}

#[test]
fn one_client_that_floods_a_zone_leaves_slots_for_others() {
    let settings = LiveSettings {
        overload_queue: 100,
        lookups_per_zone: 40,
        client_percent: 25,
        ..uncached()
    };
    let server = Server::start(settings);
    server.source.hold();
    let flood = server.udp();
    for i in 0..60 {
        let name = format!("random{i}.example.");
        flood.send(&query(&name, 1)).unwrap();
    }
    server.wait_counter("client_share_refusals", 50);
    server.wait_counter("qsize-q", 10);
    let other = server.udp_from([127, 0, 0, 2]);
    for i in 0..10 {
        other.send(&query(&format!("n{i}.example."), 1)).unwrap();
    }
    server.wait_counter("qsize-q", 20);
    server.source.release();
    for _ in 0..10 {
        assert_eq!(rcode(&receive(&other)), 3);
    }
    server.wait_counter("qsize-q", 0);
    // The client has its slots back.
    flood.send(&query("random.example.", 1)).unwrap();
    server.wait_counter("client_share_refusals", 50);
    server.wait_counter("overload-drops", 50);
}

#[test]
fn a_query_that_waits_too_long_is_dropped_over_udp_and_fails_over_tcp() {
    let settings = LiveSettings {
        query_timeout: Duration::from_millis(100),
        ..uncached()
    };
    let server = Server::start(settings);
    server.source.hold();
    server.udp().send(&query("www.example.", 1)).unwrap();
    server.wait_counter("timedout-packets", 1);
    let reply = exchange_tcp(&server, &[query("ns1.example.", 1)]).remove(0);
    assert_eq!(rcode(&reply), 2);
    assert_eq!(server.counter("qsize-q"), 0);
}

#[test]
fn tcp_queries_are_answered_as_their_lookups_finish() {
    let server = Server::start(LiveSettings::for_tests());
    let mut packets = Vec::new();
    for i in 0..300u16 {
        let mut packet = query(&format!("n{i}.example."), 1);
        packet[..2].copy_from_slice(&i.to_be_bytes());
        packets.push(packet);
    }
    packets.push(query("a.resident.", 1));
    let replies = exchange_tcp(&server, &packets);
    assert_eq!(replies.len(), 301);
    let nxdomain = replies.iter().filter(|reply| rcode(reply) == 3).count();
    assert_eq!(nxdomain, 300);
    server.wait_counter("tcp-answers", 301);
}

#[test]
fn a_change_is_visible_in_the_next_answer_even_during_a_lookup() {
    let server = Server::start(LiveSettings::for_tests());
    let tail = |reply: Vec<u8>| reply[reply.len() - 1];
    assert_eq!(tail(server.exchange("www.example.", 1)), 80);
    assert_eq!(tail(server.exchange("www.example.", 1)), 80);
    server
        .source
        .set(0, &EXAMPLE.replace("192.0.2.80", "192.0.2.99"));
    server.handles[0].advance();
    assert_eq!(tail(server.exchange("www.example.", 1)), 99);

    // A look-up that started before the change does not answer a query received after it.
    server.source.hold();
    let early = server.udp();
    early.send(&query("ns1.example.", 1)).unwrap();
    server.wait_started(3);
    server
        .source
        .set(0, &EXAMPLE.replace("192.0.2.1\n", "192.0.2.55\n"));
    server.handles[0].advance();
    let late = server.udp();
    late.send(&query("ns1.example.", 1)).unwrap();
    server.wait_started(4);
    server.source.release();
    assert_eq!(tail(receive(&early)), 1);
    assert_eq!(tail(receive(&late)), 55);
    assert_eq!(tail(server.exchange("ns1.example.", 1)), 55);
}

#[test]
fn waiting_lookups_are_batched() {
    let server = Server::with(uncached(), Memory::with_batches(false), "127.0.0.1:0");
    server.source.hold();
    let socket = server.udp();
    socket.send(&query("www.example.", 1)).unwrap();
    server.wait_started(1);
    // These arrive while the only batch is in progress.
    for i in 0..40 {
        let qname = format!("n{i}.{}", ["example.", "other."][i % 2]);
        socket.send(&query(&qname, 1)).unwrap();
    }
    wait_until("questions", || server.counter("qsize-q") == 41);
    server.source.release();
    let mut rcodes = [0; 16];
    for _ in 0..41 {
        rcodes[usize::from(rcode(&receive(&socket)))] += 1;
    }
    assert_eq!((rcodes[0], rcodes[3]), (1, 40));
    assert_eq!(*server.source.sizes.lock().unwrap(), [1, 40]);
    server.wait_counter("udp-answers", 41);
    assert_eq!(server.counter("backend-queries"), 2);
}

#[test]
fn slow_lookups_leave_their_batch_and_endless_ones_fail() {
    for blocking in [false, true] {
        let server = Server::with(uncached(), Memory::with_batches(blocking), "127.0.0.1:0");
        assert_eq!(rcode(&server.exchange("alone.example.", 1)), 3);
        assert_eq!(server.source.started(), 1);
        assert_eq!(rcode(&server.exchange("never.example.", 1)), 2);
        assert_eq!(rcode(&server.exchange("www.example.", 1)), 0);
    }
}

#[test]
fn a_source_that_hangs_does_not_delay_others() {
    for blocking in [false, true] {
        let sources = [Memory::new(blocking), Memory::new(blocking)];
        let settings = LiveSettings {
            threads: 1,
            ..uncached()
        };
        let server = Server::with_sources(settings, sources, "127.0.0.1:0");
        server.source.hold();
        let socket = server.udp();
        for i in 0..10 {
            let packet = query(&format!("n{i}.example."), 1);
            socket.send(&packet).unwrap();
        }
        wait_until("questions", || server.counter("qsize-q") == 10);
        for _ in 0..20 {
            assert_eq!(answers(&server.exchange("www.other.", 1)), 1);
        }
    }
}

#[test]
fn queries_that_wait_for_one_source_use_no_slots_of_another() {
    let settings = LiveSettings {
        overload_queue: 4,
        ..uncached()
    };
    let sources = [Memory::new(false), Memory::new(false)];
    let server = Server::with_sources(settings, sources, "127.0.0.1:0");
    server.source.hold();
    let socket = server.udp();
    for i in 0..10 {
        let packet = query(&format!("n{i}.example."), 1);
        socket.send(&packet).unwrap();
    }
    server.wait_counter("overload-drops", 6);
    assert_eq!(answers(&server.exchange("www.other.", 1)), 1);
    assert_eq!(server.counter("overload-drops"), 6);
}

#[test]
fn a_lookup_without_waiting_queries_is_not_started() {
    for (blocking, batches) in [(true, 0), (true, 1), (false, 1)] {
        let settings = LiveSettings {
            threads: 1,
            stale_after: Duration::from_millis(50),
            query_timeout: Duration::from_millis(100),
            ..uncached()
        };
        let mut source = Memory::new(blocking);
        Arc::get_mut(&mut source).unwrap().batches = batches;
        let server = Server::with(settings, source, "127.0.0.1:0");
        server.source.hold();
        let socket = server.udp();
        socket.send(&query("first.example.", 1)).unwrap();
        server.wait_started(1);
        for i in 0..20 {
            let packet = query(&format!("n{i}.example."), 1);
            socket.send(&packet).unwrap();
        }
        server.wait_counter("timedout-packets", 21);
        server.source.release();
        // In the queue behind the cancelled look-ups.
        wait_until("an answer", || {
            let socket = server.udp();
            let timeout = Some(Duration::from_millis(200));
            socket.set_read_timeout(timeout).unwrap();
            socket.send(&query("www.example.", 1)).unwrap();
            socket.recv(&mut [0; 512]).is_ok()
        });
        let text = "look-ups started";
        assert!(
            server.source.started() < 10,
            "{text}: {}",
            server.source.started()
        );
    }
}

#[test]
fn a_waiting_query_is_one_latency_sample_and_a_dropped_packet_is_none() {
    for source in [Memory::new(true), Memory::new(false)] {
        let settings = LiveSettings {
            query_timeout: TIMEOUT,
            ..LiveSettings::for_tests()
        };
        let server = Server::with(settings, source, "127.0.0.1:0");
        server.source.hold();
        let (udp, mut tcp) = (server.udp(), TcpStream::connect(server.address).unwrap());
        // Packets without a header, and responses, are not answered.
        udp.send(b"short").unwrap();
        udp.send(b"\x12\x34\x80\x00\x00\x01\0\0\0\0\0\0\0\0\x01\0\x01")
            .unwrap();
        for n in 0..20 {
            udp.send(&query(&format!("h{n}.example."), 1)).unwrap();
        }
        let query = query("tcp.example.", 1);
        let framed = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
        tcp.write_all(&framed).unwrap();
        wait_until("all wait", || server.counter("qsize-q") == 21);
        let all_wait = Instant::now();
        wait_until("corrupt packets", || server.counter("corrupt-packets") == 2);
        let waited = all_wait.elapsed();
        server.source.release();
        (0..20).for_each(|_| drop(receive(&udp)));
        tcp.read_exact(&mut [0; 2]).unwrap();
        server.wait_counter("tcp-answers", 1);
        server.wait_counter("udp-answers", 20);
        let latencies = server.shared.stats.snapshot().answer_latencies();
        assert_eq!(latencies.count, 21);
        assert!(u128::from(latencies.sum) >= 21 * waited.as_nanos());
    }
}
