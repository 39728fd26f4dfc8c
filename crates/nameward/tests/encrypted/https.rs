//! DNS over HTTPS (RFC 8484): kdig and curl, status codes, caching, and clients that misbehave.

use super::tls::{Connection, client};
use super::{client_identity, counted, run_tool, setup};
use crate::databases::api_clients::clients;
use nameward_testkit::TestServer;
use nameward_testkit::certificates::{Authority, IssuedCertificate, Validity};
use std::fmt::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

const LISTEN: &str = "[server]\nlisten_https = [\"127.0.0.1:0\"]\n";

/// A query for a name and type, with ID 0.
fn query(labels: &[&str], rtype: u8) -> Vec<u8> {
    let mut query = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in labels {
        query.push(label.len() as u8);
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, rtype, 0, 1]);
    query
}

/// Encodes octets in base64url without padding.
fn encode(octets: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in octets.chunks(3) {
        let mut bits = 0u32;
        for i in 0..3 {
            bits = bits << 8 | u32::from(chunk.get(i).copied().unwrap_or(0));
        }
        for i in 0..=chunk.len() {
            text.push(DIGITS[(bits >> (18 - 6 * i) & 63) as usize] as char);
        }
    }
    text
}

/// Runs curl on a path; returns its output, with the status code and the HTTP version in the last line.
fn curl(server: &TestServer, arguments: &str, path: &str) -> String {
    let port = server.encrypted("HTTPS").port();
    let command = format!(
        "curl --silent --show-error --max-time 60 --cacert authority.pem --include --output - \
         --write-out '\\n%{{http_code}} %{{http_version}}' --resolve dns.example.org:{port}:127.0.0.1 \
         {arguments} 'https://dns.example.org:{port}{path}'"
    );
    run_tool(server, &command).1
}

fn status(output: &str) -> &str {
    output.lines().last().unwrap_or_default()
}

#[test]
fn kdig_and_curl_are_answered_by_get_and_post_over_http_1_and_2() {
    let server = setup(LISTEN).start();
    let port = server.encrypted("HTTPS").port();
    for method in ["+https", "+https-get"] {
        let command = format!(
            "kdig @127.0.0.1 -p {port} {method} +tls-ca=authority.pem +tls-hostname=dns.example.org www.example.org A"
        );
        let (is_ok, text) = run_tool(&server, &command);
        assert!(is_ok && text.contains("192.0.2.1"), "{text}");
        assert!(
            text.contains("Received 468 B") || !text.contains("PADDING"),
            "{text}"
        );
    }
    std::fs::write(
        server.dir().join("query"),
        query(&["www", "example", "org"], 1),
    )
    .unwrap();
    let get = format!(
        "/dns-query?dns={}",
        encode(&query(&["www", "example", "org"], 1))
    );
    for (version, expected) in [("--http1.1", "200 1.1"), ("--http2", "200 2")] {
        let post =
            format!("{version} -H 'Content-Type: application/dns-message' --data-binary @query");
        for output in [
            curl(&server, &post, "/dns-query"),
            curl(&server, version, &get),
        ] {
            assert_eq!(status(&output), expected, "{output}");
            let head = output.to_ascii_lowercase();
            assert!(
                head.contains("content-type: application/dns-message"),
                "{output}"
            );
            assert!(head.contains("cache-control: max-age=300"), "{output}");
        }
    }
    assert_eq!(counted(&server, "https-queries"), 6);
    assert_eq!(counted(&server, "https4-answers"), 6);
    assert_eq!(counted(&server, "tls-queries"), 0);
}

