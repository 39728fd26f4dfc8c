//! pdnsutil commands for TSIG keys, with its output: scripts parse secrets from it.

use nameward_control::operations::{MetadataChange, MetadataRequest, OperationRequest, SecretText};

use super::bare;
use crate::{
    command_error::CommandResult,
    config::Overrides,
    remote::{self, only},
};

/// Generates a key. As in PowerDNS, it replaces one of the same name.
pub(super) fn generate(
    name: &str,
    algorithm: &str,
    overrides: &Overrides,
) -> CommandResult<String> {
    let request = OperationRequest::TsigGenerate {
        name: name.into(),
        algorithm: Some(algorithm.into()),
        backend: None,
        replace: true,
    };
    let key = remote::fetch(request, overrides, only!(OperationResult, TsigKey))?;
    let (name, secret) = (bare(&key.name), secret_text(key.secret));
    Ok(format!(
        "Create new TSIG key {name} {} {secret}\n",
        key.algorithm
    ))
}

/// Stores a key that another server made.
pub(super) fn import(
    name: &str,
    algorithm: &str,
    secret: SecretText,
    overrides: &Overrides,
) -> CommandResult<String> {
    let request = OperationRequest::TsigImport {
        name: name.into(),
        algorithm: Some(algorithm.into()),
        secret,
        backend: None,
        replace: true,
    };
    let key = remote::fetch(request, overrides, only!(OperationResult, TsigKey))?;
    Ok(format!(
        "Imported TSIG key {} {}\n",
        bare(&key.name),
        key.algorithm
    ))
}

/// Removes a key.
pub(super) fn delete(name: &str, overrides: &Overrides) -> CommandResult<String> {
    let request = OperationRequest::TsigRemove { name: name.into() };
    remote::send(request, overrides, &mut drop)?;
    Ok(format!("Deleted TSIG key {}\n", bare(name)))
}

/// Activates a key for transfers of a zone, or deactivates it, in metadata of this kind.
pub(super) fn set_active(
    (zone, key): (&str, &str),
    kind: &str,
    is_enabled: bool,
    overrides: &Overrides,
) -> CommandResult<String> {
    let (word, change) = if is_enabled {
        ("Enabled", MetadataChange::Add)
    } else {
        ("Disabled", MetadataChange::Remove)
    };
    let request = OperationRequest::MetadataChange(MetadataRequest {
        zone: zone.into(),
        kind: kind.into(),
        content: vec![key.into()],
        change,
    });
    remote::send(request, overrides, &mut drop)?;
    Ok(format!(
        "{word} TSIG key {} for {}\n",
        bare(key),
        bare(zone)
    ))
}

/// Lists the keys. Those of the configuration, whose secrets are not revealed, have an empty one.
pub(super) fn list(overrides: &Overrides) -> CommandResult<String> {
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
