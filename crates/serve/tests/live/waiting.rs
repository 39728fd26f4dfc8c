//! Questions that wait for look-ups: shared, bounded, batched, given up.

use super::*;

#[test]
fn the_same_question_in_flight_is_looked_up_once() {
    let server = Server::start(uncached());
    server.source.hold();
    let socket = server.udp();
    for case in ["www.example.", "WWW.example.", "wWw.Example."] {
        for _ in 0..5 {
            socket.send(&question(case, 1)).unwrap();
        }
    }
    server.wait_counter("qsize-q", 15);
    server.wait_begun(1);
    server.source.release();
    for _ in 0..15 {
        assert_eq!(answers(&receive(&socket)), 1);
    }
    server.wait_counter("qsize-q", 0);
    assert_eq!(server.source.begun(), 1);
}

#[test]
fn too_many_waiting_questions_are_dropped_and_others_answered() {
    let settings = LiveSettings {
        overload_queue: 4,
        ..uncached()
    };
    let server = Server::start(settings);
    server.source.hold();
    let socket = server.udp();
    for i in 0..10 {
        socket
            .send(&question(&format!("n{i}.example."), 1))
            .unwrap();
    }
    server.wait_counter("overload-drops", 6);
    assert_eq!(server.counter("qsize-q"), 4);
    // Zones in memory do not notice.
    assert_eq!(answers(&server.ask("a.resident.", 1)), 1);
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
        socket
            .send(&question(&format!("n{i}.example."), 1))
            .unwrap();
    }
    server.wait_counter("overload-drops", 3);
    socket.send(&question("www.other.", 1)).unwrap();
    server.wait_counter("qsize-q", 3);
    server.wait_begun(3);
}

#[test]
fn one_client_that_floods_a_zone_leaves_room_for_the_others() {
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
        flood.send(&question(&name, 1)).unwrap();
    }
    server.wait_counter("client_share_refusals", 50);
    server.wait_counter("qsize-q", 10);
    let other = server.udp_from([127, 0, 0, 2]);
    for i in 0..10 {
        other.send(&question(&format!("n{i}.example."), 1)).unwrap();
    }
    server.wait_counter("qsize-q", 20);
    server.source.release();
    for _ in 0..10 {
        assert_eq!(rcode(&receive(&other)), 3);
    }
    server.wait_counter("qsize-q", 0);
    // The client has its places back.
    flood.send(&question("random.example.", 1)).unwrap();
    server.wait_counter("client_share_refusals", 50);
    server.wait_counter("overload-drops", 50);
}

#[test]
fn a_question_that_waits_too_long_is_dropped_over_udp_and_fails_over_tcp() {
    let settings = LiveSettings {
        query_timeout: Duration::from_millis(100),
        ..uncached()
    };
    let server = Server::start(settings);
    server.source.hold();
    server.udp().send(&question("www.example.", 1)).unwrap();
    server.wait_counter("timedout-packets", 1);
    let reply = ask_tcp(&server, &[question("ns1.example.", 1)]).remove(0);
    assert_eq!(rcode(&reply), 2);
    assert_eq!(server.counter("qsize-q"), 0);
}

#[test]
fn tcp_questions_are_answered_as_their_lookups_end() {
    let server = Server::start(LiveSettings::for_tests());
    let mut packets = Vec::new();
    for i in 0..300u16 {
        let mut packet = question(&format!("n{i}.example."), 1);
        packet[..2].copy_from_slice(&i.to_be_bytes());
        packets.push(packet);
    }
    packets.push(question("a.resident.", 1));
    let replies = ask_tcp(&server, &packets);
    assert_eq!(replies.len(), 301);
    let nxdomain = replies.iter().filter(|reply| rcode(reply) == 3).count();
    assert_eq!(nxdomain, 300);
    server.wait_counter("tcp-answers", 301);
}

#[test]
fn a_change_is_seen_in_the_next_answer_even_with_a_lookup_under_way() {
    let server = Server::start(LiveSettings::for_tests());
    let tail = |reply: Vec<u8>| reply[reply.len() - 1];
    assert_eq!(tail(server.ask("www.example.", 1)), 80);
    assert_eq!(tail(server.ask("www.example.", 1)), 80);
    server
        .source
        .set(0, &EXAMPLE.replace("192.0.2.80", "192.0.2.99"));
    server.lives[0].advance();
    assert_eq!(tail(server.ask("www.example.", 1)), 99);

    // A look-up that began before the change does not serve a question that came after it.
    server.source.hold();
    let early = server.udp();
    early.send(&question("ns1.example.", 1)).unwrap();
    server.wait_begun(3);
    server
        .source
        .set(0, &EXAMPLE.replace("192.0.2.1\n", "192.0.2.55\n"));
    server.lives[0].advance();
    let late = server.udp();
    late.send(&question("ns1.example.", 1)).unwrap();
    server.wait_begun(4);
    server.source.release();
    assert_eq!(tail(receive(&early)), 1);
    assert_eq!(tail(receive(&late)), 55);
    assert_eq!(tail(server.ask("ns1.example.", 1)), 55);
}

