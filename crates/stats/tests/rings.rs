//! Rings and counters as a reader sees them: what enters, what is merged, and what holds while others write.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nameward_stats::{
    Answered, Counter, Latency, Outcome, Received, Recorder, Ring, RingCapacities, Snapshot, Stamp,
    Stats, Timing, Transport, VARIABLES, variable,
};
use proptest::prelude::*;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

fn stats() -> Arc<Stats> {
    Stats::new(RingCapacities::default())
}

fn address(n: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(n))
}

fn received(transport: Transport, client: IpAddr) -> Received<'static> {
    Received {
        transport,
        client,
        qname: b"\x03wWw\x07example\0",
        qtype: 28,
        rd: true,
        dnssec_ok: true,
        cookie: true,
    }
}

fn answered(outcome: Outcome, rcode: u8) -> Answered<'static> {
    Answered {
        transport: Transport::UDP6,
        client: CLIENT,
        qname: b"\x01a\x07example\0",
        qtype: 1,
        bytes: 100,
        rcode,
        outcome,
    }
}

fn value(snapshot: &Snapshot, name: &str) -> u64 {
    variable(name).expect("a variable").value(snapshot)
}

/// Returns the names of the types in these tests.
fn mnemonic(qtype: u16) -> Option<&'static str> {
    match qtype {
        1 => Some("A"),
        28 => Some("AAAA"),
        _ => None,
    }
}

fn entries(snapshot: &Snapshot, ring: Ring) -> Vec<String> {
    snapshot.ring(ring).entries(&mnemonic)
}

#[test]
fn a_udp_query_enters_both_rings_and_others_only_remotes() {
    let stats = stats();
    let mut recorder = stats.recorder();
    for transport in Transport::ALL {
        recorder.received(&received(transport, CLIENT));
    }
    recorder.flush(Stamp(1), None);
    let snapshot = stats.snapshot();
    assert_eq!(entries(&snapshot, Ring::Queries), ["wWw.example/AAAA"; 2]);
    assert_eq!(
        entries(&snapshot, Ring::Remotes),
        ["192.0.2.1"; Transport::ALL.len()]
    );
    for (name, expected) in [
        ("udp-queries", 2),
        ("udp4-queries", 1),
        ("udp6-queries", 1),
        ("tcp-queries", 2),
        ("tcp4-queries", 1),
        ("tcp6-queries", 1),
        ("tls-queries", 2),
        ("tls4-queries", 1),
        ("tls6-queries", 1),
        ("rd-queries", Transport::ALL.len() as u64),
        ("udp-do-queries", 2),
        ("udp-cookie-queries", 2),
        ("tcp-cookie-queries", 2),
        ("ring-queries-size", 2),
        ("ring-remotes-size", Transport::ALL.len() as u64),
        ("udp-answers", 0),
    ] {
        assert_eq!(value(&snapshot, name), expected, "{name}");
    }
}

#[test]
fn each_outcome_enters_its_ring_and_its_counter() {
    let stats = stats();
    let mut recorder = stats.recorder();
    for (outcome, rcode) in [
        (Outcome::Answer, 0),
        (Outcome::NoData, 0),
        (Outcome::NxDomain, 3),
        (Outcome::Unauth, 5),
        (Outcome::BackendFailure, 2),
        (Outcome::Referral, 0),
        (Outcome::Other, 4),
    ] {
        recorder.answered(&answered(outcome, rcode));
    }
    recorder.corrupt(CLIENT);
    recorder.response_dropped();
    recorder.flush(Stamp(1), None);
    let snapshot = stats.snapshot();
    for ring in [
        Ring::NoerrorQueries,
        Ring::NxdomainQueries,
        Ring::ServfailQueries,
        Ring::UnauthQueries,
    ] {
        assert_eq!(entries(&snapshot, ring), ["a.example/A"], "{}", ring.name());
    }
    assert_eq!(entries(&snapshot, Ring::RemotesUnauth), ["192.0.2.1"]);
    assert_eq!(entries(&snapshot, Ring::RemotesCorrupt), ["192.0.2.1"]);
    for (name, expected) in [
        ("noerror-packets", 3),
        ("nxdomain-packets", 1),
        ("servfail-packets", 1),
        ("unauth-packets", 1),
        ("corrupt-packets", 2),
        ("udp-answers", 7),
        ("udp6-answers", 7),
        ("udp6-answers-bytes", 700),
        ("udp-answers-bytes", 700),
    ] {
        assert_eq!(value(&snapshot, name), expected, "{name}");
    }
    let rcodes: Vec<_> = snapshot.answers_by_rcode().collect();
    assert_eq!(rcodes, [(0, 3), (2, 1), (3, 1), (4, 1), (5, 1)]);
    assert_eq!(
        snapshot.answers_by_type().collect::<Vec<_>>(),
        [(Some(1), 7)]
    );
    assert_eq!(snapshot.answer_sizes().sum, 700);
}

