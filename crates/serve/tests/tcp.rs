//! TCP connections over loopback: pipelining, limits, deadlines, and what a bad client can do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nameward_serve::listen::bind_all;
use nameward_serve::request::{MessageStream, NextMessage};
use nameward_serve::tcp::{
    ByteStream, Endpoints, Later, StreamAction, StreamHandler, TcpSettings, Ticket, serve_over,
};
use nameward_testkit::wait_until;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Settings as an operator might choose them.
fn settings() -> TcpSettings {
    let (idle_timeout, lifetime) = (Duration::from_secs(10), Duration::from_secs(600));
    TcpSettings::new(idle_timeout, lifetime, 20_000, Some(200))
}

/// Reached only if something hangs, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Echoes messages. "close" ends the connection, "silence" gets no answer, "two" gets two answers, "large" gets
/// 60,000 bytes, "later" is answered when the test does, "many" gets a thousand messages, "broken" three of them.
#[derive(Default)]
struct Echo {
    produced: Arc<AtomicUsize>,
    tickets: Mutex<Vec<Ticket>>,
    open: AtomicUsize,
    refused: AtomicUsize,
    handled: AtomicUsize,
}

impl StreamHandler for Echo {
    fn handle(
        &self,
        query: &[u8],
        _ends: Endpoints,
        out: &mut Vec<u8>,
        later: &mut Later<'_>,
    ) -> StreamAction {
        self.handled.fetch_add(1, Ordering::SeqCst);
        match query {
            b"silence" => {}
            b"later" => self.tickets.lock().unwrap().push(later.ticket()),
            b"many" | b"broken" => {}
            b"large" => out.extend(framed(&[b'x'; 60_000])),
            b"two" => {
                out.extend(framed(b"one"));
                out.extend(framed(b"two"));
            }
            _ => out.extend(framed(query)),
        }
        let stream = |end, is_broken| {
            StreamAction::Messages(Box::new(Numbered {
                produced: Arc::clone(&self.produced),
                end,
                is_broken,
            }))
        };
        match query {
            b"many" => stream(MANY, false),
            b"broken" => stream(3, true),
            b"close" => StreamAction::Close,
            _ => StreamAction::Continue,
        }
    }

    fn opened(&self, _client: SocketAddr) {
        self.open.fetch_add(1, Ordering::SeqCst);
    }

    fn closed(&self, _client: SocketAddr) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    fn refused(&self, _client: SocketAddr) {
        self.refused.fetch_add(1, Ordering::SeqCst);
    }
}

const MANY: usize = 1000;

/// Messages of 60,000 octets that start with their number.
struct Numbered {
    produced: Arc<AtomicUsize>,
    end: usize,
    is_broken: bool,
}

impl MessageStream for Numbered {
    fn next_message(&mut self, out: &mut [u8]) -> NextMessage {
        let number = self.produced.load(Ordering::SeqCst);
        if number == self.end {
            return if self.is_broken {
                NextMessage::Broken
            } else {
                NextMessage::End
            };
        }
        out[..4].copy_from_slice(&(number as u32).to_be_bytes());
        self.produced.store(number + 1, Ordering::SeqCst);
        NextMessage::Written(60_000)
    }
}

struct Server {
    address: SocketAddr,
    echo: Arc<Echo>,
    stop: watch::Sender<bool>,
    served: JoinHandle<std::io::Result<()>>,
    runtime: Runtime,
}

impl Server {
    fn start(settings: TcpSettings) -> Server {
        Server::start_on("127.0.0.1:0", settings)
    }

    fn start_on(address: &str, settings: TcpSettings) -> Server {
        Server::start_over(address, settings, |stream| stream)
    }

