//! Tests the target cache against a resolver that counts queries, with times that are passed in instead
//! of waited for.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicUsize, Ordering};

use nameward_answer::Engine;
use nameward_stats::{RingCapacities, Stats};
use nameward_wire::{NameBuf, Type};
use tokio::runtime::Runtime;

use super::*;
use crate::recursor::ResolverSettings;

/// TTL of each answer in seconds.
const TTL: u64 = 100;

/// A resolver that returns the number of the query as the last octet of an address.
struct CountingResolver {
    received: Arc<AtomicUsize>,
    /// Held by the test to stop answers from leaving.
    gate: Arc<Mutex<()>>,
}

fn start(runtime: &Runtime) -> (CountingResolver, Arc<AliasResolver>, Arc<ServingState>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let settings = ResolverSettings {
        addresses: vec![socket.local_addr().unwrap()],
        timeout: Duration::from_secs(60),
        randomize_case: true,
    };
    let counting = CountingResolver {
        received: Arc::default(),
        gate: Arc::default(),
    };
    let (received, gate) = (Arc::clone(&counting.received), Arc::clone(&counting.gate));
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((len, client)) = socket.recv_from(&mut buffer) {
            let number = received.fetch_add(1, Ordering::SeqCst) as u8;
            // All but the OPT record.
            let mut reply = buffer[..len - 11].to_vec();
            reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
            reply.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, TTL as u8, 0, 4]);
            reply.extend_from_slice(&[192, 0, 2, number]);
            let _open = gate.lock();
            let _ = socket.send_to(&reply, client);
        }
    });
    let shared = ServingState::new(Engine::default(), Stats::new(RingCapacities::default()));
    let resolvers = Arc::new(Resolvers::new(&settings));
    let aliases = AliasResolver::new(&shared, Some(resolvers), runtime.handle().clone());
    (counting, aliases, shared)
}

fn query() -> UpstreamMessage {
    let name: NameBuf = "target.elsewhere.test.".parse().unwrap();
    UpstreamMessage::new(name.as_name(), Type::A)
}

/// Returns the last octet of the cached address.
fn cached(aliases: &Arc<AliasResolver>, now: Instant) -> Option<u8> {
    match aliases.find(&query(), now) {
        TargetFound::Known(addresses) => addresses.records[0].last().copied(),
        TargetFound::Missing | TargetFound::Failed => None,
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    let became = (0..3000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        is_so()
    });
    assert!(became);
}

#[test]
fn a_target_that_is_queried_is_refreshed_before_it_expires_and_no_query_waits() {
    let runtime = Runtime::new().unwrap();
    let (resolver, aliases, _shared) = start(&runtime);
    let received = || resolver.received.load(Ordering::SeqCst);
    assert_eq!(cached(&aliases, Instant::now()), None);
    let first = runtime.block_on(aliases.resolve_now(&query())).unwrap();
    assert_eq!((first.records[0][3], received()), (0, 1));
    let kept = Instant::now();
    let after = |seconds: u64| kept + Duration::from_secs(seconds);

    // Well before expiry nothing is sent.
    assert_eq!(cached(&aliases, after(TTL / 2)), Some(0));
    // In the last quarter a single query is sent, and all clients are answered from the cache.
    let closed = resolver.gate.lock();
    for _ in 0..100 {
        assert_eq!(cached(&aliases, after(TTL * 3 / 4)), Some(0));
    }
    wait_until(|| received() == 2);
    assert_eq!(cached(&aliases, after(TTL * 9 / 10)), Some(0));
    assert_eq!(received(), 2);
    drop(closed);
    wait_until(|| cached(&aliases, Instant::now()) == Some(1));
    assert_eq!(received(), 2, "the TTL starts again");
    // No query arrived in the last quarter: the next one has to wait.
    assert_eq!(
        cached(&aliases, Instant::now() + Duration::from_secs(TTL)),
        None
    );
    assert_eq!(received(), 2);
}
