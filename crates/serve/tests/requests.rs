//! Requests that are no questions for records, decided by whoever is given to the server for them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nameward_answer::Engine;
use nameward_serve::pipeline::{LateReply, ServingState, TcpPipeline, UdpPipeline, WayBack};
use nameward_serve::request::{MessageStream, NextMessage, Request, Verdict, ZoneRequests};
use nameward_serve::udp::{UdpWorker, spawn_workers};
use nameward_serve::{listen, tcp};
use nameward_stats::{Protocol, RingCapacities, Stats, VARIABLES};
use nameward_wire::message::{MessageWriter, ReplyFlags};
use nameward_wire::{Class, NameBuf, Rcode, Type};
use tokio::sync::watch;

/// Settings as an operator might choose them.
fn tcp_settings() -> tcp::TcpSettings {
    let (idle_timeout, lifetime) = (Duration::from_secs(10), Duration::from_secs(600));
    tcp::TcpSettings::new(idle_timeout, lifetime, 20_000, 200)
}

const PATIENCE: Duration = Duration::from_secs(20);
const AXFR: u16 = 252;
const QUERY: u8 = 0;
const NOTIFY: u8 = 4;
const UPDATE: u8 = 5;

/// Notes each NOTIFY and says NOERROR, answers an UPDATE when the test does it, and has three messages as any zone.
#[derive(Default)]
struct Handler {
    notified: Mutex<Vec<(SocketAddr, Option<SocketAddr>, String)>>,
    updates: Mutex<Vec<LateReply>>,
}

impl ZoneRequests for Handler {
    fn notify(&self, request: &Request<'_>, _: &mut WayBack<'_>, _: &mut [u8]) -> Verdict {
        let name = NameBuf::from(request.query.qname).to_string();
        let noted = (request.peer, request.local, name);
        self.notified.lock().unwrap().push(noted);
        Verdict::Code(Rcode::NoError, None)
    }

    fn update(&self, _: &Request<'_>, way_back: &mut WayBack<'_>, _: &mut [u8]) -> Verdict {
        match way_back.take() {
            Some(reply) => {
                self.updates.lock().unwrap().push(reply);
                Verdict::Later
            }
            None => Verdict::Drop,
        }
    }

    fn transfer(&self, request: &Request<'_>, _: &mut WayBack<'_>, _: &mut [u8]) -> Verdict {
        assert_eq!(request.query.qtype, Type::AXFR);
        Verdict::Stream(Box::new(Three {
            question: request.query.packet()[..request.query.question_end].to_vec(),
            left: 3,
        }))
    }
}

struct Three {
    question: Vec<u8>,
    left: u8,
}

impl MessageStream for Three {
    fn next_message(&mut self, out: &mut [u8]) -> NextMessage {
        if self.left == 0 {
            return NextMessage::End;
        }
        self.left -= 1;
        let writer = MessageWriter::without_question(out, 65_535);
        let rcode = self.left;
        let flags = ReplyFlags {
            rcode,
            ..ReplyFlags::default()
        };
        NextMessage::Written(writer.finish(&self.question, flags))
    }
}

struct Server {
    shared: Arc<ServingState>,
    address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
    workers: Vec<UdpWorker>,
    stop: Arc<AtomicBool>,
    _stop_tcp: watch::Sender<bool>,
}

