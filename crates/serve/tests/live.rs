//! Live zones through sockets, with a source whose look-ups the test holds, counts and fails.

mod loopback;

use loopback::{Loopback, PATIENCE, rcode, receive_datagram, zone};
use nameward_answer::{BackendFailure, Engine};
use nameward_serve::live::LiveSettings;
use nameward_serve::pipeline::ServingState;
use nameward_stats::{RingCapacities, Stats};
use nameward_testkit::wait_until;
use nameward_wire::NameBuf;
use nameward_zone::{
    BatchRound, Live, LiveSource, LookupBatch, LookupEnd, LookupError, LookupFuture, LookupRequest,
    Zone, ZonePart, ZoneTable,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

const EXAMPLE: &str = "
@ 3600 SOA ns1 host 1 7200 3600 1209600 300
@ 3600 NS ns1
ns1 3600 A 192.0.2.1
www 60 A 192.0.2.80
out 60 CNAME www.other.
back 60 CNAME to.other.
moved 60 DNAME elsewhere
www.elsewhere 60 A 192.0.2.9
many 60 TXT \"0123456789012345678901234567890123456789012345678901234567890123456789\"
";
const OTHER: &str = "
@ 3600 SOA ns1 host 1 7200 3600 1209600 300
@ 3600 NS ns1
ns1 3600 A 192.0.2.2
www 60 A 192.0.2.81
to 60 CNAME www.example.
";

fn name(text: &str) -> NameBuf {
    text.parse().unwrap()
}

/// A source that gives the whole zone as the part for any name.
struct Memory {
    texts: Mutex<Vec<(String, String)>>,
    /// Look-ups begun.
    begun: AtomicUsize,
    /// Each look-up takes one of these and keeps it.
    allowed: Semaphore,
    down: AtomicBool,
    blocking: bool,
    /// Batches at one time; 0: each look-up goes by itself.
    batches: usize,
    /// Look-ups of each batch that was begun.
    sizes: Mutex<Vec<usize>>,
}

impl Memory {
    fn new(blocking: bool) -> Arc<Self> {
        Arc::new(Memory {
            texts: Mutex::new(vec![
                ("example.".into(), EXAMPLE.into()),
                ("other.".into(), OTHER.into()),
            ]),
            begun: AtomicUsize::new(0),
            allowed: Semaphore::new(1_000_000),
            down: AtomicBool::new(false),
            blocking,
            batches: 0,
            sizes: Mutex::default(),
        })
    }

    /// One that takes one batch at a time.
    fn with_batches(blocking: bool) -> Arc<Self> {
        let mut memory = Memory::new(blocking);
        Arc::get_mut(&mut memory).unwrap().batches = 1;
        memory
    }

    fn hold(&self) {
        self.allowed.forget_permits(usize::MAX >> 4);
    }

    fn release(&self) {
        self.allowed.add_permits(1_000_000);
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    fn set(&self, index: usize, text: &str) {
        self.texts.lock().unwrap()[index].1 = text.into();
    }
}

impl LiveSource for Memory {
    fn lookup<'a>(&'a self, wanted: &'a LookupRequest) -> LookupFuture<'a> {
        Box::pin(async move {
            self.begun.fetch_add(1, Ordering::SeqCst);
            let (apex, text) = self.texts.lock().unwrap()[wanted.zone as usize].clone();
            self.allowed.acquire().await.unwrap().forget();
            let fail = |kind, reason: &str| {
                let reason = reason.into();
                Err(LookupError { kind, reason })
            };
            if self.down.load(Ordering::SeqCst) {
                return fail(BackendFailure::Unreachable, "down");
            }
            if wanted.name == name("broken.example.") {
                return fail(BackendFailure::BadData, "table records, id 7");
            }
            assert_ne!(wanted.name, name("bug.example."), "a bug on purpose");
            Ok(ZonePart {
                zone: Arc::new(zone(&apex, &text)),
                statements: 1,
                is_shared: false,
            })
        })
    }

    fn batches(&self) -> usize {
        self.batches
    }

    fn batch<'a>(&'a self, wanted: &[LookupRequest]) -> Option<Box<dyn LookupBatch + 'a>> {
        if self.batches == 0 {
            return None;
        }
        self.sizes.lock().unwrap().push(wanted.len());
        let open = wanted.iter().copied().enumerate().collect();
        Some(Box::new(MemoryBatch { source: self, open }))
    }

    fn is_blocking(&self) -> bool {
        self.blocking
    }

    fn is_up(&self) -> bool {
        !self.down.load(Ordering::SeqCst)
    }
}

