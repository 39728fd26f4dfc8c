//! A server on loopback inside the test: UDP and TCP, zones in memory, one zone that is looked up.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nameward_answer::Engine;
use nameward_serve::live::{LiveSettings, Running, start};
use nameward_serve::pipeline::{ServingState, TcpPipeline, UdpPipeline};
use nameward_serve::udp::{UdpWorker, WorkerSwitch, spawn_workers};
use nameward_serve::{listen, tcp};
use nameward_stats::{FAMILIES, RingCapacities, Stats, VARIABLES};
use nameward_wire::zonefile::{Options, parse_bytes};
use nameward_wire::{NameBuf, Type};
use nameward_zone::{
    LiveSource, LookupFuture, LookupRequest, Zone, ZoneBuilder, ZoneFragment, ZoneFuture, ZoneTable,
};
use socket2::{Domain, Socket, Type as SockType};
use tokio::sync::watch;

pub const TIMEOUT: Duration = Duration::from_secs(60);

/// A running server.
pub struct Loopback {
    pub shared: Arc<ServingState>,
    pub address: SocketAddr,
    runtime: Option<tokio::runtime::Runtime>,
    workers: Vec<UdpWorker>,
    stop: Arc<WorkerSwitch>,
    _stop_tcp: watch::Sender<bool>,
    _running: Running,
}

impl Loopback {
    /// Serves these zones, and the zone of `live` as one that is looked up.
    pub fn start(zones: Vec<Zone>, live: Option<(&str, &str)>) -> Loopback {
        Self::start_with(LiveSettings::for_tests(), zones, live)
    }

    /// Like [`Loopback::start`], with settings.
    pub fn start_with(
        settings: LiveSettings,
        zones: Vec<Zone>,
        live: Option<(&str, &str)>,
    ) -> Loopback {
        let stats = Stats::new(RingCapacities::default());
        let shared = ServingState::with_live(Engine::default(), stats, settings);
        let mut table = ZoneTable::default();
        zones
            .into_iter()
            .for_each(|zone| table.insert(Arc::new(zone)));
        if let Some((apex, text)) = live {
            let source = Arc::new(Memory(apex.into(), text.into()));
            let backend = shared.live.add_source("memory", source);
            let apex: NameBuf = apex.parse().unwrap();
            let stub = Zone::stub(apex.as_name(), backend, 1);
            table.insert(Arc::new(stub));
        }
        shared.zones.store(Arc::new(table));
        Loopback::serve(shared, "127.0.0.1:0")
    }

    /// Serves an existing state on an address. A wildcard address is queried at 127.0.0.1 unless the test does
    /// otherwise.
    pub fn serve(shared: Arc<ServingState>, address: &str) -> Loopback {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let inside = runtime.enter();
        let running = start(&shared, 2).unwrap();
        let bound = listen::bind_all(&[address.parse::<SocketAddr>().unwrap()], 1).unwrap();
        let mut address = bound.addresses[0];
        if address.ip().is_unspecified() {
            address.set_ip("127.0.0.1".parse().unwrap());
        }
        let stop = Arc::<WorkerSwitch>::default();
        let make = |_| UdpPipeline::new(shared.clone());
        let workers = spawn_workers(bound.udp, &stop, make).unwrap();
        let (stop_tcp, stopping) = watch::channel(false);
        let (idle, lifetime) = (Duration::from_secs(10), Duration::from_secs(600));
        let settings = tcp::TcpSettings::new(idle, lifetime, 20_000, Some(2000));
        let pipeline = Arc::new(TcpPipeline::new(&shared, 2));
        runtime.spawn(tcp::serve(bound.tcp, pipeline, settings, stopping));
        drop(inside);
        Loopback {
            shared,
            address,
            runtime: Some(runtime),
            workers,
            stop,
            _stop_tcp: stop_tcp,
            _running: running,
        }
    }

    /// Runs a function within the runtime of the server.
    pub fn inside<T>(&self, run: impl FnOnce() -> T) -> T {
        let _inside = self.runtime.as_ref().expect("a runtime").enter();
        run()
    }

    /// Puts another version of a zone into the table.
    pub fn replace(&self, zone: Arc<Zone>) {
        let mut table = ZoneTable::clone(&self.shared.zones.load());
        table.insert(zone);
        self.shared.zones.store(Arc::new(table));
    }

    pub fn udp(&self) -> UdpSocket {
        self.udp_from([127, 0, 0, 1])
    }

