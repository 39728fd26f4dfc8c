//! Owns the command line of `nameward tsig`, and the requests it becomes.

use std::io::{self, Read};

use clap::Subcommand;
use nameward_control::operations::{OperationError, OperationRequest, SecretText};

use super::RemoteArguments;
use crate::command_error::CommandError;

/// More is no secret.
const SECRET_MAX: u64 = 4096;

#[derive(Subcommand)]
pub enum TsigCommand {
    /// Make a key with a random secret, keep it and print it
    Generate {
        /// The name of the key
        #[arg(value_name = "NAME")]
        name: String,
        /// hmac-sha256 if nothing is said; hmac-sha1, -sha224, -sha384, -sha512, -md5
        #[arg(value_name = "ALGORITHM")]
        algorithm: Option<String>,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Keep a key that another server made
    Import {
        /// The name of the key
        #[arg(value_name = "NAME")]
        name: String,
        /// The algorithm, as hmac-sha256
        #[arg(value_name = "ALGORITHM")]
        algorithm: String,
        /// The secret as base64; read from stdin if it is not given, so that nobody sees it among the processes
        #[arg(value_name = "SECRET")]
        secret: Option<String>,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Print name, algorithm and place of every key that the server knows
    List {
        /// Print the secrets of keys in the state store, too
        #[arg(long)]
        secrets: bool,
        #[command(flatten)]
        remote: RemoteArguments,
    },
    /// Remove a key from the state store
    Remove {
        /// The name of the key
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        remote: RemoteArguments,
    },
}

/// The request of `nameward tsig`, and the server it is for.
pub fn request(command: TsigCommand) -> Result<(OperationRequest, RemoteArguments), CommandError> {
    Ok(match command {
        TsigCommand::Generate {
            name,
            algorithm,
            remote,
        } => (OperationRequest::TsigGenerate { name, algorithm }, remote),
        TsigCommand::Import {
            name,
            algorithm,
            secret,
            remote,
        } => {
            let request = OperationRequest::TsigImport {
                name,
                algorithm: Some(algorithm),
                secret: SecretText(secret.map_or_else(read_secret, Ok)?),
            };
            (request, remote)
        }
        TsigCommand::List { secrets, remote } => (OperationRequest::TsigList { secrets }, remote),
        TsigCommand::Remove { name, remote } => (OperationRequest::TsigRemove { name }, remote),
    })
}

fn read_secret() -> Result<String, OperationError> {
    let mut text = String::new();
    match io::stdin().take(SECRET_MAX).read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(OperationError::invalid(format!(
            "the secret cannot be read from stdin: {error}"
        ))),
    }
}
