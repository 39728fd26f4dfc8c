//! The load: a closed loop of one thread that keeps a fixed number of queries in flight.
//!
//! Every socket has a window of slots. A slot is a query in flight; its number and a generation
//! are the message id, so that a late or doubled answer is known as such. An answer frees its slot,
//! and the slot sends the next query of the prepared list at once. A slot without an answer for
//! `timeout` counts as lost and sends another query.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::latency::Histogram;
use crate::queries::{MAX_QUERY, Queries};
use crate::sys::{self, BATCH, Batch};

/// Slots of one socket at most: their number is the low octet of the message id.
pub const MAX_WINDOW: usize = 256;
/// Octets of an answer that are examined: its header.
const HEADER: usize = 12;
const RECEIVE_BUFFER: usize = 4 << 20;
/// How often slots are searched for lost queries.
const SWEEP_INTERVAL: Duration = Duration::from_millis(50);

/// How much is in flight, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Sockets, each with its own port.
    pub sockets: usize,
    /// Queries in flight on each socket.
    pub window: usize,
    /// After this a query counts as lost.
    pub timeout: Duration,
}

/// When a run stops sending queries.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// After this time.
    Time(Duration),
    /// After this many queries.
    Queries(u64),
}

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Answers to queries in flight.
    pub answered: u64,
    /// Queries without an answer in time.
    pub lost: u64,
    /// Answers of another kind than the scenario expects.
    pub wrong: u64,
    /// Answers by response code.
    pub rcodes: [u64; 16],
    /// Octets of all answers.
    pub octets: u64,
    /// From the first query to the last answer.
    pub elapsed: Duration,
    /// From sending to receiving.
    pub latency: Histogram,
}

#[derive(Clone, Copy)]
struct Slot {
    /// The query in flight, if there is one.
    query: Option<u32>,
    generation: u8,
    sent_at: Instant,
}

/// The sockets and their slots.
pub struct Generator<'a> {
    queries: &'a Queries,
    /// The position of the next query in the list, which is circular.
    next: usize,
    shape: Shape,
    sockets: Vec<UdpSocket>,
    slots: Vec<Slot>,
    /// For each socket: slots that wait for their next query.
    free: Vec<Vec<u8>>,
    out: Batch<MAX_QUERY>,
    into: Batch<HEADER>,
}