/// Ends its look-ups in the first round, but for names with `alone` and `never` in front.
struct MemoryBatch<'s> {
    source: &'s Memory,
    open: Vec<(usize, LookupRequest)>,
}

impl LookupBatch for MemoryBatch<'_> {
    fn round<'a>(&'a mut self) -> Pin<Box<dyn Future<Output = BatchRound> + Send + 'a>> {
        Box::pin(async move {
            let (mut ended, mut never) = (Vec::new(), Vec::new());
            for (place, wanted) in self.open.drain(..) {
                let text = wanted.name.to_string();
                if text.starts_with("never") {
                    never.push((place, wanted));
                } else if text.starts_with("alone") {
                    ended.push((place, LookupEnd::Alone));
                } else {
                    let result = self.source.lookup(&wanted).await;
                    ended.push((place, LookupEnd::Done(result)));
                }
            }
            self.open = never;
            let statements = 1;
            BatchRound { ended, statements }
        })
    }
}

struct Server {
    loopback: Loopback,
    source: Arc<Memory>,
    lives: [Arc<Live>; 2],
}

impl Deref for Server {
    type Target = Loopback;

    fn deref(&self) -> &Loopback {
        &self.loopback
    }
}

impl Server {
    fn start(settings: LiveSettings) -> Server {
        Server::with(settings, Memory::new(false), "127.0.0.1:0")
    }

    fn with(settings: LiveSettings, source: Arc<Memory>, address: &str) -> Server {
        Server::with_sources(settings, [source.clone(), source], address)
    }

    /// The zone `example.` is in the first source, `other.` in the second.
    fn with_sources(settings: LiveSettings, sources: [Arc<Memory>; 2], address: &str) -> Server {
        let stats = Stats::new(RingCapacities::default());
        let shared = ServingState::with_live(Engine::default(), stats, settings);
        let add = |name, source: &Arc<Memory>| shared.live.add_source(name, source.clone());
        let first = add("first", &sources[0]);
        let second = match Arc::ptr_eq(&sources[0], &sources[1]) {
            true => first,
            false => add("second", &sources[1]),
        };
        let lives = [Live::new(first, 0), Live::new(second, 1)];
        let [source, _] = sources;
        let mut table = ZoneTable::default();
        for (live, apex) in lives.iter().zip(["example.", "other."]) {
            table.insert(Arc::new(Zone::stand_in(name(apex).as_name(), live.clone())));
        }
        table.insert(Arc::new(zone(
            "resident.",
            "@ 60 SOA a b 1 2 3 4 5\n@ 60 NS a\nin 60 CNAME www.example.\na 60 A 192.0.2.3\n",
        )));
        shared.zones.store(Arc::new(table));
        Server {
            loopback: Loopback::serve(shared, address),
            source,
            lives,
        }
    }

    fn ask(&self, qname: &str, qtype: u16) -> Vec<u8> {
        self.ask_packet(&question(qname, qtype))
    }

    fn ask_packet(&self, packet: &[u8]) -> Vec<u8> {
        self.loopback.ask(packet, false)
    }

    fn wait_begun(&self, count: usize) {
        wait_until("look-ups", || self.source.begun() == count);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.source.release();
    }
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    receive_datagram(socket).expect("a reply")
}

fn question(qname: &str, qtype: u16) -> Vec<u8> {
    let mut packet = b"\x12\x34\x01\x00\x00\x01\0\0\0\0\0\0".to_vec();
    packet.extend_from_slice(name(qname).as_name().as_wire());
    packet.extend_from_slice(&qtype.to_be_bytes());
    packet.extend_from_slice(&[0, 1]);
    packet
}

fn with_edns(mut packet: Vec<u8>, payload: u16, dnssec_ok: bool, options: &[u8]) -> Vec<u8> {
    packet[11] = 1;
    packet.extend_from_slice(&[0, 0, 41]);
    packet.extend_from_slice(&payload.to_be_bytes());
    packet.extend_from_slice(&[0, 0, if dnssec_ok { 0x80 } else { 0 }, 0]);
    packet.extend_from_slice(&(options.len() as u16).to_be_bytes());
    packet.extend_from_slice(options);
    packet
}

fn answers(reply: &[u8]) -> u16 {
    u16::from_be_bytes([reply[6], reply[7]])
}

fn uncached() -> LiveSettings {
    LiveSettings {
        packet_entries: 0,
        query_entries: 0,
        ..LiveSettings::for_tests()
    }
}

