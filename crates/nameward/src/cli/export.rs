//! The command line of `nameward export`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::target::RemoteArguments;
use crate::import::OtherServer;

#[derive(Subcommand)]
pub enum ExportCommand {
    /// Export for PowerDNS: zone files, keys and a script for pdnsutil
    Pdns(ExportArguments),
    /// Export for BIND: zone files, keys and statements for named.conf
    Bind(ExportArguments),
    /// Export for NSD: zone files, keys, clauses for nsd.conf and a script that signs
    Nsd(ExportArguments),
    /// Export for Knot DNS: zone files, keys, sections for knot.conf and a script for keymgr
    Knot(ExportArguments),
}

#[derive(Args)]
pub struct ExportArguments {
    /// The zones; all by default
    #[arg(value_name = "ZONE")]
    pub zones: Vec<String>,
    /// Export what the clients of a view get: its zone versions, and the common versions of other zones
    #[arg(long)]
    pub view: Option<String>,
    /// The directory to write to
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    #[command(flatten)]
    pub remote: RemoteArguments,
}

impl ExportCommand {
    /// Returns the server that takes over, and what it takes.
    pub fn split(self) -> (OtherServer, ExportArguments) {
        match self {
            Self::Pdns(arguments) => (OtherServer::PowerDns, arguments),
            Self::Bind(arguments) => (OtherServer::Bind, arguments),
            Self::Nsd(arguments) => (OtherServer::Nsd, arguments),
            Self::Knot(arguments) => (OtherServer::Knot, arguments),
        }
    }
}
