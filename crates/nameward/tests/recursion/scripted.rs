//! A resolver that answers as a test sets it, over UDP and TCP.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use nameward_testkit::wire::{Message, Transport};

/// The TTL of all records.
const TTL: u8 = 5;

/// The replies to a query; none is a timeout.
pub type Replies = Vec<Vec<u8>>;
type Script = dyn Fn(&[u8], Transport) -> Replies + Send + Sync;

/// A resolver; its threads end with the process of the test.
pub struct ScriptedResolver {
    pub address: SocketAddr,
    script: Arc<Mutex<Arc<Script>>>,
    questions: Arc<AtomicUsize>,
    /// Clients of the resolver: address and port of each datagram.
    sources: Arc<Mutex<Vec<SocketAddr>>>,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl ScriptedResolver {
    pub fn start(script: impl Fn(&[u8], Transport) -> Replies + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", script)
    }

    /// Starts it at an address with port 0.
    pub fn start_at(
        address: &str,
        script: impl Fn(&[u8], Transport) -> Replies + Send + Sync + 'static,
    ) -> Self {
        // The port must be free for both: more than one attempt, since other processes use ports, too.
        let (udp, tcp) = (0..50)
            .find_map(|_| {
                let udp = UdpSocket::bind(address).ok()?;
                let tcp = TcpListener::bind(udp.local_addr().ok()?).ok()?;
                Some((udp, tcp))
            })
            .expect("a port that is free for UDP and TCP");
        let resolver = ScriptedResolver {
            address: udp.local_addr().expect("it is bound"),
            script: Arc::new(Mutex::new(Arc::new(script))),
            questions: Arc::default(),
            sources: Arc::default(),
            received: Arc::default(),
        };
        resolver.serve_udp(udp);
        resolver.serve_tcp(tcp);
        resolver
    }

    /// Answers otherwise from now on.
    pub fn change(&self, script: impl Fn(&[u8], Transport) -> Replies + Send + Sync + 'static) {
        *self.script.lock().unwrap() = Arc::new(script);
    }

    /// Questions received so far, over UDP and TCP.
    pub fn questions(&self) -> usize {
        self.questions.load(Ordering::Relaxed)
    }

    /// Senders of the datagrams received so far.
    pub fn sources(&self) -> Vec<SocketAddr> {
        self.sources.lock().unwrap().clone()
    }

    /// Datagrams received so far.
    pub fn received(&self) -> Vec<Vec<u8>> {
        self.received.lock().unwrap().clone()
    }

    fn serve_udp(&self, socket: UdpSocket) {
        let (script, questions) = (Arc::clone(&self.script), Arc::clone(&self.questions));
        let (sources, received) = (Arc::clone(&self.sources), Arc::clone(&self.received));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((len, client)) = socket.recv_from(&mut buffer) {
                questions.fetch_add(1, Ordering::Relaxed);
                sources.lock().unwrap().push(client);
                received.lock().unwrap().push(buffer[..len].to_vec());
                let now = Arc::clone(&script.lock().unwrap());
                let (query, socket) = (buffer[..len].to_vec(), socket.try_clone().unwrap());
                // A script may wait.
                thread::spawn(move || {
                    for reply in now(&query, Transport::Udp) {
                        let _ = socket.send_to(&reply, client);
                    }
                });
            }
        });
    }

    fn serve_tcp(&self, listener: TcpListener) {
        let (script, questions) = (Arc::clone(&self.script), Arc::clone(&self.questions));
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                questions.fetch_add(1, Ordering::Relaxed);
                let now = Arc::clone(&script.lock().unwrap());
                thread::spawn(move || answer_stream(stream, &*now));
            }
        });
    }
}

fn answer_stream(mut stream: TcpStream, script: &Script) -> Option<()> {
    let mut len = [0; 2];
    stream.read_exact(&mut len).ok()?;
    let mut query = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut query).ok()?;
    let replies = script(&query, Transport::Tcp);
    for reply in &replies {
        let len = (reply.len() as u16).to_be_bytes();
        stream.write_all(&[&len[..], reply].concat()).ok()?;
    }
    if replies.is_empty() {
        // Silence is an open connection.
        thread::sleep(Duration::from_secs(60));
    }
    Some(())
}

/// The question of a message: its octets from the name to the class.
fn question_end(query: &[u8]) -> usize {
    let mut at = 12;
    while query[at] != 0 {
        at += 1 + usize::from(query[at]);
    }
    at + 5
}

/// A reply to a query: a response code, and answer records as type and data.
pub fn reply(query: &[u8], rcode: u8, records: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut reply = query[..question_end(query)].to_vec();
    reply[2] = 0x81;
    reply[3] = 0x80 | rcode;
    reply[4..12].copy_from_slice(&[0, 1, 0, records.len() as u8, 0, 0, 0, 0]);
    for (rtype, data) in records {
        let [t0, t1] = rtype.to_be_bytes();
        let [l0, l1] = (data.len() as u16).to_be_bytes();
        reply.extend_from_slice(&[0xc0, 12, t0, t1, 0, 1, 0, 0, 0, TTL, l0, l1]);
        reply.extend_from_slice(data);
    }
    reply
}

/// A reply with one address, 192.0.2.`last`.
pub fn address(query: &[u8], last: u8) -> Vec<u8> {
    reply(query, 0, &[(1, vec![192, 0, 2, last])])
}

/// A reply with one TXT record.
pub fn text(query: &[u8], text: &str) -> Vec<u8> {
    let data = [&[text.len() as u8][..], text.as_bytes()].concat();
    reply(query, 0, &[(16, data)])
}

/// The last octet of the only address of an answer.
pub fn last_octet(message: &Message) -> Option<u8> {
    match &message.answer[..] {
        [record] => record.data.last().copied(),
        _ => None,
    }
}