impl Server {
    fn start(handler: Option<Arc<Handler>>, address: &str) -> Server {
        let shared = ServingState::new(Engine::default(), Stats::new(RingCapacities::default()));
        if let Some(handler) = handler {
            shared.set_zone_requests(handler);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let bound = listen::bind_all(&[address.parse().unwrap()], 1).unwrap();
        let mut address = bound.addresses[0];
        if address.ip().is_unspecified() {
            address.set_ip("127.0.0.77".parse().unwrap());
        }
        let stop = Arc::new(AtomicBool::new(false));
        let make = |_| UdpPipeline::new(shared.clone());
        let workers = spawn_workers(bound.udp, &stop, make).unwrap();
        let (stop_tcp, stopping) = watch::channel(false);
        runtime.spawn(tcp::serve(
            bound.tcp,
            Arc::new(TcpPipeline::new(&shared, 1)),
            tcp_settings(),
            stopping,
        ));
        Server {
            shared,
            address,
            _runtime: runtime,
            workers,
            stop,
            _stop_tcp: stop_tcp,
        }
    }

    fn udp(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    fn tcp(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn wait_counter(&self, name: &str, value: u64) {
        let variable = VARIABLES.iter().find(|v| v.name == name).unwrap();
        let start = Instant::now();
        while variable.value(&self.shared.stats.snapshot()) != value {
            assert!(start.elapsed() < PATIENCE, "{name} is never {value}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.workers.drain(..).for_each(UdpWorker::join);
    }
}

fn request(opcode: u8, qtype: u16) -> Vec<u8> {
    let name: NameBuf = "example.".parse().unwrap();
    let mut packet = b"\x12\x34\x00\x00\x00\x01\0\0\0\0\0\0".to_vec();
    packet[2] = opcode << 3;
    packet.extend_from_slice(name.as_name().as_wire());
    packet.extend_from_slice(&qtype.to_be_bytes());
    packet.extend_from_slice(&Class::IN.0.to_be_bytes());
    packet
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut reply = [0; 4096];
    let len = socket.recv(&mut reply).unwrap();
    reply[..len].to_vec()
}

fn send_tcp(stream: &mut TcpStream, packet: &[u8]) {
    let framed = [&(packet.len() as u16).to_be_bytes()[..], packet].concat();
    stream.write_all(&framed).unwrap();
}

fn receive_tcp(stream: &mut TcpStream) -> Vec<u8> {
    let mut len = [0; 2];
    stream.read_exact(&mut len).unwrap();
    let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut message).unwrap();
    message
}

fn rcode(reply: &[u8]) -> u8 {
    reply[3] & 15
}

#[test]
fn without_a_handler_they_are_refused() {
    let server = Server::start(None, "127.0.0.1:0");
    let (udp, mut tcp) = (server.udp(), server.tcp());
    for (packet, expected) in [
        (request(NOTIFY, 6), 4),
        (request(UPDATE, 6), 4),
        (request(QUERY, AXFR), 5),
        (request(2, 6), 4),
    ] {
        udp.send(&packet).unwrap();
        send_tcp(&mut tcp, &packet);
        assert_eq!(rcode(&receive(&udp)), expected, "{packet:x?}");
        assert_eq!(rcode(&receive_tcp(&mut tcp)), expected, "{packet:x?}");
    }
    server.wait_counter("incoming-notifications", 2);
    server.wait_counter("dnsupdate-queries", 2);
    server.wait_counter("dnsupdate-refused", 2);
}

#[test]
fn a_notify_is_decided_with_both_addresses_known() {
    let handler = Arc::new(Handler::default());
    // A wildcard socket: the address is that of the packet.
    let server = Server::start(Some(handler.clone()), "0.0.0.0:0");
    let (udp, mut tcp) = (server.udp(), server.tcp());
    udp.send(&request(NOTIFY, 6)).unwrap();
    assert_eq!(rcode(&receive(&udp)), 0);
    send_tcp(&mut tcp, &request(NOTIFY, 6));
    assert_eq!(rcode(&receive_tcp(&mut tcp)), 0);
    let local = Some(server.address);
    let noted = |peer| (peer, local, "example.".to_string());
    assert_eq!(
        *handler.notified.lock().unwrap(),
        [
            noted(udp.local_addr().unwrap()),
            noted(tcp.local_addr().unwrap())
        ]
    );
    server.wait_counter("dnsupdate-queries", 0);
}

#[test]
fn an_update_is_answered_when_it_is_done() {
    let handler = Arc::new(Handler::default());
    let server = Server::start(Some(handler.clone()), "127.0.0.1:0");
    let (udp, mut tcp) = (server.udp(), server.tcp());
    udp.send(&request(UPDATE, 6)).unwrap();
    send_tcp(&mut tcp, &request(UPDATE, 6));
    // Other questions do not wait for them.
    send_tcp(&mut tcp, &request(QUERY, 1));
    assert_eq!(rcode(&receive_tcp(&mut tcp)), 5);
    server.wait_counter("dnsupdate-queries", 2);
    let replies = std::mem::take(&mut *handler.updates.lock().unwrap());
    assert_eq!(replies.len(), 2);
    let mut reply = request(UPDATE, 6);
    (reply[2], reply[3]) = (UPDATE << 3 | 0x80, 9);
    for late in replies {
        late.send(&reply, Rcode::NotAuth);
    }
    assert_eq!(receive(&udp), reply);
    assert_eq!(receive_tcp(&mut tcp), reply);
    server.wait_counter("udp-answers", 1);
    server.wait_counter("tcp-answers", 2);
    let latencies = server.shared.stats.snapshot().answer_latencies();
    assert_eq!(latencies.count, 3);
}

#[test]
fn a_transfer_is_a_stream_of_messages_and_none_over_udp() {
    let handler = Arc::new(Handler::default());
    let server = Server::start(Some(handler), "127.0.0.1:0");
    let (udp, mut tcp) = (server.udp(), server.tcp());
    send_tcp(&mut tcp, &request(QUERY, AXFR));
    send_tcp(&mut tcp, &request(NOTIFY, 6));
    let codes: Vec<u8> = (0..4).map(|_| rcode(&receive_tcp(&mut tcp))).collect();
    assert_eq!(codes, [2, 1, 0, 0]);
    udp.send(&request(QUERY, AXFR)).unwrap();
    assert_eq!(rcode(&receive(&udp)), 5);
    // Each message of a transfer is an answer.
    server.wait_counter("tcp-answers", 4);
    let notify = request(NOTIFY, 6).len() as u64;
    server.wait_counter("tcp-answers-bytes", 3 * 12 + notify);
    let snapshot = server.shared.stats.snapshot();
    let queries = nameward_stats::Traffic::Queries;
    assert_eq!(snapshot.traffic(Protocol::Tcp, None, queries), 2);
}
