//! The command line of `nameward query-log` and `nameward log-level`, and its conversion to requests.

use clap::{Args, Subcommand};
use nameward_control::operations::{OperationRequest, QueryLogTemplate};

use super::target::{RemoteArguments, ServerRequest};

#[derive(Subcommand)]
pub enum QueryLogCommand {
    /// Start logging answers: all, or only the selected ones
    On {
        /// Only answers for names at and below this one; may be repeated
        #[arg(long = "zone", value_name = "ZONE")]
        zones: Vec<String>,
        /// Only answers to clients in this network; may be repeated
        #[arg(long = "client", value_name = "NETWORK")]
        clients: Vec<String>,
        /// Sample: one in N of them
        #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
        share: u32,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Stop logging answers
    Off(RemoteArguments),
    /// Show whether and which answers are logged, where to, and how many lines were dropped
    Status(RemoteArguments),
}

/// The arguments of `nameward log-level`.
#[derive(Args)]
pub struct LogLevelArguments {
    /// New log level, until a reload changes server.log_level or the server restarts
    #[arg(value_parser = ["error", "warn", "info", "debug", "trace"])]
    level: Option<String>,
    #[command(flatten)]
    remote: RemoteArguments,
}

pub fn query_log(command: QueryLogCommand) -> ServerRequest {
    match command {
        QueryLogCommand::On {
            zones,
            clients,
            share,
            remote,
        } => {
            let template = QueryLogTemplate {
                zones,
                clients,
                share,
            };
            (OperationRequest::QueryLogOn(template), remote)
        }
        QueryLogCommand::Off(remote) => (OperationRequest::QueryLogOff, remote),
        QueryLogCommand::Status(remote) => (OperationRequest::QueryLogStatus, remote),
    }
}

pub fn log_level(arguments: LogLevelArguments) -> ServerRequest {
    let level = arguments.level;
    (OperationRequest::LogLevel { level }, arguments.remote)
}
