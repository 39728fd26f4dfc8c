//! Hostile clients of the API: requests that two parsers interpret differently, and floods of connections. Nothing is
//! smuggled, memory is bounded, and other clients are answered.

use super::client::{KEY, SERVER, create_zones, exchange_text, start};
use nameward_testkit::TestServer;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

/// A request that creates a zone, hidden by an attacker in another one.
fn smuggled() -> String {
    let body = r#"{"name":"smuggled.test.","kind":"Native","nameservers":["ns1.a.test."]}"#;
    format!(
        "POST {SERVER}/zones HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn a_request_with_a_length_and_chunks_ends_its_connection() {
    let (server, client) = start("");
    let inner = smuggled();
    let length = inner.len() + 5;
    let size = format!("{:x}", inner.len());
    let head = format!("GET {SERVER}/zones HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\n");
    for fields in [
        format!("Content-Length: {length}\r\nTransfer-Encoding: chunked"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {length}"),
        format!("content-length: {length}\r\ntransfer-encoding: CHUNKED"),
    ] {
        // A parser that follows the chunks sees the second request as such, one that follows the length sees a body.
        let by_length = format!("{head}{fields}\r\n\r\n0\r\n\r\n{inner}");
        let reply = exchange_text(server.api(), by_length.as_bytes());
        assert!(reply.matches("HTTP/1.1 ").count() <= 1, "{fields}: {reply}");
        let by_chunks = format!("{head}{fields}\r\n\r\n{size}\r\n{inner}\r\n0\r\n\r\n");
        let reply = exchange_text(server.api(), by_chunks.as_bytes());
        assert!(reply.matches("HTTP/1.1 ").count() <= 1, "{fields}: {reply}");
        client.expect(404, "GET", "/zones/smuggled.test.", None);
    }
}

#[test]
fn heads_and_chunks_that_are_not_well_formed_carry_no_second_request() {
    let (server, client) = start("");
    let inner = smuggled();
    let head = format!("GET {SERVER}/zones HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\n");
    for rest in [
        // Folded lines (RFC 9112 section 5.2).
        format!("Content-Length: 0\r\n 0\r\nX: y\r\n\r\n{inner}"),
        format!("Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n{inner}"),
        // A carriage return alone.
        format!("X: a\rContent-Length: 3\r\n\r\n{inner}"),
        format!("X: a\r\rY: b\r\n\r\n{inner}"),
        // NUL and other control characters in names and values.
        format!("Content-Length\0: 0\r\n\r\n{inner}"),
        format!("X: a\0b\r\n\r\n{inner}"),
        format!("Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n{inner}"),
        // Other encodings than chunked, and chunked before another one.
        format!("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{inner}"),
        format!(
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{inner}"
        ),
        // Chunk sizes that some parsers interpret differently.
        format!("Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n{inner}"),
        format!("Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n{inner}"),
        format!("Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n\r\n{inner}"),
        format!("Transfer-Encoding: chunked\r\n\r\n1\r\naXX0\r\n\r\n{inner}"),
        // Lengths that are not numbers.
        format!("Content-Length: +0\r\n\r\n{inner}"),
        format!("Content-Length: 0x0\r\n\r\n{inner}"),
        format!("Content-Length: 0,0\r\n\r\n{inner}"),
        format!("Content-Length: \r\n\r\n{inner}"),
        format!("Content-Length: 18446744073709551616\r\n\r\n{inner}"),
    ] {
        let reply = exchange_text(server.api(), format!("{head}{rest}").as_bytes());
        assert!(!reply.contains("HTTP/1.1 201"), "{rest:?}: {reply}");
        client.expect(404, "GET", "/zones/smuggled.test.", None);
    }
}

/// The memory of a server now and at most so far, in KiB.
pub fn memory(server: &TestServer) -> (u64, u64) {
    let text = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let value = |name: &str| -> u64 {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    (value("VmRSS:"), value("VmHWM:"))
}

/// Lists the zones from another address of this machine, which counts as another client; returns the status.
fn list_from_elsewhere(at: SocketAddr) -> String {
    let output = Command::new("curl")
        .args(["--silent", "--max-time", "60", "--interface", "127.0.0.9"])
        .args(["--output", "/dev/null", "--write-out", "%{http_code}"])
        .args(["-H", &format!("X-API-Key: {KEY}")])
        .arg(format!("http://{at}{SERVER}/zones"))
        .output()
        .expect("curl is needed: scripts/install-deps installs it");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// MiB that a thousand hostile connections may cost: as much as bodies alone may take by their limit. A debug build needs 200 to 360.
const CROWD_MIB: u64 = 512;

#[test]
fn a_thousand_hostile_connections_cost_bounded_memory_and_others_are_answered() {
    let (server, client) = start("allow_from = [\"127.0.0.0/8\"]\n");
    create_zones(&client, &["a.test."]);
    let (before, _) = memory(&server);
    let large = "x".repeat(60_000);
    let get = format!("GET {SERVER}/zones HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\n");
    let post = format!("POST {SERVER}/zones HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\n");
    let attacks: Vec<Vec<u8>> = vec![
        // Half of a head of maximum size.
        format!("{get}X: {large}").into_bytes(),
        // A body that is announced and never sent.
        format!("{post}Content-Length: 16000000\r\n\r\n{{\"a\":\"{large}").into_bytes(),
        // Chunks without end.
        format!("{post}Transfer-Encoding: chunked\r\n\r\nea60\r\n{large}\r\n").into_bytes(),
        // Many requests, of which no reply is read.
        format!("{get}\r\n").repeat(200).into_bytes(),
        // A flood of fields.
        format!("{get}{}", "a: b\r\n".repeat(9000)).into_bytes(),
        // HTTP/2: a preface, settings, and then frames that are announced and do not arrive.
        [
            &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
            &[0, 0, 0, 4, 0, 0, 0, 0, 0],
            &[0, 0x3f, 0xff, 1, 4, 0, 0, 0, 1],
        ]
        .concat(),
        // A wrong key.
        format!("GET {SERVER} HTTP/1.1\r\nHost: x\r\nX-API-Key: guess\r\n\r\n").into_bytes(),
        // A stream of events that is never read.
        format!("GET {SERVER}/events HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\n\r\n").into_bytes(),
    ];
    let mut crowd = Vec::new();
    for number in 0..1000 {
        let mut stream = TcpStream::connect(server.api()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let _ = stream.write(&attacks[number % attacks.len()]);
        crowd.push(stream);
        if number % 100 == 99 {
            // Another client is answered, and DNS is.
            assert_eq!(list_from_elsewhere(server.api()), "200", "{number}");
            let answer = crate::databases::operation::ask(&server, "www.a.test.");
            assert_eq!(answer, Some((0, 1)), "{number}");
        }
    }
    let (_, peak) = memory(&server);
    let cost = peak.saturating_sub(before) / 1024;
    assert!(cost < CROWD_MIB, "{cost} MiB");
    drop(crowd);
    client.expect(200, "GET", "/zones", None);
}
