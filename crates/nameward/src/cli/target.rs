//! Owns the arguments that say which server a command is for, and why a change is made.

use std::path::PathBuf;

use clap::Args;

use crate::config::{Overrides, location};

#[derive(Args)]
pub struct RemoteArguments {
    /// Configuration file of the server, used to find its control socket
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Path of the server's control socket
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Of commands that take one.
    #[arg(skip)]
    pub message: Option<String>,
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
    /// The settings that the arguments stand for.
    pub fn overrides(self) -> Overrides {
        Overrides {
            file: self.config.or_else(location::named),
            control_socket: self.control,
            message: self.message,
            ..Overrides::default()
        }
    }
}
