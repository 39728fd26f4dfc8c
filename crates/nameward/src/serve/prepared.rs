//! The first step of a start: reads the configuration, binds every port, changes the user and enters the sandbox.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use nameward_control::{operations::ServerProcess, socket::ControlSocket};
use nameward_dnssec::SignatureCache;
use nameward_files::FileSource;
use nameward_maintain::follow::databases::ServedFrom;
use nameward_serve::tls::ServerTls;
use nameward_sql::SqlBackend;
use nameward_stats::Stats;

use super::{
    databases, encrypted_ports,
    opening::PortsFrom,
    ports::Ports,
    preconditions::failures,
    take_over::{self, TakeOver},
};
use crate::{
    config::{Config, Overrides, location::resolved},
    logging::{self, LogControl},
    memory,
    pid_file::{PidFile, PidFileError},
    privileges,
    sandbox::{self, NamedPaths, Sandbox},
    start_error::StartError,
    upgrade, zones,
};

/// Requested number of descriptors: TCP connections need one each.
const DESCRIPTORS: u64 = 65_536;

/// A checked configuration, and what must be opened before the change of user.
pub struct Prepared {
    pub overrides: Overrides,
    /// The configuration file, with symbolic links resolved.
    pub config_file: Option<PathBuf>,
    pub config: Config,
    /// The sources of zones stored in files.
    pub sources: Vec<FileSource>,
    /// The databases with their ranks; not connected yet.
    pub databases: Vec<(u16, ServedFrom, SqlBackend)>,
    pub signatures: Arc<SignatureCache>,
    pub stats: Arc<Stats>,
    pub log: LogControl,
    pub ports: Ports,
    pub tls: Option<Arc<ServerTls>>,
    pub pid_file: Option<PidFile>,
    /// Entered, unless it is off.
    pub sandbox: Arc<Sandbox>,
    /// The server that this one takes over from.
    pub take_over: Option<TakeOver>,
    pub ports_from: PortsFrom,
    /// How this process was started.
    pub process: ServerProcess,
}

impl Prepared {
    /// Reads the configuration, binds the ports, changes the user and enters the sandbox.
    pub fn new(overrides: &Overrides) -> Result<Self, StartError> {
        let config = Config::load(overrides)?;
        // From now on this thread only waits, and would keep the memory used to read a long file.
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
        let tls = encrypted_ports::load_tls(&config)?;
        let pid_file = match config.server.pid_file.as_deref() {
            None => None,
            Some(path) => Some(write_pid_file(path, take_over.as_mut())?),
        };
        sandbox::prepare(&config.server);
        if let Some(identity) = identity {
            identity.assume()?;
        }
        // As the user who must be able to read them again.
        nameward_files::preflight(&sources)?;
        if let Some(directory) = config.state_directory() {
            // The sandbox allows directories that exist.
            nameward_state::make_directory(&directory);
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
