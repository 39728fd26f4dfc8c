//! Durable updates (RFC 2136) a second: ours, BIND, Knot and PowerDNS on SQLite, with one client and with many.
//!
//! A client sends an update that adds one name, waits for the reply, and sends the next. All servers keep what they
//! acknowledge: ours in the state store, BIND and Knot in their journals, PowerDNS in its database.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nameward_testkit::TestFailure;
use nameward_testkit::peers::{Peer, PeerConfig, PeerError, PeerKind, PeerOptions};

use crate::binaries::Binaries;
use crate::process;

const ZONE: &str = "bench.example";
const TEXT: &str = "$ORIGIN bench.example.\n$TTL 300\n@ IN SOA ns1 host 1 3600 600 86400 300\n@ NS ns1\nns1 A 192.0.2.1\n";
/// How long a client waits for a reply.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a server may take to load a zone of a million records.
const LOADING: Duration = Duration::from_secs(300);

/// The size and the time of a measurement.
#[derive(Clone, Copy)]
pub struct UpdateTerms {
    /// Records that the zone has before the first update, besides its apex.
    pub records: usize,
    /// The time that is measured.
    pub time: Duration,
}

/// The zone file.
fn zone_text(records: usize) -> String {
    let mut text = String::from(TEXT);
    for number in 0..records {
        let _ = writeln!(text, "r{number} A 192.0.2.1");
    }
    text
}

/// A server that takes updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum UpdatedServer {
    /// Ours, with a zone file.
    Nameward,
    /// Ours, with a zone in SQLite.
    NamewardSqlite,
    /// ISC BIND.
    Bind,
    /// CZ.NIC Knot DNS.
    Knot,
    /// PowerDNS with SQLite.
    Pdns,
}

impl UpdatedServer {
    /// Every server, in the order of the table.
    pub const ALL: [Self; 5] = [
        Self::Nameward,
        Self::NamewardSqlite,
        Self::Bind,
        Self::Knot,
        Self::Pdns,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Nameward => "nameward, file",
            Self::NamewardSqlite => "nameward, SQLite",
            Self::Bind => "bind",
            Self::Knot => "knot",
            Self::Pdns => "pdns, SQLite",
        }
    }

    fn start(self, binaries: &Binaries, records: usize) -> Result<Peer, PeerError> {
        let options = PeerOptions {
            ready_timeout: LOADING,
            ..PeerOptions::default()
        };
        Peer::launch(&[ZONE], &options, |directory, addr| {
            let file = directory.join("bench.zone");
            fs::write(&file, zone_text(records))?;
            let (kind, threads, (main, rest)) = match self {
                Self::Nameward | Self::NamewardSqlite => {
                    return self.nameward(binaries, (directory, records), addr);
                }
                Self::Bind => (PeerKind::Bind, 1, bind(directory)),
                Self::Knot => (PeerKind::Knot, 2, knot(directory)),
                Self::Pdns => (PeerKind::PowerDns, 1, pdns(binaries, (directory, records))?),
            };
            let program = binaries.peer(kind).map_err(io::Error::other)?;
            let config = PeerConfig {
                threads,
                logs_events: false,
                main: &main,
                rest: &rest,
            };
            kind.prepare(&program, directory, addr, &config)
        })
    }

    fn nameward(
        self,
        binaries: &Binaries,
        (directory, records): (&Path, usize),
        addr: SocketAddr,
    ) -> io::Result<Command> {
        let (at, config) = (directory.display(), directory.join("nameward.toml"));
        fs::create_dir_all(directory.join("state"))?;
        let (file, backend) = match self {
            Self::NamewardSqlite => {
                fill(&binaries.nameward, &directory.join("bench.db"), records)?;
                let backend = format!("[[backend]]\ntype = \"sqlite\"\npath = \"{at}/bench.db\"\n");
                (String::new(), backend)
            }
            _ => (format!("file = \"{at}/bench.zone\"\n"), String::new()),
        };
        fs::write(
            &config,
            format!(
                "[server]\nlisten = [\"{addr}\"]\nworkers = 1\ncontrol_socket = \"{at}/control.sock\"\n\
                 state_directory = \"{at}/state\"\nlog_level = \"warn\"\n\n[web]\nlisten = \"127.0.0.1:0\"\n\n\
                 {backend}[[zone]]\nname = \"{ZONE}\"\n{file}allow_update = [\"127.0.0.1\"]\n"
            ),
        )?;
        let mut command = Command::new(&binaries.nameward);
        command.arg("serve").arg("--config").arg(config);
        Ok(command)
    }
}

