//! A primary for all secondaries alike: its messages are prepared before the first request, so that it costs next to nothing.
//!
//! It answers queries for the SOA, AXFR, and IXFR from the serial before. Names are compressed by pointers into the first
//! 16 KiB of a message, so messages have no more than that.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::random::mix;
use crate::scenario::label;

const A: u16 = 1;
const NS: u16 = 2;
const SOA: u16 = 6;
const IXFR: u16 = 251;
const AXFR: u16 = 252;
/// Octets of a message, below which pointers reach everything.
const MESSAGE_MAX: usize = 16_000;
/// Octets that the records of one name take at most.
const NAME_ROOM: usize = 160;
/// A pointer to the name of the question.
const APEX: [u8; 2] = [0xc0, 12];
/// Octets that are written at once.
const CHUNK: usize = 1 << 20;

/// The contents of the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeZone {
    /// Delegations with two name servers and glue: three records each.
    Delegations(usize),
    /// Names with an address each.
    Addresses(usize),
    /// Seven records, whatever the name of the zone is.
    Small,
}

/// A running primary; its threads end with the process.
pub struct MadePrimary {
    /// Where it answers.
    pub address: SocketAddr,
    shared: Arc<PrimaryState>,
}

struct PrimaryState {
    zone: MadeZone,
    /// The whole zone with serial 1, in messages behind their lengths; none for small zones.
    whole: Vec<u8>,
    serial: AtomicU32,
    /// Records of a difference, half of which go and half come.
    changes: usize,
    transfers: AtomicU64,
    /// The time of the first request for a transfer since this was last read.
    asked: Mutex<Option<Instant>>,
}

impl MadePrimary {
    /// Starts a primary of `zone`, whose name is `name`; each new serial has so many records changed.
    pub fn start(name: &str, zone: MadeZone, changes: usize) -> io::Result<Self> {
        let (udp, tcp) = bind()?;
        let whole = match zone {
            MadeZone::Small => Vec::new(),
            _ => whole_zone(&wire_name(name), zone),
        };
        let shared = Arc::new(PrimaryState {
            zone,
            whole,
            serial: AtomicU32::new(1),
            changes,
            transfers: AtomicU64::new(0),
            asked: Mutex::default(),
        });
        let address = udp.local_addr()?;
        let state = Arc::clone(&shared);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((len, from)) = udp.recv_from(&mut buffer) {
                if let Some(reply) = state.soa_reply(&buffer[..len]) {
                    let _ = udp.send_to(&reply, from);
                }
            }
        });
        let state = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in tcp.incoming().flatten() {
                let state = Arc::clone(&state);
                thread::spawn(move || state.serve(stream));
            }
        });
        Ok(MadePrimary { address, shared })
    }

    /// Raises the serial; secondaries that have the one before get the difference.
    pub fn change(&self) -> u32 {
        self.shared.serial.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The time of the first request for a transfer since the last call.
    pub fn first_asked(&self) -> Option<Instant> {
        self.shared.asked.lock().ok()?.take()
    }

    /// Requests for transfers so far.
    pub fn transfers(&self) -> u64 {
        self.shared.transfers.load(Ordering::SeqCst)
    }

    /// Sends a NOTIFY of the zone.
    pub fn notify(&self, name: &str, secondary: SocketAddr) -> io::Result<()> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let mut message = b"\x12\x34\x24\0\0\x01\0\0\0\0\0\0".to_vec();
        message.extend(wire_name(name));
        message.extend([0, SOA as u8, 0, 1]);
        socket.send_to(&message, secondary)?;
        Ok(())
    }

    /// The last octet of the address that a changed name has in a version.
    pub fn octet(serial: u32) -> u8 {
        (serial % 250) as u8
    }
}

