//! Real name servers as peers: NSD, Knot, BIND and PowerDNS, started on loopback.
//!
//! A peer lives in its own temporary directory, listens on its own port of 127.0.0.1 for UDP and TCP, is never a system
//! service, sends nothing on its own (no NOTIFY, no priming, no security poll), and ends when its [`Peer`] is dropped
//! or this process ends. `start` returns only when the peer answers authoritatively for its zones, or fails within a
//! bounded time with the end of the peer's log.

mod config;
mod probe;
mod settings;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use crate::missing::require;

pub use settings::PeerConfig;

/// How often a start is retried on another port if the server ended at once, which happens when a parallel test took
/// the port between our check and the server's bind.
const START_ATTEMPTS: usize = 3;
/// How long a peer may take to end by itself before its process group is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Lines of the peer's log shown in an error.
const LOG_TAIL_LINES: usize = 15;

/// The brand of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerKind {
    /// NLnet Labs NSD.
    Nsd,
    /// CZ.NIC Knot DNS.
    Knot,
    /// ISC BIND.
    Bind,
    /// PowerDNS Authoritative Server with its bind backend.
    PowerDns,
}

impl PeerKind {
    /// Every brand, in the order used in tables.
    pub const ALL: [PeerKind; 4] = [Self::Nsd, Self::Knot, Self::Bind, Self::PowerDns];

    /// Returns the name of its program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Nsd => "nsd",
            Self::Knot => "knotd",
            Self::Bind => "named",
            Self::PowerDns => "pdns_server",
        }
    }

    /// Returns the path of the installed program; `None` if it is not installed and that is allowed ([`require`]).
    pub fn require(self) -> Option<PathBuf> {
        require(self.find_program(), self.program())
    }

    /// Returns the path of the installed program, if any.
    pub fn find_program(self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            // Debian installs servers in /usr/sbin, which is not on every user's path.
            .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
            .map(|directory| directory.join(self.program()))
            .find(|candidate| candidate.is_file())
    }
}

impl fmt::Display for PeerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nsd => "nsd",
            Self::Knot => "knot",
            Self::Bind => "bind",
            Self::PowerDns => "pdns",
        })
    }
}

/// How a peer is run.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// Serving threads (or processes, for NSD).
    pub threads: usize,
    /// The core to which the whole process is pinned.
    pub cpu: Option<usize>,
    /// Whether 127.0.0.1 may transfer the zones.
    pub allow_transfer: bool,
    /// Timeout until the peer answers for its zones.
    pub ready_timeout: Duration,
    /// Its program; by default the installed one.
    pub program: Option<PathBuf>,
    /// Where it listens, if that must be known before it starts.
    pub address: Option<SocketAddr>,
    /// Response rate limiting: responses per second to a network.
    pub responses_per_second: Option<u32>,
    /// Listeners for encrypted queries, where the brand has them: NSD over TLS, BIND over TLS and HTTPS.
    pub encrypted: Option<EncryptedListeners>,
}

/// Where a server listens for encrypted queries.
#[derive(Clone, Debug)]
pub struct EncryptedListeners {
    /// The certificate file.
    pub certificate: PathBuf,
    /// The file of its private key.
    pub key: PathBuf,
    /// DNS over TLS.
    pub tls: SocketAddr,
    /// DNS over HTTPS, at the path `/dns-query`.
    pub https: SocketAddr,
    /// DNS over QUIC.
    pub quic: SocketAddr,
}

impl Default for PeerOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            cpu: None,
            allow_transfer: false,
            ready_timeout: Duration::from_secs(60),
            program: None,
            address: None,
            responses_per_second: None,
            encrypted: None,
        }
    }
}

/// A zone to serve: its name in presentation format (without escapes) and its zone file.
pub type ZoneSource<'a> = (&'a str, &'a Path);

/// The reason why a peer did not start.
#[derive(Debug)]
pub enum PeerError {
    /// The program is not installed.
    NotInstalled(&'static str),
    /// A file, a process or a socket failed.
    Io(io::Error),
    /// The server ended before it answered; with the end of its log.
    Ended(String),
    /// The server did not answer for this zone in time; with the end of its log.
    NotReady(String, String),
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInstalled(program) => {
                write!(f, "{program} is not installed; run scripts/install-deps")
            }
            Self::Io(error) => write!(f, "{error}"),
            Self::Ended(log) => write!(f, "the server ended before it answered:\n{log}"),
            Self::NotReady(zone, log) => {
                write!(f, "the server does not answer for {zone} in time:\n{log}")
            }
        }
    }
}

impl std::error::Error for PeerError {}

impl From<io::Error> for PeerError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A running server, stopped when dropped.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    watchdog: Child,
    addr: SocketAddr,
    directory: TempDir,
}