fn without_packet_cache() -> LiveSettings {
    LiveSettings {
        packet_entries: 0,
        ..LiveSettings::for_tests()
    }
}

#[test]
fn a_live_zone_answers_like_any_other() {
    for source in [Memory::new(false), Memory::new(true)] {
        let server = Server::with(LiveSettings::for_tests(), source, "127.0.0.1:0");
        // The first is looked up, the second is made of what was, the third is kept whole.
        for _ in 0..3 {
            let reply = server.ask("www.example.", 1);
            assert_eq!((rcode(&reply), answers(&reply)), (0, 1));
            assert_eq!(reply[reply.len() - 4..], [192, 0, 2, 80]);
            assert_eq!(rcode(&server.ask("missing.example.", 1)), 3);
        }
        assert_eq!(server.source.begun(), 2);
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
fn a_reply_leaves_a_wildcard_socket_from_the_address_that_was_asked() {
    let server = Server::with(LiveSettings::for_tests(), Memory::new(false), "0.0.0.0:0");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let asked: SocketAddr = format!("127.0.0.77:{}", server.address.port())
        .parse()
        .unwrap();
    socket.send_to(&question("www.example.", 1), asked).unwrap();
    let mut reply = [0; 512];
    let (_, from) = socket.recv_from(&mut reply).unwrap();
    assert_eq!(from, asked);
}

#[test]
fn chains_go_in_and_out_of_live_zones() {
    let server = Server::start(LiveSettings::for_tests());
    for _ in 0..2 {
        assert_eq!(answers(&server.ask("out.example.", 1)), 2);
        assert_eq!(answers(&server.ask("back.example.", 1)), 3);
        assert_eq!(answers(&server.ask("in.resident.", 1)), 2);
        assert_eq!(answers(&server.ask("www.moved.example.", 1)), 3);
    }
    // What depends on more than one zone is not kept whole.
    server.wait_counter("udp-answers", 8);
    assert_eq!(server.counter("packetcache-size"), 0);
}

#[test]
fn a_chain_that_ends_at_a_zone_that_is_not_ready_is_not_kept() {
    let server = Server::start(LiveSettings::for_tests());
    let offer = |zone: Zone| {
        let mut table = ZoneTable::clone(&server.shared.zones.load());
        table.insert(Arc::new(zone));
        server.shared.zones.store(Arc::new(table));
    };
    offer(Zone::not_ready(name("other.").as_name()));
    let reply = server.ask("out.example.", 1);
    assert_eq!((rcode(&reply), answers(&reply)), (0, 1));
    assert_eq!(rcode(&server.ask("www.other.", 1)), 2);
    server.wait_counter("servfail-packets", 1);
    assert_eq!(server.counter("ring-servfail-queries-size"), 1);
    offer(zone("other.", OTHER));
    assert_eq!(answers(&server.ask("out.example.", 1)), 2);
}

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
    assert_eq!(server.source.begun(), 1);
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

fn ask_tcp(server: &Server, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    for packet in packets {
        stream
            .write_all(&(packet.len() as u16).to_be_bytes())
            .unwrap();
        stream.write_all(packet).unwrap();
    }
    // Half-closed: the answers must come all the same.
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let mut replies = Vec::new();
    let mut rest = &all[..];
    while let Some((len, tail)) = rest.split_first_chunk::<2>() {
        let (reply, tail) = tail.split_at(u16::from_be_bytes(*len).into());
        replies.push(reply.to_vec());
        rest = tail;
    }
    replies
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
fn a_backend_that_is_down_fails_its_questions_and_only_those() {
    let server = Server::start(LiveSettings::for_tests());
    server.source.set_down(true);
    let reply = server.ask_packet(&with_edns(question("www.example.", 1), 1232, false, &[]));
    assert_eq!(rcode(&reply), 2);
    assert_eq!(reply[reply.len() - 2..], [0, 23], "Network Error");
    assert_eq!(answers(&server.ask("a.resident.", 1)), 1);
    server.wait_counter("servfail-packets", 1);
    assert_eq!(server.counter("ring-servfail-queries-size"), 1);
    server.source.set_down(false);
    assert_eq!(answers(&server.ask("www.example.", 1)), 1);
}

#[test]
fn data_that_cannot_be_used_fails_its_name_and_only_that() {
    let server = Server::start(LiveSettings::for_tests());
    let reply = server.ask_packet(&with_edns(question("broken.example.", 1), 1232, false, &[]));
    assert_eq!((rcode(&reply), &reply[reply.len() - 2..]), (2, &[0, 0][..]));
    assert_eq!(answers(&server.ask("www.example.", 1)), 1);
}

#[test]
fn a_bug_in_a_source_costs_one_answer() {
    for source in [Memory::new(false), Memory::new(true)] {
        let server = Server::with(uncached(), source, "127.0.0.1:0");
        for _ in 0..5 {
            server.udp().send(&question("bug.example.", 1)).unwrap();
        }
        // All of them: one that comes later would take the next question with it.
        server.wait_counter("udp-queries", 5);
        wait_until("look-up", || server.source.begun() > 0);
        server.wait_counter("qsize-q", 0);
        assert_eq!(answers(&server.ask("www.example.", 1)), 1);
    }
}

#[test]
fn what_is_out_of_date_is_served_only_while_the_backend_is_down() {
    let settings = LiveSettings {
        query_ttl: Duration::ZERO,
        ..without_packet_cache()
    };
    let server = Server::start(settings);
    assert_eq!(answers(&server.ask("www.example.", 1)), 1);
    assert_eq!(answers(&server.ask("www.example.", 1)), 1);
    assert_eq!(server.source.begun(), 2, "its time is over at once");
    server.source.set_down(true);
    assert_eq!(answers(&server.ask("www.example.", 1)), 1);
    assert_eq!(rcode(&server.ask("ns1.example.", 1)), 2, "never seen");
    // While one question tries the source, others do not wait for it.
    server.source.hold();
    let waiting = server.udp();
    waiting.send(&question("ns1.example.", 1)).unwrap();
    server.wait_counter("qsize-q", 1);
    assert_eq!(answers(&server.ask("www.example.", 1)), 1);
    // What is known to have changed is not served.
    server.lives[0].advance();
    server.source.release();
    assert_eq!(rcode(&server.ask("www.example.", 1)), 2);
}

#[test]
fn stale_answers_end_after_their_time() {
    let settings = LiveSettings {
        query_ttl: Duration::ZERO,
        stale_while_down: Duration::ZERO,
        ..without_packet_cache()
    };
    let server = Server::start(settings);
    assert_eq!(answers(&server.ask("www.example.", 1)), 1);
    server.source.set_down(true);
    assert_eq!(rcode(&server.ask("www.example.", 1)), 2);
}

#[test]
fn a_name_that_does_not_exist_has_its_own_time() {
    let settings = LiveSettings {
        negative_ttl: Duration::ZERO,
        ..without_packet_cache()
    };
    let server = Server::start(settings);
    for _ in 0..3 {
        server.ask("missing.example.", 1);
        server.ask("www.example.", 1);
    }
    assert_eq!(server.source.begun(), 4);
    server.wait_counter("query-cache-hit", 2);
}

#[test]
fn a_flush_forgets_the_names_it_is_for() {
    let server = Server::start(LiveSettings::for_tests());
    for _ in 0..2 {
        server.ask("www.example.", 1);
        server.ask("ns1.example.", 1);
    }
    server.wait_counter("query-cache-size", 2);
    server.wait_counter("packetcache-size", 2);
    let wanted = name("www.example.");
    assert_eq!(
        server.shared.live.flush(&|name| name == wanted.as_name()),
        2
    );
    server.ask("www.example.", 1);
    server.ask("ns1.example.", 1);
    assert_eq!(server.source.begun(), 3);
    // www.example. was just looked up again: the packet cache has it at the next question.
    assert_eq!(server.shared.live.flush(&|_| true), 3);
}

#[test]
fn a_cache_that_is_being_changed_is_passed_over_and_that_is_counted() {
    let server = Server::start(LiveSettings::for_tests());
    let counters = |names: [&str; 2]| names.map(|name| server.counter(name));
    let of_queries = ["deferred-cache-lookup", "deferred-cache-inserts"];
    let of_packets = [
        "deferred-packetcache-lookup",
        "deferred-packetcache-inserts",
    ];
    // The first question leaves its part in the query cache, the second the answer in the packet cache.
    server.ask("www.example.", 1);
    server.wait_counter("query-cache-size", 1);
    // A flush holds the part of the cache that it looks at: the question comes meanwhile.
    server.shared.live.flush(&|_| {
        assert_eq!(server.ask("www.example.", 1)[7], 1);
        false
    });
    wait_until("the query cache", || counters(of_queries) == [1, 1]);
    assert_eq!(counters(of_packets), [0, 0]);
    for _ in 0..2 {
        server.ask("www.example.", 1);
    }
    server.wait_counter("packetcache-size", 1);
    let looked_at = AtomicUsize::new(0);
    server.shared.live.flush(&|_| {
        // First the entry of the query cache, then that of the packet cache.
        if looked_at.fetch_add(1, Ordering::Relaxed) == 1 {
            assert_eq!(server.ask("www.example.", 1)[7], 1);
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
            let packet = question(qname, qtype);
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
                cached.ask_packet(packet),
                plain.ask_packet(packet),
                "{round} {packet:x?}"
            );
        }
        let streams = [packets.clone()].concat();
        assert_eq!(
            sorted(ask_tcp(&cached, &streams)),
            sorted(ask_tcp(&plain, &streams))
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
fn caches_stay_within_their_bounds() {
    let settings = LiveSettings {
        packet_entries: 64,
        query_entries: 64,
        ..LiveSettings::for_tests()
    };
    let server = Server::start(settings);
    let packets: Vec<_> = (0..600)
        .map(|i| question(&format!("n{i}.example."), 1))
        .collect();
    assert_eq!(ask_tcp(&server, &packets).len(), 600);
    assert!(server.counter("packetcache-size") <= 64);
    assert!(server.counter("query-cache-size") <= 64);
    assert!(server.counter("query-cache-size") > 0);
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
fn a_bug_costs_its_batch_and_not_those_after_it() {
    for blocking in [false, true] {
        // To print where the bug is may take longer than a question waits.
        let settings = LiveSettings {
            query_timeout: PATIENCE,
            ..uncached()
        };
        let server = Server::with(settings, Memory::with_batches(blocking), "127.0.0.1:0");
        let socket = server.udp();
        socket.send(&question("bug.example.", 1)).unwrap();
        server.wait_begun(1);
        wait_until("the end", || server.counter("qsize-q") == 0);
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
fn a_source_that_hangs_is_answered_for_with_stale_data_before_the_client_gives_up() {
    for blocking in [false, true] {
        let settings = LiveSettings {
            query_ttl: Duration::ZERO,
            stale_after: Duration::from_millis(50),
            // Longer than the test waits for any answer.
            query_timeout: 10 * PATIENCE,
            threads: 1,
            ..without_packet_cache()
        };
        let server = Server::with(settings, Memory::new(blocking), "127.0.0.1:0");
        for qname in ["www.example.", "ns1.example."] {
            assert_eq!(answers(&server.ask(qname, 1)), 1);
        }
        server.source.hold();
        for qname in ["www.example.", "ns1.example.", "www.example."] {
            assert_eq!(answers(&server.ask(qname, 1)), 1, "{qname}");
        }
        // Only the first one had to wait; others were not looked up at all.
        assert_eq!(server.source.begun(), 3);
        let socket = server.udp();
        socket.send(&question("never-seen.example.", 1)).unwrap();
        wait_until("a question", || server.counter("qsize-q") == 1);
        server.source.release();
        assert_eq!(rcode(&receive(&socket)), 3);
    }
}

#[test]
fn data_that_cannot_be_used_is_not_read_again_for_each_question() {
    let server = Server::start(LiveSettings::for_tests());
    for _ in 0..3 {
        let packet = with_edns(question("broken.example.", 1), 1232, false, &[]);
        let reply = server.ask_packet(&packet);
        assert_eq!((rcode(&reply), &reply[reply.len() - 2..]), (2, &[0, 0][..]));
    }
    assert_eq!(server.source.begun(), 1);
    server.wait_counter("servfail-packets", 3);
    // A change of the zone may have mended it.
    server.lives[0].advance();
    assert_eq!(rcode(&server.ask("broken.example.", 1)), 2);
    assert_eq!(server.source.begun(), 2);
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
fn a_question_with_a_cookie_comes_from_the_packet_cache() {
    let server = Server::start(LiveSettings::for_tests());
    let ask = |cookie: &[u8]| {
        let option = [b"\0\x0a\0\x08", cookie].concat();
        server.ask_packet(&with_edns(question("www.example.", 1), 1232, true, &option))
    };
    let first = ask(b"cookie-0");
    assert_eq!(answers(&first), 1);
    assert_eq!(ask(b"cookie-1"), first);
    // RFC 7873: no cookie is answered, so answers do not depend on them.
    assert_eq!(ask(b"cookie-2"), first);
    let without = with_edns(question("www.example.", 1), 1232, true, b"");
    assert_eq!(server.ask_packet(&without), first);
    server.wait_counter("udp-answers", 4);
    assert_eq!(server.counter("packetcache-hit"), 2);
    assert_eq!(server.counter("packetcache-miss"), 2);
    assert_eq!(server.counter("udp-cookie-queries"), 3);
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
