//! Errors of commands, and their exit codes.

use std::{io, path::PathBuf, process::ExitCode};

use nameward_control::{
    operations::{ErrorKind, OperationError},
    socket::ControlError,
};
use nameward_sql::{DatabaseAddress, SqlError};
use nameward_state::StateError;

use crate::{config::error::ConfigError, start_error::StartError};

/// The result of a command, or of a part of it.
pub type CommandResult<T = ExitCode> = Result<T, CommandError>;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The server did not execute it.
    #[error("{0}")]
    Control(#[from] ControlError),
    /// The command itself failed.
    #[error("{0}")]
    Operation(#[from] OperationError),
    #[error("{0}")]
    Address(SqlError),
    #[error("{0}: {1}")]
    Database(DatabaseAddress, SqlError),
    #[error("{0}")]
    State(#[from] StateError),
    #[error("no state directory: set state_directory in [server], or use --directory")]
    NoStateDirectory,
    /// The server could not start, or ended with an error.
    #[error("{0}")]
    Start(#[from] StartError),
    #[error("cannot write {}: {}", .0.display(), .1)]
    Import(PathBuf, io::Error),
    #[error("--user: {0}")]
    ImportUser(String),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    #[error("cannot start threads: {0}")]
    Threads(io::Error),
    /// The thread that talks to the server ended.
    #[error("interrupted")]
    Interrupted,
    #[error("this command has no JSON output")]
    NoJson,
}

impl CommandError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            CommandError::Control(error) => error.kind(),
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

    pub fn exit_code(&self) -> u8 {
        match self {
            // The usual exit code for an invalid command line.
            CommandError::NoJson => 2,
            // A server that does not start and a failed check exit with 1, whatever the reason.
            CommandError::Config(_) => 1,
            other => other.kind().exit_code(),
        }
    }
}
