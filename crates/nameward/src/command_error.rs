//! Owns the errors of commands and the exit codes they end with.

use std::{io, path::PathBuf};

use nameward_control::{
    operations::{ErrorKind, OperationError},
    socket::AskError,
};
use nameward_store::{
    sql::{DatabaseAddress, SqlError},
    state::StateError,
};

use crate::{config::error::ConfigError, serve::StartError};

/// Why a command was not done.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The configuration cannot be used.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The server did not do it.
    #[error("{0}")]
    Ask(#[from] AskError),
    /// The command itself found that it cannot be done.
    #[error("{0}")]
    Operation(#[from] OperationError),
    /// The address of a database is wrong.
    #[error("{0}")]
    Address(SqlError),
    /// A database failed.
    #[error("{0}: {1}")]
    Database(DatabaseAddress, SqlError),
    /// The state store cannot be used.
    #[error("{0}")]
    State(#[from] StateError),
    /// No state directory is named.
    #[error("there is no state directory: set state_directory in [server], or give --directory")]
    NoStateDirectory,
    /// The server could not start, or ended by a fault.
    #[error("{0}")]
    Start(#[from] StartError),
    /// A file of a move could not be written.
    #[error("cannot write {}: {}", .0.display(), .1)]
    Import(PathBuf, io::Error),
    /// The user that files are for is unknown.
    #[error("--user: {0}")]
    ImportUser(String),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    /// Threads could not be started.
    #[error("cannot start threads: {0}")]
    Threads(io::Error),
    /// The thread that asks the server ended.
    #[error("the command was interrupted")]
    Interrupted,
    /// The command prints no data.
    #[error("this command has no JSON output")]
    NoJson,
}

impl CommandError {
    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            CommandError::Ask(error) => error.kind(),
            CommandError::Operation(error) => error.kind,
            CommandError::Database(..) => ErrorKind::Backend,
            CommandError::Address(_)
            | CommandError::Config(_)
            | CommandError::ImportUser(_)
            | CommandError::NoJson => ErrorKind::Invalid,
            CommandError::Start(_)
            | CommandError::State(_)
            | CommandError::NoStateDirectory
            | CommandError::Import(..)
            | CommandError::Output(_)
            | CommandError::Threads(_)
            | CommandError::Interrupted => ErrorKind::Internal,
        }
    }

    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            // As everywhere for a command line that makes no sense.
            CommandError::NoJson => 2,
            // A server that does not start and a check that fails end with 1, whatever the reason.
            CommandError::Config(_) => 1,
            other => other.kind().exit_code(),
        }
    }
}
