//! Clients behind proxies: dnsdist and HAProxy name them in PROXY headers, over UDP and TCP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{fs, time::Duration};

use nameward_testkit::peers::free_address;
use nameward_testkit::wire::{Client, Transport, question};
use nameward_testkit::{Setup, TestServer, wait_until};

use super::access::metric;
use super::ask::zone;

const REFUSED: u16 = 5;
const BOTH: [Transport; 2] = [Transport::Udp, Transport::Tcp];
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A process that ends with the test.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Proxy {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let started = command.spawn();
        Self(started.unwrap_or_else(|error| {
            panic!("{program} cannot be run ({error}): run scripts/install-deps")
        }))
    }
}

/// Starts a server that answers for example.org to 127.0.0.2 only, and believes proxies at 127.0.0.1.
fn server() -> TestServer {
    let config = r#"
[server]
proxy_protocol_from = ["127.0.0.1"]

[[zone]]
name = "example.org"
allow_query = ["127.0.0.2"]
"#;
    let setup = Setup::new().config(config).listen(&["127.0.0.1:0"]);
    let setup = setup.zone("example.org", &zone("www"));
    setup.zone("open.example", &zone("www")).start()
}

/// Queries through a proxy that may not forward anything yet.
fn rcode(source: &str, proxy: SocketAddr, transport: Transport, name: &str) -> Option<u16> {
    let (client, query) = (Client::new(source, proxy), question(7, name, "A"));
    if transport == Transport::Tcp {
        let reply = client.exchange(transport, &query).ok()??;
        return Some(reply.rcode());
    }
    let (socket, mut reply) = (client.send(&query).ok()?, [0; 512]);
    socket.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    socket.recv(&mut reply).ok()?;
    Some(u16::from(reply[3] & 15))
}

/// Waits until a proxy answers, and checks that the server distinguishes its clients.
fn clients_are_told_apart(proxy: SocketAddr, transports: &[Transport]) {
    for &transport in transports {
        wait_until("the proxy forwards queries", || {
            rcode("127.0.0.3", proxy, transport, "www.open.example") == Some(0)
        });
        for (source, expected) in [("127.0.0.2", 0), ("127.0.0.3", REFUSED)] {
            wait_until("the query is answered", || {
                let found = rcode(source, proxy, transport, "www.example.org");
                assert!(
                    found.is_none_or(|found| found == expected),
                    "{source}: {found:?}"
                );
                found.is_some()
            });
        }
    }
}

fn write_config(server: &TestServer, name: &str, text: &str) -> String {
    let path = Path::new(server.dir()).join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn clients_of_dnsdist_are_known_by_their_own_addresses() {
    let (server, proxy) = (server(), free_address().unwrap());
    let address = server.address();
    let config = format!(
        "setLocal('{proxy}')\nsetACL({{'127.0.0.0/8'}})\n\
         newServer({{address='{address}', useProxyProtocol=true, checkName='www.open.example.'}})\n"
    );
    let file = write_config(&server, "dnsdist.conf", &config);
    let _dnsdist = Proxy::start(
        "dnsdist",
        &["--supervised", "--disable-syslog", "-C", &file],
    );
    clients_are_told_apart(proxy, &BOTH);
    assert_eq!(metric(&server, "nameward_proxy_header_errors_total"), 0);
}

#[test]
fn clients_of_haproxy_are_known_by_their_own_addresses() {
    for word in ["send-proxy-v2", "send-proxy"] {
        let (server, proxy) = (server(), free_address().unwrap());
        let address = server.address();
        let config = format!(
            "defaults\n    mode tcp\n    timeout connect 10s\n    timeout client 60s\n    timeout server 60s\n\
             listen dns\n    bind {proxy}\n    server one {address} {word}\n"
        );
        let file = write_config(&server, "haproxy.cfg", &config);
        let _haproxy = Proxy::start("haproxy", &["-db", "-f", &file]);
        clients_are_told_apart(proxy, &[Transport::Tcp]);
        assert_eq!(metric(&server, "nameward_proxy_header_errors_total"), 0);
    }
}

#[test]
fn a_proxy_without_a_header_is_dropped_and_headers_of_others_are_not_believed() {
    let server = server();
    let address = server.address();
    let query = question(7, "www.open.example", "A");
    // From the proxy: no header, half a header, an unknown command.
    let unknown = [SIGNATURE, &[0x2f, 0x11, 0, 0], &query].concat();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for datagram in [&query[..], &unknown[..14], &unknown] {
        socket.send_to(datagram, address).unwrap();
    }
    for start in [&query[..], &unknown] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(start).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let read = stream.read(&mut [0; 100]);
        assert!(matches!(read, Ok(0) | Err(_)), "closed without an answer");
    }
    wait_until("all are counted", || {
        metric(&server, "nameward_proxy_header_errors_total") == 5
    });
    let log = server.log();
    assert_eq!(log.matches("no valid PROXY header").count(), 1, "{log}");
    // From other senders a header is not a query, whatever it contains.
    let ends = [127, 0, 0, 2, 127, 0, 0, 1, 0, 9, 0, 53];
    let forged = question(7, "www.example.org", "A");
    let forged = [SIGNATURE, &[0x21, 0x12, 0, 12], &ends, &forged].concat();
    let client = Client::new("127.0.0.3", address);
    let reply = client.exchange(Transport::Udp, &forged).unwrap();
    assert!(reply.is_none_or(|reply| reply.rcode() != 0));
    // The same header of the proxy is believed, and a proxy may speak for itself.
    let ask = |packet: &[u8]| {
        let reply = Client::new("127.0.0.1", address).exchange(Transport::Udp, packet);
        reply.unwrap().expect("a reply").rcode()
    };
    assert_eq!(ask(&forged), 0);
    let local = [SIGNATURE, &[0x20, 0, 0, 0], &query].concat();
    assert_eq!(ask(&local), 0);
    let restricted = question(7, "www.example.org", "A");
    assert_eq!(
        ask(&[SIGNATURE, &[0x20, 0, 0, 0], &restricted].concat()),
        REFUSED
    );
}
