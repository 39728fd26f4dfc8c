//! Own names while the recursor hangs: the speed of authoritative answers during a flood of queries for names outside all zones.
//!
//! The recursor is a socket that receives queries and answers none. The flood comes at a fixed rate, with RD, from many
//! addresses and for a new name each time, so that it fills every queue. At the same time, the usual load queries
//! names in the zone. The same flood against a server without a recursor shows what its packets cost by themselves.

use std::fmt::Write;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nameward_testkit::TestFailure;
use nameward_testkit::peers::PeerOptions;

use crate::compare::{self, Measurement, Plan};
use crate::queries::Queries;
use crate::server::launch_ours;
use crate::sys;
use crate::zones::ZoneFiles;

/// Addresses that the flood comes from, 127.0.0.2 and those behind it.
const FLOODERS: u8 = 16;
/// How often the flood sends what is due.
const TICK: Duration = Duration::from_millis(2);

/// The recursor behind the server, and the flood that comes at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FloodCase {
    /// No recursor, no flood.
    Alone,
    /// A recursor that hangs, without queries for it.
    Idle,
    /// No recursor: the flood is refused.
    Refused,
    /// The flood waits for a recursor that hangs.
    Hanging,
}

impl FloodCase {
    const ALL: [Self; 4] = [Self::Alone, Self::Idle, Self::Refused, Self::Hanging];

    fn name(self) -> &'static str {
        match self {
            Self::Alone => "no recursor, no flood",
            Self::Idle => "recursor hangs, no flood",
            Self::Refused => "no recursor, flood is refused",
            Self::Hanging => "recursor hangs, flood",
        }
    }

    fn has_recursor(self) -> bool {
        matches!(self, Self::Idle | Self::Hanging)
    }

    fn has_flood(self) -> bool {
        matches!(self, Self::Refused | Self::Hanging)
    }
}

/// Counts of a flood.
#[derive(Default)]
struct FloodCounts {
    sent: AtomicU64,
    answered: AtomicU64,
    stop: AtomicBool,
}

/// The figures of one case.
struct FloodFigures {
    measured: Measurement,
    sent: u64,
    answered: u64,
}

impl FloodFigures {
    /// Microseconds of processor time for one answer, to any client.
    fn cpu_us(&self) -> f64 {
        let own = self.measured.outcome.answered.max(1) as f64;
        let total = (self.measured.user_us + self.measured.system_us) * own;
        total / (own + self.answered as f64)
    }
}

/// A query with RD for a name that is queried once.
fn query(number: u64) -> Vec<u8> {
    let mut message = (number as u16).to_be_bytes().to_vec();
    message.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let label = format!("n{number}");
    message.push(label.len() as u8);
    message.extend_from_slice(label.as_bytes());
    message.extend_from_slice(b"\x05flood\x07invalid\0\0\x01\0\x01");
    message
}

fn flooders(server: SocketAddr) -> io::Result<Vec<UdpSocket>> {
    let open = |n: u8| {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2 + n), 0))?;
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    (0..FLOODERS).map(open).collect()
}

/// Sends `rate` queries per second until it is stopped.
fn flood(sockets: &[UdpSocket], rate: u32, counts: &FloodCounts) {
    let (begin, mut number, mut reply) = (Instant::now(), 0, [0; 512]);
    while !counts.stop.load(Ordering::Relaxed) {
        let due = (begin.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        while number < due {
            let socket = &sockets[number as usize % sockets.len()];
            // A full queue loses a query of the flood, which does not matter.
            if socket.send(&query(number)).is_ok() {
                counts.sent.fetch_add(1, Ordering::Relaxed);
            }
            number += 1;
        }
        for socket in sockets {
            while socket.recv(&mut reply).is_ok() {
                counts.answered.fetch_add(1, Ordering::Relaxed);
            }
        }
        thread::sleep(TICK);
    }
}

fn measure(
    case: FloodCase,
    (files, queries): (&ZoneFiles, &Queries),
    rate: u32,
    plan: &Plan<'_>,
) -> Result<FloodFigures, TestFailure> {
    // Never read: what the server sends fills the buffer of the socket and is dropped.
    let hanging = UdpSocket::bind("127.0.0.1:0")?;
    let address = hanging.local_addr()?;
    let settings = if case.has_recursor() {
        format!("[recursor]\naddress = \"{address}\"\n\n")
    } else {
        String::new()
    };
    let options = PeerOptions {
        cpu: Some(plan.server_core),
        ready_timeout: plan.ready_timeout,
        ..PeerOptions::default()
    };
    let peer = launch_ours(&plan.binaries.nameward, files, &options, &settings)?;
    let (counts, sockets) = (FloodCounts::default(), flooders(peer.addr())?);
    let measured = thread::scope(|scope| {
        if case.has_flood() {
            scope.spawn(|| {
                // Beside the load, not beside the server.
                if let Err(error) = sys::pin_to_core(plan.client_core) {
                    eprintln!("the flood is not pinned: {error}");
                }
                flood(&sockets, rate, &counts);
            });
        }
        let measured = compare::run(&peer, queries, plan);
        counts.stop.store(true, Ordering::Relaxed);
        measured.map_err(TestFailure::from)
    })?;
    // The flood ran through the warm-up as well.
    let share = measured.outcome.elapsed.as_secs_f64()
        / (measured.outcome.elapsed + plan.warm_up).as_secs_f64();
    let counted = |count: &AtomicU64| (count.load(Ordering::Relaxed) as f64 * share) as u64;
    Ok(FloodFigures {
        sent: counted(&counts.sent),
        answered: counted(&counts.answered),
        measured,
    })
}

/// Measures all cases and returns the table.
pub fn compare(
    load: (&ZoneFiles, &Queries),
    (rate, repeat): (u32, usize),
    plan: &Plan<'_>,
) -> Result<String, TestFailure> {
    let mut table = String::from(
        "| case | own answers/s | own answered % | p50 us | p99 us | flood/s | flood answered % | user us/own answer | \
         sys us/own answer | CPU us/answer | other load |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for case in FloodCase::ALL {
        let mut runs = Vec::new();
        for _ in 0..repeat {
            eprintln!("{} ...", case.name());
            runs.push(measure(case, load, rate, plan)?);
        }
        let figures = compare::median_by(runs, FloodFigures::cpu_us).ok_or("not run")?;
        write_row(&mut table, case, &figures)?;
    }
    Ok(table)
}

fn write_row(table: &mut String, case: FloodCase, figures: &FloodFigures) -> std::fmt::Result {
    let (measured, outcome) = (&figures.measured, &figures.measured.outcome);
    let seconds = outcome.elapsed.as_secs_f64();
    let share = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    let percentile = |share| outcome.latency.percentile(share).as_nanos() / 1000;
    writeln!(
        table,
        "| {} | {:.0} | {:.3} | {} | {} | {:.0} | {:.1} | {:.2} | {:.2} | {:.2} | {:.1} |",
        case.name(),
        outcome.answered as f64 / seconds,
        share(outcome.answered, outcome.answered + outcome.lost),
        percentile(0.5),
        percentile(0.99),
        figures.sent as f64 / seconds,
        share(figures.answered, figures.sent),
        measured.user_us,
        measured.system_us,
        figures.cpu_us(),
        measured.other_load,
    )
}
