//! A flood from one network, and clients in others: what response rate limiting costs and which clients it protects.
//!
//! The flood asks for one name at a fixed rate from one /24, as a reflection attack does. Clients in as many networks as
//! they are send a query at a time at a low rate, far below the limit. Each server runs with rate limiting off and on, with
//! the same limit.

use std::fmt::Write;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nameward_testkit::TestFailure;
use nameward_testkit::peers::PeerOptions;
use socket2::SockRef;

use crate::compare::Plan;
use crate::latency::Histogram;
use crate::load::Limit;
use crate::process;
use crate::queries::{MAX_QUERY, Queries};
use crate::server::Server;
use crate::sys::{self, BATCH, Batch};
use crate::zones::ZoneFiles;

/// Responses per second that a network gets for a name: the default of NSD.
const LIMIT: u32 = 200;
/// Clients during the flood, each in its own network, and the queries per second that each sends.
const CLIENTS: u8 = 250;
const CLIENT_RATE: u32 = 4;
/// A query of a client without an answer for this long is lost.
const TIMEOUT: Duration = Duration::from_secs(1);
const RECEIVE_BUFFER: usize = 4 << 20;

/// What the flood sent and received.
#[derive(Clone, Copy, Debug, Default)]
struct FloodTraffic {
    sent: u64,
    sent_octets: u64,
    answered: u64,
    answered_octets: u64,
}

/// The answers that the other clients got.
#[derive(Clone, Debug, Default)]
struct ClientFigures {
    sent: u64,
    answered: u64,
    latency: Histogram,
}

/// One server under a flood.
struct FloodedServer {
    flood: FloodTraffic,
    clients: ClientFigures,
    /// Queries that its socket queues had no room for.
    dropped: u64,
    cpu: f64,
    memory: u64,
    elapsed: Duration,
}

/// Sends one query `rate` times per second from one address, in batches, until it is stopped.
fn flood(
    server: SocketAddr,
    query: &[u8],
    rate: u32,
    stop: &AtomicBool,
) -> io::Result<FloodTraffic> {
    let socket = UdpSocket::bind((Ipv4Addr::new(127, 1, 1, 1), 0))?;
    socket.connect(server)?;
    SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER)?;
    let (mut out, mut into) = (Batch::<MAX_QUERY>::new(), Batch::<12>::new());
    let (begin, mut traffic) = (Instant::now(), FloodTraffic::default());
    let mut due_before = 0;
    while !stop.load(Ordering::Relaxed) {
        let due = (begin.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        let count = (due - due_before).min(BATCH as u64) as usize;
        for i in 0..count {
            let id = (traffic.sent as u16).wrapping_add(i as u16);
            out.fill(i, query)[..2].copy_from_slice(&id.to_be_bytes());
        }
        // What the kernel does not take now is not sent: the rate is what was sent, and is shown.
        let sent = if count > 0 {
            out.send(&socket, 0, count).unwrap_or(0)
        } else {
            thread::yield_now();
            0
        };
        due_before += count as u64;
        traffic.sent += sent as u64;
        traffic.sent_octets += (sent * query.len()) as u64;
        let received = into.receive(&socket)?;
        traffic.answered += received as u64;
        traffic.answered_octets += (0..received)
            .map(|i| into.received(i).1 as u64)
            .sum::<u64>();
    }
    Ok(traffic)
}

/// Sends queries from many networks at a low rate, until it is stopped.
fn query_during_flood(
    server: SocketAddr,
    queries: &Queries,
    stop: &AtomicBool,
) -> io::Result<ClientFigures> {
    let open = |n: u8| {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 2, n, 1), 0))?;
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    let sockets: Vec<UdpSocket> = (0..CLIENTS).map(open).collect::<io::Result<_>>()?;
    let mut under_way: Vec<Option<(u16, Instant)>> = vec![None; sockets.len()];
    let (begin, mut figures, mut reply) = (Instant::now(), ClientFigures::default(), [0; 4096]);
    let rate = f64::from(CLIENT_RATE) * f64::from(CLIENTS);
    while !stop.load(Ordering::Relaxed) {
        let due = (begin.elapsed().as_secs_f64() * rate) as u64;
        while figures.sent < due {
            let client = figures.sent as usize % sockets.len();
            let mut query = queries
                .message(figures.sent as usize % queries.len())
                .to_vec();
            let id = figures.sent as u16;
            query[..2].copy_from_slice(&id.to_be_bytes());
            under_way[client] = Some((id, Instant::now()));
            sockets[client].send(&query)?;
            figures.sent += 1;
        }
        for (socket, asked) in sockets.iter().zip(&mut under_way) {
            while let Ok(len) = socket.recv(&mut reply) {
                let is_truncated = len > 2 && reply[2] & 2 != 0;
                let id = [reply[0], reply[1]];
                let answered = asked.take_if(|(asked, _)| asked.to_be_bytes() == id);
                if let Some((_, at)) = answered.filter(|(_, at)| at.elapsed() < TIMEOUT)
                    && !is_truncated
                {
                    figures.answered += 1;
                    figures.latency.record(at.elapsed());
                }
            }
        }
        thread::sleep(Duration::from_micros(500));
    }
    Ok(figures)
}