impl<'a> Generator<'a> {
    /// Opens the sockets towards a server.
    pub fn connect(server: SocketAddr, queries: &'a Queries, shape: Shape) -> io::Result<Self> {
        assert!((1..=MAX_WINDOW).contains(&shape.window) && queries.len() > 0);
        let mut sockets = Vec::with_capacity(shape.sockets);
        for _ in 0..shape.sockets {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.connect(server)?;
            SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER)?;
            sockets.push(socket);
        }
        let slot = Slot {
            query: None,
            generation: 0,
            sent_at: Instant::now(),
        };
        Ok(Self {
            queries,
            next: 0,
            shape,
            slots: vec![slot; shape.sockets * shape.window],
            free: vec![(0..shape.window).map(|slot| slot as u8).collect(); shape.sockets],
            sockets,
            out: Batch::new(),
            into: Batch::new(),
        })
    }

    /// Sends queries up to the limit, then waits for those in flight.
    pub fn run(&mut self, limit: Limit) -> io::Result<Outcome> {
        let mut outcome = Outcome::default();
        let begin = Instant::now();
        let mut swept = begin;
        let mut now = begin;
        let mut asked = 0;
        loop {
            let room = match limit {
                Limit::Time(duration) if now - begin < duration => u64::MAX,
                Limit::Time(_) => 0,
                Limit::Queries(count) => count - asked,
            };
            if room == 0 && self.in_flight() == 0 {
                break;
            }
            let mut moved = 0;
            let sent_before = asked;
            for socket in 0..self.sockets.len() {
                moved += self.receive(socket, &mut outcome)?;
                let left = room - (asked - sent_before);
                let sent = self.send_queries(socket, left.min(BATCH as u64) as usize)?;
                asked += sent as u64;
                moved += sent;
            }
            if moved == 0 {
                sys::wait_readable(&self.sockets);
            }
            now = Instant::now();
            if now - swept >= SWEEP_INTERVAL {
                self.sweep(now, &mut outcome);
                swept = now;
            }
        }
        outcome.elapsed = begin.elapsed();
        Ok(outcome)
    }

    fn in_flight(&self) -> usize {
        let free: usize = self.free.iter().map(Vec::len).sum();
        self.slots.len() - free
    }

    /// Sends queries for the free slots of a socket, at most `room` and one batch.
    fn send_queries(&mut self, socket: usize, room: usize) -> io::Result<usize> {
        let free = &mut self.free[socket];
        let count = free.len().min(room);
        if count == 0 {
            return Ok(0);
        }
        let now = Instant::now();
        for place in 0..count {
            let number = free.pop().expect("count is at most the free slots");
            let slot = &mut self.slots[socket * self.shape.window + usize::from(number)];
            slot.query = Some(self.next as u32);
            slot.generation = slot.generation.wrapping_add(1);
            slot.sent_at = now;
            let message = self.out.fill(place, self.queries.message(self.next));
            message[..2].copy_from_slice(&[slot.generation, number]);
            self.next = (self.next + 1) % self.queries.len();
        }
        let mut sent = 0;
        while sent < count {
            match self.out.send(&self.sockets[socket], sent, count) {
                Ok(more) => sent += more,
                // What the kernel does not take (a full queue, a refused port) is a query without
                // an answer: the sweep finds it.
                Err(error) if is_passing(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    /// Takes one batch of answers of a socket.
    fn receive(&mut self, socket: usize, outcome: &mut Outcome) -> io::Result<usize> {
        let count = match self.into.receive(&self.sockets[socket]) {
            Ok(0) => return Ok(0),
            Ok(count) => count,
            Err(error) if is_passing(&error) => return Ok(0),
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        for place in 0..count {
            let (header, length) = self.into.received(place);
            let [generation, number, flags, ..] = *header;
            if length < HEADER || flags & 0x80 == 0 || usize::from(number) >= self.shape.window {
                continue;
            }
            let slot = &mut self.slots[socket * self.shape.window + usize::from(number)];
            if slot.generation != generation {
                continue;
            }
            let Some(query) = slot.query.take() else {
                continue;
            };
            self.free[socket].push(number);
            outcome.answered += 1;
            outcome.octets += length as u64;
            outcome.rcodes[usize::from(header[3] & 0x0f)] += 1;
            let expected = self.queries.expected(query as usize);
            outcome.wrong += u64::from(!expected.matches(header));
            outcome.latency.record(now - slot.sent_at);
        }
        Ok(count)
    }

    /// Gives up queries that have waited too long.
    fn sweep(&mut self, now: Instant, outcome: &mut Outcome) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.query.is_some() && now - slot.sent_at >= self.shape.timeout {
                slot.query = None;
                outcome.lost += 1;
                let (socket, number) = (index / self.shape.window, index % self.shape.window);
                self.free[socket].push(number as u8);
            }
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionRefused | Interrupted | WouldBlock)
        || error.raw_os_error() == Some(libc::ENOBUFS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queries::Expected;
    use nameward_testkit::wire::QuestionEdns;

    const SHAPE: Shape = Shape {
        sockets: 2,
        window: 4,
        timeout: Duration::from_secs(2),
    };

    /// Answers `count` queries with this rcode and one answer record counted, then stops answering.
    fn answer(server: UdpSocket, count: usize, rcode: u8) {
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            for _ in 0..count {
                let (length, client) = server.recv_from(&mut buffer).unwrap();
                buffer[2] |= 0x84;
                buffer[3] = rcode;
                buffer[7] = 1;
                server.send_to(&buffer[..length], client).unwrap();
            }
            std::thread::sleep(Duration::from_secs(60));
        });
    }

    #[test]
    fn answers_and_lost_and_wrong_ones_are_counted_separately() {
        let mut queries = Queries::with_capacity(1, QuestionEdns::Off);
        queries.push("a.test", 1, Expected::Data);
        for (rcode, share_wrong) in [(0, 0), (2, 1)] {
            let server = UdpSocket::bind("127.0.0.1:0").unwrap();
            let addr = server.local_addr().unwrap();
            answer(server, 20, rcode);
            let mut generator = Generator::connect(addr, &queries, SHAPE).unwrap();
            let outcome = generator.run(Limit::Queries(28)).unwrap();
            assert_eq!(outcome.answered, 20);
            assert_eq!(
                outcome.lost, 8,
                "the whole window waits for the silent server"
            );
            assert_eq!(outcome.wrong, 20 * share_wrong);
            assert_eq!(outcome.rcodes[usize::from(rcode)], 20);
        }
    }
}
