//! A primary that sends what a test sets: honest zones and differences, or anything else.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

pub const SOA: u16 = 6;
pub const IXFR: u16 = 251;
pub const AXFR: u16 = 252;

/// The times in the SOA: refresh, retry, expire, minimum.
pub type Times = [u32; 4];

/// The zone `example.`: one address, which is the serial's last octet.
#[derive(Clone, Copy)]
pub struct Version {
    pub serial: u32,
    pub times: Times,
}

/// A request for a transfer.
pub struct TransferRequest {
    pub id: [u8; 2],
    pub qtype: u16,
    /// The serial that the secondary has, in an IXFR (RFC 1995 section 3).
    pub have: Option<u32>,
    pub version: Version,
}

/// The reply to a transfer request: raw octets, and what happens after them.
pub struct Reply {
    pub octets: Vec<u8>,
    pub end: ReplyEnd,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ReplyEnd {
    Close,
    Stall,
    /// The same octets again, as long as the client reads.
    Repeat,
}

type Script = dyn Fn(&TransferRequest) -> Reply + Send + Sync;

struct State {
    version: Version,
    script: Arc<Script>,
}

/// A running primary.
pub struct Primary {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    pub whole: Arc<AtomicUsize>,
    pub incremental: Arc<AtomicUsize>,
    is_silent: Arc<AtomicBool>,
}

impl Primary {
    /// Starts an honest primary.
    pub fn start(version: Version) -> Self {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
                break (udp, tcp);
            }
        };
        let primary = Primary {
            address: udp.local_addr().unwrap(),
            state: Arc::new(Mutex::new(State {
                version,
                script: Arc::new(honest),
            })),
            whole: Arc::default(),
            incremental: Arc::default(),
            is_silent: Arc::default(),
        };
        let (state, is_silent) = (Arc::clone(&primary.state), Arc::clone(&primary.is_silent));
        thread::spawn(move || answer_soa(&udp, &state, &is_silent));
        let state = Arc::clone(&primary.state);
        let counts = (Arc::clone(&primary.whole), Arc::clone(&primary.incremental));
        thread::spawn(move || {
            for stream in tcp.incoming().flatten() {
                let (state, counts) = (Arc::clone(&state), counts.clone());
                thread::spawn(move || answer_transfer(stream, &state, &counts));
            }
        });
        primary
    }

    /// The serial that it has.
    pub fn serial(&self) -> u32 {
        self.state.lock().unwrap().version.serial
    }

    /// Sets the serial that it has.
    pub fn set_serial(&self, serial: u32) {
        self.state.lock().unwrap().version.serial = serial;
    }

    /// Sets the replies to transfer requests.
    pub fn set_script(&self, script: impl Fn(&TransferRequest) -> Reply + Send + Sync + 'static) {
        self.state.lock().unwrap().script = Arc::new(script);
    }

    /// Answers no datagram any more, or does again.
    pub fn set_silent(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::SeqCst);
    }
}

fn answer_soa(udp: &UdpSocket, state: &Mutex<State>, is_silent: &AtomicBool) {
    let mut buffer = [0; 2048];
    while let Ok((_, from)) = udp.recv_from(&mut buffer) {
        if is_silent.load(Ordering::SeqCst) {
            continue;
        }
        let version = state.lock().unwrap().version;
        let reply = message([buffer[0], buffer[1]], SOA, &[soa(version)]);
        let _ = udp.send_to(&reply, from);
    }
}

fn answer_transfer(
    mut stream: TcpStream,
    state: &Mutex<State>,
    counts: &(Arc<AtomicUsize>, Arc<AtomicUsize>),
) {
    let mut length = [0; 2];
    if stream.read_exact(&mut length).is_err() {
        return;
    }
    let mut request = vec![0; u16::from_be_bytes(length).into()];
    if stream.read_exact(&mut request).is_err() {
        return;
    }
    // The question is `example.`: nine octets.
    let qtype = u16::from_be_bytes([request[21], request[22]]);
    match qtype {
        IXFR => counts.1.fetch_add(1, Ordering::SeqCst),
        _ => counts.0.fetch_add(1, Ordering::SeqCst),
    };
    let (version, script) = {
        let state = state.lock().unwrap();
        (state.version, Arc::clone(&state.script))
    };
    let reply = script(&TransferRequest {
        id: [request[0], request[1]],
        qtype,
        // After the question a pointer, type, class, TTL and length, then two names of one octet.
        have: request
            .get(39..43)
            .map(|serial| u32::from_be_bytes(serial.try_into().unwrap())),
        version,
    });
    let mut is_open = stream.write_all(&reply.octets).is_ok();
    match reply.end {
        ReplyEnd::Close => {}
        ReplyEnd::Stall => {
            // Until the peer gives up.
            let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
            let _ = stream.read(&mut length);
        }
        ReplyEnd::Repeat => {
            while is_open {
                is_open = stream.write_all(&reply.octets).is_ok();
            }
        }
    }
}

/// Answers as an honest primary does: the whole zone, or one difference for each serial.
pub fn honest(request: &TransferRequest) -> Reply {
    Reply {
        octets: frame(&whole(request, request.version)),
        end: ReplyEnd::Close,
    }
}

/// The whole zone in one message.
pub fn whole(request: &TransferRequest, version: Version) -> Vec<u8> {
    message(request.id, request.qtype, &records(version))
}

pub fn records(version: Version) -> Vec<Vec<u8>> {
    vec![
        soa(version),
        record(b"\xc0\x0c", 2, b"\x02ns\xc0\x0c"),
        record(b"\x02ns\xc0\x0c", 1, &[192, 0, 2, 53]),
        host(version),
        soa(version),
    ]
}

/// The address that encodes the serial.
pub fn host(version: Version) -> Vec<u8> {
    record(b"\x03www\xc0\x0c", 1, &[192, 0, 2, version.serial as u8])
}

/// A difference of one record.
pub fn difference(from: Version, to: Version) -> Vec<Vec<u8>> {
    vec![soa(from), host(from), soa(to), host(to)]
}

pub fn soa(version: Version) -> Vec<u8> {
    let mut rdata = b"\x01m\0\x01h\0".to_vec();
    rdata.extend(version.serial.to_be_bytes());
    version
        .times
        .iter()
        .for_each(|time| rdata.extend(time.to_be_bytes()));
    record(b"\xc0\x0c", SOA, &rdata)
}

pub fn record(owner: &[u8], rtype: u16, rdata: &[u8]) -> Vec<u8> {
    let mut out = owner.to_vec();
    out.extend(rtype.to_be_bytes());
    out.extend([0, 1, 0, 0, 0, 60]);
    out.extend((rdata.len() as u16).to_be_bytes());
    out.extend_from_slice(rdata);
    out
}

/// A reply with these answers.
pub fn message(id: [u8; 2], qtype: u16, records: &[Vec<u8>]) -> Vec<u8> {
    let mut out = id.to_vec();
    out.extend([0x84, 0, 0, 1]);
    out.extend((records.len() as u16).to_be_bytes());
    out.extend([0; 4]);
    out.extend(b"\x07example\0");
    out.extend(qtype.to_be_bytes());
    out.extend([0, 1]);
    records
        .iter()
        .for_each(|record| out.extend_from_slice(record));
    out
}

/// A message with its length prefix.
pub fn frame(message: &[u8]) -> Vec<u8> {
    let mut out = (message.len() as u16).to_be_bytes().to_vec();
    out.extend_from_slice(message);
    out
}
