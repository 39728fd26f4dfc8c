//! DNS over TLS (RFC 7858): tools, versions, application protocols, resumption, transfers, and peers that misbehave.

use super::{counted, run_tool, setup};
use crate::api::tls::make_certificate;
use nameward_testkit::{Setup, TestServer};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, Stream};

const LISTEN: &str = "[server]\nlisten_tls = [\"127.0.0.1:0\"]\n";

fn kdig(server: &TestServer, arguments: &str) -> (bool, String) {
    let port = server.encrypted("TLS").port();
    run_tool(
        server,
        &format!(
            "kdig @127.0.0.1 -p {port} +tls-ca=authority.pem +tls-hostname=dns.example.org +retry=0 {arguments}"
        ),
    )
}

/// A client that trusts the authority of the test.
pub fn client(server: &TestServer) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(server.dir().join("authority.pem")).unwrap();
    roots.add(authority).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

/// One connection of a client.
pub struct Connection {
    tls: ClientConnection,
    tcp: TcpStream,
}

impl Connection {
    fn open(server: &TestServer, client: &Arc<ClientConfig>) -> Connection {
        Connection::open_to(server, client, "TLS")
    }

    pub fn open_to(server: &TestServer, client: &Arc<ClientConfig>, transport: &str) -> Connection {
        let name = ServerName::try_from("dns.example.org").unwrap();
        Connection {
            tls: ClientConnection::new(Arc::clone(client), name).unwrap(),
            tcp: TcpStream::connect(server.encrypted(transport)).unwrap(),
        }
    }

    /// Sends octets, as far as the server accepts them, and returns its output until it closes the connection.
    pub fn send_and_read(&mut self, octets: &[u8]) -> Vec<u8> {
        let mut stream = Stream::new(&mut self.tls, &mut self.tcp);
        let _ = stream.write_all(octets).and_then(|()| stream.flush());
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        reply
    }

    /// Asks for www.example.org, type A; returns the reply.
    fn ask(&mut self, id: u16) -> Vec<u8> {
        let mut query = id.to_be_bytes().to_vec();
        query.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        query.extend(b"\x03www\x07example\x03org\x00\x00\x01\x00\x01");
        let mut stream = Stream::new(&mut self.tls, &mut self.tcp);
        let length = (query.len() as u16).to_be_bytes();
        stream.write_all(&[&length[..], &query].concat()).unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut reply = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..2], id.to_be_bytes());
        reply
    }
}

#[test]
fn kdig_verifies_the_server_and_its_queries_are_counted_and_padded() {
    let server = setup(LISTEN).start();
    let (is_ok, text) = kdig(&server, "+tls www.example.org A");
    assert!(is_ok && text.contains("192.0.2.1"), "{text}");
    assert!(text.contains("TLS session (TLS1.3)"), "{text}");
    // kdig pads its queries over TLS, so the reply is padded to a block of 468 octets.
    assert!(text.contains("Received 468 B"), "{text}");
    let (is_ok, text) = kdig(&server, "+tls +nopadding www.example.org A");
    assert!(is_ok && !text.contains("PADDING"), "{text}");
    let (is_ok, _) = kdig(
        &server,
        "+tls +tls-hostname=other.example www.example.org A",
    );
    assert!(!is_ok, "a name that the certificate does not have");
    assert_eq!(counted(&server, "tls-queries"), 2);
    assert_eq!(counted(&server, "tls4-answers"), 2);
    assert_eq!(counted(&server, "tcp-queries"), 0);
    assert!(counted(&server, "tls-answers-bytes") > 468);
}

#[test]
fn versions_and_application_protocols_are_as_configured() {
    let server = setup(LISTEN).start();
    let connect = |arguments: &str, server: &TestServer| {
        let command = format!(
            "openssl s_client -connect {} -CAfile authority.pem {arguments} </dev/null",
            server.encrypted("TLS")
        );
        run_tool(server, &command)
    };
    for (arguments, is_accepted) in [
        ("-alpn dot", true),
        ("", true),
        ("-alpn h2,dot", true),
        ("-alpn h2", false),
        ("-tls1_2", false),
    ] {
        let (is_ok, text) = connect(arguments, &server);
        assert_eq!(is_ok, is_accepted, "{arguments}: {text}");
    }
    let (_, text) = connect("-alpn dot", &server);
    assert!(text.contains("ALPN protocol: dot"), "{text}");
    let older = setup(LISTEN);
    let settings = "minimum_version = \"1.2\"\n";
    let older = older.config(settings).start();
    let (is_ok, text) = connect("-tls1_2", &older);
    assert!(is_ok && text.contains("TLSv1.2"), "{text}");
}