    /// A client socket with this address.
    pub fn udp_from(&self, client: [u8; 4]) -> UdpSocket {
        let socket = UdpSocket::bind(SocketAddr::from((client, 0))).unwrap();
        socket.connect(self.address).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket
    }

    pub fn tcp(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// A connection whose client has small buffers.
    pub fn slow_tcp(&self) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, SockType::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(&self.address.into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Sends a request and waits for the reply to it.
    pub fn exchange(&self, request: &[u8], over_tcp: bool) -> Vec<u8> {
        if over_tcp {
            let mut stream = self.tcp();
            send(&mut stream, request);
            return receive(&mut stream).expect("a reply");
        }
        let socket = self.udp();
        socket.send(request).unwrap();
        receive_datagram(&socket).expect("a reply")
    }

    pub fn counter(&self, name: &str) -> u64 {
        let snapshot = self.shared.stats.snapshot();
        let row = VARIABLES.iter().find(|row| row.name == name);
        let family = FAMILIES.iter().find(|family| family.name == name);
        row.map(|row| row.value(&snapshot))
            .or(family.map(|family| family.value(&snapshot)))
            .unwrap_or_else(|| panic!("there is no counter {name}"))
    }

    pub fn wait_counter(&self, name: &str, value: u64) {
        let start = Instant::now();
        while self.counter(name) != value {
            let now = self.counter(name);
            assert!(start.elapsed() < TIMEOUT, "{name} is {now}, not {value}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.stop.stop();
        self.workers.drain(..).for_each(UdpWorker::join);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns the whole zone as the fragment for any name.
struct Memory(String, String);

impl LiveSource for Memory {
    fn lookup<'a>(&'a self, _: LookupRequest<'a>) -> LookupFuture<'a> {
        Box::pin(async {
            Ok(ZoneFragment {
                zone: Arc::new(zone(&self.0, &self.1)),
                statements: 1,
                is_shared: false,
            })
        })
    }

    fn read_zone<'a>(&'a self, _: LookupRequest<'a>) -> ZoneFuture<'a> {
        Box::pin(async { Ok(zone(&self.0, &self.1)) })
    }

    fn is_blocking(&self) -> bool {
        false
    }

    fn is_up(&self) -> bool {
        true
    }
}

pub fn zone(apex: &str, text: &str) -> Zone {
    let origin: NameBuf = apex.parse().unwrap();
    let mut builder = ZoneBuilder::new(origin.as_name());
    let report = parse_bytes("zone", text.as_bytes(), &Options::new(origin), &mut builder);
    assert!(!report.has_errors(), "{:?}", report.diagnostics);
    builder.finish().0.unwrap()
}

/// A query with an OPT record.
pub fn query(name: &str, qtype: Type) -> Vec<u8> {
    let mut packet = plain_query(name, qtype);
    packet[11] = 1;
    packet.extend_from_slice(b"\0\x00\x29\x04\xd0\0\0\0\0\0\0");
    packet
}

/// A query without an OPT record.
pub fn plain_query(name: &str, qtype: Type) -> Vec<u8> {
    let name: NameBuf = name.parse().unwrap();
    let mut packet = b"\x12\x34\x00\x00\x00\x01\0\0\0\0\x00\x00".to_vec();
    packet.extend_from_slice(name.as_name().as_wire());
    packet.extend_from_slice(&qtype.0.to_be_bytes());
    packet.extend_from_slice(&[0, 1]);
    packet
}

pub fn send(stream: &mut TcpStream, packet: &[u8]) {
    let framed = [&(packet.len() as u16).to_be_bytes()[..], packet].concat();
    stream.write_all(&framed).unwrap();
}

/// Reads the next message; `None` if the connection ends before it is complete.
pub fn receive(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut len = [0; 2];
    stream.read_exact(&mut len).ok()?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut message).ok()?;
    Some(message)
}

/// Reads the next datagram; `None` if none comes in time.
pub fn receive_datagram(socket: &UdpSocket) -> Option<Vec<u8>> {
    let mut reply = vec![0; 65_535];
    let len = socket.recv(&mut reply).ok()?;
    reply.truncate(len);
    Some(reply)
}

pub fn rcode(reply: &[u8]) -> u8 {
    reply[3] & 15
}

pub fn is_truncated(reply: &[u8]) -> bool {
    reply[2] & 2 != 0
}
