//! Owns the command line of `nameward import`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::import::{ImportOrder, OtherServer};

#[derive(Subcommand)]
pub enum ImportCommand {
    /// Move from PowerDNS: read a pdns.conf
    Pdns(ImportArguments),
    /// Move from BIND: read a named.conf
    Bind(ImportArguments),
    /// Move from NSD: read an nsd.conf
    Nsd(ImportArguments),
    /// Move from Knot: read a knot.conf
    Knot(ImportArguments),
}

#[derive(Args)]
pub struct ImportArguments {
    /// The configuration of the other server
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write nothing: print the report and the nameward.toml
    #[arg(long)]
    dry_run: bool,
    /// The directory for nameward.toml and the secrets of keys
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// The state directory of the new server
    #[arg(long, value_name = "DIR", default_value = "/var/lib/nameward")]
    state_directory: PathBuf,
}

impl ImportCommand {
    /// The order that it gives.
    pub fn order(self) -> ImportOrder {
        let (server, arguments) = match self {
            Self::Pdns(arguments) => (OtherServer::PowerDns, arguments),
            Self::Bind(arguments) => (OtherServer::Bind, arguments),
            Self::Nsd(arguments) => (OtherServer::Nsd, arguments),
            Self::Knot(arguments) => (OtherServer::Knot, arguments),
        };
        ImportOrder {
            server,
            file: arguments.file,
            out: arguments.out,
            is_dry_run: arguments.dry_run,
            state_directory: arguments.state_directory,
        }
    }
}
