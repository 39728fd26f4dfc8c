//! Ten thousand idle connections, and no descriptors left: the effect on other clients.
//!
//! In a separate process, because both tests use up its descriptors; in one test, so that they do not run at the same
//! time.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nameward_serve::listen::bind_all;
use nameward_serve::raise_descriptor_limit;
use nameward_serve::tcp::{Endpoints, Later, StreamAction, StreamHandler, TcpSettings, serve};
use nameward_serve::udp::{
    BatchHandler, BatchTiming, DatagramBatch, UdpWorker, WorkerSwitch, spawn_workers,
};
use nameward_testkit::wait_until;
use tokio::sync::watch;

/// Settings as an operator might choose them.
fn settings() -> TcpSettings {
    let (idle_timeout, lifetime) = (Duration::from_secs(10), Duration::from_secs(600));
    TcpSettings::new(idle_timeout, lifetime, 20_000, Some(200))
}

const TIMEOUT: Duration = Duration::from_secs(120);
const CROWD: usize = 10_000;

struct Datagrams;

impl BatchHandler for Datagrams {
    fn handle(&mut self, batch: &mut DatagramBatch) {
        for i in 0..batch.len() {
            let (query, reply, len) = batch.reply(i);
            reply[..query.len()].copy_from_slice(query);
            *len = query.len();
        }
    }

    fn sent(&mut self, _batch: &DatagramBatch, _timing: BatchTiming) {}
}

#[derive(Default)]
struct Streams {
    open: AtomicUsize,
}

impl StreamHandler for Streams {
    fn handle(
        &self,
        query: &[u8],
        _ends: Endpoints,
        out: &mut Vec<u8>,
        _later: &mut Later<'_>,
    ) -> StreamAction {
        out.extend((query.len() as u16).to_be_bytes());
        out.extend(query);
        StreamAction::Continue
    }

    fn opened(&self, _client: SocketAddr) {
        self.open.fetch_add(1, Ordering::SeqCst);
    }

    fn closed(&self, _client: SocketAddr) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

fn connect(server: SocketAddr, source: [u8; 4]) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&server.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

fn exchange_tcp(stream: &mut TcpStream) {
    stream.write_all(b"\x00\x05hello").unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).expect("an answer over TCP");
    assert_eq!(&answer, b"\x00\x05hello");
}

fn exchange_udp(socket: &UdpSocket, server: SocketAddr) {
    socket.send_to(b"hello", server).unwrap();
    let mut answer = [0; 10];
    let len = socket.recv(&mut answer).expect("an answer over UDP");
    assert_eq!(&answer[..len], b"hello");
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn idle_connections_and_exhausted_descriptors_lock_no_client_out() {
    // Both ends of each connection are in this process.
    let limit = raise_descriptor_limit(2 * CROWD as u64 + 1_000).unwrap() as usize;
    let crowd = CROWD.min((limit - 500) / 2);
    if crowd < CROWD {
        eprintln!("only {crowd} connections: the limit of open files is {limit}");
    }
    let bound = bind_all(&["127.0.0.1:0".parse::<SocketAddr>().unwrap()], 1).unwrap();
    let address = bound.addresses[0];
    let stop = Arc::<WorkerSwitch>::default();
    let workers = spawn_workers(bound.udp, &stop, |_| Datagrams).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (stop_tcp, stopping) = watch::channel(false);
    let handler = Arc::new(Streams::default());
    let settings = TcpSettings {
        idle_timeout: Duration::from_secs(3600),
        message_timeout: Duration::from_secs(3600),
        max_connections: crowd,
        ..settings()
    };
    let serving = runtime.spawn(serve(bound.tcp, Arc::clone(&handler), settings, stopping));
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(TIMEOUT)).unwrap();
    let open = || handler.open.load(Ordering::SeqCst);

    let before = resident_kib();
    let mut idle: Vec<TcpStream> = (0..crowd)
        .map(|i| connect(address, [127, 0, 1, (i / 150) as u8]))
        .collect();
    wait_until("all are in", || open() == crowd);
    for stream in idle.iter_mut().step_by(10) {
        exchange_tcp(stream);
    }
    // Some are idle in the middle of a message.
    for stream in idle.iter_mut().skip(1).step_by(10) {
        stream.write_all(&[0]).unwrap();
    }
    let each = (resident_kib() - before) * 1024 / crowd;
    eprintln!("{crowd} idle connections cost {each} bytes each");
    assert!(each < 4096, "an idle connection costs {each} bytes");

    // All slots are taken: UDP and new clients are not affected.
    for i in 0..100 {
        exchange_udp(&udp, address);
        idle.push(connect(address, [127, 0, 2, i]));
        exchange_tcp(idle.last_mut().unwrap());
    }
    wait_until("each has taken the place of one", || open() == crowd);

    exhaust_descriptors(address, &udp);

    drop(idle);
    wait_until("all have left", || open() == 0);
    stop.stop();
    stop_tcp.send_replace(true);
    workers.into_iter().for_each(UdpWorker::join);
    runtime.block_on(serving).unwrap().unwrap();
}

/// Without a free descriptor in the process, the accept loop pauses, evicts one idle connection for each waiting
/// client, and recovers by itself.
fn exhaust_descriptors(address: SocketAddr, udp: &UdpSocket) {
    let mut fillers = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        fillers.push(file);
    }
    fillers.pop();
    // Takes the last descriptor; the server has none for its side.
    let mut waiting = connect(address, [127, 0, 3, 1]);
    exchange_udp(udp, address);
    exchange_tcp(&mut waiting);
    drop(fillers);
    exchange_tcp(&mut connect(address, [127, 0, 3, 2]));
}
