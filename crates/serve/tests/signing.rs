//! Signatures are generated outside the workers: the first query for a name waits; cached and unsigned answers do
//! not, and a flood of new names does not delay others.

use crate::loopback::{self, Loopback, TIMEOUT, is_truncated, receive_datagram};
use nameward_answer::Engine;
use nameward_dnssec::{KeyUse, Keys, SignatureCache, Signing, SigningKey, SigningPolicy};
use nameward_serve::live::LiveSettings;
use nameward_serve::pipeline::ServingState;
use nameward_stats::{RingCapacities, Stats};
use nameward_wire::NameBuf;
use nameward_zone::{Zone, ZoneTable};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

const RSA: &str = include_str!("rsa2048.private");
const ED25519: &str = "Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\n\
                       PrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n";
const RRSIG: [u8; 2] = [0, 46];

fn zone(apex: &str) -> Zone {
    let text = "@ 60 SOA ns host 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\nwww 60 A 192.0.2.2\n";
    loopback::zone(apex, text)
}

fn signed(apex: &str, key: &str, cache: &Arc<SignatureCache>) -> Zone {
    let mut zone = zone(apex);
    let usage = KeyUse::EVERYTHING;
    let keys = Keys::new(vec![SigningKey::read(key.as_bytes(), 257, usage).unwrap()]);
    let policy = Arc::new(SigningPolicy::default());
    let signing = Signing::new(zone.apex_name(), keys.into(), policy, cache.clone());
    zone.set_signing(Some(Arc::new(signing)));
    zone
}

/// A zone whose names are denied by an NSEC3 chain with this many iterations.
fn hashed(apex: &str, iterations: u16, cache: &Arc<SignatureCache>) -> Zone {
    let mut zone = zone(apex);
    let usage = KeyUse::EVERYTHING;
    let key = SigningKey::read(ED25519.as_bytes(), 257, usage).unwrap();
    let mut policy = SigningPolicy::default();
    let param = format!("1 0 {iterations} -");
    policy.take("NSEC3PARAM", &param).unwrap();
    let keys = Arc::new(Keys::new(vec![key]));
    let signing = Signing::new(zone.apex_name(), keys, Arc::new(policy), cache.clone());
    zone.set_resident_signing(Some(Arc::new(signing)));
    zone
}

struct Server(Loopback);

impl Deref for Server {
    type Target = Loopback;

    fn deref(&self) -> &Loopback {
        &self.0
    }
}

impl Server {
    /// Serves `rsa.`, `ed.`, the unsigned `plain.`, and `many.` and `few.` with NSEC3 iterations.
    fn start(settings: LiveSettings) -> Server {
        let stats = Stats::new(RingCapacities::default());
        let cache = settings.signatures.clone();
        let shared = ServingState::with_live(Engine::default(), stats, settings);
        let mut table = ZoneTable::default();
        table.insert(Arc::new(signed("rsa.", RSA, &cache)));
        table.insert(Arc::new(signed("ed.", ED25519, &cache)));
        table.insert(Arc::new(zone("plain.")));
        table.insert(Arc::new(hashed("many.", 100, &cache)));
        table.insert(Arc::new(hashed("few.", 10, &cache)));
        shared.zones.store(Arc::new(table));
        Server(Loopback::serve(shared, "127.0.0.1:0"))
    }

    fn exchange(&self, qname: &str) -> Vec<u8> {
        self.0.exchange(&query(qname, 7), false)
    }

    /// Queries over a new connection.
    fn exchange_tcp(&self, qname: &str) -> Vec<u8> {
        self.0.exchange(&query(qname, 7), true)
    }
}

/// A query for an address, with DO.
fn query(qname: &str, id: u16) -> Vec<u8> {
    let name: NameBuf = qname.parse().unwrap();
    let mut packet = b"\0\0\x01\x00\x00\x01\0\0\0\0\x00\x01".to_vec();
    packet[..2].copy_from_slice(&id.to_be_bytes());
    packet.extend_from_slice(name.as_name().as_wire());
    packet.extend_from_slice(b"\0\x01\0\x01\0\x00\x29\x10\x00\0\0\x80\0\0\0");
    packet
}

fn is_signed(reply: &[u8]) -> bool {
    let class_in = [RRSIG, [0, 1]].concat();
    reply.windows(4).any(|octets| octets == class_in)
}

fn rcode(reply: &[u8]) -> u8 {
    reply[3] & 15
}