#[test]
fn responses_are_fresh_as_long_as_their_records() {
    let server = setup(LISTEN).start();
    let fresh = |labels: &[&str], rtype: u8| {
        let path = format!("/dns-query?dns={}", encode(&query(labels, rtype)));
        let output = curl(&server, "", &path).to_ascii_lowercase();
        let line = output
            .lines()
            .find(|line| line.starts_with("cache-control:"));
        line.unwrap_or_else(|| panic!("{output}")).to_owned()
    };
    // A negative answer: the last field of the SOA record.
    assert_eq!(
        fresh(&["none", "example", "org"], 1),
        "cache-control: max-age=60"
    );
    assert_eq!(
        fresh(&["www", "example", "org"], 16),
        "cache-control: max-age=60"
    );
    // A referral, and a zone that is not ours.
    assert_eq!(
        fresh(&["child", "example", "org"], 1),
        "cache-control: max-age=300"
    );
    assert_eq!(fresh(&["other", "example"], 1), "cache-control: max-age=0");
}

#[test]
fn other_requests_have_their_status_codes_and_reach_nothing_else() {
    let server = setup(LISTEN).start();
    let valid = encode(&query(&["www", "example", "org"], 1));
    std::fs::write(server.dir().join("large"), vec![0; 70_000]).unwrap();
    std::fs::write(server.dir().join("short"), b"abc").unwrap();
    let post =
        |media: &str, file: &str| format!("-H 'Content-Type: {media}' --data-binary @{file}");
    let message = "application/dns-message";
    let get = format!("/dns-query?dns={valid}");
    let cases = [
        ("", "/", "404"),
        ("", "/api/v1/servers", "404"),
        ("", "/admin", "404"),
        ("", "/metrics", "404"),
        ("", "/dns-query/", "404"),
        ("", "/dns-query", "400"),
        ("", "/dns-query?dns=", "400"),
        ("", "/dns-query?dns=%21%21", "400"),
        ("", "/dns-query?dns=AAAA", "400"),
        ("-X DELETE", &get, "405"),
        (&post(message, "short"), "/dns-query", "400"),
        (&post(message, "large"), "/dns-query", "413"),
        (&post("text/plain", "short"), "/dns-query", "415"),
    ];
    for version in ["--http1.1", "--http2"] {
        for (arguments, path, expected) in cases {
            let output = curl(&server, &format!("{version} {arguments}"), path);
            let code = status(&output).split(' ').next();
            assert_eq!(
                code,
                Some(expected),
                "{version} {arguments} {path}: {output}"
            );
        }
    }
    // An UPDATE or a NOTIFY is not accepted by GET.
    for opcode in [4, 5] {
        let mut change = query(&["example", "org"], 6);
        change[2] = opcode << 3;
        let path = format!("/dns-query?dns={}", encode(&change));
        let output = curl(&server, "", &path);
        assert!(status(&output).starts_with("405"), "{output}");
    }
    // A transfer cannot be sent over HTTPS.
    let path = format!(
        "/dns-query?dns={}",
        encode(&query(&["example", "org"], 252))
    );
    let output = curl(&server, "", &path);
    assert!(status(&output).starts_with("200"), "{output}");
    assert_eq!(counted(&server, "https-queries"), 1);
}

#[test]
fn garbage_and_endless_bodies_close_their_connection_only() {
    let server = setup(&format!("{LISTEN}tcp_idle_timeout_ms = 2000\n"))
        .config("handshake_timeout_ms = 2000\n")
        .start();
    // Handshakes that are never finished.
    let silent: Vec<TcpStream> = (0..50)
        .map(|_| TcpStream::connect(server.encrypted("HTTPS")).unwrap())
        .collect();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    // A frame that is larger than any may be, frames for streams that do not exist, and headers that are not HPACK.
    let frames: [&[u8]; 3] = [
        b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x09x",
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x04\x01\x04\x00\x00\x00\x01\xff\xff\xff\xff",
    ];
    let chunked = b"POST /dns-query HTTP/1.1\r\nHost: a\r\nContent-Type: application/dns-message\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = [&b"ffff\r\n"[..], &[b'x'; 0xffff], b"\r\n"].concat();
    let mut messages: Vec<Vec<u8>> = frames
        .iter()
        .map(|frame| [&preface[..], *frame].concat())
        .collect();
    messages.push([&chunked[..], &chunk.repeat(16)].concat());
    messages.push([&b"GET /"[..], &[b'a'; 100_000], b" HTTP/1.1\r\n\r\n"].concat());
    messages.push(vec![0x80; 100_000]);
    let config = client(&server);
    for message in &messages {
        let mut connection = Connection::open_to(&server, &config, "HTTPS");
        // It may be closed before all of it is sent.
        let reply = connection.send_and_read(message);
        assert!(reply.len() < 4096, "{} octets", reply.len());
    }
    let path = format!(
        "/dns-query?dns={}",
        encode(&query(&["www", "example", "org"], 1))
    );
    assert!(status(&curl(&server, "", &path)).starts_with("200"));
    drop(silent);
    server.wait_until("the connections are closed", || {
        counted(&server, "https-connections-open") == 0
    });
}

