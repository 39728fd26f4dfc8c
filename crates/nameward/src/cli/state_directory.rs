//! The commands on a state store, and the arguments by which they find its directory.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::print::OutputForm;
use crate::{
    command_error::CommandResult,
    config::{Overrides, location},
    state,
};

#[derive(Subcommand)]
pub(super) enum StateCommand {
    /// Check the state store: its file, each journal, and the zones stored in it
    Check(StateArguments),
    /// Return unused space of the state store to the file system
    Compact(StateArguments),
    /// Copy the state store to a new file; the server may be running
    Backup {
        /// The file to write
        #[arg(value_name = "FILE")]
        to: PathBuf,
        #[command(flatten)]
        arguments: StateArguments,
    },
}

pub(super) fn run(command: StateCommand, form: OutputForm) -> CommandResult {
    match command {
        StateCommand::Check(arguments) => state::check(&arguments.find()?, form),
        StateCommand::Compact(arguments) => state::compact(&arguments.find()?, form),
        StateCommand::Backup { to, arguments } => state::backup(&arguments.find()?, &to, form),
    }
}

#[derive(Args)]
pub(super) struct StateArguments {
    /// Configuration file of the server, used to find its state directory
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The state directory
    #[arg(long)]
    directory: Option<PathBuf>,
}

impl StateArguments {
    pub(super) fn find(self) -> CommandResult<PathBuf> {
        let overrides = Overrides {
            file: self.config.or_else(location::default_config_file),
            ..Overrides::default()
        };
        state::directory(self.directory, &overrides)
    }
}
