//! Clients that are slow, idle, many or hostile.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use nameward_control::web::{Settings, WebLimits};
use nameward_stats::{Outcome, Ring, Stamp};

use super::client::{Reply, Server, ask, settings};

fn with_limits(limits: WebLimits) -> Server {
    Server::with(Settings {
        limits,
        ..settings()
    })
}

#[test]
fn a_client_that_does_not_finish_its_request_is_disconnected_without_an_answer() {
    let server = with_limits(WebLimits {
        head_timeout: Duration::from_millis(300),
        ..settings().limits
    });
    for start in [&b""[..], b"GET / HTTP/1.1\r\nHost: a\r\nX: "] {
        let mut stream = server.connect();
        stream.write_all(start).expect("sent");
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        assert_eq!(bytes, b"");
    }
    assert_eq!(server.messages(), [""; 0]);
}

#[test]
fn single_bytes_do_not_extend_the_time_for_the_head() {
    let server = with_limits(WebLimits {
        head_timeout: Duration::from_millis(400),
        ..settings().limits
    });
    let mut stream = server.connect();
    let mut sent = 0;
    // Far longer than allowed, if each byte extended the time.
    for byte in b"GET / HTTP/1.1\r\nX: ".iter().chain([b'y'; 300].iter()) {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        sent += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(sent < 300, "was never cut off");
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let server = with_limits(WebLimits {
        reply_timeout: Duration::from_millis(300),
        max_connections: 1,
        ..settings().limits
    });
    // More than socket buffers hold. Not sent by a request: the only slot may still be occupied by the previous one.
    server
        .stats
        .resize_ring(nameward_stats::Ring::Logmessages, 500_000);
    for n in 0..6000 {
        server.stats.log(&format!("{n} {}", "x".repeat(2000)));
    }
    let mut stream = server.connect();
    stream
        .write_all(b"GET /?ring=logmessages&format=text HTTP/1.0\r\n\r\n")
        .expect("sent");
    // The only slot is occupied until the server disconnects the client.
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(50));
        let mut probe = server.connect();
        let mut reply = Vec::new();
        let sent = probe.write_all(b"GET /livez HTTP/1.0\r\n\r\n");
        if sent.is_ok()
            && probe.read_to_end(&mut reply).is_ok()
            && reply.starts_with(b"HTTP/1.0 200")
        {
            return;
        }
    }
    panic!("the place was never given back");
}