#[test]
fn the_first_answer_waits_for_its_signatures_and_the_next_finds_them() {
    let server = Server::start(LiveSettings::for_tests());
    for (waits, zone) in ["rsa", "ed"].into_iter().enumerate() {
        let name = format!("www.{zone}.");
        let first = server.exchange(&name);
        assert!(is_signed(&first) && rcode(&first) == 0);
        server.wait_counter("signing-waits", 2 * waits as u64 + 1);
        assert_eq!(server.exchange(&name)[2..], first[2..], "{zone}: warm");
        assert_eq!(
            server.exchange_tcp(&name)[2..],
            first[2..],
            "{zone}: warm over TCP"
        );
        let cold = server.exchange_tcp(&format!("no.{zone}."));
        assert!(is_signed(&cold) && rcode(&cold) == 3);
        server.wait_counter("signing-waits", 2 * waits as u64 + 2);
    }
    assert_eq!(server.counter("signing-refusals"), 0);
    assert_eq!(server.counter("udp-answers"), server.counter("udp-queries"));
}

#[test]
fn clients_with_the_same_query_share_the_signatures() {
    let server = Server::start(LiveSettings::for_tests());
    let socket = server.udp();
    for id in 0..100 {
        socket.send(&query("www.rsa.", id)).unwrap();
    }
    for _ in 0..100 {
        assert!(is_signed(&receive_datagram(&socket).expect("an answer")));
    }
    server.wait_counter("udp-answers", 100);
    assert_eq!(server.counter("signatures"), 1);
}

/// The signing threads get next to no CPU time, so nearly all of the flood finds the queue full.
#[test]
fn a_flood_of_new_names_is_sent_to_tcp_and_delays_no_other_query() {
    let server = Server::start(LiveSettings {
        signing_queue: 32,
        signing_cpu_percent: 5,
        // The order of queries is tested, not how fast a busy machine signs.
        query_timeout: TIMEOUT,
        ..LiveSettings::for_tests()
    });
    assert!(is_signed(&server.exchange("www.ed.")));
    let flood = server.udp();
    flood.set_nonblocking(true).unwrap();
    let (mut truncated, mut whole) = (0u64, 0u64);
    let mut count = |reply: Vec<u8>| {
        if is_truncated(&reply) {
            truncated += 1
        } else {
            whole += 1
        }
    };
    const NAMES: u64 = 600;
    for n in 0..NAMES {
        flood.send(&query(&format!("n{n}.rsa."), n as u16)).unwrap();
        while let Some(reply) = receive_datagram(&flood) {
            count(reply);
        }
        if n % 20 == 0 {
            assert_eq!(rcode(&server.exchange("www.plain.")), 0);
            assert!(is_signed(&server.exchange("www.ed.")), "warm");
            assert_eq!(
                rcode(&server.exchange_tcp("www.plain.")),
                0,
                "a fresh client"
            );
        }
        // Few enough in flight for any socket buffer.
        if n % 50 == 49 {
            server.wait_counter("udp-queries", 1 + (n + 1) + 2 * (n / 20 + 1));
        }
    }
    // Another zone also gets its turn and its slots.
    assert!(is_signed(&server.exchange("ns.ed.")));
    let answered = |server: &Server| {
        server.counter("udp-answers") + server.counter("timedout-packets")
            == server.counter("udp-queries")
    };
    let start = Instant::now();
    while !answered(&server) {
        assert!(start.elapsed() < TIMEOUT);
        std::thread::sleep(Duration::from_millis(5));
        while let Some(reply) = receive_datagram(&flood) {
            count(reply);
        }
    }
    assert_eq!(
        server.counter("signing-refusals") + server.counter("signing-waits"),
        NAMES + 2
    );
    assert!(truncated > NAMES / 2, "{truncated} cut, {whole} whole");
    assert_eq!(server.counter("signing-queue"), 0);
}

#[test]
fn hashing_with_many_iterations_is_left_to_the_signing_threads() {
    let server = Server::start(LiveSettings::for_tests());
    let exchange = |prefix: &str, zone: &str| {
        for n in 0..20 {
            let reply = server.exchange(&format!("{prefix}{n}.{zone}."));
            assert!(
                rcode(&reply) == 3 && is_signed(&reply),
                "{prefix}{n}.{zone}"
            );
        }
    };
    let waits = || server.counter("signing-waits");
    // The first answers need the signatures of the chain.
    exchange("warm", "many");
    exchange("warm", "few");
    let before = waits();
    exchange("new", "many");
    server.wait_counter("signing-waits", before + 20);
    // Their hashes are cached by now, and a hash with few iterations costs no more than an answer.
    exchange("new", "many");
    exchange("new", "few");
    assert_eq!(waits(), before + 20);
}
