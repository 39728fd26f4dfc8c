//! Status lines, headers, sizes and refusals.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use nameward_control::operations::{FaultKind, ReadyRules, ServerFault, ServerStatus};
use nameward_control::web::{Settings, Web};
use nameward_stats::{RingCapacities, Stats};

use super::client::{Reply, Server, plain, settings};

/// Checks the properties of every reply, whatever was requested.
fn assert_sound(reply: &Reply) {
    assert!(
        reply.status_line().starts_with("HTTP/1.0 "),
        "{}",
        reply.status_line()
    );
    assert_eq!(reply.header("connection"), Some("close"));
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(reply.header("x-frame-options"), Some("DENY"));
    assert_eq!(reply.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(reply.header("transfer-encoding"), None);
    let policy = reply.header("content-security-policy").expect("a policy");
    assert!(
        policy.contains("default-src 'self'") && !policy.contains("unsafe"),
        "{policy}"
    );
}

fn assert_exact_length(reply: &Reply) {
    let length: usize = reply
        .header("content-length")
        .and_then(|l| l.parse().ok())
        .expect("a length");
    assert_eq!(reply.body().len(), length);
}

#[test]
fn every_reply_is_http_1_0_with_its_exact_length() {
    let server = Server::start();
    for version in ["HTTP/1.0", "HTTP/1.1"] {
        for target in [
            "/",
            "/style.css",
            "/script.js",
            "/icon.svg",
            "/metrics",
            "/livez",
            "/readyz",
            "/nothing",
            "/?ring=remotes",
            "/?ring=x",
        ] {
            let reply = server.raw(
                format!("GET {target} {version}\r\nHost: localhost:8081\r\nConnection: keep-alive\r\n\r\n")
                    .as_bytes(),
            );
            assert_sound(&reply);
            assert_exact_length(&reply);
            let expected = if target.ends_with("nothing") || target.ends_with('x') {
                404
            } else {
                200
            };
            assert_eq!(reply.status(), expected, "{target}");
        }
    }
}

#[test]
fn the_page_and_its_style_have_their_types_and_the_page_is_not_cached() {
    let server = Server::start();
    let page = server.get("/");
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(page.header("cache-control"), Some("no-store"));
    let style = server.get("/style.css");
    assert_eq!(
        style.header("content-type"),
        Some("text/css; charset=utf-8")
    );
    assert!(style.text().contains("prefers-color-scheme: dark"));
}

#[test]
fn head_has_the_length_of_get_and_no_body() {
    let server = Server::start();
    for target in ["/style.css", "/livez", "/?ring=remotes"] {
        let get = server.get(target);
        let head = server.request("HEAD", target, "");
        assert_sound(&head);
        assert_eq!(head.status(), 200);
        assert_eq!(head.body(), b"");
        assert_eq!(
            head.header("content-length"),
            get.header("content-length"),
            "{target}"
        );
    }
}

#[test]
fn not_found_is_small_fixed_and_a_little_larger_for_head() {
    let server = Server::start();
    let long = format!("/{}", "x".repeat(3000));
    let sizes: Vec<usize> = ["/a", "/robots.txt", "/style.css/", "//", &long, "/%00%2e"]
        .iter()
        .map(|path| {
            let reply = server.get(path);
            assert_eq!(reply.status(), 404);
            assert_eq!(reply.text(), "Not Found");
            assert_eq!(reply.header("allow"), None);
            reply.bytes.len()
        })
        .collect();
    assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
    let head = server.request("HEAD", "/a", "");
    assert_eq!(
        (head.status(), head.header("allow"), head.body()),
        (404, Some("GET, HEAD"), &b""[..])
    );
    let larger = head.bytes.len() - sizes[0];
    assert!((1..32).contains(&larger), "{larger}");
}

#[test]
fn a_program_gets_not_found_as_json() {
    let server = Server::start();
    let reply = server.request("GET", "/a", "Accept: application/json\r\n");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.text(), "{\"error\": \"Not Found\"}");
    assert_exact_length(&reply);
}

