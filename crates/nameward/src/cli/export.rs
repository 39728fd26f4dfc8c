//! The command line of `nameward export`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::target::RemoteArguments;
use crate::export::{ExportOrder, TargetServer};

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
    zones: Vec<String>,
    /// Export what the clients of a view get: its zone versions, and the common versions of other zones
    #[arg(long)]
    view: Option<String>,
    /// The directory to write to
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    remote: RemoteArguments,
}

impl ExportCommand {
    /// Returns the requested export, and the server it is for.
    pub fn order(self) -> (ExportOrder, RemoteArguments) {
        let (target, arguments) = match self {
            Self::Pdns(arguments) => (TargetServer::PowerDns, arguments),
            Self::Bind(arguments) => (TargetServer::Bind, arguments),
            Self::Nsd(arguments) => (TargetServer::Nsd, arguments),
            Self::Knot(arguments) => (TargetServer::Knot, arguments),
        };
        let order = ExportOrder {
            target,
            zones: arguments.zones,
            view: arguments.view,
            out: arguments.out,
        };
        (order, arguments.remote)
    }
}