#[test]
fn an_ipv4_client_of_an_ipv6_socket_is_one_client() {
    let stats = stats();
    let mut recorder = stats.recorder();
    let mapped = IpAddr::V6(Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped());
    recorder.received(&received(Transport::UDP4, mapped));
    recorder.received(&received(Transport::UDP4, CLIENT));
    recorder.flush(Stamp(1), None);
    let ranking = stats.snapshot().ring(Ring::Remotes).rank(10, &mnemonic);
    assert_eq!(ranking.rows.len(), 1);
    assert_eq!(ranking.rows[0].count, 2);
}

#[test]
fn nothing_is_visible_before_the_flush_and_dropping_a_recorder_flushes() {
    let stats = stats();
    let mut recorder = stats.recorder();
    recorder.received(&received(Transport::UDP4, CLIENT));
    let snapshot = stats.snapshot();
    assert_eq!(value(&snapshot, "udp-queries"), 0);
    assert_eq!(value(&snapshot, "ring-queries-size"), 0);
    drop(recorder);
    let snapshot = stats.snapshot();
    assert_eq!(value(&snapshot, "udp-queries"), 1);
    assert_eq!(value(&snapshot, "ring-queries-size"), 1);
    // The next recorder takes the block over and counts on.
    let mut next = stats.recorder();
    next.received(&received(Transport::UDP4, CLIENT));
    next.flush(Stamp(2), None);
    assert_eq!(value(&stats.snapshot(), "udp-queries"), 2);
}

#[test]
fn a_ranking_lists_the_most_frequent_first_and_sums_the_rest() {
    let stats = stats();
    let mut recorder = stats.recorder();
    for n in 0..20u32 {
        for _ in 0..=n {
            recorder.received(&received(Transport::UDP4, address(n)));
        }
        recorder.flush(Stamp(u64::from(n)), None);
    }
    let snapshot = stats.snapshot();
    let ranking = snapshot.ring(Ring::Remotes).rank(10, &mnemonic);
    let counts: Vec<u64> = ranking.rows.iter().map(|row| row.count).collect();
    assert_eq!(counts, [20, 19, 18, 17, 16, 15, 14, 13, 12, 11]);
    assert_eq!(ranking.rows[0].entry, "0.0.0.19");
    assert_eq!(ranking.rest, Some(55));
    assert_eq!(ranking.total, 210);
    let all = snapshot.ring(Ring::Remotes).rank(20, &mnemonic);
    assert_eq!(all.rest, None);
    let empty = snapshot.ring(Ring::RemotesCorrupt).rank(10, &mnemonic);
    assert_eq!((empty.rows.len(), empty.rest, empty.total), (0, None, 0));
}

#[test]
fn a_batch_larger_than_the_buffers_is_kept_whole() {
    let stats = stats();
    let mut recorder = stats.recorder();
    let long = [&[63u8][..], &[b'x'; 63]].concat().repeat(3);
    let mut name = long;
    name.extend([61u8]);
    name.extend([b'y'; 61]);
    name.push(0);
    assert_eq!(name.len(), 255);
    for n in 0..1000u32 {
        recorder.received(&Received {
            qname: &name,
            ..received(Transport::UDP4, address(n))
        });
    }
    recorder.flush(Stamp(1), None);
    let snapshot = stats.snapshot();
    assert_eq!(snapshot.ring(Ring::Queries).size(), 100);
    let expected: Vec<String> = (0..1000).map(|n| address(n).to_string()).collect();
    assert_eq!(entries(&snapshot, Ring::Remotes), expected);
    assert!(entries(&snapshot, Ring::Queries)[0].len() > 250);
}