/// Makes a database in the schema of PowerDNS, with the zone in it.
fn fill(nameward: &Path, file: &Path, records: usize) -> io::Result<()> {
    let made = Command::new(nameward)
        .args(["db", "init"])
        .arg(file)
        .output()?;
    if !made.status.success() {
        let text = String::from_utf8_lossy(&made.stderr).into_owned();
        return Err(io::Error::other(text));
    }
    let sql = format!(
        "INSERT INTO domains (id, name, type) VALUES (1, '{ZONE}', 'NATIVE');\n\
         INSERT INTO records (domain_id, name, type, content, ttl, auth) VALUES\n\
         (1, '{ZONE}', 'SOA', 'ns1.{ZONE} host.{ZONE} 1 3600 600 86400 300', 300, 1),\n\
         (1, '{ZONE}', 'NS', 'ns1.{ZONE}', 300, 1), (1, 'ns1.{ZONE}', 'A', '192.0.2.1', 300, 1);\n\
         WITH RECURSIVE numbers(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i < {records})\n\
         INSERT INTO records (domain_id, name, type, content, ttl, auth)\n\
         SELECT 1, 'r' || i || '.{ZONE}', 'A', '192.0.2.1', 300, 1 FROM numbers WHERE i < {records};"
    );
    let filled = Command::new("sqlite3").arg(file).arg(sql).output()?;
    if filled.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(
            String::from_utf8_lossy(&filled.stderr).into_owned(),
        ))
    }
}

fn bind(directory: &Path) -> (String, String) {
    let at = directory.display();
    let main = "    recursion no;\n    allow-transfer { none; };\n".into();
    let rest = format!(
        "zone \"{ZONE}\" {{ type primary; file \"{at}/bench.zone\"; allow-update {{ 127.0.0.1; }}; }};\n"
    );
    (main, rest)
}

fn knot(directory: &Path) -> (String, String) {
    let at = directory.display();
    let rest = format!(
        "acl:\n  - id: loopback\n    address: 127.0.0.1\n    action: update\n\
         zone:\n  - domain: {ZONE}\n    storage: \"{at}\"\n    file: bench.zone\n    zonefile-sync: -1\n    acl: loopback\n"
    );
    (String::new(), rest)
}

fn pdns(binaries: &Binaries, (directory, records): (&Path, usize)) -> io::Result<(String, String)> {
    fill(&binaries.nameward, &directory.join("bench.db"), records)?;
    let main = format!(
        "launch=gsqlite3\ngsqlite3-database={}/bench.db\ngsqlite3-pragma-synchronous=2\ndnsupdate=yes\n\
         allow-dnsupdate-from=127.0.0.1\n",
        directory.display()
    );
    Ok((main, String::new()))
}

/// The figures of one measurement.
struct UpdateFigures {
    rate: f64,
    failed: u64,
    cpu_us: f64,
    /// MiB before the first update, and after the last.
    memory: [u64; 2],
}

fn wire_name(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in name.split('.') {
        wire.push(label.len() as u8);
        wire.extend(label.as_bytes());
    }
    wire.push(0);
    wire
}

