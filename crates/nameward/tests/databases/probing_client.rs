//! Queries a server whose answers may arrive in another order than the queries.

use nameward_testkit::TestFailure;
use nameward_testkit::wire::{Exchange, Transport};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);

/// A server that looks up while it answers.
pub struct ProbingClient {
    pub address: SocketAddr,
    /// How long after that an answer to a later query may arrive: only a missing answer takes this long.
    pub late: Duration,
}

/// A query that any server answers at once.
fn probe(id: u16) -> Vec<u8> {
    let mut packet = id.to_be_bytes().to_vec();
    packet.extend_from_slice(b"\0\0\0\x01\0\0\0\0\0\0\x05probe\x07invalid\0\0\x01\0\x01");
    packet
}

fn id(message: &[u8]) -> Option<u16> {
    message.first_chunk().map(|id| u16::from_be_bytes(*id))
}

/// Reads replies until the expected one arrives, or the timeout expires.
fn read_reply(
    wanted: Option<u16>,
    (probe, late): (u16, Duration),
    mut next: impl FnMut(Duration) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let mut deadline = Instant::now() + TIMEOUT;
    loop {
        let left = deadline.checked_duration_since(Instant::now())?;
        let reply = next(left.max(Duration::from_millis(1)))?;
        if id(&reply) == wanted {
            return Some(reply);
        }
        if id(&reply) == Some(probe) {
            deadline = Instant::now() + late;
        }
    }
}

impl Exchange for ProbingClient {
    fn exchange(
        &self,
        transport: Transport,
        message: &[u8],
    ) -> Result<Option<Vec<u8>>, TestFailure> {
        let wanted = id(message);
        let probe_id = wanted.map_or(0x5a5a, |id| !id);
        Ok(match transport {
            Transport::Udp => {
                let socket = UdpSocket::bind("127.0.0.1:0")?;
                socket.connect(self.address)?;
                socket.send(message)?;
                socket.send(&probe(probe_id))?;
                read_reply(wanted, (probe_id, self.late), |left| {
                    socket.set_read_timeout(Some(left)).ok()?;
                    let mut reply = vec![0; 65_535];
                    let len = socket.recv(&mut reply).ok()?;
                    reply.truncate(len);
                    Some(reply)
                })
            }
            Transport::Tcp => {
                let mut stream = TcpStream::connect(self.address)?;
                for packet in [message, &probe(probe_id)] {
                    let len = (packet.len() as u16).to_be_bytes();
                    // The server may have closed the connection after the first one.
                    let _ = stream.write_all(&[&len, packet].concat());
                }
                read_reply(wanted, (probe_id, self.late), |left| {
                    stream.set_read_timeout(Some(left)).ok()?;
                    let mut len = [0; 2];
                    stream.read_exact(&mut len).ok()?;
                    let mut reply = vec![0; u16::from_be_bytes(len).into()];
                    stream.read_exact(&mut reply).ok()?;
                    Some(reply)
                })
            }
        })
    }
}
