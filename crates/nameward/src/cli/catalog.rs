//! The command line of `nameward catalog` and `nameward autoprimary`, and its conversion to requests.

use clap::{Args, Subcommand};
use nameward_control::operations::{AutoprimaryTemplate, OperationRequest};

use super::target::{RemoteArguments, ServerRequest};

#[derive(Subcommand)]
pub enum CatalogCommand {
    /// List catalog zones produced or consumed by this server
    List(RemoteArguments),
    /// List the members of a catalog, with their groups and change of ownership (coo)
    Members {
        /// The catalog
        #[arg(value_name = "NAME")]
        catalog: String,
        #[command(flatten)]
        remote: RemoteArguments,
    },
}

#[derive(Subcommand)]
pub enum AutoprimaryCommand {
    /// List the autoprimaries in the configuration and in databases
    List(RemoteArguments),
    /// Add an autoprimary to a database
    Add {
        #[command(flatten)]
        server: ServerArguments,
        /// Account for its zones
        #[arg(default_value = "")]
        account: String,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Remove an autoprimary from the databases
    Remove {
        #[command(flatten)]
        server: ServerArguments,
        #[command(flatten)]
        remote: RemoteArguments,
    },
}

#[derive(Args)]
pub struct ServerArguments {
    /// Source address of its NOTIFY messages
    address: String,
    /// Name server that its zones must have
    #[arg(value_name = "NAMESERVER")]
    name_server: String,
    /// Number of the backend in the configuration [default: the first database; to remove: all]
    #[arg(long, value_name = "NUMBER")]
    backend: Option<u32>,
}

impl ServerArguments {
    fn template(self, account: String) -> AutoprimaryTemplate {
        AutoprimaryTemplate {
            address: self.address,
            name_server: self.name_server,
            account,
            backend: self.backend,
        }
    }
}

pub fn catalog(command: CatalogCommand) -> ServerRequest {
    match command {
        CatalogCommand::List(remote) => (OperationRequest::CatalogList, remote),
        CatalogCommand::Members { catalog, remote } => {
            (OperationRequest::CatalogMembers { catalog }, remote)
        }
    }
}

pub fn autoprimary(command: AutoprimaryCommand) -> ServerRequest {
    match command {
        AutoprimaryCommand::List(remote) => (OperationRequest::AutoprimaryList, remote),
        AutoprimaryCommand::Add {
            server,
            account,
            remote,
        } => {
            let template = server.template(account);
            (OperationRequest::AutoprimaryAdd(template), remote)
        }
        AutoprimaryCommand::Remove { server, remote } => {
            let template = server.template(String::new());
            (OperationRequest::AutoprimaryRemove(template), remote)
        }
    }
}
