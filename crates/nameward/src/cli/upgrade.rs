//! The command line of `nameward upgrade`.

use std::process::ExitCode;

use clap::Args;

use super::{print::OutputForm, target::RemoteArguments};
use crate::{command_error::CommandError, upgrade};

/// The arguments of `nameward upgrade`.
#[derive(Args)]
pub struct UpgradeArguments {
    /// Do nothing if the running server is this program
    #[arg(long)]
    if_replaced: bool,
    #[command(flatten)]
    remote: RemoteArguments,
}

impl UpgradeArguments {
    /// Replaces the running server.
    pub fn run(self, form: OutputForm) -> Result<ExitCode, CommandError> {
        upgrade::run(&self.remote.overrides(), self.if_replaced, form)
    }
}
