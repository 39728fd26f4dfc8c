//! BIND as a validating resolver in front of one server: does another implementation consider its signed answers
//! secure?
//!
//! It sends all queries to that server, so nothing leaves the machine.

use crate::TestFailure;
use crate::peers::{Peer, PeerError, PeerKind, PeerOptions};
use crate::wire::Message;
use std::fmt::Write;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

/// A trust anchor: a zone name without the final dot, and DNSKEY data.
pub struct Anchor {
    /// The zone name.
    pub zone: String,
    /// DNSKEY record data.
    pub dnskey: Vec<u8>,
}

/// A resolver that only queries one server.
pub struct Validator {
    peer: Peer,
}

/// Longer than it takes to give up on a server.
const TIMEOUT: Duration = Duration::from_secs(90);
/// A name that only the resolver itself has: it answers when it is ready.
const READY: &str = "ready.validator";

impl Validator {
    /// Starts a resolver that trusts these keys and queries `server` for all names in their zones.
    pub fn start(server: SocketAddr, anchors: &[Anchor]) -> Result<Validator, PeerError> {
        let program = PeerKind::Bind
            .find_program()
            .ok_or(PeerError::NotInstalled("named"))?;
        let options = PeerOptions::default();
        let peer = Peer::launch(&[READY], &options, |directory, address| {
            std::fs::write(
                directory.join("named.conf"),
                config(server, anchors, address),
            )?;
            std::fs::write(
                directory.join("ready"),
                "@ 60 IN SOA a. b. 1 60 60 60 60\n@ 60 IN NS a.\n",
            )?;
            let mut command = Command::new(&program);
            command.args(["-g", "-n", "1", "-c", "named.conf"]);
            Ok(command)
        })?;
        Ok(Validator { peer })
    }

    /// Sends a query, which must have RD set.
    pub fn ask(&self, query: &[u8]) -> Result<Message, TestFailure> {
        let with_log = |error: std::io::Error| format!("{error}\n{}", self.peer.log_tail());
        let reply = self.exchange(query).map_err(with_log)?;
        Message::read(&reply)
    }

    fn exchange(&self, query: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(self.peer.addr())?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let len = (query.len() as u16).to_be_bytes();
        stream.write_all(&[&len, query].concat())?;
        let mut len = [0; 2];
        stream.read_exact(&mut len)?;
        let mut reply = vec![0; u16::from_be_bytes(len).into()];
        stream.read_exact(&mut reply)?;
        Ok(reply)
    }

    /// Returns the end of its log, for messages.
    pub fn log_tail(&self) -> String {
        self.peer.log_tail()
    }
}

fn config(server: SocketAddr, anchors: &[Anchor], address: SocketAddr) -> String {
    let (ip, port) = (address.ip(), address.port());
    let (server_ip, server_port) = (server.ip(), server.port());
    let mut text = format!(
        "options {{ directory \".\"; listen-on port {port} {{ {ip}; }}; listen-on-v6 {{ none; }};
           pid-file none; session-keyfile none; recursion yes; dnssec-validation yes;
           forward only; forwarders {{ {server_ip} port {server_port}; }};
           trust-anchor-telemetry no; empty-zones-enable no; synth-from-dnssec yes; minimal-responses yes; }};
         controls {{ }};
         zone \"{READY}\" {{ type primary; file \"ready\"; notify no; }};
         trust-anchors {{\n"
    );
    for Anchor { zone, dnskey } in anchors {
        let flags = u16::from_be_bytes([dnskey[0], dnskey[1]]);
        let key = data_encoding::BASE64.encode(&dnskey[4..]);
        let _ = writeln!(
            text,
            "\"{zone}.\" static-key {flags} {} {} \"{key}\";",
            dnskey[2], dnskey[3]
        );
    }
    text.push_str("};\n");
    text
}
