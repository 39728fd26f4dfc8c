//! Prints what one query costs on the hot path, and what drawing from full rings costs.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use nameward_stats::{
    Answered, Outcome, Received, Ring, RingCapacities, Stamp, Stats, Timing, Transport,
};

/// Nanoseconds this thread has run: other work on the machine does not count.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ran = text.split_ascii_whitespace().next();
    ran.and_then(|ran| ran.parse().ok()).unwrap_or(0)
}

fn main() {
    const BATCH: u64 = 32;
    const ROUNDS: u64 = 200_000;
    let stats = Stats::new(RingCapacities::default());
    for outcome in [Outcome::Answer, Outcome::Unauth] {
        let mut recorder = stats.recorder();
        let start = cpu_ns();
        for round in 0..ROUNDS {
            for n in 0..BATCH {
                let client = IpAddr::V4(Ipv4Addr::from((round * BATCH + n) as u32));
                let received = Received {
                    transport: Transport::UDP4,
                    client,
                    qname: b"\x03www\x07example\x03org\0",
                    qtype: 1,
                    rd: true,
                    dnssec_ok: false,
                    cookie: false,
                };
                recorder.received(black_box(&received));
                recorder.zone_cache(true);
                let answered = Answered {
                    transport: Transport::UDP4,
                    client,
                    qname: received.qname,
                    qtype: 1,
                    bytes: 60,
                    rcode: 0,
                    outcome,
                };
                recorder.answered(black_box(&answered));
            }
            let timing = Timing {
                received: BATCH as u32,
                answered: BATCH as u32,
                receive_ns: Some(1000),
                answer_ns: 10_000,
                send_ns: Some(1000),
            };
            recorder.flush(Stamp(round), Some(timing));
        }
        let each = (cpu_ns() - start) as f64 / (ROUNDS * BATCH) as f64;
        println!("{outcome:?}: {each:.1} ns a query");
    }
    let start = Instant::now();
    let snapshot = stats.snapshot();
    println!("snapshot: {:?}", start.elapsed());
    for ring in Ring::ALL {
        let start = Instant::now();
        let ranking = snapshot.ring(ring).rank(10, &|_| None);
        println!(
            "{}: {} entries in {:?}",
            ring.name(),
            ranking.total,
            start.elapsed()
        );
    }
}