#[test]
fn other_methods_are_not_allowed() {
    let server = Server::start();
    for method in [
        "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "get", "BREW",
    ] {
        for target in ["/", "/style.css", "/metrics"] {
            let reply = server.request(method, target, "");
            assert_sound(&reply);
            assert_eq!(
                (reply.status(), reply.header("allow")),
                (405, Some("GET, HEAD")),
                "{method} {target}"
            );
        }
    }
}

#[test]
fn a_malformed_request_is_a_bad_request_in_http_1_0() {
    let server = Server::start();
    for request in [
        &b"GET /\r\n\r\n"[..],
        b"GET /\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00\x1d\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00",
        b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nNo colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        let reply = server.raw(request);
        assert_sound(&reply);
        assert_exact_length(&reply);
        assert_eq!(reply.status(), 400, "{}", String::from_utf8_lossy(request));
    }
    assert_eq!(server.messages().len(), 10);
    assert!(
        server
            .messages()
            .iter()
            .all(|m| m.contains("\"- - HTTP/1.0\" 400 "))
    );
}

#[test]
fn too_large_heads_and_bodies_are_refused_and_the_refusal_arrives() {
    let server = Server::start();
    let long_header = format!("GET / HTTP/1.0\r\nA: {}\r\n\r\n", "x".repeat(100_000));
    let many = format!("GET / HTTP/1.0\r\n{}\r\n", "A: b\r\n".repeat(100));
    let endless = format!("GET /{}", "x".repeat(100_000));
    for request in [long_header, many, endless] {
        let reply = server.raw(request.as_bytes());
        assert_sound(&reply);
        assert_eq!(reply.status(), 431);
    }
    let body = format!(
        "POST / HTTP/1.0\r\nContent-Length: 100000\r\n\r\n{}",
        "x".repeat(100_000)
    );
    assert_eq!(server.raw(body.as_bytes()).status(), 413);
    let unsent = b"GET / HTTP/1.0\r\nContent-Length: 99999999999999999999\r\n\r\n";
    assert_eq!(server.raw(unsent).status(), 413);
    let small = b"POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc";
    assert_eq!(server.raw(small).status(), 405);
}

#[test]
fn pipelined_requests_are_not_answered() {
    let server = Server::start();
    let reply =
        server.raw(b"GET /livez HTTP/1.1\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n\xff\xfe garbage");
    assert_eq!(reply.text(), "ok\n");
    assert_eq!(server.messages().len(), 1);
}

#[test]
fn each_request_is_one_log_message_that_states_all_bytes_of_its_reply() {
    let server = Server::start();
    let mut expected = Vec::new();
    for (method, target, logged) in [
        ("GET", "/", "GET /"),
        ("GET", "/?ring=queries&format=text", "GET /"),
        ("HEAD", "/style.css", "HEAD /style.css"),
        ("GET", "/a%22b\"c?secret=1", "GET /a%22b%22c"),
        ("HEAD", "/none", "HEAD /none"),
        ("POST", "/", "POST /"),
    ] {
        let mut stream = server.connect();
        let port = stream.local_addr().expect("a port").port();
        stream
            .write_all(format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
            .expect("sent");
        let reply = Reply::read(&mut stream);
        expected.push(format!(
            " 127.0.0.1:{port} \"{logged} HTTP/1.0\" {} {}",
            reply.status(),
            reply.bytes.len()
        ));
    }
    let messages = server.messages();
    assert_eq!(messages.len(), expected.len());
    for (message, expected) in messages.iter().zip(&expected) {
        let id = message
            .strip_prefix("[webserver] ")
            .expect("the mark of the web server");
        let (id, rest) = id.split_at(36);
        assert_eq!(rest, expected);
        let groups: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12]);
        assert!(
            id.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit()),
            "{id}"
        );
    }
}

#[test]
fn clients_outside_the_list_are_closed_without_an_answer() {
    let settings = Settings {
        allow_from: vec!["192.0.2.0/24".parse().expect("a network")],
        ..settings()
    };
    let server = Server::with(settings);
    let mut stream = server.connect();
    let _ = stream.write_all(b"GET / HTTP/1.0\r\n\r\n");
    let mut bytes = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut bytes); // end or reset, both are silence
    assert_eq!(bytes, b"");
    assert_eq!(server.messages(), [""; 0]);
}

