//! The HTTP API with hostile clients: password guesses, huge and deeply nested bodies, smuggling, floods of
//! connections, clients that never read.

use super::operation::{ask, zone};
use super::rows::Sqlite;
use crate::api::client::{Client, KEY, exchange, settings};
use nameward_testkit::{Setup, TestServer};
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;

fn start() -> (TestServer, Client) {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    database.add(&zone("one.test", "192.0.2.10"));
    let server = setup
        .config(&settings())
        .config(&database.backend("live"))
        .start();
    let client = Client::new(server.api());
    (server, client)
}

#[test]
fn without_the_key_nothing_is_read_and_guesses_are_limited() {
    let (server, client) = start();
    let wrong = client.with_key("wrong");
    let path = "/api/v1/servers/localhost/zones";
    for _ in 0..10 {
        let reply = wrong.send_text("GET", path, "");
        assert_eq!(
            (reply.status, &*reply.body),
            (401, r#"{"error": "Unauthorized"}"#)
        );
    }
    let reply = wrong.send_text("GET", path, "");
    assert_eq!(reply.status, 429, "{reply:?}");
    // A body that is announced and never sent does not delay the refusal.
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(exchange(server.api(), head.as_bytes()).unwrap().status, 401);
    let log = server.log();
    assert!(!log.contains(KEY), "{log}");
}

#[test]
fn the_owner_of_the_key_is_not_shut_out_by_guesses_from_its_address() {
    let (_server, client) = start();
    client.expect(200, "GET", "/zones", None);
    let wrong = client.with_key("wrong");
    for _ in 0..20 {
        wrong.send("GET", "/zones", None);
    }
    client.expect(200, "GET", "/zones", None);
}

#[test]
fn huge_deep_and_endless_bodies_are_refused() {
    let (server, client) = start();
    let path = "/api/v1/servers/localhost/zones/one.test.";
    let head = |fields: &str| {
        format!("PATCH {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\n{fields}\r\n\r\n")
    };
    let large = head("Content-Length: 999999999999");
    assert_eq!(
        exchange(server.api(), large.as_bytes()).unwrap().status,
        413
    );
    let deep = "[".repeat(100_000);
    assert_eq!(client.send_text("PATCH", path, &deep).status, 400);
    let deep = "{\"rrsets\":".repeat(50_000);
    assert_eq!(client.send_text("PATCH", path, &deep).status, 400);
    // 17 MiB in chunks without an end.
    let mut endless = head("Transfer-Encoding: chunked\r\nConnection: close").into_bytes();
    let chunk = [&b"10000\r\n"[..], &[b' '; 0x10000], b"\r\n"].concat();
    for _ in 0..272 {
        endless.extend_from_slice(&chunk);
    }
    let status = exchange(server.api(), &endless).map(|reply| reply.status);
    // The refusal may be lost with the rest of the request.
    assert!(matches!(status, Some(413) | None), "{status:?}");
    client.expect(200, "GET", "/zones", None);
    assert_eq!(ask(&server, "www.one.test."), Some((0, 10)));
}

#[test]
fn requests_with_two_lengths_or_broken_heads_are_refused() {
    let (server, client) = start();
    let path = "/api/v1/servers/localhost/zones";
    let body = json!({ "name": "smuggled.test.", "kind": "Native", "nameservers": [] }).to_string();
    let length = body.len();
    let inner = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    for fields in [
        format!("Content-Length: 0\r\nContent-Length: {}", inner.len()),
        "Content-Length: -1".to_owned(),
        "Content-Length: 1, 2".to_owned(),
        "Transfer-Encoding: chunked, identity\r\nContent-Length: 3".to_owned(),
        "Transfer-Encoding : chunked".to_owned(),
        "no colon".to_owned(),
    ] {
        let octets = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n{inner}");
        let status = exchange(server.api(), octets.as_bytes()).map(|reply| reply.status);
        assert!(matches!(status, Some(400) | None), "{fields}: {status:?}");
        client.expect(404, "GET", "/zones/smuggled.test.", None);
    }
    let many: String = (0..1000).map(|n| format!("X-{n}: y\r\n")).collect();
    let octets = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{many}\r\n");
    let status = exchange(server.api(), octets.as_bytes()).map(|reply| reply.status);
    assert!(matches!(status, Some(400 | 431) | None), "{status:?}");
    client.expect(200, "GET", "/zones", None);
}

#[test]
fn idle_connections_and_clients_that_never_read_do_not_lock_others_out() {
    let (server, client) = start();
    let half = b"GET /api/v1/servers HTTP/1.1\r\nHost: x\r\n";
    let mut idle = Vec::new();
    for number in 0..1000 {
        let mut stream = TcpStream::connect(server.api()).unwrap();
        match number % 2 {
            // Half a head.
            0 => {
                let _ = stream.write_all(half);
            }
            // Requests whose replies are never read.
            _ => {
                let request = format!(
                    "GET /api/v1/servers/localhost/statistics HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\n\r\n"
                );
                let _ = stream.write_all(request.repeat(3).as_bytes());
            }
        }
        idle.push(stream);
    }
    for _ in 0..5 {
        client.expect(200, "GET", "/zones", None);
    }
    assert_eq!(ask(&server, "www.one.test."), Some((0, 10)));
    drop(idle);
    client.expect(200, "GET", "/zones", None);
}

#[test]
fn clients_outside_the_access_list_get_no_answer() {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    let server = setup
        .config(&format!("{}allow_from = [\"192.0.2.0/24\"]\n", settings()))
        .config(&database.backend("live"))
        .start();
    let request = format!("GET /api HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\n\r\n");
    assert_eq!(exchange(server.api(), request.as_bytes()), None);
}
