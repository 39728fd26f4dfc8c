//! Servers as secondaries and as primaries of many: whole and incremental transfers in, NOTIFY to many, many zones at a start.

mod config;
mod primary;

use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nameward_testkit::TestFailure;
use nameward_testkit::peers::{Peer, PeerOptions, free_address};
use nameward_testkit::wire::QuestionEdns;

use crate::compare::{Plan, median_by};
use crate::load::{Generator, Limit, Shape};
use crate::process::{self, CpuTime};
use crate::queries::{Expected, Queries};
use crate::scenario::{Scenario, label};
use crate::server::Server;
use crate::sys;
use primary::{MadePrimary, MadeZone};

/// Delegations of the zone that is transferred as a whole: three million records.
const DELEGATIONS: usize = 1_000_000;
/// Records of the zone that changes, and how many change at once.
const ADDRESSES: usize = 1_000_000;
const CHANGES: usize = 100;
/// Versions of it.
const VERSIONS: usize = 5;
/// Servers that are notified.
const TARGETS: usize = 10_000;
/// Zones that are taken over at a start.
const ZONES: usize = 100_000;
/// The longest time for anything.
const TIMEOUT: Duration = Duration::from_secs(300);
/// A server that uses less than this of the CPU in a look is quiet.
const QUIET: Duration = Duration::from_millis(300);

/// Outstanding queries while zones are waited for.
const WAITING: Shape = Shape {
    sockets: 2,
    window: 32,
    timeout: Duration::from_secs(1),
};

/// A whole transfer that came in.
#[derive(Clone, Copy)]
struct WholeRun {
    wall: Duration,
    cpu: CpuTime,
    memory: u64,
}

/// Transfers of three million records into each server, the median of some runs.
pub fn whole(servers: &[Server], repeat: usize, plan: &Plan<'_>) -> Result<String, TestFailure> {
    let primary = MadePrimary::start("tld", MadeZone::Delegations(DELEGATIONS), 0)?;
    let mut text = String::from(
        "| secondary | wall s | CPU s | user s | sys s | memory MB |\n|---|--:|--:|--:|--:|--:|\n",
    );
    for server in servers {
        eprintln!("AXFR into {server} ...");
        let runs: Result<Vec<_>, TestFailure> = (0..repeat.max(1))
            .map(|_| transfer_whole(*server, ("tld", &primary), plan).map(|(run, _)| run))
            .collect();
        let row = runs
            .and_then(|runs| median_by(runs, |run| run.cpu.total()).ok_or_else(|| "no run".into()));
        let _ = match row {
            Ok(WholeRun { wall, cpu, memory }) => writeln!(
                text,
                "| {server} | {:.2} | {:.2} | {:.2} | {:.2} | {} |",
                wall.as_secs_f64(),
                cpu.total(),
                cpu.user,
                cpu.system,
                memory >> 20
            ),
            Err(error) => writeln!(text, "| {server} | failed: {} |", error.first_line()),
        };
    }
    Ok(text)
}

