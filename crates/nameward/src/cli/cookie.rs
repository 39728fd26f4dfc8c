//! The command line of `nameward cookie`, and its conversion to requests.

use clap::Subcommand;
use nameward_control::operations::OperationRequest;

use super::target::{RemoteArguments, ServerRequest};

#[derive(Subcommand)]
pub enum CookieCommand {
    /// Generate a new secret for DNS cookies, for all servers on the database
    Roll {
        /// Seconds until new cookies are made with it; its cookies are accepted immediately [default: 300 in a database,
        /// 0 in the state store]
        #[arg(long, value_name = "SECONDS")]
        delay: Option<u64>,
        /// Use the new secret immediately, and reject cookies made with any other
        #[arg(long, conflicts_with = "delay")]
        revoke: bool,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// List the secrets whose cookies are accepted, without the secrets themselves
    List(RemoteArguments),
}

pub fn request(command: CookieCommand) -> ServerRequest {
    match command {
        CookieCommand::Roll {
            delay,
            revoke,
            remote,
        } => (OperationRequest::CookieRoll { delay, revoke }, remote),
        CookieCommand::List(remote) => (OperationRequest::CookieList, remote),
    }
}
