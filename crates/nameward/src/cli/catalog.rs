//! Owns the command line of `nameward catalog` and `nameward autoprimary`, and the requests they become.

use clap::{Args, Subcommand};
use nameward_control::operations::{AutoprimaryTemplate, OperationRequest};

use super::RemoteArguments;

#[derive(Subcommand)]
pub enum CatalogCommand {
    /// List the catalogs that are made here (producer) or followed (consumer)
    List {
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// List the member zones of a catalog, with their groups and the catalog that they may move to (coo)
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
    /// List the servers whose zones become secondaries here, of the configuration and of databases
    List {
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Add a server to the autoprimaries of a database
    Add {
        #[command(flatten)]
        server: ServerArguments,
        /// The account of zones that are made for it
        #[arg(value_name = "ACCOUNT", default_value = "")]
        account: String,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Remove a server from the autoprimaries of the databases
    Remove {
        #[command(flatten)]
        server: ServerArguments,
        #[command(flatten)]
        remote: RemoteArguments,
    },
}

#[derive(Args)]
pub struct ServerArguments {
    /// The address that it notifies from
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// The name server that its zones must have
    #[arg(value_name = "NAMESERVER")]
    name_server: String,
    /// The number of the backend in the configuration [default: the first database; to remove: all]
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

/// The request of `nameward catalog`, and the server it is for.
pub fn catalog(command: CatalogCommand) -> (OperationRequest, RemoteArguments) {
    match command {
        CatalogCommand::List { remote } => (OperationRequest::CatalogList, remote),
        CatalogCommand::Members { catalog, remote } => {
            (OperationRequest::CatalogMembers { catalog }, remote)
        }
    }
}

/// The request of `nameward autoprimary`, and the server it is for.
pub fn autoprimary(command: AutoprimaryCommand) -> (OperationRequest, RemoteArguments) {
    match command {
        AutoprimaryCommand::List { remote } => (OperationRequest::AutoprimaryList, remote),
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