/// Starts a secondary and waits until it serves the zone and has nothing more to do.
fn transfer_whole(
    server: Server,
    (zone, primary): (&str, &MadePrimary),
    plan: &Plan<'_>,
) -> Result<(WholeRun, Peer), TestFailure> {
    primary.first_asked();
    let options = PeerOptions {
        cpu: Some(plan.server_core),
        ..PeerOptions::default()
    };
    let started = Instant::now();
    let peer = config::start(server, plan.binaries, (zone, primary.address), &options)?;
    sys::pin_to_core(plan.client_core)?;
    let client = SmallClient::new(peer.addr())?;
    while client.rcode(zone, 6) != Some(0) {
        if started.elapsed() > TIMEOUT {
            return Err(format!("not served in time:\n{}", peer.log_tail()).into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    let served = Instant::now();
    let begun = primary.first_asked().ok_or("no transfer was requested")?;
    let cpu = wait_until_quiet(&peer)?;
    let memory = process::memory(&process::tree(peer.pid())?).proportional;
    let wall = served.saturating_duration_since(begun);
    Ok((WholeRun { wall, cpu, memory }, peer))
}

/// Waits until a server does nothing any more; returns all its processor time.
fn wait_until_quiet(peer: &Peer) -> Result<CpuTime, TestFailure> {
    let time = || Ok::<_, TestFailure>(process::cpu_time(&process::tree(peer.pid())?));
    let (started, mut before) = (Instant::now(), time()?);
    loop {
        thread::sleep(QUIET);
        let now = time()?;
        if now.total() - before.total() < 0.03 || started.elapsed() > TIMEOUT {
            return Ok(now);
        }
        before = now;
    }
}

/// A hundred changes of a zone of a million records: from the NOTIFY until they are served.
pub fn differences(servers: &[Server], plan: &Plan<'_>) -> Result<String, TestFailure> {
    let mut text = String::from(
        "| secondary | median ms | slowest ms | CPU ms each | memory MB before | after |\n|---|--:|--:|--:|--:|--:|\n",
    );
    for server in servers {
        eprintln!("IXFR into {server} ...");
        let _ = match follow_differences(*server, plan) {
            Ok(row) => writeln!(text, "| {server} | {row} |"),
            Err(error) => writeln!(text, "| {server} | failed: {} |", error.first_line()),
        };
    }
    Ok(text)
}

fn follow_differences(server: Server, plan: &Plan<'_>) -> Result<String, TestFailure> {
    let zone = "flat.test";
    // One for each server: serials start again.
    let primary = MadePrimary::start(zone, MadeZone::Addresses(ADDRESSES), CHANGES)?;
    let (before, peer) = transfer_whole(server, (zone, &primary), plan)?;
    let client = SmallClient::new(peer.addr())?;
    let name = format!("{}.{zone}", label(CHANGES / 2 - 1));
    let mut times = Vec::new();
    let pids = process::tree(peer.pid())?;
    let cpu_before = process::cpu_time(&pids).total();
    for _ in 0..VERSIONS {
        let octet = MadePrimary::octet(primary.change());
        let begun = Instant::now();
        primary.notify(zone, peer.addr())?;
        while client.address(&name) != Some(octet) {
            if begun.elapsed() > TIMEOUT {
                return Err(format!("a change is not served:\n{}", peer.log_tail()).into());
            }
        }
        times.push(begun.elapsed());
        wait_until_quiet(&peer)?;
    }
    let pids = process::tree(peer.pid())?;
    let cpu = (process::cpu_time(&pids).total() - cpu_before) / VERSIONS as f64;
    let after = process::memory(&pids).proportional;
    times.sort_unstable();
    let millis = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1000.0);
    Ok(format!(
        "{:.1} | {:.1} | {:.0} | {} | {}",
        millis(times.get(times.len() / 2)),
        millis(times.last()),
        cpu * 1000.0,
        before.memory >> 20,
        after >> 20
    ))
}

/// Ten thousand servers that are notified of one change, while queries are answered.
pub fn notify(plan: &Plan<'_>) -> Result<String, TestFailure> {
    let targets = notified_sockets()?;
    let list: Vec<String> = targets
        .iter()
        .filter_map(|socket| socket.local_addr().ok())
        .map(|address| format!("{{ address = \"{address}\" }}"))
        .collect();
    let zone = "notify.test";
    let options = PeerOptions {
        cpu: Some(plan.server_core),
        ..PeerOptions::default()
    };
    let peer = Peer::launch(&[zone], &options, |directory, addr| {
        let file = directory.join("notify.zone");
        fs::write(
            &file,
            format!("$ORIGIN {zone}.\n$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n"),
        )?;
        let more = format!(
            "[[zone]]\nname = \"{zone}\"\nkind = \"primary\"\nfile = \"{}\"\nalso_notify = [{}]\n",
            file.display(),
            list.join(", ")
        );
        let conf = directory.join("conf");
        fs::write(&conf, config::ours(directory, addr, &more)?)?;
        let mut command = Command::new(&plan.binaries.nameward);
        command.args(["serve", "--config"]).arg(conf);
        Ok(command)
    })?;
    sys::pin_to_core(plan.client_core)?;
    // The first NOTIFY, at the start.
    receive_all(&targets)?;
    let (address, wanted) = (peer.addr(), Duration::from_secs(3));
    let asking = thread::spawn(move || {
        let mut queries = Queries::with_capacity(1, QuestionEdns::Plain);
        queries.push(&format!("ns.{zone}"), 1, Expected::Data);
        let shape = Shape {
            sockets: 1,
            window: 1,
            timeout: Duration::from_secs(1),
        };
        Generator::connect(address, &queries, shape)?.run(Limit::Time(wanted))
    });
    let cpu_before = process::cpu_time(&process::tree(peer.pid())?).total();
    let begun = Instant::now();
    let status = Command::new(&plan.binaries.nameward)
        .args(["zone", "notify", zone, "--config"])
        .arg(peer.directory().join("conf"))
        .stdout(Stdio::null())
        .status();
    if !status?.success() {
        return Err("`nameward zone notify` failed".into());
    }
    receive_all(&targets)?;
    let wall = begun.elapsed();
    let cpu = process::cpu_time(&process::tree(peer.pid())?).total() - cpu_before;
    let outcome = asking.join().map_err(|_| "the load ended early")?;
    let outcome = outcome?;
    Ok(format!(
        "| servers | all notified s | CPU s meanwhile | answers/s | lost | p50 us | p99 us | p99.9 us |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|\n| {TARGETS} | {:.3} | {cpu:.2} | {:.0} | {} | {} | {} | {} |\n",
        wall.as_secs_f64(),
        outcome.answered as f64 / outcome.elapsed.as_secs_f64(),
        outcome.lost,
        outcome.latency.percentile(0.5).as_micros(),
        outcome.latency.percentile(0.99).as_micros(),
        outcome.latency.percentile(0.999).as_micros()
    ))
}

/// A socket for each server: an address of its own, all on one port.
fn notified_sockets() -> std::io::Result<Vec<UdpSocket>> {
    let port = free_address()?.port();
    let bind = |number: usize| {
        let [.., high, low] = (number as u32 + 1).to_be_bytes();
        let socket = UdpSocket::bind(SocketAddr::from(([127, 1, high, low], port)))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    (0..TARGETS).map(bind).collect()
}

/// Waits until each server was notified, and answers each.
fn receive_all(targets: &[UdpSocket]) -> Result<(), TestFailure> {
    let begun = Instant::now();
    let mut waiting: Vec<&UdpSocket> = targets.iter().collect();
    let mut buffer = [0; 1024];
    while !waiting.is_empty() {
        if begun.elapsed() > TIMEOUT {
            return Err(format!("{} servers were not notified", waiting.len()).into());
        }
        waiting.retain(|socket| {
            let Ok((len, from)) = socket.recv_from(&mut buffer) else {
                return true;
            };
            buffer[2] |= 0x80;
            let _ = socket.send_to(&buffer[..len], from);
            false
        });
    }
    Ok(())
}

/// A hundred thousand secondary zones, listed in the configuration: transferred once, then taken over by a second start.
pub fn zones(plan: &Plan<'_>) -> Result<String, TestFailure> {
    let primary = MadePrimary::start("example", MadeZone::Small, 0)?;
    let names: Vec<String> = Scenario::Hosting.zone_names();
    let names: Vec<&str> = names.iter().take(ZONES).map(String::as_str).collect();
    let state = tempfile::tempdir()?;
    let options = PeerOptions {
        cpu: Some(plan.server_core),
        ready_timeout: TIMEOUT,
        ..PeerOptions::default()
    };
    let launch = |ready: &[&str]| {
        let started = Instant::now();
        let peer = Peer::launch(ready, &options, |directory, addr| {
            let mut more = String::new();
            for name in &names {
                let _ = write!(
                    more,
                    "[[zone]]\nname = \"{name}\"\nkind = \"secondary\"\nprimaries = [{{ address = \"{}\" }}]\n",
                    primary.address
                );
            }
            let text = config::ours(directory, addr, &more)?;
            let own = format!("{}/state\"", directory.display());
            let text = text.replace(&own, &format!("{}\"", state.path().display()));
            let conf = directory.join("conf");
            fs::write(&conf, text)?;
            let mut command = Command::new(&plan.binaries.nameward);
            command.args(["serve", "--config"]).arg(conf);
            Ok(command)
        });
        peer.map(|peer| (peer, started)).map_err(TestFailure::from)
    };
    eprintln!("{ZONES} secondary zones: the first transfers ...");
    let (peer, started) = launch(&[])?;
    wait_for_zones(peer.addr(), &names)?;
    let first = started.elapsed();
    let first_cpu = wait_until_quiet(&peer)?;
    drop(peer);
    eprintln!("{ZONES} secondary zones: the start ...");
    let (peer, started) = launch(&[])?;
    wait_for_zones(peer.addr(), &names)?;
    let second = started.elapsed();
    let pids = process::tree(peer.pid())?;
    let (cpu, memory) = (process::cpu_time(&pids), process::memory(&pids));
    Ok(format!(
        "| zones | first start: all transferred s | CPU s | next start: all served s | CPU s | memory MB | transfers |\n\
         |--:|--:|--:|--:|--:|--:|--:|\n| {ZONES} | {:.1} | {:.1} | {:.2} | {:.2} | {} | {} |\n",
        first.as_secs_f64(),
        first_cpu.total(),
        second.as_secs_f64(),
        cpu.total(),
        memory.proportional >> 20,
        primary.transfers()
    ))
}

/// Queries all zones until all are answered. One at a time, the queries would take longer than the start.
fn wait_for_zones(server: SocketAddr, names: &[&str]) -> Result<(), TestFailure> {
    let begun = Instant::now();
    let client = SmallClient::new(server)?;
    let mut queries = Queries::with_capacity(names.len(), QuestionEdns::Off);
    for name in names {
        queries.push(name, 6, Expected::Data);
    }
    let (last, count) = (
        names.last().copied().unwrap_or_default(),
        names.len() as u64,
    );
    loop {
        if client.rcode(last, 6) == Some(0) {
            let mut generator = Generator::connect(server, &queries, WAITING)?;
            let outcome = generator.run(Limit::Queries(count))?;
            if outcome.answered == count && outcome.wrong == 0 {
                return Ok(());
            }
        }
        if begun.elapsed() > TIMEOUT {
            return Err("not all zones are served".into());
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sends one query at a time.
struct SmallClient {
    socket: UdpSocket,
}

impl SmallClient {
    fn new(server: SocketAddr) -> std::io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(Duration::from_millis(500)))?;
        Ok(SmallClient { socket })
    }

    fn ask(&self, name: &str, rtype: u16) -> Option<Vec<u8>> {
        let mut query = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0".to_vec();
        for label in name.split('.').filter(|label| !label.is_empty()) {
            query.push(label.len() as u8);
            query.extend_from_slice(label.as_bytes());
        }
        query.extend_from_slice(&[0, 0, rtype as u8, 0, 1]);
        self.socket.send(&query).ok()?;
        let mut reply = vec![0; 2048];
        loop {
            let len = self.socket.recv(&mut reply).ok()?;
            // A reply that came too late is for another name.
            if reply.get(12..query.len()) == Some(&query[12..]) {
                reply.truncate(len);
                return Some(reply);
            }
        }
    }

    /// The response code, if the answer is authoritative.
    fn rcode(&self, name: &str, rtype: u16) -> Option<u8> {
        let reply = self.ask(name, rtype)?;
        (reply[2] & 4 != 0).then_some(reply[3] & 0x0f)
    }

    /// The last octet of the address in the answer, which comes first.
    fn address(&self, name: &str) -> Option<u8> {
        let reply = self.ask(name, 1)?;
        let answer = reply.get(12..)?.windows(6).position(|octets| {
            // Type and class of the record, before its TTL, length and data.
            octets[..2] == [0xc0, 12] && octets[2..] == [0, 1, 0, 1]
        })?;
        reply.get(12 + answer + 15).copied()
    }
}
