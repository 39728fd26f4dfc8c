//! A flood of handshakes, as cheap as possible for the attacker, and one client over UDP.
//!
//! The flood sends the same recorded first flight on each connection, so that the server computes a key exchange and a
//! signature, and resets the connection when the server's flight arrives: the attacker computes nothing.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio_rustls::rustls::ClientConnection;

use super::EncryptedTransport;
use super::clients::{self, ClientError, Sessions};
use crate::latency::Histogram;
use crate::queries::Queries;

/// Connections of the flood at the same time.
const FLOODERS: usize = 32;
/// Time between two queries over UDP.
const INTERVAL: Duration = Duration::from_millis(1);
/// A query without an answer for this long is lost.
const PATIENCE: Duration = Duration::from_millis(500);

/// What the client over UDP saw.
#[derive(Clone, Debug, Default)]
pub struct UdpFigures {
    pub sent: u64,
    pub lost: u64,
    pub latency: Histogram,
}

/// Returns the first flight of a client.
fn first_flight(authority: &Path) -> Result<Vec<u8>, ClientError> {
    let config = clients::config(authority, EncryptedTransport::Tls, Sessions::Never)?;
    let mut client = ClientConnection::new(Arc::new(config), clients::server_name())?;
    let mut flight = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut flight)?;
    }
    Ok(flight)
}

/// Sends one query at a time for a while.
fn send_queries(server: SocketAddr, queries: &Queries, time: Duration) -> io::Result<UdpFigures> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let (begin, mut figures, mut reply) = (Instant::now(), UdpFigures::default(), [0; 4096]);
    while begin.elapsed() < time {
        let index = figures.sent as usize % queries.len();
        let mut query = queries.message(index).to_vec();
        let id = (figures.sent as u16).to_be_bytes();
        query[..2].copy_from_slice(&id);
        let sent = Instant::now();
        socket.send(&query)?;
        figures.sent += 1;
        loop {
            match socket.recv(&mut reply) {
                Ok(length) if length > 2 && reply[..2] == id => {
                    figures.latency.record(sent.elapsed());
                    break;
                }
                // A late answer to an earlier query.
                Ok(_) => {}
                Err(_) => {
                    figures.lost += 1;
                    break;
                }
            }
        }
        thread::sleep(INTERVAL);
    }
    Ok(figures)
}

/// Starts handshakes until it is stopped; counts those that the server has computed.
fn flood(server: SocketAddr, flight: &[u8], stop: &AtomicBool, answered: &AtomicU64) {
    let shake = || -> io::Result<()> {
        let mut stream = TcpStream::connect(server)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // A reset does not leave the port in TIME_WAIT.
        SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        stream.write_all(flight)?;
        if stream.read(&mut [0; 4096])? > 0 {
            answered.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    while !stop.load(Ordering::Relaxed) {
        if shake().is_err() {
            thread::yield_now();
        }
    }
}

/// The figures of a server without and with a flood.
pub struct FloodedByHandshakes {
    pub quiet: UdpFigures,
    pub flooded: UdpFigures,
    /// Handshakes per second that the server computed.
    pub handshakes: f64,
}

/// Queries a server over UDP, first alone, then during a flood.
pub fn measure(
    (udp, tls): (SocketAddr, SocketAddr),
    authority: &Path,
    queries: &Queries,
    time: Duration,
) -> Result<FloodedByHandshakes, ClientError> {
    let flight = first_flight(authority)?;
    let quiet = send_queries(udp, queries, time)?;
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..FLOODERS {
            scope.spawn(|| flood(tls, &flight, &stop, &answered));
        }
        let begin = Instant::now();
        let flooded = send_queries(udp, queries, time);
        stop.store(true, Ordering::Relaxed);
        Ok(FloodedByHandshakes {
            quiet,
            flooded: flooded?,
            handshakes: answered.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64(),
        })
    })
}