/// An update that adds an address at a name of its own.
fn addition(number: u32) -> Vec<u8> {
    let mut message = (number as u16).to_be_bytes().to_vec();
    message.extend([0x28, 0, 0, 1, 0, 0, 0, 1, 0, 0]);
    message.extend(wire_name(ZONE));
    message.extend([0, 6, 0, 1]);
    message.extend(wire_name(&format!("h{number}.{ZONE}")));
    message.extend([0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    message.extend(number.to_be_bytes());
    message
}

/// Sends updates, one after the other, until it is stopped.
fn client(server: SocketAddr, shared: &UpdateLoad) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    let mut reply = [0; 1500];
    while !shared.stop.load(Ordering::Relaxed) {
        let message = addition(shared.next.fetch_add(1, Ordering::Relaxed));
        socket.send(&message)?;
        let is_good = loop {
            match socket.recv(&mut reply) {
                Ok(length) if length >= 12 && reply[..2] == message[..2] => {
                    break reply[3] & 15 == 0;
                }
                Ok(_) => {}
                Err(_) => break false,
            }
        };
        if is_good {
            shared.good.fetch_add(1, Ordering::Relaxed)
        } else {
            shared.failed.fetch_add(1, Ordering::Relaxed)
        };
    }
    Ok(())
}

#[derive(Default)]
struct UpdateLoad {
    stop: AtomicBool,
    next: AtomicU32,
    good: AtomicU64,
    failed: AtomicU64,
}

fn measure(
    server: UpdatedServer,
    clients: usize,
    binaries: &Binaries,
    UpdateTerms { records, time }: UpdateTerms,
) -> Result<UpdateFigures, TestFailure> {
    let peer = server.start(binaries, records);
    let peer = peer?;
    let (addr, pid) = (peer.addr(), peer.pid());
    let memory = || process::memory(&process::tree(pid).unwrap_or_default()).proportional >> 20;
    let memory_before = memory();
    let shared = UpdateLoad::default();
    let figures = thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                if let Err(error) = client(addr, &shared) {
                    eprintln!("client: {error}");
                }
            });
        }
        thread::sleep(time / 5);
        let pids = process::tree(pid).unwrap_or_default();
        let (cpu, start) = (process::cpu_time(&pids), Instant::now());
        let before = shared.good.load(Ordering::Relaxed);
        thread::sleep(time);
        let good = shared.good.load(Ordering::Relaxed) - before;
        let elapsed = start.elapsed().as_secs_f64();
        let cpu = (process::cpu_time(&pids) - cpu).total();
        shared.stop.store(true, Ordering::Relaxed);
        UpdateFigures {
            rate: good as f64 / elapsed,
            failed: 0,
            cpu_us: cpu * 1e6 / good.max(1) as f64,
            memory: [memory_before, memory()],
        }
    });
    let failed = shared.failed.load(Ordering::Relaxed);
    Ok(UpdateFigures { failed, ..figures })
}

/// Measures servers and prints a table.
pub fn compare(
    servers: &[UpdatedServer],
    clients: &[usize],
    binaries: &Binaries,
    terms: UpdateTerms,
) -> Result<(), TestFailure> {
    println!(
        "| server | records | clients | durable updates/s | CPU us/update | memory MB before | after | failed |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|"
    );
    let mut failed = 0;
    for &clients in clients {
        for &server in servers {
            match measure(server, clients, binaries, terms) {
                Ok(figures) => println!(
                    "| {} | {} | {clients} | {:.0} | {:.0} | {} | {} | {} |",
                    server.name(),
                    terms.records,
                    figures.rate,
                    figures.cpu_us,
                    figures.memory[0],
                    figures.memory[1],
                    figures.failed
                ),
                Err(error) => {
                    failed += 1;
                    eprintln!("{}: {error}", server.name());
                }
            }
        }
    }
    match failed {
        0 => Ok(()),
        _ => Err(format!("{failed} measurements failed").into()),
    }
}