#[test]
fn lookups_that_wait_go_together() {
    let server = Server::with(uncached(), Memory::with_batches(false), "127.0.0.1:0");
    server.source.hold();
    let socket = server.udp();
    socket.send(&question("www.example.", 1)).unwrap();
    server.wait_begun(1);
    // These come while the only batch is under way.
    for i in 0..40 {
        let qname = format!("n{i}.{}", ["example.", "other."][i % 2]);
        socket.send(&question(&qname, 1)).unwrap();
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
fn what_would_keep_a_batch_waiting_is_looked_up_alone_and_what_never_ends_fails() {
    for blocking in [false, true] {
        let server = Server::with(uncached(), Memory::with_batches(blocking), "127.0.0.1:0");
        assert_eq!(rcode(&server.ask("alone.example.", 1)), 3);
        assert_eq!(server.source.begun(), 1);
        assert_eq!(rcode(&server.ask("never.example.", 1)), 2);
        assert_eq!(rcode(&server.ask("www.example.", 1)), 0);
    }
}

#[test]
fn a_source_that_hangs_keeps_no_other_waiting() {
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
            let packet = question(&format!("n{i}.example."), 1);
            socket.send(&packet).unwrap();
        }
        wait_until("questions", || server.counter("qsize-q") == 10);
        for _ in 0..20 {
            assert_eq!(answers(&server.ask("www.other.", 1)), 1);
        }
    }
}

#[test]
fn the_questions_that_wait_for_one_source_take_no_room_from_another() {
    let settings = LiveSettings {
        overload_queue: 4,
        ..uncached()
    };
    let sources = [Memory::new(false), Memory::new(false)];
    let server = Server::with_sources(settings, sources, "127.0.0.1:0");
    server.source.hold();
    let socket = server.udp();
    for i in 0..10 {
        let packet = question(&format!("n{i}.example."), 1);
        socket.send(&packet).unwrap();
    }
    server.wait_counter("overload-drops", 6);
    assert_eq!(answers(&server.ask("www.other.", 1)), 1);
    assert_eq!(server.counter("overload-drops"), 6);
}

#[test]
fn a_look_up_for_which_nobody_waits_any_more_is_not_begun() {
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
        socket.send(&question("first.example.", 1)).unwrap();
        server.wait_begun(1);
        for i in 0..20 {
            let packet = question(&format!("n{i}.example."), 1);
            socket.send(&packet).unwrap();
        }
        server.wait_counter("timedout-packets", 21);
        server.source.release();
        // In the queue behind those that were given up.
        wait_until("an answer", || {
            let socket = server.udp();
            let patience = Some(Duration::from_millis(200));
            socket.set_read_timeout(patience).unwrap();
            socket.send(&question("www.example.", 1)).unwrap();
            socket.recv(&mut [0; 512]).is_ok()
        });
        let text = "look-ups begun";
        assert!(
            server.source.begun() < 10,
            "{text}: {}",
            server.source.begun()
        );
    }
}

#[test]
fn a_question_that_waits_is_one_sample_of_latency_and_a_dropped_packet_is_none() {
    for source in [Memory::new(true), Memory::new(false)] {
        let settings = LiveSettings {
            query_timeout: PATIENCE,
            ..LiveSettings::for_tests()
        };
        let server = Server::with(settings, source, "127.0.0.1:0");
        server.source.hold();
        let (udp, mut tcp) = (server.udp(), TcpStream::connect(server.address).unwrap());
        // Nobody answers packets without a header, and nobody answers responses.
        udp.send(b"short").unwrap();
        udp.send(b"\x12\x34\x80\x00\x00\x01\0\0\0\0\0\0\0\0\x01\0\x01")
            .unwrap();
        for n in 0..20 {
            udp.send(&question(&format!("h{n}.example."), 1)).unwrap();
        }
        let question = question("tcp.example.", 1);
        let framed = [&(question.len() as u16).to_be_bytes()[..], &question].concat();
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
