//! The API over HTTP: HTTP/2, keep-alive, hashed keys, headers.

use super::rows::Sqlite;
use crate::api::client::{Client, KEY, SERVER, exchange};
use nameward_testkit::{Setup, TestServer};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

fn start(key: &str) -> (TestServer, Client) {
    let setup = Setup::new().without_web();
    let database = Sqlite::new(setup.dir());
    let server = setup
        .config(&format!("[api]\nlisten = \"127.0.0.1:0\"\nkey = {key:?}\n"))
        .config(&database.backend("live"))
        .start();
    let client = Client::new(server.api());
    (server, client)
}

/// Runs curl; returns its output: the body, then the status and the HTTP version.
fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "60"])
        .args(["--write-out", "\n%{http_code} %{http_version}"])
        .args(arguments)
        .output()
        .expect("curl is needed: scripts/install-deps installs it");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn http_2_without_an_upgrade_carries_requests_and_bodies() {
    let (server, client) = start(KEY);
    let url = format!("http://{}{SERVER}/zones", server.api());
    let key = format!("X-API-Key: {KEY}");
    let body = json!({ "name": "two.test.", "kind": "Native", "nameservers": ["ns1.two.test."] });
    let body = body.to_string();
    let h2 = ["--http2-prior-knowledge", "-H", &key];
    let made = curl(&[&h2[..], &["-X", "POST", "--data-binary", &body, &url]].concat());
    assert!(made.ends_with("\n201 2"), "{made}");
    let listed = curl(&[&h2[..], &[&url]].concat());
    assert!(
        listed.contains("two.test.") && listed.ends_with("\n200 2"),
        "{listed}"
    );
    let refused = curl(&["--http2-prior-knowledge", "-H", "X-API-Key: wrong", &url]);
    assert!(refused.ends_with("\n401 2"), "{refused}");
    client.expect(200, "GET", "/zones/two.test.", None);
}

#[test]
fn a_connection_carries_many_requests_one_after_another() {
    let (server, _client) = start(KEY);
    let mut stream = TcpStream::connect(server.api()).unwrap();
    let request = |last: bool| {
        let connection = if last { "close" } else { "keep-alive" };
        format!(
            "GET {SERVER}/zones HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\nConnection: {connection}\r\n\r\n"
        )
    };
    // Without waiting for the replies: they come in order.
    let all: String = (0..20).map(|number| request(number == 19)).collect();
    stream.write_all(all.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 20, "{text}");
}

#[test]
fn a_key_may_be_configured_as_its_hash() {
    let hash = nameward_control::web::hash_password(KEY).unwrap();
    let (_server, client) = start(hash.trim());
    client.expect(200, "GET", "/zones", None);
    client.expect(200, "GET", "/zones", None);
    let wrong = client.with_key("wrong");
    wrong.expect(401, "GET", "/zones", None);
    // The hash itself is not the key.
    let head = format!(
        "GET {SERVER}/zones HTTP/1.1\r\nHost: x\r\nX-API-Key: {}\r\nConnection: close\r\n\r\n",
        hash.trim()
    );
    assert_eq!(exchange(client.at, head.as_bytes()).unwrap().status, 401);
}

#[test]
fn every_reply_has_the_headers_of_powerdns() {
    let (_server, client) = start(KEY);
    for (path, key) in [
        ("/zones", KEY),
        ("/zones/none.test.", KEY),
        ("/zones", "wrong"),
    ] {
        let reply = client.with_key(key).send("GET", path, None);
        let head = reply.head.to_ascii_lowercase();
        for header in [
            "access-control-allow-origin: *",
            "content-security-policy: default-src 'self'; style-src 'self' 'unsafe-inline'",
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
            "x-permitted-cross-domain-policies: none",
            "x-xss-protection: 1; mode=block",
            "content-type: application/json\r",
        ] {
            let head = format!("{head}\r");
            assert!(head.contains(header), "{path} {key}: no {header} in {head}");
        }
    }
    let body = json!({ "name": "head.test.", "kind": "Native", "nameservers": ["ns1.head.test."], "soa_edit_api": "INCREASE" });
    client.expect(201, "POST", "/zones", Some(&body));
    let body = super::api::patch("REPLACE", "www.head.test.", &["192.0.2.1"]);
    let reply = client.send("PATCH", "/zones/head.test.", Some(&body));
    let head = reply.head.to_ascii_lowercase();
    assert!(
        head.contains("x-pdns-old-serial: 1") && head.contains("x-pdns-new-serial: 2"),
        "{head}"
    );
    assert!(
        reply.body.is_empty() && !head.contains("\r\ncontent-type"),
        "{reply:?}"
    );
    // Nothing changes: both are the current serial of the zone.
    let reply = client.send("PATCH", "/zones/head.test.", Some(&body));
    let head = reply.head.to_ascii_lowercase();
    assert!(
        head.contains("x-pdns-old-serial: 2") && head.contains("x-pdns-new-serial: 2"),
        "{head}"
    );
}

#[test]
fn a_missing_zone_is_reported_before_errors_in_the_body() {
    let (_server, client) = start(KEY);
    let body = json!({ "name": "some.test.", "kind": "Native", "nameservers": ["ns1.some.test."] });
    client.expect(201, "POST", "/zones", Some(&body));
    for body in [json!({ "rrsets": 1 }), json!({ "rrsets": [{}] })] {
        client.expect(422, "PATCH", "/zones/some.test.", Some(&body));
        client.expect(404, "PATCH", "/zones/none.test.", Some(&body));
    }
    let body = super::api::patch("REPLACE", "www.none.test.", &["192.0.2.1"]);
    client.expect(404, "PATCH", "/zones/none.test.", Some(&body));
}
