//! DNS packets by hand, over UDP and TCP.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A question and the RCODE it should get.
#[derive(Clone, Copy)]
pub struct TestQuery {
    name: &'static str,
    rtype: u16,
    rcode: u8,
    rd: bool,
    edns: bool,
}

impl TestQuery {
    pub const fn new(name: &'static str, rtype: u16, rcode: u8) -> TestQuery {
        TestQuery {
            name,
            rtype,
            rcode,
            rd: false,
            edns: false,
        }
    }

    pub const fn recursion_desired(self) -> TestQuery {
        TestQuery { rd: true, ..self }
    }

    pub const fn dnssec_ok_with_cookie(self) -> TestQuery {
        TestQuery { edns: true, ..self }
    }

    fn packet(&self) -> Vec<u8> {
        let mut packet = vec![
            0x12,
            0x34,
            u8::from(self.rd),
            0,
            0,
            1,
            0,
            0,
            0,
            0,
            0,
            u8::from(self.edns),
        ];
        for label in self.name.split('.') {
            packet.push(label.len() as u8);
            packet.extend_from_slice(label.as_bytes());
        }
        packet.push(0);
        packet.extend_from_slice(&self.rtype.to_be_bytes());
        packet.extend_from_slice(&[0, 1]);
        if self.edns {
            // OPT, 1232 octets, DO, and a COOKIE option of 8 octets (RFC 7873).
            packet.extend_from_slice(&[0, 0, 41, 0x04, 0xd0, 0, 0, 0x80, 0, 0, 12, 0, 10, 0, 8]);
            packet.extend_from_slice(b"cookies!");
        }
        packet
    }
}

#[derive(Clone, Copy)]
pub enum Via {
    Udp(SocketAddr),
    Tcp(SocketAddr),
}

/// A reply.
pub struct Exchange {
    pub answers: u64,
    pub bytes: u64,
}

fn socket(server: SocketAddr) -> UdpSocket {
    let local: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::LOCALHOST, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::LOCALHOST, 0).into(),
    };
    let socket = UdpSocket::bind(local).expect("a socket");
    socket.connect(server).expect("a peer");
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    socket
}

/// Asks one after the other and checks each RCODE.
pub fn ask_all(via: Via, queries: &[TestQuery]) -> Exchange {
    let mut exchange = Exchange {
        answers: 0,
        bytes: 0,
    };
    for ask in queries {
        let answer = match via {
            Via::Udp(server) => {
                let socket = socket(server);
                socket.send(&ask.packet()).expect("sent");
                let mut buffer = [0; 4096];
                let length = socket.recv(&mut buffer).expect("an answer");
                buffer[..length].to_vec()
            }
            Via::Tcp(server) => {
                let mut stream = TcpStream::connect(server).expect("a connection");
                let packet = ask.packet();
                let framed = [&(packet.len() as u16).to_be_bytes()[..], &packet].concat();
                stream.write_all(&framed).expect("sent");
                let mut length = [0; 2];
                stream.read_exact(&mut length).expect("a length");
                let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut answer).expect("an answer");
                answer
            }
        };
        assert_eq!(answer[3] & 15, ask.rcode, "{} {}", ask.name, ask.rtype);
        exchange.answers += 1;
        exchange.bytes += answer.len() as u64;
    }
    exchange
}

/// Sends without waiting for anything.
pub fn send(server: SocketAddr, packet: &[u8]) {
    socket(server).send(packet).expect("sent");
}

/// A question whose name points at itself.
pub fn compression_loop() -> Vec<u8> {
    vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1]
}

/// A packet that says it is a response.
pub fn response(name: &'static str) -> Vec<u8> {
    let mut packet = TestQuery::new(name, 1, 0).packet();
    packet[2] |= 0x80;
    packet
}

/// Clients that ask as fast as they can, a few questions at a time.
pub struct Flood {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<u64>>,
}

impl Flood {
    pub fn start(servers: &[SocketAddr]) -> Flood {
        let stop = Arc::new(AtomicBool::new(false));
        let clients = servers.iter().map(|server| {
            let (server, stop) = (*server, Arc::clone(&stop));
            thread::spawn(move || flood(server, &stop))
        });
        let clients = clients.collect();
        Flood { stop, clients }
    }

    /// Ends it; how many questions were sent.
    pub fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let clients = self.clients.into_iter();
        clients.map(|client| client.join().expect("a client")).sum()
    }
}

fn flood(server: SocketAddr, stop: &AtomicBool) -> u64 {
    let socket = socket(server);
    socket
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a timeout");
    let packets: Vec<_> = super::ALL.iter().map(TestQuery::packet).collect();
    let mut buffer = [0; 4096];
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        for packet in &packets {
            sent += u64::from(socket.send(packet).is_ok());
        }
        for _ in &packets {
            let _ = socket.recv(&mut buffer);
        }
    }
    sent
}
