//! The command line of `nameward tsig`, and its conversion to requests.

use std::path::Path;

use clap::{Args, Subcommand};
use nameward_control::operations::{OperationError, OperationRequest, Outcome, SecretText};

use super::apply::read_start;
use super::target::{RemoteArguments, ServerRequest};
use crate::command_error::CommandResult;

/// Maximum size of a secret.
const SECRET_MAX: u64 = 4096;

/// Where a key is stored.
#[derive(Args)]
pub struct StorageArguments {
    /// Store the key in this backend; 0 is the state store of this server [default: the first database that can be written to]
    #[arg(long, value_name = "N")]
    backend: Option<u32>,
    /// Replace an existing key of that name
    #[arg(long)]
    replace: bool,
}

#[derive(Subcommand)]
pub enum TsigCommand {
    /// Generate a key with a random secret, store it and print it
    Generate {
        /// The name of the key
        name: String,
        /// hmac-sha1, -sha224, -sha256, -sha384, -sha512 or -md5 [default: hmac-sha256]
        algorithm: Option<String>,
        #[command(flatten)]
        storage: StorageArguments,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Store an existing key, for example from another server
    Import {
        /// The name of the key
        name: String,
        /// Algorithm, such as hmac-sha256
        algorithm: String,
        /// Secret in base64 [default: read from stdin, so that it does not appear in the process list]
        secret: Option<String>,
        #[command(flatten)]
        storage: StorageArguments,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// List all keys with name, algorithm and storage
    List {
        /// Also print the secrets of keys in the state store and in databases
        #[arg(long)]
        secrets: bool,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Remove a key from the state store and from every database that contains it
    Remove {
        /// The name of the key
        name: String,
        #[command(flatten)]
        remote: RemoteArguments,
    },
}

pub fn request(command: TsigCommand) -> CommandResult<ServerRequest> {
    Ok(match command {
        TsigCommand::Generate {
            name,
            algorithm,
            storage,
            remote,
        } => {
            let request = OperationRequest::TsigGenerate {
                name,
                algorithm,
                backend: storage.backend,
                replace: storage.replace,
            };
            (request, remote)
        }
        TsigCommand::Import {
            name,
            algorithm,
            secret,
            storage,
            remote,
        } => {
            let request = OperationRequest::TsigImport {
                name,
                algorithm: Some(algorithm),
                secret: SecretText::from(secret.map_or_else(read_secret, Ok)?),
                backend: storage.backend,
                replace: storage.replace,
            };
            (request, remote)
        }
        TsigCommand::List { secrets, remote } => (OperationRequest::TsigList { secrets }, remote),
        TsigCommand::Remove { name, remote } => (OperationRequest::TsigRemove { name }, remote),
    })
}

fn read_secret() -> Outcome<String> {
    read_start(Path::new("-"), SECRET_MAX).map_err(|error| {
        OperationError::invalid(format!("cannot read the secret from stdin: {error}"))
    })
}
