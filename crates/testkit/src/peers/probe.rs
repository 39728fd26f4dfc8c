//! A probe for whether a server already answers for a zone.
//!
//! Deliberately independent of our own wire code: a peer's readiness must not depend on the code
//! under test.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Number of zones queried before a server with many zones counts as ready.
const MAX_PROBES: usize = 64;
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);

/// A connected socket that queries SOA records.
pub(super) struct Probe {
    socket: UdpSocket,
    id: u16,
}

impl Probe {
    pub(super) fn connect(server: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self { socket, id: 0 })
    }

    /// Checks whether the server now returns an authoritative SOA for the zone. A refused
    /// connection, a timeout and any other kind of answer (SERVFAIL while loading) all mean not
    /// yet.
    pub(super) fn is_answered(&mut self, zone: &str) -> io::Result<bool> {
        self.id = self.id.wrapping_add(1);
        let query = soa_query(self.id, zone)?;
        if self.socket.send(&query).is_err() {
            return Ok(false);
        }
        let mut buffer = [0; 4096];
        // Late answers to earlier probes are skipped; there is a bounded number of them.
        for _ in 0..16 {
            match self.socket.recv(&mut buffer) {
                Ok(length) if length >= 12 && buffer[..2] == query[..2] => {
                    return Ok(is_authoritative_data(&buffer[..length]));
                }
                Ok(_) => {}
                Err(_) => return Ok(false),
            }
        }
        Ok(false)
    }
}

/// Returns at most `MAX_PROBES` of the zones, evenly spread, including the first and the last.
pub(super) fn sample<'a>(zones: &[&'a str]) -> Vec<&'a str> {
    let count = zones.len().min(MAX_PROBES);
    (0..count)
        .map(|i| zones[i * (zones.len() - 1) / (count - 1).max(1)])
        .collect()
}

/// Checks for QR and AA set, NOERROR, and at least one answer record.
fn is_authoritative_data(message: &[u8]) -> bool {
    message[2] & 0x84 == 0x84 && message[3] & 0x0f == 0 && (message[6], message[7]) != (0, 0)
}

fn soa_query(id: u16, zone: &str) -> io::Result<Vec<u8>> {
    let mut query = Vec::with_capacity(64);
    query.extend_from_slice(&id.to_be_bytes());
    query.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in zone.split('.').filter(|label| !label.is_empty()) {
        let length = u8::try_from(label.len()).ok().filter(|&n| n < 64);
        query.push(length.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("zone name {zone}"))
        })?);
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 6, 0, 1]);
    Ok(query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_first_and_the_last_zone() {
        let names: Vec<String> = (0..1000).map(|i| format!("z{i}.example")).collect();
        let zones: Vec<&str> = names.iter().map(String::as_str).collect();
        let picked = sample(&zones);
        assert_eq!(picked.len(), MAX_PROBES);
        assert_eq!(picked[0], "z0.example");
        assert_eq!(picked[MAX_PROBES - 1], "z999.example");
        assert_eq!(sample(&["one.example"]), ["one.example"]);
        assert!(sample(&[]).is_empty());
    }

    #[test]
    fn the_root_is_a_zone_name() {
        assert_eq!(soa_query(1, ".").unwrap()[12..], [0, 0, 6, 0, 1]);
        assert_eq!(
            soa_query(1, "a.bc.").unwrap()[12..],
            *b"\x01a\x02bc\0\0\x06\0\x01"
        );
    }

    #[test]
    fn servfail_and_referrals_are_not_ready() {
        let mut message = [0, 1, 0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0];
        assert!(is_authoritative_data(&message));
        message[3] = 2;
        assert!(!is_authoritative_data(&message));
        message[3] = 0;
        message[2] = 0x80;
        assert!(!is_authoritative_data(&message));
    }
}
