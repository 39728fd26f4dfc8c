//! The errors with which a server fails to start, or stops.

use std::{io, net::SocketAddr};

use nameward_control::{socket::SocketError, web::BadHash};
use nameward_files::PreflightError;
use nameward_keys::local::ZoneKeysError;
use nameward_serve::listen::ListenError;
use nameward_sql::SqlError;
use nameward_state::StateError;
use nameward_wire::{NameError, zonefile::Diagnostic};

use crate::{
    config::error::{ConfigError, plain},
    pid_file::PidFileError,
    privileges::IdentityError,
    sandbox::SandboxError,
    serve::take_over::TakeOverError,
};

/// Why a server does not start, or stopped with an error.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error("{0}")]
    Database(#[from] SqlError),
    /// A user or group cannot be switched to.
    #[error("{0}")]
    Identity(#[from] IdentityError),
    #[error("{0}")]
    Port(#[from] PortError),
    #[error("{0}")]
    PidFile(#[from] PidFileError),
    /// A file or directory with zones cannot be read.
    #[error("{0}")]
    Files(#[from] PreflightError),
    /// The state store cannot be opened.
    #[error("{0}; not started: zones with keys in this store would be served unsigned")]
    State(#[source] StateError),
    /// A command uses the state store, and does not end.
    #[error("{0}; not started: try again when it has finished")]
    StoreInUse(#[source] StateError),
    /// The keys of zones cannot be read.
    #[error(
        "DNSSEC keys: {0}; not started: zones with keys in this store would be served unsigned"
    )]
    ZoneKeys(#[from] ZoneKeysError),
    #[error("{0}")]
    TakeOver(#[from] TakeOverError),
    /// The sandbox is required and incomplete.
    #[error("{0}")]
    Sandbox(#[from] SandboxError),
    #[error("{0}: {1}")]
    Secret(&'static str, #[source] BadHash),
    #[error("TLS certificate: {0}")]
    Tls(#[from] nameward_serve::tls::TlsError),
    #[error("recursor.address: {0} is an address of this server; queries would loop")]
    OwnRecursor(std::net::SocketAddr),
    #[error("security_poll.suffix: invalid name {0:?}: {1}")]
    PollSuffix(String, NameError),
    /// The built-in example is not a valid zone, which is our mistake.
    #[error("the built-in example has errors: {0:?}")]
    Example(Vec<Diagnostic>),
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    #[error("no zone can be served: {0}")]
    NoZone(String),
    /// A zone is transferred from primaries, and there is no storage for its contents.
    #[error("zone {0} is a secondary zone: set server.state_directory to store its data")]
    NoStateDirectory(String),
    /// A zone has primaries, and nothing makes it a secondary.
    #[error(
        "zone {0}: primaries are set but kind is not, so it is not transferred: add kind = \"secondary\", or remove primaries"
    )]
    PrimariesWithoutKind(String),
    #[error("the maintenance thread has stopped")]
    MaintenanceEnded,
}

/// A port or socket that cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    #[error("{0}")]
    Dns(#[from] ListenError),
    #[error("cannot listen on {address} for the {what}: {}", plain(source))]
    Web {
        /// `web page` or `API`.
        what: &'static str,
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("{0}")]
    Control(#[from] SocketError),
}
