//! Tests dnstap against our own collector.

use super::*;
use nameward_stats::{Protocol, RingCapacities};
use std::io::Read;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::time::SystemTime;

const CONTENT: &[u8] = b"\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";
const LONG: Duration = Duration::from_secs(60);

/// The reading side of Frame Streams, written from the specification and not from our writer.
struct Collector(UnixStream);

impl Collector {
    fn accept(listener: &UnixListener) -> Self {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut collector = Collector(stream);
        assert_eq!(collector.control(), [&b"\0\0\0\x04"[..], CONTENT].concat());
        collector.send(&[&b"\0\0\0\x01"[..], CONTENT].concat());
        assert_eq!(collector.control(), [&b"\0\0\0\x02"[..], CONTENT].concat());
        collector
    }

    fn frame(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).unwrap();
        let mut data = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut data).unwrap();
        data
    }

    fn control(&mut self) -> Vec<u8> {
        assert_eq!(self.frame(), b"", "the escape before a control frame");
        self.frame()
    }

    fn send(&mut self, control: &[u8]) {
        let length = (control.len() as u32).to_be_bytes();
        let frame = [&[0; 4][..], &length, control].concat();
        self.0.write_all(&frame).unwrap();
    }
}

fn start(socket: &Path, waiting_octets_max: usize) -> (Dnstap, Arc<ExchangeTap>, Arc<Stats>) {
    let (tap, stats) = (Arc::default(), Stats::new(RingCapacities::default()));
    let options = DnstapOptions {
        socket: socket.into(),
        identity: "ns1".into(),
        version: "v".into(),
        has_queries: true,
        has_responses: true,
        waiting_octets_max,
    };
    (Dnstap::start(&tap, &stats, options).unwrap(), tap, stats)
}

fn pass(tap: &ExchangeTap, query: &[u8], reply: &[u8]) {
    tap.pass(&Exchange {
        protocol: Protocol::Udp,
        client: "192.0.2.1:300".parse().unwrap(),
        local: None,
        view: None,
        query: Some(query),
        reply: Some(reply),
        received: SystemTime::UNIX_EPOCH,
        replied: SystemTime::UNIX_EPOCH,
    });
}

fn wait_for(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LONG, "waited in vain");
        thread::sleep(Duration::from_millis(5));
    }
}

fn has(frame: &[u8], octets: &[u8]) -> bool {
    frame.windows(octets.len()).any(|window| window == octets)
}

#[test]
fn messages_reach_a_collector_that_disconnects_and_reconnects() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("tap.sock");
    let (dnstap, tap, stats) = start(&socket, 1 << 20);
    // No collector is connected yet: nothing is queued, and lost messages are counted.
    pass(&tap, b"early", b"early");
    assert_eq!(
        (dnstap.state().dropped, dnstap.state().is_connected),
        (2, false)
    );
    let listener = UnixListener::bind(&socket).unwrap();
    let mut collector = Collector::accept(&listener);
    wait_for(|| dnstap.state().is_connected);
    pass(&tap, b"question one", b"answer one");
    let (first, second) = (collector.frame(), collector.frame());
    assert!(
        has(&first, b"question one") && has(&first, b"ns1"),
        "{first:?}"
    );
    assert!(
        has(&second, b"answer one") && !has(&second, b"question"),
        "{second:?}"
    );
    // The collector disconnects: the next messages detect that, and the sender reconnects.
    drop(collector);
    let next = thread::spawn(move || (Collector::accept(&listener), listener));
    while !next.is_finished() {
        pass(&tap, b"lost", b"lost");
        thread::sleep(Duration::from_millis(5));
    }
    let (mut collector, _listener) = next.join().unwrap();
    wait_for(|| dnstap.state().is_connected);
    pass(&tap, b"question two", b"answer two");
    while !has(&collector.frame(), b"answer two") {}
    // At shutdown the collector gets a STOP frame after all messages.
    let ended = thread::spawn(move || dnstap.end());
    assert_eq!(collector.control(), b"\0\0\0\x03");
    collector.send(b"\0\0\0\x05");
    ended.join().unwrap();
    assert!(!tap.is_on());
    assert!(stats.snapshot().counter(Counter::DnstapDrops) >= 2);
}

#[test]
fn a_collector_that_does_not_read_loses_messages_and_costs_no_memory() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("tap.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let (dnstap, tap, _stats) = start(&socket, 100_000);
    let _collector = Collector::accept(&listener);
    wait_for(|| dnstap.state().is_connected);
    // More than the socket buffers can hold.
    let (query, reply) = ([b'q'; 1000], [b'r'; 1000]);
    for _ in 0..2000 {
        pass(&tap, &query, &reply);
        assert!(dnstap.shared.queued_octets.load(Ordering::Relaxed) <= 100_000 + 1200);
    }
    assert!(dnstap.state().dropped > 0, "{:?}", dnstap.state());
}

#[test]
fn a_peer_that_is_not_a_collector_is_disconnected() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("tap.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let (dnstap, _tap, _stats) = start(&socket, 1 << 20);
    for wrong in [
        &b"HTTP/1.0 400 Bad Request\r\n\r\n"[..],
        b"\0\0\0\0\xff\xff\xff\xff",
        b"\0\0\0\0\0\0\0\x04\0\0\0\x05",
        b"\0\0\0\0\0\0\0\x0d\0\0\0\x01\0\0\0\x01\0\0\0\x01x",
        b"",
    ] {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(wrong).unwrap();
        drop(stream);
        assert!(!dnstap.state().is_connected);
    }
}
