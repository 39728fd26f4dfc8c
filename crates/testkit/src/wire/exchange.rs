//! Sending of one message and receiving of its answer, over UDP and TCP.

use super::{Message, Name, Question, encode_question};
use crate::TestFailure;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// Generous, so that a busy machine fails no test; a server that answers is never waited for.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How much later than the probe's the answer may arrive, in a server that answers out of order.
const REORDER: Duration = Duration::from_millis(200);

/// How a message is transported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Transport {
    /// One datagram.
    Udp,
    /// One connection.
    Tcp,
}

impl std::fmt::Display for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        })
    }
}

/// Anything that takes a message and may return one: a server behind sockets, or an engine.
pub trait Exchange {
    /// Sends a message. `Ok(None)` means that it was read and no answer will come.
    fn exchange(
        &self,
        transport: Transport,
        message: &[u8],
    ) -> Result<Option<Vec<u8>>, TestFailure>;
}

/// A server behind an address.
pub struct Sockets {
    /// UDP and TCP address.
    pub address: SocketAddr,
}

impl Exchange for Sockets {
    /// Sends a message, followed by a probe that distinguishes silence from slowness: if only the probe is answered,
    /// the message never will be (both reach the same socket in order).
    fn exchange(
        &self,
        transport: Transport,
        message: &[u8],
    ) -> Result<Option<Vec<u8>>, TestFailure> {
        let probe_id = message
            .first_chunk()
            .map_or(0x5a5a, |id| !u16::from_be_bytes(*id));
        let probe = probe(probe_id);
        let outcome = match transport {
            Transport::Udp => self.over_udp(message, &probe),
            Transport::Tcp => self.over_tcp(message, &probe),
        };
        outcome.map_err(|error| TestFailure::from(error).at(transport))
    }
}

/// Returns a query that every server answers, if only with REFUSED.
fn probe(id: u16) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    encode_question(
        &mut message,
        &Question {
            name: Name::root(),
            rtype: 2,
            class: 1,
        },
    );
    message
}

impl Sockets {
    fn over_udp(&self, message: &[u8], probe: &[u8]) -> std::io::Result<Option<Vec<u8>>> {
        let local = if self.address.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        };
        let socket = UdpSocket::bind(local)?;
        socket.connect(self.address)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.send(message)?;
        socket.send(probe)?;
        let mut buffer = vec![0; 65535];
        for _ in 0..2 {
            let length = match socket.recv(&mut buffer) {
                Ok(length) => length,
                Err(error)
                    if is_quiet(&error) && TIMEOUT > socket.read_timeout()?.unwrap_or(TIMEOUT) =>
                {
                    break;
                }
                Err(error) => return Err(error),
            };
            if !buffer[..length].starts_with(&probe[..2]) {
                return Ok(Some(buffer[..length].to_vec()));
            }
            socket.set_read_timeout(Some(REORDER))?;
        }
        Ok(None)
    }

    fn over_tcp(&self, message: &[u8], probe: &[u8]) -> std::io::Result<Option<Vec<u8>>> {
        let mut stream = TcpStream::connect_timeout(&self.address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut both = Vec::new();
        for part in [message, probe] {
            both.extend_from_slice(&(part.len() as u16).to_be_bytes());
            both.extend_from_slice(part);
        }
        stream.write_all(&both)?;
        // Answers may arrive in any order (RFC 7766 section 6.2.1.1), so the probe's may be first.
        for _ in 0..2 {
            let Some(reply) = read_framed(&mut stream)? else {
                return Ok(None);
            };
            if !reply.starts_with(&probe[..2]) {
                return Ok(Some(reply));
            }
            stream.set_read_timeout(Some(REORDER))?;
        }
        Ok(None)
    }
}

fn is_quiet(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock
    )
}

/// Reads one message preceded by its length; `None` if the peer closed or is silent.
fn read_framed(stream: &mut TcpStream) -> std::io::Result<Option<Vec<u8>>> {
    use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
    let mut length = [0; 2];
    match stream.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), UnexpectedEof | ConnectionReset) => return Ok(None),
        Err(error) if is_quiet(&error) => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut message = vec![0; u16::from_be_bytes(length) as usize];
    stream.read_exact(&mut message)?;
    Ok(Some(message))
}

/// Checks whether a server answers there at all; the readiness check at startup.
pub fn answers(address: SocketAddr) -> bool {
    let attempt = || -> std::io::Result<bool> {
        let socket = UdpSocket::bind(if address.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        })?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        socket.send(&probe(1))?;
        let mut buffer = [0; 512];
        let length = socket.recv(&mut buffer)?;
        Ok(Message::read(&buffer[..length]).is_ok())
    };
    attempt().unwrap_or(false)
}