#[test]
fn a_password_is_required_everywhere_except_for_probes() {
    let server = Server::with(Settings {
        password: "secret".into(),
        ..settings()
    });
    for target in [
        "/",
        "/style.css",
        "/metrics",
        "/nothing",
        "/?resetring=queries",
    ] {
        let reply = server.get(target);
        assert_sound(&reply);
        assert_eq!(reply.status(), 401, "{target}");
        assert!(
            reply
                .header("www-authenticate")
                .expect("a challenge")
                .starts_with("Basic realm=")
        );
    }
    assert_eq!(server.get("/livez").status(), 200);
    let right = "Authorization: Basic YW55b25lOnNlY3JldA==\r\n"; // anyone:secret
    assert_eq!(server.request("GET", "/", right).status(), 200);
    assert_eq!(server.request("GET", "/nothing", right).status(), 404);
    let wrong = "Authorization: Basic YW55b25lOnNlY3JlVA==\r\n";
    assert_eq!(server.request("GET", "/", wrong).status(), 401);
}

#[test]
fn readiness_follows_the_state_of_the_server() {
    let stats = Stats::new(RingCapacities::default());
    let fault = |kind, text: &str| ServerFault {
        kind,
        since: 951_782_400,
        text: text.into(),
        effect: "Queries get <SERVFAIL>.".into(),
        remedy: "Look at <it>.".into(),
    };
    let mut status = ServerStatus {
        host: "ns1.example".into(),
        faults: vec![
            fault(
                FaultKind::BackendDown,
                "backend 1 (sqlite secret.db) is down",
            ),
            fault(FaultKind::ZoneStale, "zone a.test: old"),
        ],
        ..ServerStatus::default()
    };
    let settings = |faults| Settings {
        ready: ReadyRules {
            faults,
            zones_percent: 0,
        },
        ..settings()
    };
    let shown = Arc::new(status.clone());
    let counted = vec![FaultKind::BackendDown];
    let web = Web::with_status(stats.clone(), settings(counted), move || Arc::clone(&shown));
    let server = Server::run(stats.clone(), web.expect("settings"));
    let reply = server.get("/readyz");
    assert_eq!(reply.status(), 503);
    // Probes need no password, so they get no addresses and no names.
    assert_eq!(reply.text(), "a backend does not respond\n");
    let page = server.get("/").text();
    let title = "<title>2 faults, the worst: a backend does not respond – Nameward ";
    assert!(
        page.contains(title) && page.contains(" on ns1.example</title>"),
        "{page}"
    );
    let text = plain(&page);
    for shown in [
        "backend 1 (sqlite secret.db) is down",
        "zone a.test: old",
        "Since 2000-02-29T00:00:00Z.",
        "Queries get <SERVFAIL>.",
        "Look at <it>.",
    ] {
        assert!(text.contains(shown), "{shown}\n{text}");
    }
    assert!(!text.contains("All is well"), "{text}");
    let metrics = server.get("/metrics").text();
    for line in [
        "nameward_ready 0",
        "nameward_faults{kind=\"backend_down\"} 1",
        "nameward_faults{kind=\"zone_empty\"} 0",
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line}\n{metrics}"
        );
    }
    // A fault that does not count leaves the server ready, but is still on the page.
    status.faults.remove(0);
    let shown = Arc::new(status);
    let counted = vec![FaultKind::BackendDown];
    let web = Web::with_status(stats.clone(), settings(counted), move || Arc::clone(&shown));
    let server = Server::run(stats, web.expect("settings"));
    assert_eq!(server.get("/readyz").text(), "ready\n");
    assert!(server.get("/").text().contains("zone a.test: old"));
    assert_eq!(server.get("/livez").status(), 200);
}

#[test]
fn a_client_that_closes_early_affects_no_other() {
    let server = Server::start();
    for bytes in [
        &b""[..],
        b"GET",
        b"GET / HTTP/1.0\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
    ] {
        let mut stream: TcpStream = server.connect();
        stream.write_all(bytes).expect("sent");
        drop(stream);
    }
    assert_eq!(server.get("/").status(), 200);
}