#[test]
fn each_server_name_gets_its_certificate() {
    let setup = Setup::new();
    make_certificate(setup.dir(), 300);
    let other = setup.dir().join("other");
    std::fs::create_dir(&other).unwrap();
    let made = std::process::Command::new("openssl")
        .current_dir(&other)
        .args([
            "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "300",
        ])
        .args([
            "-subj",
            "/CN=other",
            "-addext",
            "subjectAltName=DNS:ns.other.example",
        ])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .output()
        .expect("openssl is installed");
    assert!(made.status.success(), "{made:?}");
    let settings = "[tls]\ncertificate = [\"server.pem\", \"other/cert.pem\"]\nkey = [\"server.key\", \"other/key.pem\"]\n";
    let server = setup.config(LISTEN).config(settings).start();
    for (name, subject) in [
        ("ns.other.example", "CN = other"),
        ("dns.example.org", "CN = 127.0.0.1"),
        ("unknown.example", "CN = 127.0.0.1"),
    ] {
        let command = format!(
            "openssl s_client -connect {} -servername {name} </dev/null | openssl x509 -noout -subject",
            server.encrypted("TLS")
        );
        let (_, text) = run_tool(&server, &command);
        assert!(text.contains(subject), "{name}: {text}");
    }
}

#[test]
fn a_client_resumes_its_session_and_many_queries_share_a_connection() {
    let server = setup(LISTEN).start();
    let config = client(&server);
    let mut first = Connection::open(&server, &config);
    for id in 0..300 {
        first.ask(id);
    }
    assert_eq!(first.tls.handshake_kind(), Some(HandshakeKind::Full));
    let mut second = Connection::open(&server, &config);
    second.ask(7);
    assert_eq!(second.tls.handshake_kind(), Some(HandshakeKind::Resumed));
    assert_eq!(counted(&server, "tls-connections-open"), 2);
    assert_eq!(counted(&server, "tls-handshakes"), 2);
    drop((first, second));
    server.wait_until("the connections are closed", || {
        counted(&server, "tls-connections-open") == 0
    });
}

#[test]
fn a_zone_is_transferred_over_tls() {
    let mut zone = super::ZONE.to_owned();
    for number in 0..20_000 {
        zone += &format!("host{number} A 198.51.100.{}\n", number % 256);
    }
    let server = setup(LISTEN)
        .zone("example.org", &zone)
        .config("[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]\n")
        .start();
    let (is_ok, text) = kdig(&server, "+tls +noall +answer example.org AXFR");
    let records = text.lines().filter(|line| line.contains("\tIN\t")).count();
    assert!(is_ok && records > 20_000, "{records} records");
}

#[test]
fn a_changed_certificate_loses_no_query() {
    let server = setup(LISTEN).start();
    let config = client(&server);
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut long = Connection::open(&server, &config);
                while !stop.load(Ordering::Relaxed) {
                    long.ask(1);
                    // Without the session of another connection: a whole handshake, with the certificate of the moment.
                    Connection::open(&server, &client(&server)).ask(2);
                    answered.fetch_add(2, Ordering::Relaxed);
                }
            });
        }
        let loaded = || server.log().matches("TLS certificate").count();
        for round in 1..=3 {
            let before = answered.load(Ordering::Relaxed);
            make_certificate(server.dir(), 300);
            let reloaded = server.command(&["reload"]);
            assert!(reloaded.status.success(), "{reloaded:?}");
            server.wait_until("the certificate is loaded", || loaded() >= round);
            server.wait_until("queries are answered with it", || {
                answered.load(Ordering::Relaxed) > before + 20
            });
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(
        counted(&server, "tls-queries"),
        answered.load(Ordering::Relaxed)
    );
    assert_eq!(counted(&server, "tls-handshakes-failed"), 0);
}

#[test]
fn peers_that_do_not_finish_a_handshake_are_closed_and_others_are_served() {
    let server = setup(LISTEN).config("handshake_timeout_ms = 300\n").start();
    let mut silent: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(server.encrypted("TLS")).unwrap())
        .collect();
    // The start of a record that announces more than is sent.
    for stream in silent.iter_mut().skip(100) {
        stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00").unwrap();
    }
    let mut plain = TcpStream::connect(server.encrypted("TLS")).unwrap();
    let _ = plain.write_all(b"\x00\x1d\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www");
    let mut rest = Vec::new();
    let _ = plain.read_to_end(&mut rest);
    // An alert of TLS, and nothing of DNS.
    assert!(rest.is_empty() || rest[0] == 0x15, "{rest:?}");
    let config = client(&server);
    Connection::open(&server, &config).ask(3);
    for stream in &mut silent {
        let _ = stream.read_to_end(&mut Vec::new());
    }
    server.wait_until("all are closed", || {
        counted(&server, "tls-handshakes-failed") == 201
    });
    Connection::open(&server, &config).ask(4);
}

#[test]
fn a_client_that_sends_garbage_in_its_connection_is_closed() {
    let server = setup(LISTEN).start();
    let config = client(&server);
    let mut connection = Connection::open(&server, &config);
    connection.ask(1);
    // A record that is not encrypted.
    connection.tcp.write_all(b"\x17\x03\x03\x00\x20").unwrap();
    connection.tcp.write_all(&[7; 32]).unwrap();
    let mut rest = Vec::new();
    let _ = connection.tcp.read_to_end(&mut rest);
    // A message of the largest size that is not DNS.
    let mut connection = Connection::open(&server, &config);
    let mut stream = Stream::new(&mut connection.tls, &mut connection.tcp);
    let mut large = vec![0xff; 2 + 0xffff];
    large[2..].fill(0x80);
    stream.write_all(&large).unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < 100, "{}", rest.len());
    Connection::open(&server, &config).ask(2);
}
