//! Listen addresses with settings of their own: transports and clients.

use std::net::{SocketAddr, TcpStream, UdpSocket};

use nameward_testkit::wire::{Client, Transport, question};
use nameward_testkit::{Setup, TestServer};

use super::ask::zone;

const REFUSED: u16 = 5;

/// Starts a server with this list of addresses.
fn server(listen: &str) -> TestServer {
    let config = format!("[server]\nlisten = {listen}\n");
    let setup = Setup::new().listen(&[]).config(&config);
    setup.zone("example.org", &zone("www")).start()
}

fn rcode(source: &str, address: SocketAddr, transport: Transport) -> u16 {
    let client = Client::new(source, address);
    client.ask(transport, "www.example.org", "A").rcode()
}

#[test]
fn a_listener_answers_its_clients_and_refuses_everything_of_others() {
    let server =
        server(r#"["127.0.0.1:0", { address = "127.0.0.7:0", allow_query = ["127.0.0.2"] }]"#);
    let [open, closed] = server.addresses() else {
        panic!("there are two listeners");
    };
    let (open, closed) = (*open, *closed);
    for transport in [Transport::Udp, Transport::Tcp] {
        assert_eq!(rcode("127.0.0.1", open, transport), 0);
        assert_eq!(rcode("127.0.0.1", closed, transport), REFUSED);
        assert_eq!(rcode("127.0.0.2", closed, transport), 0);
        // Also what no access list of a zone covers.
        let client = Client::new("127.0.0.1", closed);
        for opcode in [4, 5] {
            let mut request = question(7, "example.org", "SOA");
            request[2] |= opcode << 3;
            let reply = client.exchange(transport, &request).unwrap().unwrap();
            assert_eq!(reply.rcode(), REFUSED, "opcode {opcode}");
        }
        let elsewhere = client.ask(transport, "www.example.net", "A");
        assert_eq!(elsewhere.rcode(), REFUSED);
    }
}

#[test]
fn a_listener_has_the_transports_of_its_list() {
    let server = server(
        r#"[
        { address = "127.0.0.1:0", transports = ["udp"] },
        { address = "127.0.0.7:0", transports = ["tcp"] },
    ]"#,
    );
    let [udp, tcp] = server.addresses() else {
        panic!("there are two listeners");
    };
    let (udp, tcp) = (*udp, *tcp);
    assert_eq!(rcode("127.0.0.1", udp, Transport::Udp), 0);
    assert_eq!(rcode("127.0.0.1", tcp, Transport::Tcp), 0);
    assert!(TcpStream::connect(udp).is_err());
    assert!(UdpSocket::bind(tcp).is_ok(), "the UDP port is free");
    let status = String::from_utf8(server.command(&["status"]).stdout).unwrap();
    for line in [format!("{udp} (UDP)"), format!("{tcp} (TCP)")] {
        assert!(status.contains(&line), "{line}: {status}");
    }
}
