//! The command line of `nameward import`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::import::OtherServer;

#[derive(Subcommand)]
pub enum ImportCommand {
    /// Convert a PowerDNS pdns.conf
    Pdns(ImportArguments),
    /// Convert a BIND named.conf
    Bind(ImportArguments),
    /// Convert an NSD nsd.conf
    Nsd(ImportArguments),
    /// Convert a Knot DNS knot.conf
    Knot(ImportArguments),
}

#[derive(Args)]
pub struct ImportArguments {
    /// Configuration file of the other server
    pub file: PathBuf,
    /// Print the report and the nameward.toml without writing files
    #[arg(long)]
    pub dry_run: bool,
    /// The directory for nameward.toml, TSIG secrets and copies of signed zones
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
    /// State directory of the new server
    #[arg(long, value_name = "DIR", default_value = "/var/lib/nameward")]
    pub state_directory: PathBuf,
    /// The user that the server runs as, which must be able to read the files (default: nameward, if it exists)
    #[arg(long)]
    pub user: Option<String>,
}

impl ImportCommand {
    /// Returns the server to import from, and the rest of the command line.
    pub fn split(self) -> (OtherServer, ImportArguments) {
        match self {
            Self::Pdns(arguments) => (OtherServer::PowerDns, arguments),
            Self::Bind(arguments) => (OtherServer::Bind, arguments),
            Self::Nsd(arguments) => (OtherServer::Nsd, arguments),
            Self::Knot(arguments) => (OtherServer::Knot, arguments),
        }
    }
}
