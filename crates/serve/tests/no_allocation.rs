//! A warmed worker answers without allocating.

use nameward_answer::Engine;
use nameward_serve::pipeline::{Shared, UdpPipeline};
use nameward_serve::udp::{Batch, BatchHandler, BatchTiming};
use nameward_stats::{Ring, RingCapacities, Stats};
use nameward_wire::NameBuf;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_zone::{ZoneBuilder, ZoneTable};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts the allocations of each thread, so that the test harness does not disturb.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
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

fn question(name: &str, qtype: u8, edns: bool) -> Vec<u8> {
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

#[test]
fn a_warmed_worker_answers_without_allocating() {
    let origin: NameBuf = "example.".parse().unwrap();
    let mut builder = ZoneBuilder::new(origin.as_name());
    let report = parse_bytes("zone", ZONE.as_bytes(), &Options::new(origin), &mut builder);
    assert!(!report.has_errors(), "{:?}", report.diagnostics);
    let mut zones = ZoneTable::default();
    zones.insert(Arc::new(builder.finish().0.unwrap()));
    // Rings grow piece by piece up to their capacity; a small one is full after the warm-up.
    let mut capacities = RingCapacities::default();
    capacities.set(Ring::RemotesUnauth, 1000);
    let shared = Shared::new(Engine::default(), Stats::new(capacities));
    shared.zones.store(Arc::new(zones));

    let client: SocketAddr = "192.0.2.200:4000".parse().unwrap();
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
        packets.extend([1, 15, 28].map(|qtype| question(name, qtype, i % 2 == 0)));
    }
    packets.push(b"short".to_vec());
    packets.push(vec![0; 40]);
    let datagrams: Vec<(&[u8], SocketAddr)> =
        packets.iter().map(|packet| (&packet[..], client)).collect();
    let mut batch = Batch::of(&datagrams);
    let mut pipeline = UdpPipeline::new(shared);
    let timing = BatchTiming {
        receive_ns: Some(1),
        answer_ns: 1,
        send_ns: 1,
    };
    for _ in 0..2000 {
        pipeline.handle(&mut batch);
        pipeline.sent(&batch, timing);
    }
    let before = ALLOCATIONS.with(Cell::get);
    for _ in 0..1000 {
        pipeline.handle(&mut batch);
        pipeline.sent(&batch, timing);
    }
    let allocated = ALLOCATIONS.with(Cell::get) - before;
    let answered = (0..batch.len())
        .filter(|&i| !batch.replied(i).is_empty())
        .count();
    assert_eq!(
        answered,
        batch.len() - 1,
        "all but the packet without a header"
    );
    assert_eq!(allocated, 0, "allocations in 1000 batches");
}