fn status_for_host(server: &Server, host: &str) -> u16 {
    let reply = server.request("GET", "/", &format!("Host: {host}\r\n"));
    assert_sound(&reply);
    assert_exact_length(&reply);
    reply.status()
}

#[test]
fn without_a_password_only_own_names_are_served() {
    let server = Server::with(Settings {
        host_names: vec!["Status.Example.org".into(), "192.0.2.7".into()],
        ..settings()
    });
    let port = server.address.port();
    for host in [
        &format!("127.0.0.1:{port}"),
        "127.0.0.1",
        "localhost",
        "LocalHost.:9000", // through a tunnel
        "status.example.org",
        "status.example.org.:80",
        "192.0.2.7",
    ] {
        assert_eq!(status_for_host(&server, host), 200, "{host}");
    }
    // A name of an attacker that resolves to our address: the attacker's page reads ours and presses Reset.
    for host in [
        "rebound.example",
        &format!("rebound.example:{port}"),
        "localhost.rebound.example",
        "127.0.0.1.rebound.example",
        "status.example.org.rebound.example",
        "xlocalhost",
        "127.0.0.2",
        "[::1]",
        "0.0.0.0",
    ] {
        assert_eq!(status_for_host(&server, host), 421, "{host}");
    }
    let absolute = b"GET http://rebound.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(server.raw(absolute).status(), 421);
    let ours = b"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(server.raw(ours).status(), 200);
    // A request without a Host is not from a browser.
    assert_eq!(server.get("/").status(), 200);
}

#[test]
fn a_rebound_name_can_neither_reset_a_ring_nor_read_a_number() {
    let server = Server::start();
    let token = server.token();
    server.stats.log("stays");
    let target = format!("/?resetring=logmessages&token={token}");
    let foreign = "Host: rebound.example\r\n";
    assert_eq!(server.request("GET", &target, foreign).status(), 421);
    assert!(server.messages().iter().any(|message| message == "stays"));
    for target in ["/metrics", "/style.css", "/nothing", "/?ring=remotes"] {
        assert_eq!(server.request("GET", target, foreign).status(), 421);
    }
    // Probes reveal nothing secret, and load balancers use any name.
    assert_eq!(server.request("GET", "/livez", foreign).status(), 200);
}

#[test]
fn with_a_password_any_name_is_served() {
    let server = Server::with(Settings {
        password: "secret".into(),
        ..settings()
    });
    let headers = "Host: any.example\r\nAuthorization: Basic YW55b25lOnNlY3JldA==\r\n";
    assert_eq!(server.request("GET", "/", headers).status(), 200);
}

#[test]
fn a_repeated_or_invalid_host_is_a_bad_request() {
    // RFC 9112 section 3.2.
    let server = Server::start();
    for hosts in [
        "Host: localhost\r\nHost: rebound.example\r\n",
        "Host: localhost\r\nHost: localhost\r\n",
        "Host: local host\r\n",
        "Host: a@localhost\r\n",
        "Host: [::1\r\n",
        "Host: localhost:port\r\n",
    ] {
        assert_eq!(server.request("GET", "/", hosts).status(), 400, "{hosts}");
    }
}

#[test]
fn control_characters_of_a_path_reach_neither_reply_nor_log() {
    let server = Server::start();
    for path in ["/\u{1b}[2J", "/a\u{7f}", "/\u{9b}31m", "/a\rb", "/a\0b"] {
        let reply = server.get(path);
        assert_eq!(reply.status(), 400, "{path:?}");
        assert!(!reply.text().contains(char::is_control));
    }
    assert_eq!(server.get("/%1b%5b2J%0d%0a").status(), 404);
    let messages = server.messages();
    assert!(
        messages.iter().all(|m| !m.contains(char::is_control)),
        "{messages:?}"
    );
    assert!(messages[5].contains("\"GET /%1b%5b2J%0d%0a HTTP/1.0\" 404"));
}
