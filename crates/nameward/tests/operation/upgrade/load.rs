//! Clients of every transport that send queries until they are stopped, and count failures.

use std::{
    fmt,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use nameward_testkit::{TestServer, wait_until};

use crate::operation::ask::rcode;

/// Maximum number of failures recorded per client.
const REASONS_MAX: usize = 5;

/// Why a query was not answered.
enum Failed {
    /// There was no answer, or a wrong one.
    Lost(String),
    /// The connection was not accepted.
    Refused(String),
}

/// What one client has seen.
#[derive(Default)]
struct Seen {
    asked: AtomicU64,
    lost: AtomicU64,
    refused: AtomicU64,
    reasons: Mutex<Vec<String>>,
}

/// What one client has seen, at the end.
pub struct LoadResult {
    transport: &'static str,
    asked: u64,
    pub lost: u64,
    pub refused: u64,
    reasons: Vec<String>,
}

impl LoadResult {
    pub fn reasons(&self) -> String {
        self.reasons.join("\n")
    }
}

impl fmt::Display for LoadResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoadResult {
            transport,
            asked,
            lost,
            refused,
            ..
        } = self;
        write!(
            f,
            "{transport}: {asked} queries, {lost} lost, {refused} refused"
        )
    }
}

/// The clients.
pub struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<(&'static str, Arc<Seen>, JoinHandle<()>)>,
}

impl Load {
    pub fn start(server: &TestServer) -> Self {
        let mut load = Load {
            stop: Arc::default(),
            clients: Vec::new(),
        };
        let plain = server.address();
        load.spawn("UDP", move || ask_over_udp(plain));
        load.spawn("UDP", move || ask_over_udp(plain));
        load.spawn("TCP", move || ask_over_tcp(plain));
        for (name, option, transport) in [
            ("DoT", "+tls", "TLS"),
            ("DoH", "+https=/dns-query", "HTTPS"),
            ("DoQ", "+quic", "QUIC"),
        ] {
            let port = server.encrypted(transport).port();
            load.spawn(name, move || ask_with_kdig(option, port));
        }
        load
    }

    /// Starts clients that use UDP alone.
    pub fn over_udp(at: SocketAddr) -> Self {
        let mut load = Load {
            stop: Arc::default(),
            clients: Vec::new(),
        };
        for _ in 0..4 {
            load.spawn("UDP", move || ask_over_udp(at));
        }
        load
    }

    fn spawn(
        &mut self,
        transport: &'static str,
        ask: impl Fn() -> Result<(), Failed> + Send + 'static,
    ) {
        let (stop, seen) = (Arc::clone(&self.stop), Arc::<Seen>::default());
        let noted = Arc::clone(&seen);
        let thread = thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let (count, reason) = match ask() {
                    Ok(()) => {
                        noted.asked.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    Err(Failed::Lost(reason)) => (&noted.lost, reason),
                    Err(Failed::Refused(reason)) => (&noted.refused, reason),
                };
                noted.asked.fetch_add(1, Ordering::Relaxed);
                count.fetch_add(1, Ordering::Relaxed);
                let mut reasons = noted.reasons.lock().unwrap();
                if reasons.len() < REASONS_MAX {
                    reasons.push(reason);
                }
            }
        });
        self.clients.push((transport, seen, thread));
    }

    /// Waits until each client has had a further answer.
    pub fn wait_for_each(&self) {
        for (transport, seen, _) in &self.clients {
            let before = seen.asked.load(Ordering::Relaxed);
            wait_until(transport, || seen.asked.load(Ordering::Relaxed) > before);
        }
    }

    /// Returns what each client has seen.
    pub fn stop(self) -> Vec<LoadResult> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.clients.into_iter().map(|(transport, seen, thread)| {
            thread.join().unwrap();
            LoadResult {
                transport,
                asked: seen.asked.load(Ordering::Relaxed),
                lost: seen.lost.load(Ordering::Relaxed),
                refused: seen.refused.load(Ordering::Relaxed),
                reasons: seen.reasons.lock().unwrap().clone(),
            }
        });
        ended.collect()
    }
}

fn ask_over_udp(server: SocketAddr) -> Result<(), Failed> {
    let answer = std::panic::catch_unwind(|| rcode(server, "www.one.example"));
    match answer {
        Ok(0) => Ok(()),
        Ok(code) => Err(Failed::Lost(format!("response code {code}"))),
        Err(_) => Err(Failed::Lost("no answer".into())),
    }
}

/// Asks over a new TCP connection.
fn ask_over_tcp(server: SocketAddr) -> Result<(), Failed> {
    let stream = TcpStream::connect(server);
    let stream = stream.map_err(|error| Failed::Refused(error.to_string()))?;
    let lost = |error: io::Error| Failed::Lost(error.to_string());
    let code = exchange(stream, &question(1)).map_err(lost)?;
    match code {
        0 => Ok(()),
        code => Err(Failed::Lost(format!("response code {code}"))),
    }
}

/// Returns a query for www.one.example, with its length prefix.
pub fn question(rtype: u8) -> Vec<u8> {
    let mut message = vec![0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let labels: &[&str] = if rtype == 1 {
        &["www", "one", "example"]
    } else {
        &["one", "example"]
    };
    for label in labels {
        message.push(label.len() as u8);
        message.extend(label.bytes());
    }
    message.extend([0, 0, rtype, 0, 1]);
    message[1] = (message.len() - 2) as u8;
    message
}

/// Sends a query and reads the response; returns its code.
pub fn exchange(mut stream: impl Read + Write, question: &[u8]) -> io::Result<u8> {
    stream.write_all(question)?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message)?;
    Ok(message[3] & 0x0F)
}

/// Queries with kdig, which opens a new connection.
fn ask_with_kdig(option: &str, port: u16) -> Result<(), Failed> {
    let output = Command::new("kdig")
        .args(["@127.0.0.1", "-p", &port.to_string(), option])
        .args(["+retry=0", "+timeout=20", "www.one.example", "A"])
        .output()
        .expect("kdig is installed: run scripts/install-deps");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if text.contains("192.0.2.2") {
        return Ok(());
    }
    if text.contains("refused") || text.contains("failed to connect") {
        return Err(Failed::Refused(text.into_owned()));
    }
    Err(Failed::Lost(text.into_owned()))
}
