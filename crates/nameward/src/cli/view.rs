//! The command lines of `nameward view` and `nameward network`, and their conversion to requests.

use clap::{Args, Subcommand};
use nameward_control::operations::OperationRequest;

use super::target::{RemoteArguments, ServerRequest};

#[derive(Subcommand)]
pub enum ViewCommand {
    /// List the views: what selects each, and the number of its zone versions
    List(RemoteArguments),
    /// Add a version of a zone, such as example.org..internal, to a view; the view need not exist
    AddZone(ViewedZone),
    /// Remove a version of a zone from a view, whose clients then get the common version
    RemoveZone(ViewedZone),
}

/// A view and a version of a zone.
#[derive(Args)]
pub struct ViewedZone {
    /// The view
    view: String,
    /// The version of a zone; `zone create` creates it
    #[arg(value_name = "ZONE..VARIANT")]
    zone: String,
    #[command(flatten)]
    remote: RemoteArguments,
}

#[derive(Subcommand)]
pub enum NetworkCommand {
    /// List the networks with their views
    List(RemoteArguments),
    /// Assign the clients in a network to a view, effective immediately
    Set {
        /// The network, as 10.0.0.0/8
        network: String,
        /// The view [default: none, the network is removed]
        view: Option<String>,
        #[command(flatten)]
        remote: RemoteArguments,
    },
}

pub fn view(command: ViewCommand) -> ServerRequest {
    match command {
        ViewCommand::List(remote) => (OperationRequest::ViewList, remote),
        ViewCommand::AddZone(ViewedZone { view, zone, remote }) => {
            (OperationRequest::ViewAddZone { view, zone }, remote)
        }
        ViewCommand::RemoveZone(ViewedZone { view, zone, remote }) => {
            (OperationRequest::ViewRemoveZone { view, zone }, remote)
        }
    }
}

pub fn network(command: NetworkCommand) -> ServerRequest {
    match command {
        NetworkCommand::List(remote) => (OperationRequest::NetworkList, remote),
        NetworkCommand::Set {
            network,
            view,
            remote,
        } => (OperationRequest::NetworkSet { network, view }, remote),
    }
}
