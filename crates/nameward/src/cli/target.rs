//! The arguments that select the server of a command, and give the reason for a change.

use std::path::PathBuf;

use clap::Args;
use nameward_control::operations::OperationRequest;

use crate::config::{Overrides, location};

#[derive(Args)]
pub struct RemoteArguments {
    /// Configuration file of the server, used to find its control socket
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Path of the server's control socket
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Set by commands that take a reason.
    #[arg(skip)]
    pub message: Option<String>,
}

/// A request, and the server it is for.
pub type ServerRequest = (OperationRequest, RemoteArguments);

/// Arguments of commands that need a zone only.
#[derive(Args)]
pub struct ZoneArguments {
    /// The zone
    zone: String,
    #[command(flatten)]
    remote: RemoteArguments,
}

impl ZoneArguments {
    /// Returns a request about the zone, and the server it is for.
    pub fn request(self, request: fn(String) -> OperationRequest) -> ServerRequest {
        (request(self.zone), self.remote)
    }
}

/// Arguments of commands that change records.
#[derive(Args)]
pub struct ChangeArguments {
    /// Reason, stored with the change and shown by `nameward zone history`
    #[arg(long, value_name = "TEXT")]
    pub message: Option<String>,
    #[command(flatten)]
    remote: RemoteArguments,
}

impl From<ChangeArguments> for RemoteArguments {
    fn from(arguments: ChangeArguments) -> Self {
        RemoteArguments {
            message: arguments.message,
            ..arguments.remote
        }
    }
}

impl RemoteArguments {
    /// Returns the settings that the arguments represent.
    pub fn overrides(self) -> Overrides {
        Overrides {
            file: self.config.or_else(location::named),
            control_socket: self.control,
            message: self.message,
            ..Overrides::default()
        }
    }
}