#[test]
fn log_messages_are_ranked_by_text_and_long_ones_are_cut_at_a_character() {
    let stats = stats();
    stats.log("again");
    stats.log(&"ä".repeat(5000));
    stats.log("again");
    let ranking = stats.snapshot().ring(Ring::Logmessages).rank(10, &mnemonic);
    assert_eq!(ranking.rows[0].entry, "again");
    assert_eq!(ranking.rows[0].count, 2);
    assert_eq!(ranking.rows[1].entry, "ä".repeat(1024));
    assert_eq!(ranking.total, 3);
}

#[test]
fn the_first_thousand_samples_are_averaged_plainly_and_later_ones_by_a_thousandth() {
    let stats = stats();
    let mut recorder = stats.recorder();
    let timing = |queries, answer_us: u64| Timing {
        received: queries,
        answered: queries,
        receive_ns: Some(u64::from(queries) * 3_000),
        answer_ns: answer_us * 1000,
        send_ns: Some(2_000),
    };
    recorder.flush(Stamp(1), Some(timing(1, 98)));
    assert_eq!(stats.snapshot().latency_us(Latency::Answer), 100);
    recorder.flush(Stamp(2), Some(timing(1, 198)));
    let snapshot = stats.snapshot();
    assert_eq!(snapshot.latency_us(Latency::Answer), 150);
    assert_eq!(snapshot.latency_us(Latency::Receive), 3);
    assert_eq!(snapshot.latency_us(Latency::Send), 2);
    for _ in 0..998 {
        recorder.flush(Stamp(3), Some(timing(1, 148)));
    }
    assert_eq!(stats.snapshot().latency_us(Latency::Answer), 150);
    recorder.flush(Stamp(4), Some(timing(1, 100_148)));
    assert_eq!(stats.snapshot().latency_us(Latency::Answer), 250);
    let histogram = stats.snapshot().answer_latencies();
    assert_eq!(histogram.count, 1001);
    assert_eq!(histogram.buckets.last().map(|b| b.1), Some(1001));
}

#[test]
fn only_what_was_answered_is_a_sample_of_latency() {
    let stats = stats();
    let mut recorder = stats.recorder();
    // Four came together: one was dropped, one is answered later, and the time of receipt was not measured.
    let batch = Timing {
        received: 4,
        answered: 2,
        receive_ns: None,
        answer_ns: 3_000,
        send_ns: Some(1_000),
    };
    recorder.flush(Stamp(1), Some(batch));
    recorder.answered_after(900_000_000);
    recorder.flush(Stamp(2), None);
    let snapshot = stats.snapshot();
    let latencies = snapshot.answer_latencies();
    assert_eq!(latencies.count, 3);
    assert_eq!(latencies.sum, 2 * 4_000 + 900_000_000);
    let up_to = |ns| latencies.buckets.iter().find(|b| b.0 == ns).unwrap().1;
    assert_eq!((up_to(4_000), up_to(262_144_000)), (2, 2));
    assert_eq!(up_to(1_048_576_000), 3);
    assert_eq!(snapshot.latency_us(Latency::Answer), 300_003);
    assert_eq!(snapshot.latency_us(Latency::Receive), 0);
    recorder.flush(
        Stamp(3),
        Some(Timing {
            received: 1,
            receive_ns: Some(7_000),
            ..Timing::default()
        }),
    );
    assert_eq!(stats.snapshot().latency_us(Latency::Receive), 7);
    assert_eq!(stats.snapshot().answer_latencies().count, 3);
}

#[test]
fn gauges_are_set_raised_or_computed() {
    use nameward_stats::Gauge;
    let stats = stats();
    stats.raise_gauge(Gauge::OpenTcpConnections, 3);
    stats.lower_gauge(Gauge::OpenTcpConnections, 1);
    stats.set_gauge(Gauge::SecurityStatus, 2);
    stats.gauge_from(Gauge::ZoneCacheSize, || 77);
    let snapshot = stats.snapshot();
    assert_eq!(value(&snapshot, "open-tcp-connections"), 2);
    assert_eq!(value(&snapshot, "security-status"), 2);
    assert_eq!(value(&snapshot, "zone-cache-size"), 77);
}