#[test]
fn idle_connections_are_closed_for_a_real_request() {
    let server = with_limits(WebLimits {
        max_connections: 20,
        head_timeout: Duration::from_secs(600),
        ..settings().limits
    });
    let idle: Vec<TcpStream> = (0..200).map(|_| server.connect()).collect();
    for _ in 0..10 {
        assert_eq!(server.get("/livez").status(), 200);
    }
    // The oldest ones were closed, and only as many as necessary.
    let is_closed = |mut stream: &TcpStream| {
        stream
            .set_read_timeout(Some(Duration::from_millis(1)))
            .expect("a timeout");
        match stream.read(&mut [0]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    };
    let mut closed = 0;
    for _ in 0..100 {
        closed = idle.iter().filter(|stream| is_closed(stream)).count();
        if closed >= 180 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(closed >= 180, "{closed} closed");
    assert!(closed < 200, "all were closed");
}

#[test]
fn a_flood_of_garbage_leaves_the_page_working() {
    let server = Server::start();
    let mut dice = 0x2545_f491_4f6c_dd1du64;
    for _ in 0..500 {
        let mut bytes = vec![0u8; 64];
        for byte in &mut bytes {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            *byte = dice as u8;
        }
        bytes.extend_from_slice(b"\r\n\r\n");
        let mut stream = server.connect();
        let _ = stream.write_all(&bytes);
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        assert!(
            reply.is_empty() || reply.starts_with(b"HTTP/1.0 400"),
            "{}",
            String::from_utf8_lossy(&reply)
        );
    }
    assert_eq!(server.get("/").status(), 200);
}

/// Sends a request and reads the first octet of the reply: from then on the server is sending it.
fn begin(server: &Server, target: &str) -> TcpStream {
    let mut stream = server.connect();
    let request = format!("GET {target} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut first = [0];
    stream.read_exact(&mut first).expect("a reply begins");
    assert_eq!(first, *b"H");
    stream
}

/// Returns the octets of this process's private memory.
fn own_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|l| l.split_ascii_whitespace().next()?.parse::<usize>().ok());
    kilobytes.expect("a number") * 1024
}

#[test]
fn clients_that_never_read_use_bounded_memory_and_an_honest_one_is_served() {
    const MESSAGES: usize = 1500;
    let server = with_limits(WebLimits {
        reply_timeout: Duration::from_secs(600),
        max_held_bytes: 16 << 20,
        ..settings().limits
    });
    server.stats.resize_ring(Ring::Logmessages, MESSAGES);
    let text = "x".repeat(2000);
    let fill = |round: usize| {
        for n in 0..MESSAGES {
            server.stats.log(&format!("{round} {n} {text}"));
        }
    };
    fill(0);
    fill(1);
    let before = own_memory();
    // Each of them requests three megabytes of text; the ring changes in between, so that no text is shared.
    let mut silent = Vec::new();
    for round in 0..60 {
        silent.push(begin(&server, "/?ring=logmessages&format=text"));
        fill(round);
    }
    let held = own_memory().saturating_sub(before);
    assert!(held < 100 << 20, "{} MB are held", held >> 20);
    let honest = server.get("/?ring=logmessages&format=text");
    assert_eq!(honest.status(), 200);
    let length = honest.header("content-length").map(str::to_owned);
    assert_eq!(length, Some(honest.body().len().to_string()));
    assert!(honest.body().len() > MESSAGES * 1800); // some are lines of requests
    assert!(honest.text().ends_with("\t100%\tTotal:\n"));
}

/// Fills the largest ring: each client once, and the first thousand twice.
fn fill_remotes_unauth(server: &Server, clients: u32) {
    let mut recorder = server.stats.recorder();
    for n in (0..clients).chain(0..1000) {
        let client = Ipv4Addr::from(0x0a00_0000 + n).into();
        ask(&mut recorder, b"\x01a\0", Outcome::Unauth, client);
        if n % 1000 == 999 {
            recorder.flush(Stamp::now(), None);
        }
    }
    recorder.flush(Stamp::now(), None);
}

#[test]
fn a_reader_gets_the_text_of_a_ring_among_clients_that_never_read_it() {
    const CLIENTS: u32 = 100_000;
    let target = "/?ring=remotes-unauth&format=text";
    let server = with_limits(WebLimits {
        max_connections: 128,
        reply_timeout: Duration::from_secs(600),
        ..settings().limits
    });
    fill_remotes_unauth(&server, CLIENTS);
    let alone = server.get(target).text();
    let lines: Vec<&str> = alone.lines().collect();
    assert_eq!(lines.len(), CLIENTS as usize + 1);
    assert_eq!(lines[0], "2\t0.0%\t10.0.0.0");
    assert_eq!(lines[1000], "1\t0.0%\t10.0.3.232");
    assert_eq!(lines[CLIENTS as usize], "101000\t100%\tTotal:");
    let _silent: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = server.connect();
            let request = format!("GET {target} HTTP/1.0\r\n\r\n");
            stream.write_all(request.as_bytes()).expect("sent");
            stream
        })
        .collect();
    for _ in 0..3 {
        let mut stream = server.connect();
        // Far more than the text takes even on a busy machine.
        let time_limit = Some(Duration::from_secs(240));
        stream.set_read_timeout(time_limit).expect("a timeout");
        let request = format!("GET {target} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let honest = Reply::read(&mut stream);
        assert_eq!(honest.status(), 200);
        assert!(honest.text() == alone, "another text");
        assert_eq!(server.get("/livez").status(), 200);
    }
}

/// A connection from another address of this machine.
fn connect_from(server: &Server, address: [u8; 4]) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    let from = SocketAddr::from((address, 0));
    socket.bind(&from.into()).expect("an address of loopback");
    socket
        .connect(&server.address.into())
        .expect("a connection");
    let stream = TcpStream::from(socket);
    let time_limit = Some(Duration::from_secs(60));
    stream.set_read_timeout(time_limit).expect("a timeout");
    stream
}

#[test]
fn a_client_with_many_connections_never_costs_another_its_only_one() {
    let target = "/?ring=logmessages&format=text";
    let server = Server::with(Settings {
        allow_from: vec!["127.0.0.0/8".parse().expect("a network")],
        limits: WebLimits {
            max_connections: 8,
            reply_timeout: Duration::from_secs(600),
            ..settings().limits
        },
        ..settings()
    });
    server.stats.resize_ring(Ring::Logmessages, 1000);
    for n in 0..1000 {
        server.stats.log(&format!("{n} {}", "x".repeat(1000)));
    }
    let request = format!("GET {target} HTTP/1.0\r\n\r\n");
    let never_reads = || {
        let mut stream = server.connect();
        let _ = stream.write_all(request.as_bytes());
        stream
    };
    let mut silent: Vec<TcpStream> = (0..7).map(|_| never_reads()).collect();
    // The first honest client is the oldest without a request, while others keep connecting.
    let mut honest = connect_from(&server, [127, 0, 0, 2]);
    silent.extend((0..40).map(|_| never_reads()));
    honest.write_all(request.as_bytes()).expect("sent");
    let reply = Reply::read(&mut honest);
    assert_eq!(reply.status(), 200);
    assert!(reply.text().ends_with("\t100%\tTotal:\n"));
}

