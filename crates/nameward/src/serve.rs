//! `nameward serve`: the order in which components start and stop.
//!
//! Configuration, ports, user, log, zones, ready. A failure before the zones are loaded is one line
//! and a non-zero exit code. Workers answer while zones load, each zone as it is ready.

mod announce;
mod api;
pub mod cookies;
mod core;
pub mod databases;
mod encrypted;
mod error;
mod faults;
mod flush;
mod geoip;
mod hand_over;
mod hand_over_lines;
mod health;
mod health_targets;
mod leases;
mod listeners;
mod live;
mod logs;
mod maintenance;
mod notes;
mod only_here;
mod opening;
mod operator;
mod page_zones;
mod ports;
mod preconditions;
mod rate_limit;
mod recursion;
mod rollover;
mod running;
mod secondaries;
mod shared_health;
mod take_over;
mod updates;
mod web;
mod zone_files;
mod zone_requests;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

pub use error::StartError;
pub use logs::host_name;
use nameward_control::{operations::ServerProcess, socket::ControlSocket};
use nameward_dnssec::SignatureCache;
use nameward_maintain::signature_watch::{self, SignatureSums, SignatureWatch};
use nameward_serve::pipeline::ServingState;
use nameward_serve::tls::ServerTls;
use nameward_stats::{Gauge, Stats};
use nameward_store::{file::FileSource, sql::SqlBackend};
pub use operator::resolved;
pub use preconditions::failures;
pub use take_over::VARIABLE as TAKE_OVER_VARIABLE;
use tokio::runtime::{Builder, Runtime};

use self::core::{RUNTIME_THREADS, ServerCore};
use crate::{
    config::{Config, Overrides, settings::BackendMode},
    logging::{self, LogControl},
    memory,
    pid_file::{PidFile, PidFileError},
    privileges,
    sandbox::{self, NamedPaths, Sandbox},
    signals, upgrade, zones,
};
use opening::PortsFrom;
use ports::Ports;
use running::{RunningServer, Signals};
use take_over::TakeOver;

/// Requested number of descriptors: TCP connections need one each.
const DESCRIPTORS: u64 = 65_536;
/// Threads that query primaries and notify secondaries. Packing a large zone occupies one of them for a second.
const OUTGOING_THREADS: usize = 2;

/// Serves until a signal or a command stops the server.
pub fn run(overrides: &Overrides) -> Result<(), StartError> {
    let mut prepared = Prepared::new(overrides)?;
    let pid_file = prepared.pid_file.take();
    let runtime = build_runtime("edge", RUNTIME_THREADS)?;
    // Clients of this server never wait for a primary.
    let outgoing_runtime = build_runtime("transfer", OUTGOING_THREADS)?;
    let mut store = None;
    let ended = runtime.block_on(async {
        let signals = Signals::new()?;
        signals::release_hangup();
        let (core, reads) = ServerCore::build(&prepared, outgoing_runtime.handle().clone())?;
        store = core.maintain.store().cloned();
        let _watch = watch_signatures(&core.shared, &core.notes.signatures)?;
        let mut server = RunningServer::start(core, reads, prepared, signals)?;
        let ended = server.watch().await;
        server.end().await;
        ended
    });
    if let Some(store) = store {
        store.close();
    }
    // A reload in progress is not waited for.
    runtime.shutdown_background();
    outgoing_runtime.shutdown_background();
    drop(pid_file);
    ended
}

fn build_runtime(thread_name: &str, threads: usize) -> std::io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name(thread_name)
        .enable_all()
        .build()
}

/// A checked configuration, and what must be opened before the change of user.
struct Prepared {
    overrides: Overrides,
    /// The configuration file, with symbolic links resolved.
    config_file: Option<PathBuf>,
    config: Config,
    /// The sources of zones stored in files.
    sources: Vec<FileSource>,
    /// The databases with their ranks; not connected yet.
    databases: Vec<(u16, BackendMode, SqlBackend)>,
    signatures: Arc<SignatureCache>,
    stats: Arc<Stats>,
    log: LogControl,
    ports: Ports,
    /// The TLS certificates.
    tls: Option<Arc<ServerTls>>,
    pid_file: Option<PidFile>,
    /// Entered, unless it is off.
    sandbox: Arc<Sandbox>,
    /// The server that this one takes over from.
    take_over: Option<TakeOver>,
    ports_from: PortsFrom,
    /// How this process was started.
    process: ServerProcess,
}