#[test]
fn shrinking_keeps_the_newest_and_growing_restores_nothing() {
    let stats = stats();
    let mut recorder = stats.recorder();
    for n in 0..50u32 {
        recorder.received(&received(Transport::UDP4, address(n)));
        recorder.flush(Stamp(u64::from(n)), None);
    }
    stats.resize_ring(Ring::Remotes, 3);
    let newest = ["0.0.0.47", "0.0.0.48", "0.0.0.49"];
    assert_eq!(entries(&stats.snapshot(), Ring::Remotes), newest);
    stats.resize_ring(Ring::Remotes, 1000);
    assert_eq!(entries(&stats.snapshot(), Ring::Remotes), newest);
    recorder.received(&received(Transport::UDP4, address(99)));
    recorder.flush(Stamp(99), None);
    assert_eq!(stats.snapshot().ring(Ring::Remotes).size(), 4);
    stats.reset_ring(Ring::Remotes);
    assert_eq!(stats.snapshot().ring(Ring::Remotes).size(), 0);
    stats.log("old");
    stats.reset_ring(Ring::Logmessages);
    stats.log("new");
    assert_eq!(entries(&stats.snapshot(), Ring::Logmessages), ["new"]);
}

#[test]
fn capacities_stay_within_their_limits() {
    let stats = stats();
    stats.resize_ring(Ring::Queries, 0);
    assert_eq!(stats.snapshot().ring(Ring::Queries).capacity(), 1);
    stats.resize_ring(Ring::Queries, usize::MAX);
    assert_eq!(stats.snapshot().ring(Ring::Queries).capacity(), 500_000);
}

#[derive(Clone, Debug)]
enum Step {
    Enter { worker: usize, count: u32 },
    Resize(usize),
    Reset,
    Tick,
    Replace(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0usize..3, 1u32..60).prop_map(|(worker, count)| Step::Enter { worker, count }),
        1 => (1usize..200).prop_map(Step::Resize),
        1 => Just(Step::Reset),
        1 => Just(Step::Tick),
        1 => (0usize..3).prop_map(Step::Replace),
    ]
}

proptest! {
    /// Against the plainest model there is: one list, cut at the capacity.
    #[test]
    fn a_merged_ring_is_the_newest_entries_of_all_workers(steps in prop::collection::vec(step(), 1..120)) {
        let mut capacities = RingCapacities::default();
        capacities.set(Ring::Remotes, 100);
        let stats = Stats::new(capacities);
        let mut workers: Vec<Option<Recorder>> = (0..3).map(|_| Some(stats.recorder())).collect();
        let (mut model, mut capacity, mut next) = (Vec::new(), 100usize, 0u32);
        for (now, step) in (1u64..).zip(steps) {
            match step {
                Step::Enter { worker, count } => {
                    let recorder = workers[worker].as_mut().expect("a worker");
                    for _ in 0..count {
                        recorder.received(&received(Transport::TCP4, address(next)));
                        model.push(address(next).to_string());
                        next += 1;
                    }
                    recorder.flush(Stamp(now), None);
                }
                Step::Resize(to) => {
                    stats.resize_ring(Ring::Remotes, to);
                    capacity = to;
                }
                Step::Reset => {
                    stats.reset_ring(Ring::Remotes);
                    model.clear();
                }
                Step::Tick => stats.tick(Stamp(now)),
                Step::Replace(worker) => {
                    workers[worker] = None;
                    workers[worker] = Some(stats.recorder());
                }
            }
            model.drain(..model.len().saturating_sub(capacity));
            let snapshot = stats.snapshot();
            prop_assert_eq!(snapshot.ring(Ring::Remotes).size(), model.len());
            prop_assert_eq!(&entries(&snapshot, Ring::Remotes), &model);
        }
    }
}