/// Binds a port for both transports.
fn bind() -> io::Result<(UdpSocket, TcpListener)> {
    let mut last = io::ErrorKind::AddrInUse.into();
    for _ in 0..50 {
        let udp = UdpSocket::bind("127.0.0.1:0")?;
        match TcpListener::bind(udp.local_addr()?) {
            Ok(tcp) => return Ok((udp, tcp)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl PrimaryState {
    fn soa_reply(&self, query: &[u8]) -> Option<Vec<u8>> {
        let (question, _) = question_of(query)?;
        let mut packer = MessagePacker::new(question);
        packer.soa(self.serial.load(Ordering::SeqCst));
        let mut reply = packer.finish().split_off(2);
        reply[..2].copy_from_slice(query.get(..2)?);
        Some(reply)
    }

    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .ok()?;
        loop {
            let mut len = [0; 2];
            stream.read_exact(&mut len).ok()?;
            let mut query = vec![0; u16::from_be_bytes(len).into()];
            stream.read_exact(&mut query).ok()?;
            let (question, qtype) = question_of(&query)?;
            if matches!(qtype, AXFR | IXFR) {
                self.transfers.fetch_add(1, Ordering::SeqCst);
                let mut asked = self.asked.lock().ok()?;
                asked.get_or_insert_with(Instant::now);
            }
            let serial = self.serial.load(Ordering::SeqCst);
            let id = [query[0], query[1]];
            match qtype {
                IXFR if serial > 1 => send(&mut stream, &self.difference(question, serial), id),
                AXFR | IXFR if !self.whole.is_empty() => send(&mut stream, &self.whole, id),
                AXFR | IXFR => send(&mut stream, &small_zone(question, serial), id),
                _ => {
                    let reply = self.soa_reply(&query)?;
                    let len = (reply.len() as u16).to_be_bytes();
                    stream.write_all(&[&len[..], &reply].concat())
                }
            }
            .ok()?;
        }
    }

    /// The difference to the version before.
    fn difference(&self, question: &[u8], serial: u32) -> Vec<u8> {
        let MadeZone::Addresses(_) = self.zone else {
            return small_zone(question, serial);
        };
        let mut packer = MessagePacker::new(question);
        packer.soa(serial);
        for version in [serial - 1, serial] {
            packer.soa(version);
            for index in 0..self.changes / 2 {
                packer.room();
                let address = match version {
                    1 => address_of(index),
                    _ => [192, 0, 2, MadePrimary::octet(version)],
                };
                packer.below(&label(index), A, &address);
            }
        }
        packer.soa(serial);
        packer.finish()
    }
}

/// Writes messages with the id of a request.
fn send(stream: &mut TcpStream, messages: &[u8], id: [u8; 2]) -> io::Result<()> {
    let mut chunk = Vec::with_capacity(CHUNK + MESSAGE_MAX);
    let mut rest = messages;
    while let Some((len, behind)) = rest.split_first_chunk::<2>() {
        let (message, next) = behind.split_at(u16::from_be_bytes(*len).into());
        chunk.extend_from_slice(len);
        chunk.extend_from_slice(&id);
        chunk.extend_from_slice(&message[2..]);
        rest = next;
        if chunk.len() >= CHUNK {
            stream.write_all(&chunk)?;
            chunk.clear();
        }
    }
    stream.write_all(&chunk)
}

/// The octets of a question from its name to its class, and its type.
fn question_of(query: &[u8]) -> Option<(&[u8], u16)> {
    let mut at = 12;
    while *query.get(at)? != 0 {
        at += 1 + usize::from(query[at]);
    }
    let question = query.get(12..at + 5)?;
    let [t0, t1] = *question.get(question.len() - 4..)?.first_chunk()?;
    Some((question, u16::from_be_bytes([t0, t1])))
}

/// A name in wire form.
fn wire_name(name: &str) -> Vec<u8> {
    let labels = name.split('.').filter(|label| !label.is_empty());
    let mut wire: Vec<u8> = labels
        .flat_map(|label| [&[label.len() as u8][..], label.as_bytes()].concat())
        .collect();
    wire.push(0);
    wire
}

fn address_of(index: usize) -> [u8; 4] {
    let [_, b, c, d] = (mix(index as u64) as u32).to_be_bytes();
    [10, b, c, d]
}

/// Packs records into messages that are all answers to one question.
struct MessagePacker {
    question: Vec<u8>,
    out: Vec<u8>,
    /// Where the message begins that is packed, with its length.
    start: usize,
    records: u16,
}

impl MessagePacker {
    fn new(question: &[u8]) -> Self {
        let mut packer = MessagePacker {
            question: question.to_vec(),
            out: Vec::new(),
            start: 0,
            records: 0,
        };
        packer.begin();
        packer
    }

    fn begin(&mut self) {
        self.start = self.out.len();
        self.records = 0;
        self.out.extend(b"\0\0\0\0\x84\0\0\x01\0\0\0\0\0\0");
        self.out.extend_from_slice(&self.question);
    }

    fn end(&mut self) {
        let len = (self.out.len() - self.start - 2) as u16;
        self.out[self.start..self.start + 2].copy_from_slice(&len.to_be_bytes());
        let count = self.start + 8;
        self.out[count..count + 2].copy_from_slice(&self.records.to_be_bytes());
    }

    /// Begins another message where this one may not hold the next name.
    fn room(&mut self) {
        if self.out.len() - self.start + NAME_ROOM > MESSAGE_MAX {
            self.end();
            self.begin();
        }
    }

    /// A pointer to the next octet.
    fn pointer(&self) -> [u8; 2] {
        ((self.out.len() - self.start - 2) as u16 | 0xc000).to_be_bytes()
    }

    /// Adds a record; returns a pointer to its data.
    fn record(&mut self, owner: &[u8], rtype: u16, rdata: &[u8]) -> [u8; 2] {
        self.out.extend_from_slice(owner);
        self.out.extend_from_slice(&rtype.to_be_bytes());
        self.out.extend_from_slice(&[0, 1, 0, 0, 0x0e, 0x10]);
        self.out
            .extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        let at = self.pointer();
        self.out.extend_from_slice(rdata);
        self.records += 1;
        at
    }

    /// Adds a record of a label below the zone.
    fn below(&mut self, label: &str, rtype: u16, rdata: &[u8]) {
        let owner = [&[label.len() as u8][..], label.as_bytes(), &APEX].concat();
        self.record(&owner, rtype, rdata);
    }

    fn soa(&mut self, serial: u32) {
        self.room();
        let mut rdata = [&b"\x03ns1"[..], &APEX, b"\x0ahostmaster", &APEX].concat();
        for number in [serial, 7200, 3600, 1_209_600, 300] {
            rdata.extend(number.to_be_bytes());
        }
        self.record(&APEX, SOA, &rdata);
    }

    fn apex(&mut self) {
        self.soa(1);
        for (host, octet) in [("ns1", 1), ("ns2", 2)] {
            let server = [&b"\x03"[..], host.as_bytes(), &APEX].concat();
            self.record(&APEX, NS, &server);
            self.below(host, A, &[192, 0, 2, octet]);
        }
    }

    fn delegation(&mut self, index: usize) {
        self.room();
        let (name, hoster) = (label(index), mix(index as u64) % 1000);
        let owner_at = self.pointer();
        let owner = [&[name.len() as u8][..], name.as_bytes(), &APEX].concat();
        let glue_at = self.record(&owner, NS, &[&b"\x03ns1"[..], &owner_at].concat());
        self.record(&owner_at, NS, &wire_name(&format!("ns.h{hoster}.example")));
        self.record(&glue_at, A, &address_of(index));
    }

    fn finish(mut self) -> Vec<u8> {
        self.end();
        self.out
    }
}

fn whole_zone(name: &[u8], zone: MadeZone) -> Vec<u8> {
    let question = [name, &[0, AXFR as u8, 0, 1]].concat();
    let mut packer = MessagePacker::new(&question);
    packer.apex();
    match zone {
        MadeZone::Delegations(count) => (0..count).for_each(|index| packer.delegation(index)),
        MadeZone::Addresses(count) => {
            for index in 0..count {
                packer.room();
                packer.below(&label(index), A, &address_of(index));
            }
        }
        MadeZone::Small => {}
    }
    packer.soa(1);
    packer.finish()
}

/// A zone of seven records.
fn small_zone(question: &[u8], serial: u32) -> Vec<u8> {
    let mut packer = MessagePacker::new(question);
    packer.soa(serial);
    for (host, octet) in [("ns1", 1), ("ns2", 2)] {
        let server = [&b"\x03"[..], host.as_bytes(), &APEX].concat();
        packer.record(&APEX, NS, &server);
        packer.below(host, A, &[192, 0, 2, octet]);
    }
    packer.below("www", A, &[192, 0, 2, 3]);
    packer.below("mail", A, &[192, 0, 2, 4]);
    packer.soa(serial);
    packer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_has_its_length_and_its_records() {
        let whole = whole_zone(&wire_name("tld"), MadeZone::Delegations(2000));
        let (mut rest, mut records, mut messages) = (&whole[..], 0, 0);
        while let Some((len, behind)) = rest.split_first_chunk::<2>() {
            let (message, next) = behind.split_at(u16::from_be_bytes(*len).into());
            assert!(message.len() <= MESSAGE_MAX);
            records += usize::from(u16::from_be_bytes([message[6], message[7]]));
            messages += 1;
            rest = next;
        }
        assert!(messages > 5);
        assert_eq!(records, 1 + 4 + 3 * 2000 + 1);
    }
}
