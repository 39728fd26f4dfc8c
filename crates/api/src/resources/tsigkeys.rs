//! `/tsigkeys`.

use nameward_control::operations::{ListedTsigKey, OperationRequest, OperationResult, SecretText};
use serde_json::{Value, json};

use crate::fields::{optional_string, string};
use crate::operator::Call;
use crate::response::{ApiError, ApiResponse, ApiResult};

/// All keys, without their secrets.
pub fn list(call: &Call<'_>, _: &[&str]) -> ApiResult {
    let keys = call.listed(&OperationRequest::TsigList { secrets: false })?;
    Ok(ApiResponse::list(keys.iter().map(|key| view(key, ""))))
}

/// Creates a key, with the given secret or a new one.
pub fn create(call: &Call<'_>, _: &[&str]) -> ApiResult {
    let body = call.request.json()?;
    let (name, algorithm) = (string(&body, "name")?, string(&body, "algorithm")?);
    let secret = optional_string(&body, "key")?.filter(|secret| !secret.is_empty());
    let key = store(call, (name, algorithm), secret, false)?;
    Ok(ApiResponse::json(201, &view(&key, secret_of(&key))))
}

/// One key, with its secret.
pub fn show(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let key = find(call, arguments[0])?;
    Ok(ApiResponse::json(200, &view(&key, secret_of(&key))))
}

/// Changes name, algorithm or secret of a key.
pub fn change(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let body = call.request.json()?;
    let old = find(call, arguments[0])?;
    let name = optional_string(&body, "name")?.unwrap_or(&old.name);
    let algorithm = optional_string(&body, "algorithm")?.unwrap_or(&old.algorithm);
    let secret = optional_string(&body, "key")?.unwrap_or(secret_of(&old));
    let is_renamed = plain(name) != plain(&old.name);
    let key = store(call, (name, algorithm), Some(secret), !is_renamed)?;
    if is_renamed {
        let name = old.name.clone();
        call.run(&OperationRequest::TsigRemove { name })?;
    }
    Ok(ApiResponse::json(200, &view(&key, secret_of(&key))))
}

/// Deletes a key.
pub fn delete(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let name = find(call, arguments[0])?.name;
    call.run(&OperationRequest::TsigRemove { name })?;
    Ok(ApiResponse::empty(204))
}

fn store(
    call: &Call<'_>,
    (name, algorithm): (&str, &str),
    secret: Option<&str>,
    replace: bool,
) -> ApiResult<ListedTsigKey> {
    if !replace && find(call, name).is_ok() {
        return Err(ApiError::Status(
            409,
            format!("A TSIG key with the name '{name}' already exists"),
        ));
    }
    let (name, algorithm) = (name.to_owned(), Some(algorithm.to_owned()));
    let request = match secret {
        Some(secret) => OperationRequest::TsigImport {
            name,
            algorithm,
            secret: SecretText::from(secret.to_owned()),
            backend: None,
            replace,
        },
        None => OperationRequest::TsigGenerate {
            name,
            algorithm,
            backend: None,
            replace,
        },
    };
    match call.run(&request)? {
        OperationResult::TsigKey(key) => Ok(key),
        _ => Err(ApiError::Status(500, "the key was not stored".into())),
    }
}

/// Finds a key by name.
pub fn find(call: &Call<'_>, name: &str) -> ApiResult<ListedTsigKey> {
    let keys: Vec<ListedTsigKey> = call.listed(&OperationRequest::TsigList { secrets: true })?;
    let mut keys = keys.into_iter();
    let found = keys.find(|key| plain(&key.name) == plain(name));
    let name = name.trim_end_matches('.');
    found.ok_or_else(|| {
        let text = format!("TSIG key with name '{name}' not found");
        ApiError::Status(404, text)
    })
}

fn plain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

fn secret_of(key: &ListedTsigKey) -> &str {
    key.secret.as_ref().map_or("", |secret| secret.reveal())
}

fn view(key: &ListedTsigKey, secret: &str) -> Value {
    let name = key.name.trim_end_matches('.');
    json!({
        "algorithm": key.algorithm,
        "id": format!("{name}."),
        "key": secret,
        "name": name,
        "type": "TSIGKey",
    })
}