#[test]
fn parts_that_several_workers_filled_are_compacted_without_losing_the_newest() {
    let mut capacities = RingCapacities::default();
    capacities.set(Ring::RemotesCorrupt, 5000);
    let stats = Stats::new(capacities);
    let mut workers: Vec<_> = (0..4).map(|_| stats.recorder()).collect();
    let mut stamp = 0;
    for n in 0..60_000u32 {
        stamp += 1;
        let worker = &mut workers[(n / 7000) as usize % 4];
        worker.corrupt(address(n));
        worker.flush(Stamp(stamp), None);
        if n % 10_000 == 0 {
            stats.tick(Stamp(u64::from(n) * 1_000_000));
        }
    }
    stats.tick(Stamp(u64::MAX / 2));
    let expected: Vec<String> = (55_000..60_000).map(|n| address(n).to_string()).collect();
    assert_eq!(entries(&stats.snapshot(), Ring::RemotesCorrupt), expected);
}

fn assert_relations(snapshot: &Snapshot, before: &[u64]) -> Vec<u64> {
    for family in ["queries", "answers", "answers-bytes"] {
        for transport in ["udp", "tcp"] {
            let sum = value(snapshot, &format!("{transport}-{family}"));
            let v4 = value(snapshot, &format!("{transport}4-{family}"));
            let v6 = value(snapshot, &format!("{transport}6-{family}"));
            assert_eq!(sum, v4 + v6, "{transport}-{family}");
        }
    }
    for ring in Ring::ALL {
        let view = snapshot.ring(ring);
        assert!(view.size() <= view.capacity(), "{}", ring.name());
        let ranking = view.rank(10, &mnemonic);
        assert_eq!(ranking.total, view.size() as u64, "{}", ring.name());
        let listed: u64 = ranking.rows.iter().map(|row| row.count).sum();
        assert_eq!(listed + ranking.rest.unwrap_or(0), ranking.total);
        assert_eq!(view.entries(&mnemonic).len(), view.size());
    }
    // Each worker flushes a query and its answer together.
    assert_eq!(
        value(snapshot, "udp-queries") + value(snapshot, "tcp-queries"),
        value(snapshot, "udp-answers") + value(snapshot, "tcp-answers")
    );
    assert_eq!(
        snapshot.answer_sizes().count,
        value(snapshot, "udp-answers") + value(snapshot, "tcp-answers")
    );
    let counters: Vec<u64> = VARIABLES
        .iter()
        .filter(|v| v.kind == nameward_stats::VariableKind::Counter)
        .map(|v| v.value(snapshot))
        .collect();
    for (n, was) in before.iter().enumerate() {
        assert!(counters[n] >= *was, "counter {n} fell");
    }
    counters
}

#[test]
fn every_relation_holds_in_every_snapshot_while_workers_write_and_rings_change() {
    let mut capacities = RingCapacities::default();
    capacities.set(Ring::RemotesUnauth, 5000);
    let stats = Stats::new(capacities);
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..3u32)
        .map(|worker| {
            let (stats, stop) = (Arc::clone(&stats), Arc::clone(&stop));
            thread::spawn(move || {
                let mut recorder = stats.recorder();
                let mut sent = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    for n in 0..(1 + sent as u32 % 32) {
                        let transport = Transport::ALL[(n as usize + worker as usize) % 4];
                        recorder.received(&received(transport, address(n)));
                        let outcome =
                            [Outcome::Unauth, Outcome::NoData, Outcome::NxDomain][n as usize % 3];
                        recorder.answered(&Answered {
                            transport,
                            ..answered(outcome, 5)
                        });
                        sent += 1;
                    }
                    recorder.flush(Stamp::now(), None);
                    stats.log("a message");
                }
                sent
            })
        })
        .collect();
    let mut before = Vec::new();
    for n in 0..100u64 {
        match n % 10 {
            3 => stats.resize_ring(Ring::Remotes, 10 + n as usize),
            5 => stats.reset_ring(Ring::RemotesUnauth),
            7 => stats.reset_ring(Ring::Logmessages),
            9 => stats.tick(Stamp(n * 1_000_000_000)),
            _ => {}
        }
        before = assert_relations(&stats.snapshot(), &before);
    }
    stop.store(true, Ordering::Relaxed);
    let sent: u64 = workers
        .into_iter()
        .map(|w| w.join().expect("a worker"))
        .sum();
    let snapshot = stats.snapshot();
    assert_relations(&snapshot, &before);
    let counted: u64 = Transport::ALL.iter().map(|t| snapshot.queries(*t)).sum();
    assert_eq!(counted, sent);
    assert_eq!(snapshot.counter(Counter::CorruptPackets), 0);
}