/// Datagrams that were dropped because a socket of this port had no room, since the sockets were opened.
fn dropped(port: u16) -> u64 {
    let text = fs::read_to_string("/proc/net/udp").unwrap_or_default();
    let is_ours = |local: &str| local.ends_with(&format!(":{port:04X}"));
    let drops = text.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_ours = fields.get(1).is_some_and(|local| is_ours(local));
        is_ours.then(|| fields.last()?.parse::<u64>().ok())?
    });
    drops.sum()
}

fn measure(
    server: Server,
    is_limited: bool,
    (files, queries): (&ZoneFiles, &Queries),
    rate: u32,
    plan: &Plan<'_>,
) -> Result<FloodedServer, TestFailure> {
    let options = PeerOptions {
        cpu: Some(plan.server_core),
        ready_timeout: plan.ready_timeout,
        responses_per_second: is_limited.then_some(LIMIT),
        ..PeerOptions::default()
    };
    let peer = server.start(plan.binaries, files, options)?;
    let Limit::Time(time) = plan.limit else {
        return Err("a flood is measured for a time: --seconds".into());
    };
    let (address, stop) = (peer.addr(), AtomicBool::new(false));
    let pids = process::tree(peer.pid())?;
    sys::pin_to_core(plan.client_core)?;
    thread::scope(|scope| {
        let flood = scope.spawn(|| flood(address, queries.message(0), rate, &stop));
        let clients = scope.spawn(|| query_during_flood(address, queries, &stop));
        let (begin, before, lost) = (
            Instant::now(),
            process::cpu_time(&pids),
            dropped(address.port()),
        );
        thread::sleep(time);
        let cpu = (process::cpu_time(&pids) - before).total();
        let elapsed = begin.elapsed();
        stop.store(true, Ordering::Relaxed);
        let ended = "a thread of the load ended early";
        Ok(FloodedServer {
            dropped: dropped(address.port()) - lost,
            flood: flood.join().map_err(|_| ended)??,
            clients: clients.join().map_err(|_| ended)??,
            cpu,
            memory: process::memory(&pids).proportional,
            elapsed,
        })
    })
}

/// Measures each server without and with rate limiting and returns the table.
pub fn compare(
    servers: &[Server],
    load: (&ZoneFiles, &Queries),
    rate: u32,
    plan: &Plan<'_>,
) -> Result<String, TestFailure> {
    let mut table = String::from(
        "| server | rate limit | flood/s | dropped by the kernel % | CPU us/query | flood answered % | octets out : in | \
         others answered % | others p50 us | others p99 us | memory MB |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for &server in servers {
        for is_limited in [false, true] {
            eprintln!(
                "{server}, rate limiting {} ...",
                if is_limited { "on" } else { "off" }
            );
            let figures = measure(server, is_limited, load, rate, plan)?;
            write_row(&mut table, (server, is_limited), &figures)?;
        }
    }
    Ok(table)
}

fn write_row(
    table: &mut String,
    (server, is_limited): (Server, bool),
    figures: &FloodedServer,
) -> std::fmt::Result {
    let (flood, clients) = (&figures.flood, &figures.clients);
    let share = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    let percentile = |share| clients.latency.percentile(share).as_nanos() / 1000;
    let sent = flood.sent + clients.sent;
    let handled = sent.saturating_sub(figures.dropped).max(1);
    let limit = if is_limited {
        format!("{LIMIT}/s")
    } else {
        "off".to_string()
    };
    writeln!(
        table,
        "| {server} | {limit} | {:.0} | {:.1} | {:.2} | {:.2} | {:.2} | {:.2} | {} | {} | {} |",
        flood.sent as f64 / figures.elapsed.as_secs_f64(),
        share(figures.dropped, sent),
        figures.cpu * 1e6 / handled as f64,
        share(flood.answered, flood.sent),
        flood.answered_octets as f64 / flood.sent_octets.max(1) as f64,
        share(clients.answered, clients.sent),
        percentile(0.5),
        percentile(0.99),
        figures.memory >> 20,
    )
}