impl Prepared {
    /// Reads the configuration, binds the ports, changes the user and enters the sandbox.
    fn new(overrides: &Overrides) -> Result<Self, StartError> {
        let config = Config::load(overrides)?;
        // This thread only waits from now on and would keep the memory used to read a long file.
        memory::give_back();
        // Before the change of user, which may not be allowed to read the directories.
        let config_file = overrides.file.as_deref().map(resolved);
        let sources = zones::sources(&config);
        if let Some(first) = failures(&config).into_iter().next() {
            return Err(first);
        }
        let signatures = databases::signatures(&config);
        let databases = databases::prepare(&config, &signatures)?;
        let identity = privileges::resolve(&config.server.user, &config.server.group)?;
        let stats = Stats::new(zones::ring_capacities(&config.rings));
        let (level, format) = (config.server.log_level, config.log.format);
        let log = logging::start(level, format, Arc::clone(&stats));
        // A lower limit means fewer TCP connections, which is reported where it matters.
        let _ = nameward_serve::raise_descriptor_limit(DESCRIPTORS);
        let (mut take_over, mut inherited) = take_over::begin()?;
        let ports_from = match &take_over {
            Some(_) => PortsFrom::RunningServer,
            None if inherited.is_empty() => PortsFrom::ThisProcess,
            None => PortsFrom::ServiceManager,
        };
        let ports = Ports::bind(&config, &mut inherited, take_over.as_ref())?;
        let tls = encrypted::load_tls(&config)?;
        let pid_file = match config.server.pid_file.as_deref() {
            None => None,
            Some(path) => Some(write_pid_file(path, take_over.as_mut())?),
        };
        sandbox::prepare(&config.server);
        if let Some(identity) = identity {
            identity.assume()?;
        }
        // As the user who has to read them repeatedly.
        nameward_store::file::preflight(&sources)?;
        if let Some(directory) = databases::state_directory(&config) {
            // The sandbox allows directories that exist.
            nameward_store::state::make_directory(&directory);
        }
        let named = NamedPaths {
            config: &config,
            sources: &sources,
            config_file: config_file.as_deref(),
            control_socket: ports.control.as_ref().map(ControlSocket::path),
        };
        let process = upgrade::this_process();
        let sandbox = Arc::new(sandbox::enter(&config.server, &named)?);
        if let Some(before) = &take_over {
            // Whatever can fail without the state store has been done.
            before.take_store()?;
        }
        Ok(Prepared {
            overrides: overrides.clone(),
            config_file,
            config,
            sources,
            databases,
            signatures,
            stats,
            log,
            ports,
            tls,
            pid_file,
            sandbox,
            take_over,
            ports_from,
            process,
        })
    }
}

/// Writes the process ID file. One of the server before is written when this one serves.
fn write_pid_file(path: &Path, before: Option<&mut TakeOver>) -> Result<PidFile, PidFileError> {
    if before.is_some_and(|before| before.keep_pid_file(path)) {
        Ok(PidFile::inherit(path))
    } else {
        PidFile::write(path)
    }
}

/// Starts watching the stored signatures of zones.
fn watch_signatures(
    shared: &Arc<ServingState>,
    sums: &Arc<SignatureSums>,
) -> std::io::Result<signature_watch::WatchThread> {
    let watch = SignatureWatch::new(Arc::clone(sums));
    let (broken, ending) = (Arc::clone(sums), Arc::clone(sums));
    let stats = &shared.stats;
    stats.gauge_from(Gauge::StoredSignaturesBroken, move || broken.broken());
    stats.gauge_from(Gauge::StoredSignaturesEnding, move || ending.ending());
    let zones = Arc::clone(&shared.zones);
    signature_watch::start(watch, move || zones.load_full())
}
