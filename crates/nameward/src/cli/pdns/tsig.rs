//! pdnsutil commands for TSIG keys, with its output: scripts parse secrets from it.

use nameward_control::operations::{
    ListedTsigKey, MetadataChange, MetadataRequest, OperationRequest, OperationResult, SecretText,
};

use super::bare;
use crate::{
    command_error::CommandError,
    config::Overrides,
    remote::{self, only},
};

/// A TSIG key command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TsigStep {
    /// Generates a key, by name and algorithm.
    Generate(String, String),
    /// Stores a key that another server made.
    Import(String, String, SecretText),
    /// Lists the keys with their secrets.
    List,
    /// Removes a key.
    Delete(String),
    /// Allows transfers of a zone with a key, or no longer.
    Use {
        /// The zone.
        zone: String,
        /// The key.
        key: String,
        /// The metadata kind that binds them.
        kind: &'static str,
        /// Whether the key is bound or released.
        is_enabled: bool,
    },
}

/// Returns the text that a command prints.
pub(super) fn answer(step: TsigStep, overrides: &Overrides) -> Result<String, CommandError> {
    match step {
        TsigStep::Generate(name, algorithm) => {
            let request = OperationRequest::TsigGenerate {
                name,
                algorithm: Some(algorithm),
                backend: None,
                // As in PowerDNS, the key replaces one of the same name.
                replace: true,
            };
            let key = key_of(request, overrides)?;
            let (name, secret) = (bare(&key.name), secret_text(key.secret));
            Ok(format!(
                "Create new TSIG key {name} {} {secret}\n",
                key.algorithm
            ))
        }
        TsigStep::Import(name, algorithm, secret) => {
            let request = OperationRequest::TsigImport {
                name,
                algorithm: Some(algorithm),
                secret,
                backend: None,
                replace: true,
            };
            let key = key_of(request, overrides)?;
            Ok(format!(
                "Imported TSIG key {} {}\n",
                bare(&key.name),
                key.algorithm
            ))
        }
        TsigStep::List => list(overrides),
        TsigStep::Delete(name) => {
            let request = OperationRequest::TsigRemove { name: name.clone() };
            remote::send(request, overrides, &mut drop)?;
            Ok(format!("Deleted TSIG key {}\n", bare(&name)))
        }
        TsigStep::Use {
            zone,
            key,
            kind,
            is_enabled,
        } => {
            let request = MetadataRequest {
                zone: zone.clone(),
                kind: kind.into(),
                content: vec![key.clone()],
                change: if is_enabled {
                    MetadataChange::Add
                } else {
                    MetadataChange::Remove
                },
            };
            let request = OperationRequest::MetadataChange(request);
            remote::send(request, overrides, &mut drop)?;
            let word = if is_enabled { "Enabled" } else { "Disabled" };
            Ok(format!(
                "{word} TSIG key {} for {}\n",
                bare(&key),
                bare(&zone)
            ))
        }
    }
}

fn key_of(request: OperationRequest, overrides: &Overrides) -> Result<ListedTsigKey, CommandError> {
    match remote::send(request, overrides, &mut drop)? {
        OperationResult::TsigKey(key) => Ok(key),
        _ => Err(CommandError::Interrupted),
    }
}

/// Lists the keys. Those of the configuration, whose secrets are not revealed, have an empty one.
fn list(overrides: &Overrides) -> Result<String, CommandError> {
    let request = OperationRequest::TsigList { secrets: true };
    let keys = remote::list(request, overrides, only!(TsigKey))?.into_iter();
    let lines = keys.map(|key| {
        let (name, secret) = (bare(&key.name), secret_text(key.secret));
        format!("{name}. {}. {secret}\n", key.algorithm)
    });
    Ok(lines.collect())
}

fn secret_text(secret: Option<SecretText>) -> String {
    secret.map_or_else(String::new, |secret| secret.reveal().to_owned())
}
