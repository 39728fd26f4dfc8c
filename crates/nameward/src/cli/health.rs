//! The command line of `nameward health`, and its conversion to requests.

use std::net::IpAddr;

use clap::Subcommand;
use nameward_control::operations::{ForcedTarget, OperationRequest};

use super::target::{RemoteArguments, ServerRequest};

#[derive(Subcommand)]
pub enum HealthCommand {
    /// List health check targets and their state
    List(RemoteArguments),
    /// Force the state of a target, regardless of its checks, until the server stops; with `health.share`, on all
    /// servers, until it is set to auto
    Force {
        /// Address of the target
        address: IpAddr,
        /// New state; auto lets the checks decide again
        #[arg(value_parser = ["up", "down", "auto"])]
        state: String,
        #[command(flatten)]
        remote: RemoteArguments,
    },
}

/// Returns the request of `nameward health`.
pub fn health(command: HealthCommand) -> ServerRequest {
    match command {
        HealthCommand::List(remote) => (OperationRequest::HealthList, remote),
        HealthCommand::Force {
            address,
            state,
            remote,
        } => {
            let state = match state.as_str() {
                "up" => ForcedTarget::Up,
                "down" => ForcedTarget::Down,
                _ => ForcedTarget::Auto,
            };
            (OperationRequest::HealthForce { address, state }, remote)
        }
    }
}
