//! A warmed server answers without allocating: datagrams and streams, from memory and from the packet cache.

use nameward_answer::Engine;
use nameward_dnssec::{KeyUse, Keys, SignatureCache, Signing, SigningKey, SigningPolicy};
use nameward_serve::cookies::{CookieSecret, CookieSettings, Cookies, TimedCookieSecret};
use nameward_serve::live::{LiveSettings, start};
use nameward_serve::pipeline::{ServingState, TcpPipeline, UdpPipeline};
use nameward_serve::rate_limit::{AnswerRates, RateLimitSettings, RateLimiter};
use nameward_serve::udp::{
    BatchHandler, BatchTiming, DatagramBatch, UdpWorker, WorkerSwitch, spawn_workers,
};
use nameward_serve::{listen, tcp};
use nameward_stats::{Counter, Ring, RingCapacities, Stats};
use nameward_wire::NameBuf;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_zone::{
    LiveSource, LookupFuture, LookupRequest, Zone, ZoneBuilder, ZoneFragment, ZoneTable,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

thread_local! {
    /// Whether allocations of this thread count: those of the test harness and the client do not.
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

/// Settings as an operator might choose them.
fn tcp_settings() -> tcp::TcpSettings {
    let (idle_timeout, lifetime) = (Duration::from_secs(10), Duration::from_secs(600));
    tcp::TcpSettings::new(idle_timeout, lifetime, 20_000, Some(200))
}

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// Runs one test at a time, since all of them count in the same process.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts the allocations of the threads that answer.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IS_COUNTED.try_with(Cell::get).unwrap_or(false) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the allocations of answering threads while `run` runs on this thread, which is one of them if it
/// `answers`.
fn allocations(answers: bool, run: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    IS_COUNTED.set(answers);
    run();
    IS_COUNTED.set(false);
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

const ZONE: &str = "
@ 3600 SOA ns1 host 1 7200 3600 1209600 300
@ 3600 NS ns1
@ 3600 MX 10 mail
ns1 3600 A 192.0.2.1
mail 3600 AAAA 2001:db8::1
alias 60 CNAME www.other
*.wild 60 TXT \"a wildcard\"
moved 60 DNAME elsewhere
www.elsewhere 60 A 192.0.2.9
sub 3600 NS ns.sub
ns.sub 3600 A 192.0.2.53
";

fn query(name: &str, qtype: u8, edns: bool) -> Vec<u8> {
    let name: NameBuf = name.parse().unwrap();
    let mut packet = b"\x12\x34\x01\x00\x00\x01\0\0\0\0\x00\x00".to_vec();
    packet.extend_from_slice(name.as_name().as_wire());
    packet.extend_from_slice(&[0, qtype, 0, 1]);
    if edns {
        packet[11] = 1;
        packet.extend_from_slice(b"\0\x00\x29\x04\xd0\0\0\x80\0\0\0");
    }
    packet
}

fn zone(apex: &str, text: &str) -> Zone {
    let origin: NameBuf = apex.parse().unwrap();
    let mut builder = ZoneBuilder::new(origin.as_name());
    let report = parse_bytes("zone", text.as_bytes(), &Options::new(origin), &mut builder);
    assert!(!report.has_errors(), "{:?}", report.diagnostics);
    builder.finish().0.unwrap()
}

fn stats() -> Arc<Stats> {
    // Rings grow in steps up to their capacity; small ones are full after the warm-up.
    let mut capacities = RingCapacities::default();
    for ring in Ring::ALL {
        capacities.set(ring, 100);
    }
    Stats::new(capacities)
}

fn in_memory() -> Arc<ServingState> {
    let mut zones = ZoneTable::default();
    zones.insert(Arc::new(zone("example.", ZONE)));
    let shared = ServingState::new(Engine::default(), stats());
    shared.zones.store(Arc::new(zones));
    shared
}

/// Queries of every kind for the zone in memory.
fn queries() -> Vec<Vec<u8>> {
    let names = [
        "example.",
        "ns1.example.",
        "alias.example.",
        "x.wild.example.",
        "www.moved.example.",
        "www.sub.example.",
        "missing.example.",
        "elsewhere.example.",
        "not-ours.test.",
    ];
    let mut packets: Vec<Vec<u8>> = Vec::new();
    for (i, name) in names.iter().enumerate() {
        packets.extend([1, 15, 28].map(|qtype| query(name, qtype, i % 2 == 0)));
    }
    packets
}

fn batch(packets: &[Vec<u8>]) -> DatagramBatch {
    let client: SocketAddr = "192.0.2.200:4000".parse().unwrap();
    let datagrams: Vec<(&[u8], SocketAddr)> =
        packets.iter().map(|packet| (&packet[..], client)).collect();
    DatagramBatch::from_datagrams(&datagrams)
}

fn answer_again(pipeline: &mut UdpPipeline, batch: &mut DatagramBatch, times: usize) {
    let timing = BatchTiming {
        receive_ns: Some(1),
        answer_ns: 1,
        send_ns: 1,
    };
    for _ in 0..times {
        pipeline.handle(batch);
        pipeline.sent(batch, timing);
    }
}

fn answered(batch: &DatagramBatch) -> usize {
    let replies = (0..batch.len()).map(|i| batch.replied(i));
    replies.filter(|reply| !reply.is_empty()).count()
}

#[test]
fn a_warmed_worker_answers_without_allocating() {
    let _alone = alone();
    let mut packets = queries();
    packets.push(b"short".to_vec());
    packets.push(vec![0; 40]);
    for length in [8, 24] {
        // With an invalid cookie, so that a new one is generated.
        let mut with_cookie = query("ns1.example.", 1, true);
        let start = with_cookie.len() - 1;
        with_cookie[start] = 4 + length;
        with_cookie.extend_from_slice(&[0, 10, 0, length]);
        with_cookie.extend_from_slice(&[1; 24][..length.into()]);
        packets.push(with_cookie);
    }
    let mut batch = batch(&packets);
    let shared = in_memory();
    shared.cookies.store(Some(cookies()));
    let mut pipeline = UdpPipeline::new(shared);
    answer_again(&mut pipeline, &mut batch, 2000);
    let allocated = allocations(true, || answer_again(&mut pipeline, &mut batch, 1000));
    let all_but_the_short_one = batch.len() - 1;
    assert_eq!(answered(&batch), all_but_the_short_one);
    assert_eq!(allocated, 0, "allocations in 1000 batches");
}

fn cookies() -> Arc<Cookies> {
    Arc::new(Cookies::new(CookieSettings {
        secrets: vec![
            TimedCookieSecret::always(CookieSecret::random()),
            TimedCookieSecret::accepted(CookieSecret::random()),
        ],
        require: false,
        require_above: 1_000_000_000,
    }))
}

/// A datagram from each of many networks.
fn spoofed(round: u32) -> DatagramBatch {
    let packet = query("www.missing.example.", 1, true);
    let clients: Vec<SocketAddr> = (0..30u32)
        .map(|n| {
            let address = (round * 30 + n).wrapping_mul(0x9e37_79b9);
            SocketAddr::from((address.to_be_bytes(), 4000))
        })
        .collect();
    let datagrams: Vec<_> = clients
        .iter()
        .map(|client| (&packet[..], *client))
        .collect();
    DatagramBatch::from_datagrams(&datagrams)
}

#[test]
fn a_flood_from_forged_networks_is_limited_without_allocating() {
    let _alone = alone();
    let shared = in_memory();
    let rates = AnswerRates {
        responses: 1,
        nxdomains: 1,
        referrals: 1,
        errors: 1,
        all: 1,
    };
    let settings = RateLimitSettings {
        rates,
        slip: 2,
        window_seconds: 15,
        ipv4_prefix: 24,
        ipv6_prefix: 56,
        table_size: 4096,
        ..RateLimitSettings::default()
    };
    let limiter = RateLimiter::new(settings).map(Arc::new);
    shared.rate_limiter.store(limiter);
    shared.cookies.store(Some(cookies()));
    let mut pipeline = UdpPipeline::new(shared.clone());
    let mut batches: Vec<_> = (0..2000).map(spoofed).collect();
    answer_again(&mut pipeline, &mut batch(&queries()), 2000);
    // Fills the ring of limited prefixes.
    for batch in &mut batches[..500] {
        answer_again(&mut pipeline, batch, 3);
    }
    let allocated = allocations(true, || {
        for batch in &mut batches {
            answer_again(&mut pipeline, batch, 3);
        }
    });
    let snapshot = shared.stats.snapshot();
    let limited = [Counter::RateLimitDrops, Counter::RateLimitSlips];
    let limited = limited.map(|counter| snapshot.counter(counter));
    assert!(limited.iter().all(|number| *number > 1000), "{limited:?}");
    assert_eq!(allocated, 0, "allocations for 6000 batches");
}

#[test]
fn a_warmed_connection_answers_without_allocating() {
    let _alone = alone();
    let shared = in_memory();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_start(|| IS_COUNTED.set(true))
        .enable_all()
        .build()
        .unwrap();
    let bound = listen::bind_all(&["127.0.0.1:0".parse::<SocketAddr>().unwrap()], 1).unwrap();
    let (_stop, stopping) = tokio::sync::watch::channel(false);
    let pipeline = Arc::new(TcpPipeline::new(&shared, 1));
    let settings = tcp_settings();
    runtime.spawn(tcp::serve(bound.tcp, pipeline, settings, stopping));
    let mut stream = TcpStream::connect(bound.addresses[0]).unwrap();
    let framed: Vec<Vec<u8>> = queries()
        .iter()
        .map(|packet| [&(packet.len() as u16).to_be_bytes()[..], packet].concat())
        .collect();
    let mut reply = [0; 4096];
    let mut exchange_again = |times: usize| {
        for packet in framed.iter().cycle().take(times) {
            stream.write_all(packet).unwrap();
            stream.read_exact(&mut reply[..2]).unwrap();
            let len = usize::from(u16::from_be_bytes([reply[0], reply[1]]));
            stream.read_exact(&mut reply[..len]).unwrap();
        }
    };
    exchange_again(5000);
    let allocated = allocations(false, || exchange_again(1000));
    assert_eq!(allocated, 0, "allocations for 1000 messages");
}

/// Ed25519 (RFC 8080 section 6.1).
const KEY: &[u8] = b"Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\n\
    PrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n";

/// Returns the whole zone as the fragment for any name, signed or not.
struct Memory {
    signing: Option<Arc<Signing>>,
}

impl LiveSource for Memory {
    fn lookup<'a>(&'a self, _: LookupRequest<'a>) -> LookupFuture<'a> {
        Box::pin(async {
            let mut zone = zone("example.", ZONE);
            zone.set_signing(self.signing.clone());
            Ok(ZoneFragment {
                zone: Arc::new(zone),
                statements: 1,
                is_shared: false,
            })
        })
    }

    fn is_blocking(&self) -> bool {
        false
    }

    fn is_up(&self) -> bool {
        true
    }
}

/// Sends every query twice through a socket, so that its answer is in the packet cache.
fn fill_cache(shared: &Arc<ServingState>, packets: &[Vec<u8>]) {
    let bound = listen::bind_all(&["127.0.0.1:0".parse::<SocketAddr>().unwrap()], 1).unwrap();
    let stop = Arc::<WorkerSwitch>::default();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(bound.addresses[0]).unwrap();
    let make = |_| UdpPipeline::new(shared.clone());
    let workers = spawn_workers(bound.udp, &stop, make).unwrap();
    for packet in packets.iter().chain(packets) {
        socket.send(packet).unwrap();
        socket.recv(&mut [0; 4096]).unwrap();
    }
    stop.stop();
    workers.into_iter().for_each(UdpWorker::join);
}

/// Returns the allocations for answers from the packet cache; each has at least `at_least` octets.
fn allocations_from_cache(signing: Option<Arc<Signing>>, at_least: usize) -> u64 {
    let _alone = alone();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let settings = LiveSettings {
        packet_ttl: Duration::from_secs(3600),
        ..LiveSettings::for_tests()
    };
    let shared = ServingState::with_live(Engine::default(), stats(), settings);
    let source = Arc::new(Memory { signing });
    let backend = shared.live.add_source("memory", source);
    let apex: NameBuf = "example.".parse().unwrap();
    let mut table = ZoneTable::default();
    table.insert(Arc::new(Zone::stub(apex.as_name(), backend, 1)));
    shared.zones.store(Arc::new(table));
    let _running = start(&shared, 2).unwrap();
    let names = [
        "example.",
        "ns1.example.",
        "missing.example.",
        "x.wild.example.",
    ];
    let packets: Vec<_> = names
        .iter()
        .flat_map(|name| [1, 2, 28].map(|qtype| query(name, qtype, true)))
        .collect();
    fill_cache(&shared, &packets);
    let mut batch = batch(&packets);
    let mut pipeline = UdpPipeline::new(shared.clone());
    answer_again(&mut pipeline, &mut batch, 2000);
    let hits = || shared.stats.snapshot().counter(Counter::PacketcacheHit);
    let before = hits();
    let allocated = allocations(true, || answer_again(&mut pipeline, &mut batch, 1000));
    assert_eq!(hits() - before, 1000 * packets.len() as u64);
    let shortest = (0..batch.len()).map(|i| batch.replied(i).len()).min();
    assert!(shortest >= Some(at_least), "{shortest:?}");
    allocated
}

#[test]
fn answers_from_the_packet_cache_are_given_without_allocating() {
    assert_eq!(allocations_from_cache(None, 50), 0);
}

/// The signing of the zone with one key.
fn signing() -> Arc<Signing> {
    let apex: NameBuf = "example.".parse().unwrap();
    let usage = KeyUse::EVERYTHING;
    let key = SigningKey::read(KEY, 257, usage).unwrap();
    let keys = Arc::new(Keys::new(vec![key]));
    let cache = Arc::new(SignatureCache::new(1000));
    let policy = Arc::new(SigningPolicy::default());
    Arc::new(Signing::new(apex.as_name(), keys, policy, cache))
}

#[test]
fn signed_answers_from_the_packet_cache_are_given_without_allocating() {
    // An Ed25519 signature alone has 64 octets.
    assert_eq!(allocations_from_cache(Some(signing()), 150), 0);
}

#[test]
fn answers_of_a_zone_in_memory_with_signatures_from_the_cache_are_given_without_allocating() {
    let mut signed = zone("example.", ZONE);
    signed.set_signing(Some(signing()));
    check_warm_answers(signed);
}

#[test]
fn answers_that_a_chain_proves_with_signatures_from_the_cache_are_given_without_allocating() {
    let mut signed = zone("example.", ZONE);
    signed.set_resident_signing(Some(signing()));
    check_warm_answers(signed);
}

fn check_warm_answers(signed: Zone) {
    let _alone = alone();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let shared = ServingState::with_live(Engine::default(), stats(), LiveSettings::for_tests());
    let mut table = ZoneTable::default();
    table.insert(Arc::new(signed));
    shared.zones.store(Arc::new(table));
    let _running = start(&shared, 2).unwrap();
    let names = [
        "example.",
        "ns1.example.",
        "x.wild.example.",
        "missing.example.",
    ];
    let packets: Vec<_> = names
        .iter()
        .flat_map(|name| [1, 2, 28].map(|qtype| query(name, qtype, true)))
        .collect();
    // The first answers wait for the signing thread.
    fill_cache(&shared, &packets);
    // A query that is spelled in another way is not a repeated one, whose reply is there already. Of four signatures that a
    // worker finds only in the shared cache, it keeps one: after a few spellings it has all.
    let mut batches: Vec<_> = (0..16)
        .map(|bits| batch(&spelled(&packets, bits)))
        .collect();
    let mut pipeline = UdpPipeline::new(shared.clone());
    let mut answer_all = |times| {
        for batch in &mut batches {
            answer_again(&mut pipeline, batch, times);
        }
    };
    answer_all(200);
    let allocated = allocations(true, || answer_all(100));
    for batch in &batches {
        let shortest = (0..batch.len()).map(|i| batch.replied(i).len()).min();
        assert!(shortest >= Some(150), "{shortest:?}");
    }
    assert_eq!(allocated, 0, "allocations in 1600 batches");
}

/// Returns queries with the letters of `example` in upper case where `bits` has a one.
fn spelled(packets: &[Vec<u8>], bits: u32) -> Vec<Vec<u8>> {
    let mut packets = packets.to_vec();
    for packet in &mut packets {
        let start = packet.windows(7).position(|octets| octets == b"example");
        let start = start.expect("every name ends with the zone");
        for (place, letter) in packet[start..start + 7].iter_mut().enumerate() {
            if bits >> place & 1 == 1 {
                letter.make_ascii_uppercase();
            }
        }
    }
    packets
}
