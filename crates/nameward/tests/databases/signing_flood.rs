//! The attack on online signers: names that were never queried before, with DO. Limited, on loopback.

use super::operation::zone;
use super::rows::Sqlite;
use super::signed::{add_key, gauge, set_meta};
use nameward_testkit::{Setup, TestServer};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const RSA: &str = include_str!("../../../serve/tests/rsa2048.private");
/// Timeout after which an answer counts as lost.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Random names in total, and how many at a time; about 2,000 per second.
const NAMES: usize = 4000;
const AT_ONCE: usize = 10;

fn question(name: &str, id: u16) -> Vec<u8> {
    let mut packet = b"\0\0\x00\x00\x00\x01\0\0\0\0\x00\x01".to_vec();
    packet[..2].copy_from_slice(&id.to_be_bytes());
    for label in name.split('.') {
        packet.push(label.len() as u8);
        packet.extend_from_slice(label.as_bytes());
    }
    packet.extend_from_slice(b"\0\0\x01\0\x01\0\x00\x29\x04\xd0\0\0\x80\0\0\0");
    packet
}

fn socket(address: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

/// Sends the random names at an even rate; returns the numbers of complete and of truncated answers.
fn flood(address: SocketAddr) -> (usize, usize) {
    let socket = socket(address);
    socket.set_nonblocking(true).unwrap();
    let (mut whole, mut cut, mut reply) = (0, 0, [0; 4096]);
    let start = Instant::now();
    for n in 0..NAMES {
        let _ = socket.send(&question(&format!("n{n}.signed.test"), n as u16));
        if n % AT_ONCE == 0 {
            let due = Duration::from_micros(500 * n as u64);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
        while socket.recv(&mut reply).is_ok() {
            match reply[2] & 2 {
                0 => whole += 1,
                _ => cut += 1,
            }
        }
    }
    (whole, cut)
}

fn is_answered(address: SocketAddr, name: &str, id: u16) -> bool {
    let (socket, mut reply) = (socket(address), [0; 4096]);
    socket.send(&question(name, id)).unwrap();
    socket.recv(&mut reply).is_ok() && reply[..2] == id.to_be_bytes()
}

/// Over a new connection.
fn is_answered_over_tcp(address: SocketAddr, name: &str) -> bool {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let packet = question(name, 7);
    let prefix = (packet.len() as u16).to_be_bytes();
    stream.write_all(&[&prefix[..], &packet].concat()).unwrap();
    stream.read_exact(&mut [0; 14]).is_ok()
}

fn is_alive(server: &TestServer) -> bool {
    let mut stream = TcpStream::connect(server.web()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(b"GET /livez HTTP/1.0\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).is_ok() && reply.starts_with("HTTP/1.0 200")
}

/// Floods a zone with this denial method; returns the queries that waited for signatures or were refused them, and
/// the number of signatures.
fn check_flood(style: &str) -> (u64, u64) {
    let setup = Setup::new();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("signed.test", "192.0.2.1"));
    database.add(&zone("plain.test", "192.0.2.1"));
    add_key(&database, "signed.test", 257, RSA);
    set_meta(&database, "signed.test", "X-NAMEWARD-DENIAL", style);
    let server = setup.config(&database.backend("resident")).start();
    let address = server.address();
    assert!(
        is_answered(address, "www.signed.test", 1),
        "warm from here on"
    );
    let has_ended = AtomicBool::new(false);
    let (mut asked, mut lost) = (0, Vec::new());
    let (whole, cut) = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let answers = flood(address);
            has_ended.store(true, Ordering::Relaxed);
            answers
        });
        while !has_ended.load(Ordering::Relaxed) {
            asked += 1;
            for name in ["www.plain.test", "www.signed.test"] {
                if !is_answered(address, name, asked) {
                    lost.push(format!("{asked}: {name}"));
                }
            }
            if asked % 20 == 0 && !is_answered_over_tcp(address, "www.plain.test") {
                lost.push(format!("{asked}: over TCP"));
            }
            if asked % 20 == 0 && !is_alive(&server) {
                lost.push(format!("{asked}: /livez"));
            }
        }
        flood.join().unwrap()
    });
    let (waited, refused) = (
        gauge(&server, "signing-waits"),
        gauge(&server, "signing-refusals"),
    );
    println!(
        "{style}, {NAMES} new names: {whole} signed, {cut} cut; {waited} waited, {refused} were refused; \
         {asked} questions of others, {} lost",
        lost.len()
    );
    assert!(lost.is_empty(), "{lost:?}");
    assert!(asked > 0 && whole > 0);
    (waited + refused, gauge(&server, "signatures"))
}

#[test]
fn a_flood_of_names_to_be_signed_loses_no_query_for_another_zone() {
    assert!(check_flood("white-lies").0 > NAMES as u64 / 2);
}

#[test]
fn a_flood_of_names_that_a_chain_denies_costs_the_signatures_of_the_chain() {
    // The zone has a handful of names; two threads may sign the same.
    let (_, signatures) = check_flood("chain");
    assert!(signatures < 40, "{signatures}");
}
