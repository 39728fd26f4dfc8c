//! Real databases that are paused, killed, restarted and filled with invalid rows under a flood of queries: names in
//! memory or in a cache are always answered, look-ups are limited, and the counters and the log show what happened.

use super::operation::{SERVFAIL, ask, counter, wait_for, zone};
use super::rows::Sqlite;
use super::servers::{backend, fill, run, started};
use nameward_testkit::databases::{Database, DatabaseKind};
use nameward_testkit::{Setup, TestServer};
use nameward_wire::NameBuf;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);
const NOERROR: u8 = 0;
const NXDOMAIN: u8 = 3;
const ANSWERED: [&str; 2] = ["www.file.test.", "www.memory.test."];

fn packet(name: &str, id: u16) -> Vec<u8> {
    let name: NameBuf = name.parse().unwrap();
    let mut packet = id.to_be_bytes().to_vec();
    packet.extend_from_slice(b"\0\0\0\x01\0\0\0\0\0\0");
    packet.extend_from_slice(name.as_name().as_wire());
    packet.extend_from_slice(&[0, 1, 0, 1]);
    packet
}

fn socket(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

/// Sends one query for each name and waits until the server has received them all.
fn burst(server: &TestServer, names: &[String]) -> UdpSocket {
    let socket = socket(server.address());
    // No more at a time than fit into any socket buffer.
    for (n, chunk) in names.chunks(50).enumerate() {
        let before = counter(server, "udp-queries");
        for (i, name) in chunk.iter().enumerate() {
            socket.send(&packet(name, (n * 50 + i) as u16)).unwrap();
        }
        let due = before + chunk.len() as u64;
        server.wait_until("all questions are taken", || {
            counter(server, "udp-queries") >= due
        });
    }
    socket
}

/// The response codes of this many replies.
fn replies(socket: &UdpSocket, number: usize) -> Vec<u8> {
    let mut buffer = [0; 4096];
    let mut reply = || {
        socket.recv(&mut buffer).expect("a reply");
        buffer[3] & 15
    };
    (0..number).map(|_| reply()).collect()
}

fn setup(kind: DatabaseKind, database: &Database, memory: &Sqlite, settings: &str) -> TestServer {
    let resident = format!(
        "[[backend]]\ntype = \"sqlite\"\npath = \"{}\"\nmode = \"resident\"\n",
        memory.path.display()
    );
    let timeout = if settings.contains("query_timeout_ms = 60000") {
        "timeout_ms = 60000\n"
    } else {
        "timeout_ms = 1000\n"
    };
    let live = backend(kind, &database.url(), "live") + timeout;
    let server = Setup::new()
        .config("[cache]\nquery_ttl = 3600\npacket_ttl = 3600\nnegative_ttl = 3600\n")
        .config(settings)
        .config(&(live + &resident))
        .zone("file.test", &zone("file.test", "192.0.2.23").file_text())
        .start();
    wait_for(&server, "www.one.test.", (0, 10));
    wait_for(&server, "www.memory.test.", (0, 23));
    server
}

/// Queries until the answer has this code; queries dropped in the flood are repeated.
fn ask_until(server: &TestServer, name: &str, code: u8) {
    let (socket, start) = (socket(server.address()), Instant::now());
    socket
        .set_read_timeout(Some(Duration::from_millis(400)))
        .unwrap();
    let (mut last, mut buffer) = (None, [0; 4096]);
    while last != Some(code) {
        assert!(
            start.elapsed() < TIMEOUT,
            "{name}: {last:?}, not {code}\n{}",
            server.log()
        );
        socket.send(&packet(name, 7)).unwrap();
        last = socket.recv(&mut buffer).ok().map(|_| buffer[3] & 15);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Clients that query continuously.
struct Clients<'a> {
    stop: &'a AtomicBool,
    /// Answers from memory.
    answered: &'a AtomicU64,
}

impl Clients<'_> {
    /// Queries names in memory: each query must be answered, whatever happens to the database.
    fn ask_memory(&self, server: SocketAddr) {
        let (socket, mut buffer) = (socket(server), [0; 4096]);
        for id in 0.. {
            for name in ANSWERED {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                socket.send(&packet(name, id as u16)).unwrap();
                let len = socket.recv(&mut buffer).expect("an answer from memory");
                assert_eq!((buffer[3] & 15, buffer[len - 1]), (0, 23));
                self.answered.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// A flood of names that do not exist.
    fn ask_random(&self, server: SocketAddr) {
        let (socket, mut buffer) = (socket(server), [0; 4096]);
        socket.set_nonblocking(true).unwrap();
        for n in 0_u64.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let name = format!("r{:x}.one.test.", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            // A full buffer is equivalent to a lost packet.
            let _ = socket.send(&packet(&name, n as u16));
            while socket.recv(&mut buffer).is_ok() {}
            std::thread::sleep(Duration::from_millis(4));
        }
    }
}

/// Look-ups per zone are limited, and one look-up serves all queries for its name.
fn check_bounds(server: &TestServer, database: &Database) {
    let statements = || counter(server, "backend-queries");
    // One query first, so that the data of the zone itself is cached.
    assert_eq!(ask(server, "first.one.test.").unwrap().0, NXDOMAIN);
    let before = statements();
    database.pause();
    let same = burst(server, &vec!["same.one.test.".to_string(); 100]);
    server.wait_until("all wait", || counter(server, "qsize-q") == 100);
    let names: Vec<String> = (0..300).map(|n| format!("n{n}.one.test.")).collect();
    let others = burst(server, &names);
    server.wait_until("more are dropped", || {
        counter(server, "overload-drops") == 281
    });
    assert_eq!(counter(server, "qsize-q"), 119);
    assert_eq!(
        ask(server, "www.one.test."),
        Some((0, 10)),
        "from the packet cache"
    );
    assert_eq!(ask(server, "www.file.test."), Some((0, 23)));
    database.resume();
    assert_eq!(replies(&same, 100), [NXDOMAIN; 100]);
    assert_eq!(replies(&others, 19), [NXDOMAIN; 19]);
    assert_eq!(counter(server, "qsize-q"), 0);
    let asked = statements() - before;
    // Names may share a statement; another one may read all names of the zone.
    assert!((1..=41).contains(&asked), "{asked} statements");
    // Non-existent names are cached.
    let again = burst(server, &vec!["same.one.test.".to_string(); 10]);
    assert_eq!(replies(&again, 10), [NXDOMAIN; 10]);
    assert_eq!(statements() - before, asked);
}

fn ring(server: &TestServer, name: &str) -> String {
    let mut stream = TcpStream::connect(server.web()).unwrap();
    let request =
        format!("GET /?ring={name} HTTP/1.0\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Faults of the database during the flood.
fn check_misfortunes(server: &TestServer, database: &mut Database, kind: DatabaseKind) {
    let rises = |name: &'static str| {
        let before = counter(server, name);
        server.wait_until(name, || counter(server, name) > before);
    };
    database.pause();
    rises("timedout-packets");
    rises("overload-drops");
    database.resume();
    ask_until(server, "after-pause.one.test.", NXDOMAIN);

    database.kill();
    rises("servfail-packets");
    server.wait_until("the ring", || {
        ring(server, "servfail-queries").contains(".one.test")
    });
    assert!(
        server.wait_for_log("database not responding"),
        "{}",
        server.log()
    );
    assert_eq!(
        ask(server, "www.one.test."),
        Some((0, 10)),
        "from the packet cache"
    );
    database.restart().unwrap();
    assert!(
        server.wait_for_log("database responding again"),
        "{}",
        server.log()
    );
    ask_until(server, "after-kill.one.test.", NXDOMAIN);

    run(
        database,
        kind,
        "INSERT INTO records (id, domain_id, name, type, content) VALUES (777, 1, 'bad.one.test', 'A', 'nonsense')",
    );
    ask_until(server, "bad.one.test.", SERVFAIL);
    ask_until(server, "www.one.test.", NOERROR);
    assert!(
        server.wait_for_log("table records, id 777: "),
        "{}",
        server.log()
    );
    server.wait_until("the ring", || {
        ring(server, "servfail-queries").contains("bad.one.test")
    });
    run(
        database,
        kind,
        "UPDATE records SET content = '192.0.2.77' WHERE id = 777",
    );
    ask_until(server, "bad.one.test.", NOERROR);
}

fn check(kind: DatabaseKind) {
    let Some(mut database) = started(kind) else {
        return;
    };
    run(&database, kind, &fill(&[zone("one.test", "192.0.2.10")]));
    let directory = tempfile::tempdir().unwrap();
    let memory = Sqlite::new(directory.path());
    memory.add(&zone("memory.test", "192.0.2.23"));
    let long_timeout = "[overload]\noverload_queue = 1000\nquery_timeout_ms = 60000\nlookups_per_zone = 20\nclient_percent = 100\n";
    let server = setup(kind, &database, &memory, long_timeout);
    check_bounds(&server, &database);
    drop(server);

    let hasty = "[overload]\noverload_queue = 40\nquery_timeout_ms = 300\nlookups_per_zone = 20\nclient_percent = 100\n";
    let server = setup(kind, &database, &memory, hasty);
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let clients = Clients {
        stop: &stop,
        answered: &answered,
    };
    let address = server.address();
    std::thread::scope(|scope| {
        scope.spawn(|| clients.ask_memory(address));
        scope.spawn(|| clients.ask_random(address));
        let stopper = Stopper(&stop);
        check_misfortunes(&server, &mut database, kind);
        drop(stopper);
    });
    assert!(answered.load(Ordering::Relaxed) > 100);
    // Every query was answered, dropped or timed out, and none of them twice.
    server.wait_until("nothing waits", || counter(&server, "qsize-q") == 0);
    server.wait_until("every question is accounted for", || {
        let count = |name| counter(&server, name);
        count("udp-queries")
            == count("udp-answers") + count("overload-drops") + count("timedout-packets")
    });
    let log = server.log();
    assert!(log.lines().count() < 200, "{log}");
}

/// Lets the clients stop even if a check fails.
struct Stopper<'a>(&'a AtomicBool);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn postgres_may_be_paused_killed_and_filled_with_invalid_rows_under_load() {
    check(DatabaseKind::Postgres);
}

#[test]
fn mariadb_may_be_paused_killed_and_filled_with_invalid_rows_under_load() {
    check(DatabaseKind::Mariadb);
}
