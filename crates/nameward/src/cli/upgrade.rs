//! The command line of `nameward upgrade`.

use clap::Args;

use super::{print::OutputForm, target::RemoteArguments};
use crate::{command_error::CommandResult, upgrade};

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
    pub fn run(self, form: OutputForm) -> CommandResult {
        upgrade::run(&self.remote.overrides(), self.if_replaced, form)
    }
}
