//! The arguments by which commands find the state directory.

use std::path::PathBuf;

use clap::Args;

use crate::{
    command_error::CommandError,
    config::{Overrides, location},
    state,
};

#[derive(Args)]
pub(super) struct StateArguments {
    /// Configuration file of the server, used to find its state directory
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The state directory
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

impl StateArguments {
    /// Returns the state directory.
    pub(super) fn find(self) -> Result<PathBuf, CommandError> {
        let overrides = Overrides {
            file: self.config.or_else(location::of_this_machine),
            ..Overrides::default()
        };
        state::directory(self.directory, &overrides)
    }
}
