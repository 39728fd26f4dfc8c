//! UDP workers over loopback: which datagrams are answered, from which address, and how workers stop.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nameward_serve::listen::{Bound, bind_all};
use nameward_serve::udp::{
    BatchHandler, BatchTiming, DatagramBatch, QUERY_MAX, UdpWorker, WorkerSwitch, spawn_workers,
};
use nameward_testkit::require;
use nameward_testkit::wait_until;

/// Reached only if something hangs, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Seen {
    received: AtomicUsize,
    sent: AtomicUsize,
    truncated: AtomicUsize,
    idle: AtomicUsize,
    timed: AtomicUsize,
}

/// Echoes datagrams, with the client's address appended. A datagram "silence" gets no reply, "panic" is a bug, "slow"
/// delays the batch.
struct Echo(Arc<Seen>);

impl BatchHandler for Echo {
    fn handle(&mut self, batch: &mut DatagramBatch) {
        self.0.received.fetch_add(batch.len(), Ordering::SeqCst);
        for i in 0..batch.len() {
            let client = batch.client(i).to_string();
            if batch.truncated(i) {
                self.0.truncated.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            let (query, reply, len) = batch.reply(i);
            assert_eq!(*len, 0, "a fresh batch has no replies");
            match query {
                b"silence" => continue,
                b"panic" => panic!("asked to"),
                b"slow" => std::thread::sleep(Duration::from_millis(300)),
                _ => {}
            }
            reply[..query.len()].copy_from_slice(query);
            let end = query.len() + client.len();
            reply[query.len()..end].copy_from_slice(client.as_bytes());
            *len = end;
        }
    }

    fn sent(&mut self, batch: &DatagramBatch, timing: BatchTiming) {
        let sent = (0..batch.len())
            .filter(|&i| !batch.replied(i).is_empty())
            .count();
        self.0.sent.fetch_add(sent, Ordering::SeqCst);
        let spent = timing.answer_ns + timing.send_ns;
        self.0.timed.fetch_add(spent as usize, Ordering::SeqCst);
    }

    fn idle(&mut self) {
        self.0.idle.fetch_add(1, Ordering::SeqCst);
    }
}

struct Server {
    addresses: Vec<SocketAddr>,
    seen: Arc<Seen>,
    stop: Arc<WorkerSwitch>,
    workers: Vec<UdpWorker>,
}

impl Server {
    fn start(addresses: &[&str], workers: usize) -> Server {
        let addresses: Vec<SocketAddr> = addresses.iter().map(|a| a.parse().unwrap()).collect();
        let Bound { udp, addresses, .. } = bind_all(&addresses, workers).unwrap();
        let (seen, stop) = (Arc::new(Seen::default()), Arc::<WorkerSwitch>::default());
        let workers = spawn_workers(udp, &stop, |_| Echo(Arc::clone(&seen))).unwrap();
        Server {
            addresses,
            seen,
            stop,
            workers,
        }
    }