#[test]
fn clients_that_stall_or_flood_are_bounded_and_others_are_answered() {
    let settings = format!("{LISTEN}tcp_idle_timeout_ms = 500\n");
    let server = setup(&settings).start();
    let address = server.encrypted("HTTPS");
    // 20 connections that send half a head and wait.
    let mut script =
        String::from("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do ");
    let _ = write!(
        script,
        "(printf 'POST /dns-query HTTP/1.1\\r\\nHost: a\\r\\n'; cat) </dev/zero | head -c 40000 | openssl s_client -quiet \
         -connect {address} >/dev/null 2>&1 & done; wait"
    );
    let (is_ok, text) = run_tool(&server, &script);
    assert!(is_ok, "{text}");
    server.wait_until("the connections are closed", || {
        counted(&server, "https-connections-open") == 0
    });
    let path = format!(
        "/dns-query?dns={}",
        encode(&query(&["www", "example", "org"], 1))
    );
    assert!(status(&curl(&server, "", &path)).starts_with("200"));
}

#[test]
fn requests_that_arrive_together_are_answered_in_one_record() {
    let Some(clients) = clients() else {
        return;
    };
    let server = setup(LISTEN).start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/https_together.py");
    let output = Command::new(clients.join("python/bin/python3"))
        .arg(script)
        .arg(server.dir().join("authority.pem"))
        .arg(server.encrypted("HTTPS").port().to_string())
        .output()
        .expect("Python can be run");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(counted(&server, "https-queries"), 9);
}

#[test]
fn client_certificates_decide_about_queries() {
    let setup = setup(LISTEN);
    let clients = Authority::new(setup.dir(), "clients").unwrap();
    let (known, pinned) = client_identity(setup.dir(), &clients);
    let server = setup
        .config(&format!(
            "client_ca = \"clients.pem\"\n[[zone]]\nname = \"example.org\"\n\
             allow_query = [\"tls-name:known.example\", \"tls-pin:{}\"]\n",
            pinned.pin,
        ))
        .start();
    let other = clients.issue("other", &["other.example"], Validity::Current);
    let other = other.unwrap();
    let path = format!(
        "/dns-query?dns={}",
        encode(&query(&["www", "example", "org"], 1))
    );
    let port = server.encrypted("HTTPS").port();
    let rcode = |identity: Option<&IssuedCertificate>, version: &str| {
        let identity = identity.map(|it| format!("--cert {:?} --key {:?}", it.certificate, it.key));
        let command = format!(
            "curl --silent --show-error --max-time 60 --cacert authority.pem {version} {} --output reply \
             --resolve dns.example.org:{port}:127.0.0.1 'https://dns.example.org:{port}{path}'",
            identity.unwrap_or_default()
        );
        let (is_ok, text) = run_tool(&server, &command);
        assert!(is_ok, "{command}: {text}");
        std::fs::read(server.dir().join("reply")).unwrap()[3] & 15
    };
    for version in ["--http1.1", "--http2"] {
        assert_eq!(rcode(Some(&known), version), 0);
        assert_eq!(rcode(Some(&pinned), version), 0);
        assert_eq!(rcode(Some(&other), version), 5);
        assert_eq!(rcode(None, version), 5);
    }
}
