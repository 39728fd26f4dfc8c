//! Prints the cost of an answer in a worker, without sockets: from a zone in memory, from the packet cache, from the query
//! cache. `cargo run --release -p nameward-serve --example cached_answers [NAMES]`

use nameward_answer::Engine;
use nameward_serve::listen;
use nameward_serve::live::{LiveSettings, start};
use nameward_serve::pipeline::{ServingState, UdpPipeline};
use nameward_serve::udp::{BatchHandler, BatchTiming, DatagramBatch, WorkerSwitch, spawn_workers};
use nameward_stats::{RingCapacities, Stats};
use nameward_wire::NameBuf;
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_zone::{
    LiveSource, LookupFuture, LookupRequest, Zone, ZoneBuilder, ZoneFragment, ZoneTable,
};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

const APEX: &str = "example.";
const HEAD: &str =
    "@ 3600 SOA ns1 host 1 7200 3600 1209600 300\n@ 3600 NS ns1\nns1 3600 A 192.0.2.1\n";

fn build(text: &str) -> Zone {
    let origin: NameBuf = APEX.parse().expect("a name");
    let mut builder = ZoneBuilder::new(origin.as_name());
    parse_bytes("zone", text.as_bytes(), &Options::new(origin), &mut builder);
    builder.finish().0.expect("a zone")
}

/// Gives the part for a name as a database would: the apex and the name.
struct Parts;

impl LiveSource for Parts {
    fn lookup<'a>(&'a self, wanted: LookupRequest<'a>) -> LookupFuture<'a> {
        Box::pin(async move {
            let zone = build(&format!("{HEAD}{} 60 A 192.0.2.80\n", wanted.name));
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

fn question(i: usize) -> Vec<u8> {
    let name: NameBuf = format!("n{i}.{APEX}").parse().expect("a name");
    let mut packet = b"\x12\x34\x01\x00\x00\x01\0\0\0\0\0\x01".to_vec();
    packet.extend_from_slice(name.as_name().as_wire());
    packet.extend_from_slice(b"\0\x01\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0");
    packet
}

fn main() {
    let names: usize = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(1000);
    let packets: Vec<_> = (0..names).map(question).collect();
    let lines: String = (0..names)
        .map(|i| format!("n{i} 60 A 192.0.2.80\n"))
        .collect();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _inside = runtime.enter();
    for what in ["zone in memory", "packet cache", "query cache"] {
        let settings = LiveSettings {
            packet_entries: if what == "packet cache" {
                10 * names
            } else {
                0
            },
            query_entries: 10 * names,
            ..LiveSettings::for_tests()
        };
        let stats = Stats::new(RingCapacities::default());
        let shared = ServingState::with_live(Engine::default(), stats, settings);
        let backend = shared.live.add_source("parts", Arc::new(Parts));
        let apex: NameBuf = APEX.parse().expect("a name");
        let zone = match what {
            "zone in memory" => build(&format!("{HEAD}{lines}")),
            _ => Zone::stub(apex.as_name(), backend, 1),
        };
        let mut table = ZoneTable::default();
        table.insert(Arc::new(zone));
        shared.zones.store(Arc::new(table));
        let _running = start(&shared, 2).expect("threads");
        warm(&shared, &packets);
        println!("{what}: {:.0} ns", measure(&shared, &packets));
    }
}

/// Asks every question once through a socket.
fn warm(shared: &Arc<ServingState>, packets: &[Vec<u8>]) {
    let bound = listen::bind_all(
        &["127.0.0.1:0".parse::<SocketAddr>().expect("an address")],
        1,
    );
    let bound = bound.expect("a free port");
    let stop = Arc::<WorkerSwitch>::default();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(bound.addresses[0]).expect("loopback");
    let make = |_| UdpPipeline::new(shared.clone());
    let workers = spawn_workers(bound.udp, &stop, make);
    for packet in packets {
        socket.send(packet).expect("loopback");
        socket.recv(&mut [0; 512]).expect("an answer");
    }
    stop.stop();
    workers
        .expect("threads")
        .into_iter()
        .for_each(|worker| worker.join());
}

/// Nanoseconds an answer, in batches of 32.
fn measure(shared: &Arc<ServingState>, packets: &[Vec<u8>]) -> f64 {
    let client: SocketAddr = "192.0.2.200:4000".parse().expect("an address");
    let mut batches: Vec<DatagramBatch> = packets
        .chunks_exact(32)
        .map(|chunk| {
            let datagrams: Vec<_> = chunk.iter().map(|packet| (&packet[..], client)).collect();
            DatagramBatch::from_datagrams(&datagrams)
        })
        .collect();
    let mut pipeline = UdpPipeline::new(shared.clone());
    let timing = BatchTiming {
        receive_ns: Some(1),
        answer_ns: 1,
        send_ns: 1,
    };
    let mut best = f64::MAX;
    for _ in 0..7 {
        let start = Instant::now();
        let mut answers = 0;
        while answers < 500_000 {
            for batch in &mut batches {
                pipeline.handle(batch);
                pipeline.sent(batch, timing);
                answers += batch.len();
            }
        }
        best = best.min(start.elapsed().as_nanos() as f64 / answers as f64);
    }
    let unanswered = (0..batches[0].len()).filter(|&i| batches[0].replied(i).is_empty());
    assert_eq!(unanswered.count(), 0);
    best
}
