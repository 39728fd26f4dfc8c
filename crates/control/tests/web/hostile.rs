//! Clients that are slow, idle, many or hostile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use nameward_control::web::{Limits, Settings};

use crate::client::Server;

fn with_limits(limits: Limits) -> Server {
    Server::with(Settings {
        limits,
        ..Settings::default()
    })
}

#[test]
fn a_client_that_does_not_finish_its_request_is_cut_off_without_an_answer() {
    let server = with_limits(Limits {
        head_timeout: Duration::from_millis(300),
        ..Limits::default()
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
fn single_bytes_do_not_prolong_the_time_for_the_head() {
    let server = with_limits(Limits {
        head_timeout: Duration::from_millis(400),
        ..Limits::default()
    });
    let mut stream = server.connect();
    let mut sent = 0;
    // Far longer than allowed, if each byte bought more time.
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
fn a_client_that_does_not_read_is_cut_off() {
    let server = with_limits(Limits {
        reply_timeout: Duration::from_millis(300),
        max_connections: 1,
        ..Limits::default()
    });
    // More than socket buffers take. Not by a request: the only place may still be taken by the one before.
    server
        .stats
        .resize_ring(nameward_stats::Ring::Logmessages, 500_000);
    for n in 0..60_000 {
        server.stats.log(&format!("{n} {}", "x".repeat(200)));
    }
    let mut stream = server.connect();
    stream
        .write_all(b"GET /?ring=logmessages&format=text HTTP/1.0\r\n\r\n")
        .expect("sent");
    // The only place is taken until the server gives up on it.
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
fn idle_connections_make_room_for_a_real_request() {
    let server = with_limits(Limits {
        max_connections: 20,
        head_timeout: Duration::from_secs(600),
        ..Limits::default()
    });
    let idle: Vec<TcpStream> = (0..200).map(|_| server.connect()).collect();
    for _ in 0..10 {
        assert_eq!(server.get("/livez").status(), 200);
    }
    // The oldest were made to leave, and only so many as had to.
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
