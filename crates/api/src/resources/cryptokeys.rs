//! `/zones/{id}/cryptokeys`: the DNSSEC keys of a zone.

use nameward_control::operations::{
    KeyChange, KeyTemplate, ListedZoneKey, OperationRequest, OperationResult, SecretText,
};
use serde_json::{Value, json};

use crate::fields::{boolean, optional_bool, optional_string, string, unsigned};
use crate::operator::Call;
use crate::response::{ApiError, ApiResponse, ApiResult};

use super::zone_name;

/// Bits of the largest key.
const BITS_MAX: u64 = 65_535;

/// All keys of a zone, without their private parts.
pub fn list(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let zone = call.zone(&zone_name(arguments[0])?)?.name;
    Ok(ApiResponse::list(keys(call, &zone)?.iter().map(view)))
}

/// Creates a key, or stores the one that is given.
pub fn create(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let zone = call.zone(&zone_name(arguments[0])?)?.name;
    let body = call.request.json()?;
    let role = string(&body, "keytype")?;
    if !["ksk", "zsk", "csk"].contains(&role) {
        return Err(ApiError::invalid(format!("Invalid keytype {role}")));
    }
    let algorithm = match body.get("algorithm") {
        None | Some(Value::Null) => None,
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => {
            return Err(ApiError::invalid(
                "Key 'algorithm' is not a number or a String",
            ));
        }
    };
    let bits = match body.get("bits") {
        None | Some(Value::Null) => None,
        Some(_) => Some(unsigned(&body, "bits", BITS_MAX)? as u32),
    };
    let template = KeyTemplate {
        zone: zone.clone(),
        role: Some(role.to_owned()),
        algorithm,
        bits: bits.filter(|bits| *bits > 0),
        inactive: !optional_bool(&body, "active")?.unwrap_or(false),
        unpublished: !optional_bool(&body, "published")?.unwrap_or(true),
        // Clients add the keys of a pair one after the other.
        force: true,
    };
    let private = optional_string(&body, "privatekey")?.or(optional_string(&body, "content")?);
    let request = match private {
        Some(text) => OperationRequest::KeyImport {
            private: SecretText::from(text.to_owned()),
            template,
        },
        None => OperationRequest::KeyAdd(template),
    };
    let OperationResult::ZoneKey(key) = call.run(&request)? else {
        return Err(ApiError::Status(500, "the key was not stored".into()));
    };
    Ok(ApiResponse::json(201, &with_private(call, &zone, &key)?))
}

/// One key, with its private part.
pub fn show(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let (zone, key) = find(call, arguments)?;
    Ok(ApiResponse::json(200, &with_private(call, &zone, &key)?))
}

/// Changes whether a key is active and published.
pub fn change(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let (zone, key) = find(call, arguments)?;
    let body = call.request.json()?;
    let active = boolean(&body, "active")?;
    let published = optional_bool(&body, "published")?;
    let mut changes = Vec::new();
    if published.is_some_and(|published| published && !key.published) {
        changes.push(KeyChange::Publish);
    }
    if active != key.active {
        changes.push(if active {
            KeyChange::Activate
        } else {
            KeyChange::Deactivate
        });
    }
    if published.is_some_and(|published| !published && key.published) {
        changes.push(KeyChange::Unpublish);
    }
    for change in changes {
        let (zone, key) = (zone.clone(), key.key);
        call.run(&OperationRequest::KeyChange { zone, key, change })?;
    }
    Ok(ApiResponse::empty(204))
}

/// Deletes a key; without its last key a zone is no longer signed.
pub fn delete(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let (zone, key) = find(call, arguments)?;
    let is_last = keys(call, &zone)?.len() == 1;
    call.run(&if is_last {
        OperationRequest::ZoneUnsecure { zone, force: true }
    } else {
        OperationRequest::KeyRemove { zone, key: key.key }
    })?;
    Ok(ApiResponse::empty(204))
}

fn keys(call: &Call<'_>, zone: &str) -> ApiResult<Vec<ListedZoneKey>> {
    let zone = Some(zone.to_owned());
    match call.listed(&OperationRequest::KeyList { zone }) {
        // A zone without keys is not signed.
        Err(ApiError::NotFound) => Ok(Vec::new()),
        listed => listed,
    }
}

fn find(call: &Call<'_>, arguments: &[&str]) -> ApiResult<(String, ListedZoneKey)> {
    let zone = call.zone(&zone_name(arguments[0])?)?.name;
    let number: u32 = arguments[1].parse().map_err(|_| ApiError::NotFound)?;
    let found = keys(call, &zone)?.into_iter();
    let found = { found }.find(|key| key.key == number);
    Ok((zone, found.ok_or(ApiError::NotFound)?))
}

fn with_private(call: &Call<'_>, zone: &str, key: &ListedZoneKey) -> ApiResult<Value> {
    let request = OperationRequest::KeyExport {
        zone: zone.to_owned(),
        key: key.key,
        pem: false,
    };
    let mut view = view(key);
    match call.run(&request) {
        Ok(OperationResult::ZoneKeyText { private }) => {
            view["privatekey"] = Value::from(private.reveal());
        }
        // A read-only API key gets the public part.
        Ok(_) | Err(ApiError::Status(403, _)) => {}
        Err(error) => return Err(error),
    }
    Ok(view)
}

fn view(key: &ListedZoneKey) -> Value {
    json!({
        "active": key.active,
        "algorithm": key.algorithm,
        "bits": key.bits,
        "dnskey": key.dnskey,
        "ds": key.digests,
        "flags": key.flags,
        "id": key.key,
        "keytype": key.role,
        "published": key.published,
        "type": "Cryptokey",
    })
}