#[test]
fn a_text_that_can_never_have_room_is_refused_with_the_reason() {
    let server = with_limits(WebLimits {
        max_held_bytes: 256 << 10,
        ..settings().limits
    });
    for n in 0..200 {
        server.stats.log(&format!("{n} {}", "x".repeat(1000)));
    }
    let reply = server.get("/?ring=logmessages&format=text");
    assert_eq!(reply.status(), 503);
    assert!(reply.text().contains("web.reply_memory_mb"));
    let last = server.messages().pop().expect("a line");
    assert!(
        last.ends_with(&format!("503 {}", reply.bytes.len())),
        "{last}"
    );
}

#[test]
fn probes_are_answered_while_clients_that_do_not_read_occupy_all_slots() {
    let server = with_limits(WebLimits {
        max_connections: 8,
        reply_timeout: Duration::from_secs(600),
        ..settings().limits
    });
    server.stats.resize_ring(Ring::Logmessages, 3000);
    for n in 0..3000 {
        server.stats.log(&format!("{n} {}", "x".repeat(2000)));
    }
    let target = "/?ring=logmessages&format=text";
    let _silent: Vec<TcpStream> = (0..8).map(|_| begin(&server, target)).collect();
    for _ in 0..3 {
        assert_eq!(server.get("/livez").status(), 200);
        assert_eq!(server.get("/readyz").status(), 200);
    }
}

/// `password` with ln=14: about 16 MB and some tens of milliseconds per guess.
fn hashed_password() -> String {
    let mut hash = [0; 32];
    let params = scrypt::Params::new(14, 8, 1).expect("parameters");
    scrypt::scrypt(b"password", b"salt", &params, &mut hash).expect("a hash");
    let base64 = |bytes: &[u8]| data_encoding::BASE64.encode(bytes);
    format!(
        "$scrypt$ln=14,p=1,r=8${}${}",
        base64(b"salt"),
        base64(&hash)
    )
}

fn authorization(password: &str) -> String {
    let credentials = data_encoding::BASE64.encode(format!("x:{password}").as_bytes());
    format!("Authorization: Basic {credentials}\r\n")
}

#[test]
fn many_guessers_block_neither_probes_nor_clients_with_the_password() {
    let server = Server::with(Settings {
        password: hashed_password().into(),
        ..settings()
    });
    let right = authorization("password");
    assert_eq!(server.request("GET", "/", &right).status(), 200);
    let mut guessers: Vec<TcpStream> = (0..200)
        .map(|n| {
            let mut stream = server.connect();
            let guess = authorization(&format!("guess {n}"));
            let request = format!("GET / HTTP/1.0\r\n{guess}\r\n");
            stream.write_all(request.as_bytes()).expect("sent");
            stream
        })
        .collect();
    for _ in 0..5 {
        assert_eq!(server.get("/livez").status(), 200);
        assert_eq!(server.get("/readyz").status(), 200);
        assert_eq!(server.request("GET", "/", &right).status(), 200);
    }
    let statuses: Vec<u16> = guessers
        .iter_mut()
        .map(|s| Reply::read(s).status())
        .collect();
    let computed = statuses.iter().filter(|status| **status == 401).count();
    let refused = statuses.iter().filter(|status| **status == 429).count();
    assert_eq!(computed + refused, 200, "{statuses:?}");
    // Ten at once, and one more for every six seconds that this took.
    assert!(
        (1..=30).contains(&computed),
        "{computed} guesses were computed"
    );
}

#[test]
fn many_replies_that_are_read_are_all_whole() {
    let server = Server::start();
    let mut recorder = server.stats.recorder();
    for n in 0..3000u32 {
        let client = std::net::IpAddr::V4(n.into());
        ask(&mut recorder, b"\x01a\0", Outcome::Answer, client);
    }
    recorder.flush(Stamp::now(), None);
    let mut streams: Vec<TcpStream> = (0..40)
        .map(|_| begin(&server, "/?ring=remotes&format=text"))
        .collect();
    for stream in &mut streams {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("the rest");
        let text = String::from_utf8(rest).expect("text");
        assert_eq!(
            text.split_once("\r\n\r\n")
                .expect("a body")
                .1
                .lines()
                .count(),
            3001
        );
    }
}