    fn stop(self) {
        self.stop.stop();
        self.workers.into_iter().for_each(UdpWorker::join);
    }
}

fn client(local: &str) -> UdpSocket {
    let socket = UdpSocket::bind(local).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

/// Queries through a connected socket, which only receives from the address that it queries.
fn exchange(socket: &UdpSocket, server: SocketAddr, query: &[u8]) {
    socket.connect(server).unwrap();
    socket.send(query).unwrap();
    let mut buffer = [0; 8192];
    let len = socket.recv(&mut buffer).expect("an answer in time");
    let expected = [query, socket.local_addr().unwrap().to_string().as_bytes()].concat();
    assert_eq!(&buffer[..len], &expected[..]);
}

#[test]
fn one_ipv4_address_is_served_by_all_workers() {
    let server = Server::start(&["127.0.0.1:0"], 3);
    for _ in 0..40 {
        exchange(&client("127.0.0.1:0"), server.addresses[0], b"hello");
    }
    wait_until("all counted", || {
        server.seen.sent.load(Ordering::SeqCst) == 40
    });
    assert!(server.seen.timed.load(Ordering::SeqCst) > 0);
    server.stop();
}

#[test]
fn several_addresses_of_both_families_are_served() {
    let server = Server::start(&["127.0.0.1:0", "[::1]:0", "127.0.0.3:0"], 2);
    for round in 0..20 {
        let query = format!("round {round}");
        exchange(
            &client("127.0.0.1:0"),
            server.addresses[0],
            query.as_bytes(),
        );
        exchange(&client("[::1]:0"), server.addresses[1], query.as_bytes());
        exchange(
            &client("127.0.0.9:0"),
            server.addresses[2],
            query.as_bytes(),
        );
    }
    server.stop();
}

#[test]
fn wildcard_sockets_answer_from_the_queried_address() {
    // A specific address in addition: control messages are switched on and off in one batch.
    let server = Server::start(&["0.0.0.0:0", "[::]:0", "127.0.0.1:0"], 1);
    let (v4, v6) = (server.addresses[0].port(), server.addresses[1].port());
    for last in [1, 2, 77] {
        let asked = SocketAddr::from(([127, 0, 0, last], v4));
        exchange(&client("127.0.0.1:0"), asked, b"from where");
        let asked: SocketAddr = format!("[::1]:{v6}").parse().unwrap();
        exchange(&client("[::1]:0"), asked, b"from where");
        exchange(&client("127.0.0.1:0"), server.addresses[2], b"specific");
    }
    server.stop();
}

#[test]
fn a_dropped_query_gets_no_reply_and_others_in_the_batch_are_answered() {
    let server = Server::start(&["127.0.0.1:0"], 1);
    let sleeper = client("127.0.0.1:0");
    // While the worker is busy with this one, the others arrive and become one batch.
    sleeper.send_to(b"slow", server.addresses[0]).unwrap();
    wait_until("slow one taken", || {
        server.seen.received.load(Ordering::SeqCst) == 1
    });
    let socket = client("127.0.0.1:0");
    for i in 0..20 {
        let query = if i % 3 == 0 {
            "silence".to_owned()
        } else {
            format!("{i:02}")
        };
        socket
            .send_to(query.as_bytes(), server.addresses[0])
            .unwrap();
    }
    let mut buffer = [0; 100];
    let mut answers = Vec::new();
    for _ in 0..13 {
        let len = socket.recv(&mut buffer).unwrap();
        answers.push(String::from_utf8_lossy(&buffer[..2.min(len)]).into_owned());
    }
    let expected: Vec<String> = (0..20)
        .filter(|i| i % 3 != 0)
        .map(|i| format!("{i:02}"))
        .collect();
    assert_eq!(answers, expected);
    wait_until("all counted", || {
        server.seen.sent.load(Ordering::SeqCst) == 14
    });
    server.stop();
}

#[test]
fn unreachable_destination_costs_only_its_own_reply() {
    let server = Server::start(&["127.0.0.1:0"], 1);
    let (bad, good) = (client("127.0.0.1:0"), client("127.0.0.1:0"));
    bad.send_to(b"slow", server.addresses[0]).unwrap();
    wait_until("slow one taken", || {
        server.seen.received.load(Ordering::SeqCst) == 1
    });
    // The kernel refuses destination port 0 with EINVAL; sending from it requires a raw socket.
    let sent = send_from_port_zero(server.addresses[0], b"bad");
    let Some(()) = require(sent, "the right to raw sockets (root)") else {
        return server.stop();
    };
    for i in 0..5 {
        good.send_to(format!("{i}").as_bytes(), server.addresses[0])
            .unwrap();
        send_from_port_zero(server.addresses[0], b"bad");
    }
    let mut buffer = [0; 100];
    for i in 0..5 {
        good.recv(&mut buffer).expect("good ones are answered");
        assert_eq!(buffer[0], b'0' + i);
    }
    wait_until("bad ones received", || {
        server.seen.received.load(Ordering::SeqCst) == 12
    });
    wait_until("good ones counted", || {
        server.seen.sent.load(Ordering::SeqCst) == 6
    });
    server.stop();
}

fn send_from_port_zero(server: SocketAddr, data: &[u8]) -> Option<()> {
    use socket2::{Domain, Protocol, Socket, Type};
    let raw = Socket::new(
        Domain::IPV4,
        Type::from(libc::SOCK_RAW),
        Some(Protocol::UDP),
    )
    .ok()?;
    let mut datagram = vec![0, 0];
    datagram.extend(server.port().to_be_bytes());
    datagram.extend((8 + data.len() as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(data);
    raw.send_to(&datagram, &server.into()).ok()?;
    Some(())
}

#[test]
fn oversized_datagram_is_marked_and_largest_fits() {
    let server = Server::start(&["127.0.0.1:0"], 1);
    let socket = client("127.0.0.1:0");
    socket
        .send_to(&vec![b'x'; QUERY_MAX + 1], server.addresses[0])
        .unwrap();
    wait_until("marked", || {
        server.seen.truncated.load(Ordering::SeqCst) == 1
    });
    exchange(&socket, server.addresses[0], &vec![b'y'; QUERY_MAX - 100]);
    assert_eq!(server.seen.truncated.load(Ordering::SeqCst), 1);
    server.stop();
}

#[test]
fn bug_in_the_handler_costs_one_batch_not_the_worker() {
    let server = Server::start(&["127.0.0.1:0"], 1);
    let socket = client("127.0.0.1:0");
    socket.send_to(b"panic", server.addresses[0]).unwrap();
    exchange_until_answered(&socket, server.addresses[0]);
    server.stop();
}

/// The first query may be in the batch that is lost.
fn exchange_until_answered(socket: &UdpSocket, server: SocketAddr) {
    socket
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let mut buffer = [0; 100];
    for _ in 0..10 {
        socket.send_to(b"alive", server).unwrap();
        if socket.recv(&mut buffer).is_ok() {
            return;
        }
    }
    panic!("the worker is gone");
}

#[test]
fn idle_workers_call_the_idle_handler() {
    for addresses in [&["127.0.0.1:0"][..], &["127.0.0.1:0", "[::1]:0"]] {
        let server = Server::start(addresses, 1);
        wait_until("idle twice", || {
            server.seen.idle.load(Ordering::SeqCst) >= 2
        });
        server.stop();
    }
}

#[test]
fn paused_workers_leave_datagrams_in_the_sockets_until_they_read_again() {
    for addresses in [&["127.0.0.1:0"][..], &["127.0.0.1:0", "[::1]:0"]] {
        let server = Server::start(addresses, 2);
        exchange(&client("127.0.0.1:0"), server.addresses[0], b"before");
        assert!(server.stop.pause());
        let clients: Vec<UdpSocket> = (0..20).map(|_| client("127.0.0.1:0")).collect();
        for socket in &clients {
            socket.send_to(b"waiting", server.addresses[0]).unwrap();
        }
        assert_eq!(server.seen.received.load(Ordering::SeqCst), 1);
        server.stop.read();
        for socket in &clients {
            socket.recv(&mut [0; 100]).expect("an answer");
        }
        // Again; then paused workers are stopped.
        assert!(server.stop.pause());
        server.stop();
    }
}

#[test]
fn stopping_workers_answer_what_has_already_arrived() {
    for addresses in [&["127.0.0.1:0"][..], &["127.0.0.1:0", "[::1]:0"]] {
        let server = Server::start(addresses, 1);
        let socket = client("127.0.0.1:0");
        socket.send_to(b"slow", server.addresses[0]).unwrap();
        wait_until("slow one taken", || {
            server.seen.received.load(Ordering::SeqCst) == 1
        });
        for _ in 0..100 {
            socket.send_to(b"waiting", server.addresses[0]).unwrap();
        }
        server.stop();
        let mut buffer = [0; 100];
        for _ in 0..101 {
            socket.recv(&mut buffer).expect("an answer from the drain");
        }
    }
}
