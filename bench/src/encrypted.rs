//! The cost of encrypted transports: processor time of a query and of a handshake, memory of an idle connection, and what a
//! flood of handshakes does to clients over UDP.
//!
//! Every server has the same certificate (P-256) and one core, the load has another. TLS 1.3 with X25519, what each server
//! prefers otherwise.

mod clients;
mod floods;
mod handshakes;
mod https;
mod quic;
mod report;
mod tls;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nameward_testkit::TestFailure;
use nameward_testkit::certificates::{Authority, IssuedCertificate, Validity};
use nameward_testkit::peers::{EncryptedListeners, Peer, PeerOptions};
use nameward_testkit::wire::QuestionEdns;
use tempfile::TempDir;

use crate::binaries::BinaryArguments;
use crate::scenario::Scenario;
use crate::server::Server;
use crate::zones::{self, ZoneFiles};

/// Seconds until a server must have loaded the zone.
const READY: Duration = Duration::from_secs(60);

/// A table of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum EncryptedTable {
    /// Processor time of a query.
    Queries,
    /// Processor time of a connection with one query.
    Handshakes,
    /// Memory of idle connections.
    Idle,
    /// Queries over UDP during a flood of handshakes.
    Flood,
}

/// A protocol that carries encrypted queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum EncryptedTransport {
    /// DNS over TLS (RFC 7858).
    Tls,
    /// DNS over HTTPS (RFC 8484), HTTP/2, POST.
    Https,
    /// DNS over QUIC (RFC 9250).
    Quic,
}

impl fmt::Display for EncryptedTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls => "DoT",
            Self::Https => "DoH",
            Self::Quic => "DoQ",
        })
    }
}

/// The flags of the comparison.
#[derive(Args)]
pub struct EncryptedArguments {
    /// Tables, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = ["queries", "handshakes", "idle", "flood"])]
    table: Vec<EncryptedTable>,
    /// Servers, separated by commas. Knot 3.2 has encrypted transports over XDP only, PowerDNS none.
    #[arg(long, value_delimiter = ',', default_values = ["nameward", "nsd", "bind"])]
    server: Vec<Server>,
    /// Transports, separated by commas; a server without one is left out there.
    #[arg(long, value_delimiter = ',', default_values = ["tls", "https", "quic"])]
    transport: Vec<EncryptedTransport>,
    /// Numbers of connections, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 1000])]
    connections: Vec<usize>,
    /// Queries in flight on each connection.
    #[arg(long, default_value_t = 8)]
    window: usize,
    /// Handshakes of each kind.
    #[arg(long, default_value_t = 1000)]
    handshakes: usize,
    /// Connections of the table `idle`.
    #[arg(long, default_value_t = 10_000)]
    idle: usize,
    /// Seconds of load before each measurement.
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Runs of every row; the one with the median processor time is reported.
    #[arg(long, default_value_t = 1)]
    repeat: usize,
    /// Core of the servers.
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    /// Core of the load.
    #[arg(long, default_value_t = 1)]
    client_core: usize,
    /// Where zone files are kept between runs.
    #[arg(long, default_value = "target/bench-data")]
    data: PathBuf,
    #[command(flatten)]
    binaries: BinaryArguments,
}

/// How and for how long a server is loaded.
#[derive(Clone, Copy, Debug)]
pub struct EncryptedLoad {
    transport: EncryptedTransport,
    connections: usize,
    window: usize,
    warm_up: Duration,
    time: Duration,
}

/// Checks whether Debian's version of a server has a transport.
fn has(server: Server, transport: EncryptedTransport) -> bool {
    match server {
        Server::Nameward | Server::Before => true,
        Server::Nsd => transport == EncryptedTransport::Tls,
        Server::Bind => transport != EncryptedTransport::Quic,
        Server::Knot | Server::Pdns => false,
    }
}

/// What all measurements share.
struct EncryptedBench<'a> {
    arguments: &'a EncryptedArguments,
    binaries: crate::binaries::Binaries,
    files: ZoneFiles,
    authority: PathBuf,
    certificate: IssuedCertificate,
    _directory: TempDir,
}

/// A running server with its encrypted listeners.
struct EncryptedServer {
    peer: Peer,
    listeners: EncryptedListeners,
}

impl EncryptedServer {
    fn address(&self, transport: EncryptedTransport) -> SocketAddr {
        match transport {
            EncryptedTransport::Tls => self.listeners.tls,
            EncryptedTransport::Https => self.listeners.https,
            EncryptedTransport::Quic => self.listeners.quic,
        }
    }
}

impl EncryptedBench<'_> {
    fn start(&self, server: Server) -> Result<EncryptedServer, TestFailure> {
        let listeners = EncryptedListeners {
            certificate: self.certificate.certificate.clone(),
            key: self.certificate.key.clone(),
            tls: free_address()?,
            https: free_address()?,
            quic: free_address()?,
        };
        let options = PeerOptions {
            cpu: Some(self.arguments.server_core),
            ready_timeout: READY,
            encrypted: Some(listeners.clone()),
            ..PeerOptions::default()
        };
        let peer = server.start(&self.binaries, &self.files, options)?;
        Ok(EncryptedServer { peer, listeners })
    }
}

fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Measures the servers and prints the tables.
pub fn compare(arguments: &EncryptedArguments) -> Result<(), TestFailure> {
    let directory = TempDir::new()?;
    let authority = Authority::new(directory.path(), "authority")?;
    let names = [clients::SERVER_NAME, "127.0.0.1"];
    let bench = EncryptedBench {
        arguments,
        binaries: arguments.binaries.find()?,
        files: zones::prepare(Scenario::Small, &arguments.data)?,
        authority: authority.path().to_path_buf(),
        certificate: authority.issue("server", &names, Validity::Current)?,
        _directory: directory,
    };
    let queries = Scenario::Small.queries(QuestionEdns::Plain);
    let queries = std::sync::Arc::new(queries);
    for table in &arguments.table {
        let text = match table {
            EncryptedTable::Queries => report::queries(&bench, &queries),
            EncryptedTable::Handshakes => report::handshakes(&bench, &queries),
            EncryptedTable::Idle => report::idle(&bench),
            EncryptedTable::Flood => report::flood(&bench, &queries),
        };
        println!("{}", text.map_err(|error| error.to_string())?);
    }
    Ok(())
}