impl Peer {
    /// Starts a peer with these zones and waits until it answers for them.
    pub fn start(
        kind: PeerKind,
        zones: &[ZoneSource<'_>],
        options: &PeerOptions,
    ) -> Result<Self, PeerError> {
        let program = options
            .program
            .clone()
            .or_else(|| kind.find_program())
            .ok_or(PeerError::NotInstalled(kind.program()))?;
        let zone_names: Vec<&str> = zones.iter().map(|(name, _)| *name).collect();
        Self::launch(&zone_names, options, |directory, addr| {
            config::prepare((kind, &program), directory, addr, zones, options)
        })
    }

    /// Starts any server whose command `prepare` builds for a directory and an address, and waits until it answers for
    /// `zone_names`. The command must stay in the foreground.
    pub fn launch(
        zone_names: &[&str],
        options: &PeerOptions,
        mut prepare: impl FnMut(&Path, SocketAddr) -> io::Result<Command>,
    ) -> Result<Self, PeerError> {
        let mut attempt = 1;
        loop {
            let directory = tempfile::Builder::new().prefix("peer-").tempdir()?;
            let addr = match options.address {
                Some(address) => address,
                None => free_address()?,
            };
            let command = prepare(directory.path(), addr)?;
            let child = spawn(command, directory.path(), options.cpu)?;
            let watchdog = watch(child.id(), directory.path())?;
            let mut peer = Self {
                child,
                watchdog,
                addr,
                directory,
            };
            match peer.wait_until_ready(zone_names, options.ready_timeout) {
                Err(PeerError::Ended(_)) if attempt < START_ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
                Ok(()) => return Ok(peer),
            }
        }
    }

    /// Returns the address it answers on, over UDP and TCP.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the ID of the process that was started; it may have children, as with NSD.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its directory: configuration, log and state.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the last lines of its log.
    pub fn log_tail(&self) -> String {
        let log = fs::read(self.directory.path().join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    fn wait_until_ready(&mut self, zones: &[&str], timeout: Duration) -> Result<(), PeerError> {
        let deadline = Instant::now() + timeout;
        let mut probe = probe::Probe::connect(self.addr)?;
        for zone in probe::sample(zones) {
            while !probe.is_answered(zone)? {
                if self.child.try_wait()?.is_some() {
                    return Err(PeerError::Ended(self.log_tail()));
                }
                if Instant::now() >= deadline {
                    return Err(PeerError::NotReady(zone.to_string(), self.log_tail()));
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        // A foreign server on the same port could have answered while ours failed to bind.
        match self.child.try_wait()? {
            Some(_) => Err(PeerError::Ended(self.log_tail())),
            None => Ok(()),
        }
    }

    /// Sends a signal by name to the server's first process.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        let status = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other("the server is not there to be signalled"))
        }
    }

    /// Signals the whole process group of the server, which `spawn` created just for it.
    fn signal_group(&self, signal: &str) {
        let _ = Command::new("sh")
            .args(["-c", "kill -s \"$0\" -- \"-$1\"", signal])
            .arg(self.child.id().to_string())
            .stderr(Stdio::null())
            .status();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // First, so that it can never signal a group whose number another process has by then.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal_group("TERM");
            let deadline = Instant::now() + STOP_TIMEOUT;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            if matches!(self.child.try_wait(), Ok(None)) {
                self.signal_group("KILL");
            }
        }
        let _ = self.child.wait();
    }
}

/// Runs the command in the background, in its own process group, with its output in `log`.
fn spawn(command: Command, directory: &Path, cpu: Option<usize>) -> io::Result<Child> {
    // Appending, because a server may itself open the same file for early messages.
    let log = File::options()
        .create(true)
        .append(true)
        .open(directory.join("log"))?;
    let mut command = match cpu {
        None => command,
        // taskset replaces itself with the server, so the process ID is the server's.
        Some(cpu) => {
            let mut pinned = Command::new("taskset");
            pinned.arg("--cpu-list").arg(cpu.to_string());
            pinned.arg(command.get_program()).args(command.get_args());
            pinned
        }
    };
    command
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
}

/// Ends the server when this process ends in any way that skips destructors: by a signal, or with the peer in a static.
/// The watchdog reads a pipe of which only we hold the other end.
pub(crate) fn watch(group: u32, directory: &Path) -> io::Result<Child> {
    const SCRIPT: &str = "read -r _; kill -s TERM -- \"-$0\"; \
        for _ in 1 2 3 4 5 6 7 8 9 10; do kill -s 0 -- \"-$0\" || break; sleep 0.2; done; \
        kill -s KILL -- \"-$0\"; rm -rf -- \"$1\"";
    Command::new("sh")
        .args(["-c", SCRIPT])
        .arg(group.to_string())
        .arg(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

/// Returns a port of 127.0.0.1 that is free for UDP and TCP.
///
/// It is below the range from which the kernel takes ports for clients and for "port 0", so that it is not assigned
/// between this check and the server's own bind. Nor can `dig` or `nsupdate`, which let others share their port, get that
/// of the server later and read their own query.
pub fn free_address() -> io::Result<SocketAddr> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    const FIRST: u64 = 10_000;
    const COUNT: u64 = 22_000;
    let clock = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let seed = clock.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(32);
    for _ in 0..200 {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let mixed = (seed ^ step).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let port = (FIRST + mixed % COUNT) as u16;
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if UdpSocket::bind(addr).is_ok() && TcpListener::bind(addr).is_ok() {
            return Ok(addr);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        "no free port on 127.0.0.1 between 10000 and 32000",
    ))
}
