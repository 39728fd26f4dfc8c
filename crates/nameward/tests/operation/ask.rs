//! Questions to a running server, and a client that never stops asking.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use nameward_testkit::TestFailure;
use nameward_testkit::wire::{Message, Name, Question, encode_question, type_from_text};

/// A zone with a distinct address record, so that versions differ.
pub fn zone(host: &str) -> String {
    format!("$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n{host} A 192.0.2.2\n")
}

fn query(id: u16, name: &str, rtype: &str) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let question = Question {
        name: Name::parse(name).unwrap(),
        rtype: type_from_text(rtype).unwrap(),
        class: 1,
    };
    encode_question(&mut message, &question);
    message
}

fn client(server: SocketAddr) -> UdpSocket {
    let local = if server.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let socket = UdpSocket::bind(local).unwrap();
    socket.connect(server).unwrap();
    // Only a lost query takes so long.
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    socket
}

fn exchange(socket: &UdpSocket, id: u16, name: &str) -> std::io::Result<Message> {
    exchange_of(socket, id, (name, "A"))
}

fn exchange_of(
    socket: &UdpSocket,
    id: u16,
    (name, rtype): (&str, &str),
) -> std::io::Result<Message> {
    socket.send(&query(id, name, rtype))?;
    let mut buffer = [0; 2048];
    loop {
        let length = socket.recv(&mut buffer)?;
        let message = Message::read(&buffer[..length]).map_err(std::io::Error::other)?;
        if message.id == id {
            return Ok(message);
        }
    }
}

/// Returns the answer to a query for an address.
pub fn ask(server: SocketAddr, name: &str) -> Message {
    exchange(&client(server), 7, name).expect("the server answers")
}

/// The response code for a name: 0 NOERROR, 3 NXDOMAIN, 5 REFUSED.
pub fn rcode(server: SocketAddr, name: &str) -> u16 {
    ask(server, name).rcode()
}

/// The address in the answer for a name, if it is one.
pub fn answered_address(server: SocketAddr, name: &str) -> Option<[u8; 4]> {
    let answer = ask(server, name).answer;
    answer.first()?.data[..].try_into().ok()
}

/// Whether a name has records of a type.
pub fn has_record(server: SocketAddr, name: &str, rtype: &str) -> bool {
    let answer = exchange_of(&client(server), 8, (name, rtype));
    !answer.expect("the server answers").answer.is_empty()
}

/// The RDATA of all records in an answer.
pub fn answered_data(server: SocketAddr, name: &str, rtype: &str) -> Vec<Vec<u8>> {
    let answer = exchange_of(&client(server), 10, (name, rtype)).expect("the server answers");
    answer
        .answer
        .into_iter()
        .map(|record| record.data)
        .collect()
}

/// The serial of a zone.
pub fn serial(server: SocketAddr, zone: &str) -> u32 {
    serial_if_served(server, zone).expect("a SOA")
}

/// The serial of a zone, if it is answered.
pub fn serial_if_served(server: SocketAddr, zone: &str) -> Option<u32> {
    let message = exchange_of(&client(server), 9, (zone, "SOA")).expect("the server answers");
    let soa = &message.answer.first()?.data;
    let at = soa.len() - 20;
    Some(u32::from_be_bytes(soa[at..at + 4].try_into().unwrap()))
}

/// Waits until `read` returns a value that `wanted` accepts, and returns the last value. A worker counts a query
/// after its answer was sent, so a client may read the counter before that.
pub fn eventually<T>(mut read: impl FnMut() -> T, wanted: impl Fn(&T) -> bool) -> T {
    for _ in 0..3000 {
        let value = read();
        if wanted(&value) {
            return value;
        }
        thread::sleep(Duration::from_millis(10));
    }
    read()
}

/// Sends one query after the other until it is stopped.
pub struct ConstantClient {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
    thread: JoinHandle<Result<(), TestFailure>>,
}

impl ConstantClient {
    /// Every answer must be NOERROR with one record.
    pub fn start(server: SocketAddr, name: &'static str) -> Self {
        let (stop, asked) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&asked));
        let thread = thread::spawn(move || {
            let socket = client(server);
            while !stopped.load(Ordering::Relaxed) {
                let number = counted.fetch_add(1, Ordering::Relaxed);
                match exchange(&socket, number as u16, name) {
                    Ok(message) if message.rcode() == 0 && message.answer.len() == 1 => {}
                    Ok(message) => return Err(format!("query {number}: {message:?}").into()),
                    Err(error) => return Err(format!("query {number} was lost: {error}").into()),
                }
            }
            Ok(())
        });
        Self {
            stop,
            asked,
            thread,
        }
    }

    /// Waits until it has sent this many more queries.
    pub fn wait_for(&self, more: u64) {
        let goal = self.asked.load(Ordering::Relaxed) + more;
        while self.asked.load(Ordering::Relaxed) < goal && !self.thread.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops and returns what went wrong, if anything.
    pub fn stop(self) -> Result<(), TestFailure> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// The reply to a GET request.
pub fn get(address: std::net::SocketAddr, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream
        .write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())
        .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}