    fn start_over<S: ByteStream>(
        address: &str,
        settings: TcpSettings,
        lay_over: fn(tokio::net::TcpStream) -> S,
    ) -> Server {
        let bound = bind_all(&[address.parse::<SocketAddr>().unwrap()], 1).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (stop, stopping) = watch::channel(false);
        let echo = Arc::new(Echo::default());
        let handler = Arc::clone(&echo);
        let served = runtime.spawn(serve_over(bound.tcp, handler, settings, stopping, lay_over));
        Server {
            address: bound.addresses[0],
            echo,
            stop,
            served,
            runtime,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    fn connect_from(&self, source: [u8; 4]) -> TcpStream {
        self.connect_with_room(source, 16 * 1024)
    }

    /// Connects with buffers in the kernel for this many unread octets.
    fn connect_with_room(&self, source: [u8; 4], octets: usize) -> TcpStream {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        // What the kernel buffers for a client that does not read is irrelevant for these tests.
        socket.set_recv_buffer_size(octets).unwrap();
        socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
        socket.connect(&self.address.into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    fn open(&self) -> usize {
        self.echo.open.load(Ordering::SeqCst)
    }

    fn stop(self) {
        self.stop.send_replace(true);
        self.runtime.block_on(self.served).unwrap().unwrap();
        self.runtime.shutdown_timeout(TIMEOUT);
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

fn read_message(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut message)?;
    Ok(message)
}

fn exchange(stream: &mut TcpStream, query: &[u8]) {
    stream.write_all(&framed(query)).unwrap();
    assert_eq!(read_message(stream).unwrap(), query);
}

/// Checks whether the server closes the connection (in either way) within the test's timeout.
fn ends(stream: &mut TcpStream) -> bool {
    let mut sink = [0; 4096];
    loop {
        match stream.read(&mut sink) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn thousand_pipelined_queries_are_answered_in_order() {
    let server = Server::start(settings());
    let mut stream = server.connect();
    let queries: Vec<Vec<u8>> = (0..1000).map(|i| format!("query {i}").into()).collect();
    let all: Vec<u8> = queries.iter().flat_map(|query| framed(query)).collect();
    stream.write_all(&all).unwrap();
    for query in &queries {
        assert_eq!(&read_message(&mut stream).unwrap(), query);
    }
    exchange(&mut stream, b"and one more");
    server.stop();
}

#[test]
fn message_split_at_every_byte_is_answered() {
    let server = Server::start(settings());
    let mut stream = server.connect();
    stream.set_nodelay(true).unwrap();
    for byte in [framed(b"split"), framed(b""), framed(b"again")].concat() {
        stream.write_all(&[byte]).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    for expected in [&b"split"[..], b"", b"again"] {
        assert_eq!(read_message(&mut stream).unwrap(), expected);
    }
    server.stop();
}

#[test]
fn largest_message_passes_whole_and_in_pieces() {
    let server = Server::start(settings());
    let mut stream = server.connect();
    let largest: Vec<u8> = (0..65_535u32).map(|i| (i % 251) as u8).collect();
    exchange(&mut stream, &largest);
    for piece in framed(&largest).chunks(7_000) {
        stream.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(read_message(&mut stream).unwrap(), largest);
    exchange(&mut stream, b"small");
    server.stop();
}

#[test]
fn handler_may_answer_nothing_or_twice_or_close() {
    let server = Server::start(settings());
    let mut stream = server.connect();
    let queries = [&b"silence"[..], b"two", b"close", b"never answered"];
    let all: Vec<u8> = queries.iter().flat_map(|query| framed(query)).collect();
    stream.write_all(&all).unwrap();
    for expected in [&b"one"[..], b"two", b"close"] {
        assert_eq!(read_message(&mut stream).unwrap(), expected);
    }
    assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0);
    assert_eq!(server.echo.handled.load(Ordering::SeqCst), 3);
    server.stop();
}

#[test]
fn half_closed_client_gets_all_its_answers() {
    let server = Server::start_on("[::1]:0", settings());
    let mut stream = server.connect();
    for _ in 0..100 {
        stream.write_all(&framed(b"large")).unwrap();
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    for _ in 0..100 {
        assert_eq!(read_message(&mut stream).unwrap().len(), 60_000);
    }
    assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0);
    wait_until("closed", || server.open() == 0);
    server.stop();
}

#[test]
fn connection_ends_after_its_queries_are_used_up() {
    let settings = TcpSettings {
        max_queries_per_connection: 3,
        ..settings()
    };
    let server = Server::start(settings);
    let mut stream = server.connect();
    for _ in 0..500 {
        stream.write_all(&framed(b"more")).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(read_message(&mut stream).unwrap(), b"more");
    }
    assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0);
    server.stop();
}

#[test]
fn idle_and_old_connections_are_closed() {
    let idle = Server::start(TcpSettings {
        idle_timeout: Duration::from_millis(100),
        ..settings()
    });
    assert!(ends(&mut idle.connect()));
    idle.stop();

    let old = Server::start(TcpSettings {
        lifetime: Duration::from_millis(200),
        ..settings()
    });
    let mut stream = old.connect();
    let deadline = Instant::now() + TIMEOUT;
    while stream.write_all(&framed(b"busy")).is_ok() && read_message(&mut stream).is_ok() {
        assert!(Instant::now() < deadline, "a busy connection lives forever");
    }
    old.stop();
}

#[test]
fn a_slow_writer_is_disconnected_although_it_keeps_writing() {
    let server = Server::start(TcpSettings {
        message_timeout: Duration::from_millis(200),
        ..settings()
    });
    let mut slow = server.connect();
    slow.set_nodelay(true).unwrap();
    let deadline = Instant::now() + TIMEOUT;
    let mut other = server.connect();
    wait_until("both are in", || server.open() == 2);
    slow.write_all(&60_000u16.to_be_bytes()).unwrap();
    while server.open() == 2 && Instant::now() < deadline {
        let _ = slow.write_all(b"x");
        exchange(&mut other, b"not harmed");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(ends(&mut slow));
    exchange(&mut other, b"still here");
    server.stop();
}

#[test]
fn a_client_that_never_reads_is_disconnected_and_affects_no_other() {
    let server = Server::start(TcpSettings {
        write_timeout: Duration::from_millis(300),
        max_queries_per_connection: u64::MAX,
        ..settings()
    });
    let mut greedy = server.connect();
    greedy
        .set_write_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let mut other = server.connect();
    let deadline = Instant::now() + TIMEOUT;
    while server.open() < 2 {
        assert!(Instant::now() < deadline);
    }
    while server.open() == 2 {
        assert!(Instant::now() < deadline, "never cut");
        let _ = greedy.write_all(&framed(b"large"));
        exchange(&mut other, b"not harmed");
    }
    exchange(&mut other, b"still here");
    server.stop();
}

#[test]
fn held_bytes_are_limited_over_all_connections() {
    let server = Server::start(TcpSettings {
        max_held_bytes: 100_000,
        message_timeout: Duration::from_secs(60),
        ..settings()
    });
    // Each leaves a message incomplete that fills most of a buffer.
    let mut hoarders: Vec<TcpStream> = (0..5).map(|_| server.connect()).collect();
    wait_until("all are in", || server.open() == 5);
    for hoarder in &mut hoarders {
        hoarder.write_all(&65_000u16.to_be_bytes()).unwrap();
        let _ = hoarder.write_all(&[0; 60_000]);
    }
    wait_until("most are closed", || server.open() <= 1);
    // The memory of closed connections is available again.
    drop(hoarders);
    wait_until("all are closed", || server.open() == 0);
    let mut stream = server.connect();
    stream.write_all(&65_000u16.to_be_bytes()).unwrap();
    stream.write_all(&[b'y'; 30_000]).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    stream.write_all(&[b'y'; 35_000]).unwrap();
    assert_eq!(read_message(&mut stream).unwrap().len(), 65_000);
    server.stop();
}

/// Requests more than the kernel buffers for a client that does not read.
fn request_large_answers(stream: &mut TcpStream) {
    let all: Vec<u8> = (0..200).flat_map(|_| framed(b"large")).collect();
    stream.write_all(&all).unwrap();
}

#[test]
fn clients_that_never_read_are_disconnected_and_an_honest_reader_stays() {
    let server = Server::start(TcpSettings {
        max_held_bytes: 1 << 19,
        write_timeout: Duration::from_secs(600),
        ..settings()
    });
    // From two clients, so that the reader is neither a client that holds much nor the only other one. A connection
    // holds the part of two answers that the kernel does not buffer, which would be equal for all if all had the same
    // buffers.
    let connect = |n: u8| {
        let room = 16 * 1024 + 1000 * usize::from(n);
        server.connect_with_room([127, 0, 0, 2 + n % 2], room)
    };
    let mut never_readers: Vec<TcpStream> = (0..60).map(connect).collect();
    wait_until("all are in", || server.open() == 60);
    never_readers.iter_mut().for_each(request_large_answers);
    wait_until("their room is used up", || server.open() < 60);
    for source in [[127, 0, 0, 1], [127, 0, 0, 2]] {
        let mut reader = server.connect_from(source);
        request_large_answers(&mut reader);
        for _ in 0..200 {
            assert_eq!(read_message(&mut reader).unwrap().len(), 60_000);
        }
    }
    server.stop();
}

/// Waits until a count of at least `first` no longer grows: the connection waits for its client.
fn wait_until_stable(count: &AtomicUsize, first: usize) -> usize {
    let (mut last, mut looks) = (0, 0);
    while looks < 20 {
        std::thread::sleep(Duration::from_millis(5));
        let now = count.load(Ordering::SeqCst);
        looks = if now == last && now >= first {
            looks + 1
        } else {
            0
        };
        last = now;
    }
    last
}

#[test]
fn a_multi_message_response_is_produced_as_its_client_reads() {
    let server = Server::start(settings());
    let mut stream = server.connect_from([127, 0, 0, 1]);
    stream
        .write_all(&[framed(b"many"), framed(b"after")].concat())
        .unwrap();
    let produced = wait_until_stable(&server.echo.produced, 1);
    assert!(
        produced < MANY / 2,
        "{produced} messages for a client that read none"
    );
    exchange(&mut server.connect(), b"another client");
    for number in 0..MANY {
        let message = read_message(&mut stream).unwrap();
        assert_eq!(message.len(), 60_000);
        assert_eq!(message[..4], (number as u32).to_be_bytes());
    }
    assert_eq!(read_message(&mut stream).unwrap(), b"after");
    server.stop();
}

#[test]
fn a_response_that_cannot_be_completed_ends_its_connection() {
    let server = Server::start(settings());
    let mut stream = server.connect();
    stream
        .write_all(&[framed(b"broken"), framed(b"after")].concat())
        .unwrap();
    for _ in 0..3 {
        if read_message(&mut stream).is_err() {
            break;
        }
    }
    assert!(ends(&mut stream));
    wait_until("closed", || server.open() == 0);
    server.stop();
}

/// Inverts all bits of the octets.
struct Inverted(tokio::net::TcpStream);

impl ByteStream for Inverted {
    async fn readable(&mut self) -> std::io::Result<()> {
        self.0.readable().await
    }

    async fn writable(&mut self) -> std::io::Result<()> {
        self.0.writable().await
    }

    fn try_read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let len = self.0.try_read(into)?;
        into[..len].iter_mut().for_each(|octet| *octet = !*octet);
        Ok(len)
    }

    fn try_write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        let turned: Vec<u8> = octets.iter().map(|octet| !octet).collect();
        self.0.try_write(&turned)
    }

    async fn shutdown(&mut self) -> std::io::Result<()> {
        ByteStream::shutdown(&mut self.0).await
    }
}

#[test]
fn another_stream_over_tcp_is_served_the_same_way() {
    let server = Server::start_over("127.0.0.1:0", settings(), Inverted);
    let mut stream = server.connect();
    let turned = |octets: Vec<u8>| octets.into_iter().map(|octet| !octet).collect::<Vec<u8>>();
    let queries = [framed(b"one"), framed(b"large"), framed(b"close")].concat();
    stream.write_all(&turned(queries)).unwrap();
    let mut replies = Vec::new();
    stream.read_to_end(&mut replies).unwrap();
    let expected = [framed(b"one"), framed(&[b'x'; 60_000]), framed(b"close")].concat();
    assert!(turned(replies) == expected);
    server.stop();
}

#[test]
fn late_answers_count_as_held() {
    let server = Server::start(TcpSettings {
        max_held_bytes: 1 << 20,
        write_timeout: Duration::from_secs(600),
        ..settings()
    });
    let mut greedy = server.connect_from([127, 0, 0, 2]);
    let all: Vec<u8> = (0..100).flat_map(|_| framed(b"later")).collect();
    greedy.write_all(&all).unwrap();
    request_large_answers(&mut greedy);
    let mut other = server.connect();
    exchange(&mut other, b"in");
    wait_until_stable(&server.echo.handled, 101);
    let tickets = std::mem::take(&mut *server.echo.tickets.lock().unwrap());
    assert_eq!((tickets.len(), server.open()), (100, 2));
    for ticket in tickets {
        ticket.deliver(&[b'x'; 60_000]);
    }
    wait_until("the greedy one is closed", || server.open() == 1);
    exchange(&mut other, b"still here");
    server.stop();
}

#[test]
fn client_over_its_limit_is_refused_and_others_are_not() {
    let server = Server::start(TcpSettings {
        max_connections_per_client: Some(3),
        ..settings()
    });
    let mut own: Vec<TcpStream> = (0..3).map(|_| server.connect()).collect();
    own.iter_mut().for_each(|stream| exchange(stream, b"in"));
    assert!(ends(&mut server.connect()));
    assert_eq!(server.echo.refused.load(Ordering::SeqCst), 1);
    exchange(&mut server.connect_from([127, 0, 0, 2]), b"another client");
    own.pop();
    wait_until("place given back", || server.open() == 2);
    exchange(&mut server.connect(), b"in again");
    server.stop();
}

#[test]
fn one_client_has_a_quarter_of_the_connections_by_default() {
    let server = Server::start(TcpSettings {
        max_connections: 8,
        max_connections_per_client: None,
        ..settings()
    });
    let mut open = Vec::new();
    for client in 1..=4 {
        for _ in 0..2 {
            let mut own = server.connect_from([127, 0, 0, client]);
            exchange(&mut own, b"in");
            open.push(own);
        }
        assert!(ends(&mut server.connect_from([127, 0, 0, client])));
    }
    assert_eq!(server.open(), 8);
    server.stop();
}

#[test]
fn the_longest_idle_connection_is_evicted() {
    let server = Server::start(TcpSettings {
        max_connections: 3,
        ..settings()
    });
    let mut streams: Vec<TcpStream> = (0..3).map(|_| server.connect()).collect();
    streams
        .iter_mut()
        .for_each(|stream| exchange(stream, b"in"));
    exchange(&mut streams[0], b"not idle");
    let mut fourth = server.connect();
    exchange(&mut fourth, b"in");
    assert!(ends(&mut streams[1]), "the second was idle for longest");
    exchange(&mut streams[0], b"stays");
    exchange(&mut streams[2], b"stays");
    wait_until("three are open", || server.open() == 3);
    server.stop();
}

#[test]
fn stopping_closes_idle_connections_and_delivers_answers() {
    let server = Server::start(TcpSettings {
        stop_grace: TIMEOUT,
        ..settings()
    });
    let mut idle = server.connect();
    exchange(&mut idle, b"once");
    let mut slow_reader = server.connect();
    for _ in 0..100 {
        slow_reader.write_all(&framed(b"large")).unwrap();
    }
    wait_until("handled", || server.echo.handled.load(Ordering::SeqCst) > 1);
    server.stop.send_replace(true);
    assert!(ends(&mut idle));
    let mut answers = 0;
    while let Ok(answer) = read_message(&mut slow_reader) {
        assert_eq!(answer.len(), 60_000);
        answers += 1;
    }
    let handled = server.echo.handled.load(Ordering::SeqCst);
    assert_eq!(answers, handled - 1, "what was handled is delivered");
    server.stop();
}
