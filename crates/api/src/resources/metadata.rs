//! `/zones/{id}/metadata`.

use nameward_control::operations::{
    ListedMetadata, MetadataChange, MetadataRequest, OperationRequest, ZoneAttributes,
};
use serde_json::{Value, json};

use crate::operator::Call;
use crate::response::{ApiError, ApiResponse, ApiResult};

use super::zone_name;

/// Kinds that are changed through the zone itself, as in PowerDNS.
const ZONE_KINDS: [&str; 8] = [
    "API-RECTIFY",
    "AXFR-MASTER-TSIG",
    "LUA-AXFR-SCRIPT",
    "NSEC3NARROW",
    "NSEC3PARAM",
    "PRESIGNED",
    "SOA-EDIT-API",
    "TSIG-ALLOW-AXFR",
];

/// All metadata of a zone, by kind.
pub fn list(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let zone = call.zone(&zone_name(arguments[0])?)?;
    let kinds = stored(call, &zone, None)?.into_iter();
    Ok(ApiResponse::list(
        kinds.map(|(kind, items)| view(&kind, &items)),
    ))
}

/// Adds items of a kind.
pub fn add(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let zone = call.zone(&zone_name(arguments[0])?)?;
    let body = call.request.json()?;
    let kind = body.get("kind").and_then(Value::as_str);
    let kind = kind.ok_or_else(|| ApiError::invalid("kind is not specified or not a string"))?;
    check_kind(kind)?;
    write(call, &zone, kind, items(&body)?, MetadataChange::Add)?;
    show_kind(call, &zone, kind, 201)
}

/// The items of a kind.
pub fn show(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let zone = call.zone(&zone_name(arguments[0])?)?;
    check_kind(arguments[1])?;
    show_kind(call, &zone, arguments[1], 200)
}

/// Replaces the items of a kind.
pub fn set(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let zone = call.zone(&zone_name(arguments[0])?)?;
    let kind = arguments[1];
    check_kind(kind)?;
    let items = items(&call.request.json()?)?;
    write(call, &zone, kind, items, MetadataChange::Set)?;
    show_kind(call, &zone, kind, 200)
}

/// Deletes a kind.
pub fn delete(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let zone = call.zone(&zone_name(arguments[0])?)?;
    check_kind(arguments[1])?;
    write(
        call,
        &zone,
        arguments[1],
        Vec::new(),
        MetadataChange::Remove,
    )?;
    Ok(ApiResponse::empty(200))
}

/// The stored metadata of a zone by kind; zones that are not in a database show their settings.
pub fn stored(
    call: &Call<'_>,
    zone: &ZoneAttributes,
    kind: Option<&str>,
) -> ApiResult<Vec<(String, Vec<String>)>> {
    let listed: Vec<ListedMetadata> = if zone.is_in_database {
        call.listed(&OperationRequest::MetadataList {
            zone: zone.name.clone(),
            kind: kind.map(str::to_owned),
        })?
    } else {
        let is_it = |item: &&ListedMetadata| kind.is_none_or(|kind| kind == item.kind);
        zone.settings.iter().filter(is_it).cloned().collect()
    };
    let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
    for item in listed {
        match kinds.last_mut() {
            Some((kind, items)) if *kind == item.kind => items.push(item.content),
            _ => kinds.push((item.kind, vec![item.content])),
        }
    }
    Ok(kinds)
}

fn show_kind(call: &Call<'_>, zone: &ZoneAttributes, kind: &str, status: u16) -> ApiResult {
    let kinds = stored(call, zone, Some(kind))?.into_iter();
    let items: Vec<String> = kinds.flat_map(|(_, items)| items).collect();
    Ok(ApiResponse::json(status, &view(kind, &items)))
}

fn write(
    call: &Call<'_>,
    zone: &ZoneAttributes,
    kind: &str,
    content: Vec<String>,
    change: MetadataChange,
) -> ApiResult<()> {
    let request = MetadataRequest {
        zone: zone.name.clone(),
        kind: kind.to_owned(),
        content,
        change,
    };
    call.run(&OperationRequest::MetadataChange(request))?;
    Ok(())
}

fn items(body: &Value) -> ApiResult<Vec<String>> {
    let list = body.get("metadata").and_then(Value::as_array);
    let list =
        list.ok_or_else(|| ApiError::invalid("metadata is not specified or not an array"))?;
    let items = list.iter().map(|item| {
        let text = item.as_str().map(str::to_owned);
        text.ok_or_else(|| ApiError::invalid("metadata must be strings"))
    });
    items.collect()
}

fn check_kind(kind: &str) -> ApiResult<()> {
    if !ZONE_KINDS.iter().any(|one| one.eq_ignore_ascii_case(kind)) {
        Ok(())
    } else {
        Err(ApiError::invalid(format!(
            "Unsupported metadata kind '{kind}'"
        )))
    }
}

fn view(kind: &str, items: &[String]) -> Value {
    json!({ "kind": kind, "metadata": items, "type": "Metadata" })
}
