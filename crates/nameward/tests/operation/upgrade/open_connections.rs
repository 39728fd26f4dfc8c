//! Connections that are open while a new process takes over: the old one serves them to their end.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use nameward_testkit::TestServer;

use super::super::ask::zone;
use super::load::{exchange, question};
use super::{is_alive, setup, upgrade};
use crate::databases::api_clients::clients;

const AXFR: u8 = 252;
/// Records of the zone: more octets than the system buffers for a connection.
const HOSTS: usize = 30_000;
/// The same for QUIC, which buffers less.
const HOSTS_OVER_QUIC: usize = 6_000;

/// A server with a zone of several megabytes that clients may transfer.
fn large(hosts: usize) -> TestServer {
    let mut text = zone("www");
    let filler = "x".repeat(200);
    for host in 0..hosts {
        text += &format!("host{host} TXT {filler}\n");
    }
    let allowed = "[zone_defaults]\nallow_transfer = [\"127.0.0.1\"]\n";
    setup("").zone("one.example", &text).config(allowed).start()
}

/// Reads messages, slowly until `may_hurry`; returns the number of records.
fn read_slowly(mut stream: TcpStream, may_hurry: &AtomicBool) -> usize {
    let mut records = 0;
    loop {
        let mut length = [0; 2];
        match stream.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) => panic!("the transfer ended after {records} records: {error}"),
        }
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut message).unwrap();
        records += usize::from(u16::from_be_bytes([message[6], message[7]]));
        // SOA, NS, two addresses, the hosts, SOA.
        if records >= HOSTS + 5 {
            return records;
        }
        if !may_hurry.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(200));
        }
    }
}

#[test]
fn a_transfer_that_is_running_is_finished_by_the_old_process_which_then_ends() {
    let server = large(HOSTS);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(&question(AXFR)).unwrap();
    let may_hurry = Arc::new(AtomicBool::new(false));
    let hurry = Arc::clone(&may_hurry);
    let reader = thread::spawn(move || read_slowly(stream, &hurry));
    let idle = TcpStream::connect(server.address()).unwrap();
    assert_eq!(exchange(&idle, &question(1)).unwrap(), 0);
    let successor = upgrade(&server);
    // A client that queries from time to time is served until its connection is closed, and then by the new process.
    let mut octet = [0];
    assert_eq!((&idle).read(&mut octet).unwrap(), 0, "closed, not reset");
    let again = TcpStream::connect(server.address()).unwrap();
    assert_eq!(exchange(&again, &question(1)).unwrap(), 0);
    assert!(is_alive(server.pid()), "it has a transfer to finish");
    assert!(!reader.is_finished());
    may_hurry.store(true, Ordering::Relaxed);
    assert_eq!(reader.join().unwrap(), HOSTS + 5);
    assert!(server.wait().success());
    assert!(is_alive(successor.0));
}

#[test]
fn quic_connections_are_served_by_the_old_process_until_they_are_closed() {
    let Some(clients) = clients() else {
        return;
    };
    let server = large(HOSTS_OVER_QUIC);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/quic.py");
    let mut client = Command::new(clients.join("python/bin/python3"))
        .arg(script)
        .arg("upgrade")
        .arg(server.dir().join("authority.pem"))
        .arg(server.encrypted("QUIC").port().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python can be run");
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "connected");
    let _successor = upgrade(&server);
    writeln!(client.stdin.take().unwrap(), "upgraded").unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(
        client.wait().unwrap().success(),
        "{rest:?}\n{}",
        server.log()
    );
    assert!(server.wait().success());
}
