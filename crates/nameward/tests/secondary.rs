//! A server as a secondary: real primaries, a hostile one, and being killed at any moment.

mod autoprimary;
mod behind;
mod clock;
mod encrypted_peers;
mod expire;
mod hostile;
mod large_rrset;
mod notify_out;
mod peers;
mod primary;
mod queue;
mod restart;
mod slow;
mod tls;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use nameward_testkit::TestServer;
use nameward_testkit::wire::{Message, Name, Question, encode_question, type_from_text};

/// Asks a server; `None` if it does not answer.
fn ask(server: SocketAddr, name: &str, rtype: &str) -> Option<Message> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let mut query = vec![0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let question = Question {
        name: Name::parse(name).unwrap(),
        rtype: type_from_text(rtype).unwrap(),
        class: 1,
    };
    encode_question(&mut query, &question);
    socket.send(&query).ok()?;
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).ok()?;
    Message::read(&buffer[..length]).ok()
}

/// The serial that a server answers with.
fn serial(server: SocketAddr, zone: &str) -> Option<u32> {
    let message = ask(server, zone, "SOA")?;
    let rdata = &message.answer.first()?.data;
    let at = rdata.len().checked_sub(20)?;
    Some(u32::from_be_bytes(rdata[at..at + 4].try_into().ok()?))
}

/// The last octet of the address that a server answers with.
fn address(server: SocketAddr, name: &str) -> Option<u8> {
    let message = ask(server, name, "A")?;
    message.answer.first()?.data.last().copied()
}

fn rcode(server: SocketAddr, name: &str) -> Option<u16> {
    Some(ask(server, name, "A")?.rcode())
}

/// The status of a zone as JSON.
fn status(server: &TestServer, zone: &str) -> String {
    let output = server.command(&["zone", "status", zone, "--json"]);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
