//! Requests that are not queries for records, decided by the server's request handler.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};

use crate::loopback::{self, Loopback, rcode, receive_datagram, send};
use nameward_answer::Engine;
use nameward_serve::pipeline::{LateReply, ReplyPath, ServingState};
use nameward_serve::request::{MessageStream, NextMessage, Request, Verdict, ZoneRequests};
use nameward_stats::{Protocol, RingCapacities, Stats};
use nameward_wire::message::{MessageWriter, ReplyFlags};
use nameward_wire::{Class, NameBuf, Rcode, Type};

const AXFR: u16 = 252;
const QUERY: u8 = 0;
const NOTIFY: u8 = 4;
const UPDATE: u8 = 5;

/// Records each NOTIFY and answers NOERROR, answers an UPDATE when the test does, and sends any zone as three
/// messages.
#[derive(Default)]
struct Handler {
    notified: Mutex<Vec<(SocketAddr, Option<SocketAddr>, String)>>,
    updates: Mutex<Vec<LateReply>>,
}

impl ZoneRequests for Handler {
    fn notify(&self, request: &Request<'_>, _: &mut ReplyPath<'_>, _: &mut [u8]) -> Verdict {
        let name = NameBuf::from(request.query.qname).to_string();
        let noted = (request.peer, request.local, name);
        self.notified.lock().unwrap().push(noted);
        Verdict::Code(Rcode::NoError, None)
    }

    fn update(&self, _: &Request<'_>, way_back: &mut ReplyPath<'_>, _: &mut [u8]) -> Verdict {
        match way_back.take() {
            Some(reply) => {
                self.updates.lock().unwrap().push(reply);
                Verdict::Later
            }
            None => Verdict::Drop,
        }
    }

    fn transfer(&self, request: &Request<'_>, _: &mut ReplyPath<'_>, _: &mut [u8]) -> Verdict {
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
        let mut writer = MessageWriter::without_question(out, 65_535);
        let rcode = self.left;
        let flags = ReplyFlags {
            rcode,
            ..ReplyFlags::default()
        };
        NextMessage::Written(writer.finish(&self.question, flags))
    }
}

fn start(handler: Option<Arc<Handler>>, address: &str) -> Loopback {
    let shared = ServingState::new(Engine::default(), Stats::new(RingCapacities::default()));
    if let Some(handler) = handler {
        shared.set_zone_requests(handler);
    }
    let mut server = Loopback::serve(shared, address);
    if address.starts_with("0.0.0.0") {
        // Any address of the machine, but not the one that a reply would have as its source anyway.
        server.address.set_ip("127.0.0.77".parse().unwrap());
    }
    server
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
    receive_datagram(socket).expect("a reply")
}

fn receive_tcp(stream: &mut TcpStream) -> Vec<u8> {
    loopback::receive(stream).expect("a reply")
}

#[test]
fn requests_are_refused_without_a_handler() {
    let server = start(None, "127.0.0.1:0");
    let (udp, mut tcp) = (server.udp(), server.tcp());
    for (packet, expected) in [
        (request(NOTIFY, 6), 4),
        (request(UPDATE, 6), 4),
        (request(QUERY, AXFR), 5),
        (request(2, 6), 4),
    ] {
        udp.send(&packet).unwrap();
        send(&mut tcp, &packet);
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
    let server = start(Some(handler.clone()), "0.0.0.0:0");
    let (udp, mut tcp) = (server.udp(), server.tcp());
    udp.send(&request(NOTIFY, 6)).unwrap();
    assert_eq!(rcode(&receive(&udp)), 0);
    send(&mut tcp, &request(NOTIFY, 6));
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
    let server = start(Some(handler.clone()), "127.0.0.1:0");
    let (udp, mut tcp) = (server.udp(), server.tcp());
    udp.send(&request(UPDATE, 6)).unwrap();
    send(&mut tcp, &request(UPDATE, 6));
    // Other queries do not wait for them.
    send(&mut tcp, &request(QUERY, 1));
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
    let server = start(Some(handler), "127.0.0.1:0");
    let (udp, mut tcp) = (server.udp(), server.tcp());
    send(&mut tcp, &request(QUERY, AXFR));
    send(&mut tcp, &request(NOTIFY, 6));
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
