//! Measures the UDP socket layer alone: two workers bounce datagrams between each other, and the
//! user time of the serving thread is divided by the datagrams it handled.
//!
//! `cargo run --release -p nameward-serve --example udp_echo [seconds] [datagrams in flight]`
//!
//! Needs two cores for itself. The load side is such a worker too, so it batches as well as the
//! serving side.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nameward_serve::listen::bind_all;
use nameward_serve::udp::{BatchHandler, BatchTiming, DatagramBatch, UdpWorker, WorkerSwitch};

/// About the size of a usual query.
const DATAGRAM: [u8; 44] = [7; 44];

#[derive(Default)]
struct Count {
    batches: AtomicU64,
    datagrams: AtomicU64,
    sent: AtomicU64,
    answer_ns: AtomicU64,
}

struct Echo(Arc<Count>);

impl BatchHandler for Echo {
    fn handle(&mut self, batch: &mut DatagramBatch) {
        for i in 0..batch.len() {
            let (query, reply, len) = batch.reply(i);
            let Some(room) = reply.get_mut(..query.len()) else {
                continue;
            };
            room.copy_from_slice(query);
            *len = query.len();
        }
        let count = batch.len() as u64;
        self.0.datagrams.fetch_add(count, Ordering::Relaxed);
        self.0.batches.fetch_add(1, Ordering::Relaxed);
    }

    fn sent(&mut self, batch: &DatagramBatch, timing: BatchTiming) {
        let sent = (0..batch.len())
            .filter(|&i| !batch.replied(i).is_empty())
            .count();
        let count = &self.0;
        count.sent.fetch_add(sent as u64, Ordering::Relaxed);
        count
            .answer_ns
            .fetch_add(timing.answer_ns, Ordering::Relaxed);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments.next().map_or(Ok(5), |a| a.parse())?;
    let in_flight: usize = arguments.next().map_or(Ok(256), |a| a.parse())?;
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let (server, load) = (bind_all(&[loopback], 1)?, bind_all(&[loopback], 1)?);
    let seed = load.udp[0][0].try_clone_std()?;
    let stop = Arc::<WorkerSwitch>::default();
    let count = Arc::new(Count::default());
    let mut workers = Vec::new();
    for (index, mut bound) in [(0, server.udp), (1, load.udp)] {
        let own = if index == 0 {
            Arc::clone(&count)
        } else {
            Arc::default()
        };
        workers.push(UdpWorker::spawn(
            index,
            bound.remove(0),
            Echo(own),
            Arc::clone(&stop),
        )?);
    }
    for _ in 0..in_flight {
        seed.send_to(&DATAGRAM, server.addresses[0])?;
    }
    std::thread::sleep(Duration::from_secs(seconds));
    let (user_ms, system_ms) = thread_times_ms("udp-0")?;
    stop.stop();
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let datagrams = of(&count.datagrams).max(1);
    println!(
        "{datagrams} datagrams, {} a batch, {} sent; user {} ns, of it handler {} ns, system {} ns a datagram",
        datagrams / of(&count.batches).max(1),
        of(&count.sent),
        user_ms * 1_000_000 / datagrams,
        of(&count.answer_ns) / datagrams,
        system_ms * 1_000_000 / datagrams,
    );
    workers.into_iter().for_each(UdpWorker::join);
    Ok(())
}

/// User and system time of the thread of this name, in steps of the kernel's clock tick.
fn thread_times_ms(name: &str) -> std::io::Result<(u64, u64)> {
    const TICK_MS: u64 = 10;
    for task in fs::read_dir("/proc/self/task")? {
        let stat = fs::read_to_string(task?.path().join("stat"))?;
        if let Some((head, tail)) = stat.rsplit_once(')')
            && head.ends_with(&format!("({name}"))
        {
            let mut fields = tail.split_whitespace().skip(11).map(|f| f.parse());
            let (user, system) = (fields.next(), fields.next());
            if let (Some(Ok::<u64, _>(user)), Some(Ok(system))) = (user, system) {
                return Ok((user * TICK_MS, system * TICK_MS));
            }
        }
    }
    Err(std::io::Error::other("no such thread"))
}
