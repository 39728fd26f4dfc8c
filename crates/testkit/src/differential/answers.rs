//! Queries to a server, and answers in a comparable form.

use super::queries::TestQuery;
use crate::TestFailure;
use crate::wire::{Exchange, Message, Record, Sockets, Transport, rcode_text};
use std::collections::BTreeSet;
use std::fmt;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// A server that is queried.
pub struct Server {
    /// The product name.
    pub name: String,
    address: SocketAddr,
    socket: UdpSocket,
    next_id: u16,
    apexes: BTreeSet<String>,
}

/// An answer without irrelevant details: order, case, unrequested apex NS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The response code.
    pub rcode: u16,
    /// The AA bit.
    pub authoritative: bool,
    /// Records of the answer section.
    pub answer: BTreeSet<String>,
    /// Records of the authority section.
    pub authority: BTreeSet<String>,
    /// Records of the additional section.
    pub additional: BTreeSet<String>,
    /// A record appeared twice in a section.
    pub repeats: bool,
}

impl Answer {
    /// Checks equality except for the additional section.
    pub fn same(&self, other: &Answer) -> bool {
        let key = |answer: &Answer| (answer.rcode, answer.authoritative, answer.repeats);
        key(self) == key(other) && self.answer == other.answer && self.authority == other.authority
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let aa = if self.authoritative { " aa" } else { "" };
        write!(f, "{}{aa}", rcode_text(self.rcode))?;
        let sections = [
            ("answer", &self.answer),
            ("authority", &self.authority),
            ("additional", &self.additional),
        ];
        for (name, records) in sections {
            for record in records {
                let shown: String = record.chars().take(160).collect();
                write!(f, "\n      {name}: {shown}")?;
            }
        }
        if self.repeats {
            write!(f, "\n      (a record came twice)")?;
        }
        Ok(())
    }
}

impl Server {
    /// Connects to a server; `apexes` are its zone names without the final dot.
    pub fn connect(name: &str, address: SocketAddr, apexes: &[&str]) -> std::io::Result<Server> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        let apexes = apexes.iter().map(|apex| format!("{apex}.")).collect();
        Ok(Server {
            name: name.to_string(),
            address,
            socket,
            next_id: 1,
            apexes,
        })
    }

    /// Sends a query over UDP, and again over TCP if the answer is truncated.
    pub fn ask(&mut self, query: &TestQuery) -> Result<Answer, TestFailure> {
        self.next_id = self.next_id.wrapping_add(1);
        let message = query.encode(self.next_id);
        let name = self.name.clone();
        let context = |error: TestFailure| error.at(format_args!("{name} at {query}"));
        let mut reply = self.over_udp(&message).map_err(context)?;
        if reply.truncated() {
            let sockets = Sockets {
                address: self.address,
            };
            let octets = sockets
                .exchange(Transport::Tcp, &message)
                .map_err(context)?;
            let octets = octets.ok_or_else(|| context("no reply over TCP".into()))?;
            reply = Message::read(&octets).map_err(context)?;
        }
        if reply.question != [query.question.clone()] {
            return Err(context("the question is not echoed".into()));
        }
        Ok(self.normal(&reply))
    }

    fn over_udp(&self, query: &[u8]) -> Result<Message, TestFailure> {
        let mut buffer = [0; 4096];
        for _ in 0..3 {
            self.socket.send(query)?;
            while let Ok(length) = self.socket.recv(&mut buffer) {
                if buffer[..length].starts_with(&query[..2]) {
                    return Message::read(&buffer[..length]);
                }
            }
        }
        Err("no reply".into())
    }

    fn normal(&self, reply: &Message) -> Answer {
        let mut repeats = false;
        let mut set = |records: &[Record]| {
            let set: BTreeSet<String> = records.iter().map(Record::comparable).collect();
            repeats |= set.len() != records.len();
            set
        };
        let answer = set(&reply.answer);
        let mut authority = set(&reply.authority);
        let additional = reply.additional.iter().map(Record::comparable).collect();
        // The apex NS next to an answer is a matter of taste (minimal responses).
        if reply.authoritative() {
            authority.retain(|record| {
                let mut words = record.split(' ');
                let apex = words
                    .next()
                    .is_some_and(|owner| self.apexes.contains(owner));
                !(apex && words.nth(1) == Some("ns"))
            });
        }
        let (rcode, authoritative) = (reply.rcode(), reply.authoritative());
        Answer {
            rcode,
            authoritative,
            answer,
            authority,
            additional,
            repeats,
        }
    }
}
