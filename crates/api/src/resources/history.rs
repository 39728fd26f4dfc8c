//! `/zones/{id}/history`, `/difference` and `/rollback`: the versions of a zone in its journal.

use nameward_base::calendar::UtcTime;
use nameward_control::operations::{
    ListedItem, ListedVersion, OperationRequest, OperationResult, RecordChange,
};
use serde_json::json;

use crate::operator::Call;
use crate::response::{ApiError, ApiResponse, ApiResult};

use super::changes::{record_view, show_one};
use super::zone_name;

/// The versions of a zone, oldest first.
pub fn list(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let zone = call.zone(&zone_name(arguments[0])?)?.name;
    let versions = call.listed(&OperationRequest::ZoneHistory { zone })?;
    let versions = versions.into_iter().map(|version: ListedVersion| {
        json!({
            "added": version.added,
            "before": version.before,
            "message": version.message,
            "origin": version.origin,
            "removed": version.removed,
            "serial": version.serial,
            "time": UtcTime::from_unix(version.time).to_string(),
            "who": version.who,
        })
    });
    Ok(ApiResponse::list(versions))
}

/// The records that differ between the serials `from` and `to`; `to` is the newest by default.
pub fn difference(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let zone = call.zone(&zone_name(arguments[0])?)?.name;
    let from = call.request.number("from", "serial")?;
    let from =
        from.ok_or_else(|| ApiError::invalid("'from' query parameter is missing: a serial"))?;
    let to = call.request.number("to", "serial")?;
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    let request = OperationRequest::ZoneDifference { zone, from, to };
    let result = call.list(&request, &mut |item| {
        if let ListedItem::Difference(record) = item {
            let list = match record.change {
                RecordChange::Removed => &mut removed,
                RecordChange::Added => &mut added,
            };
            list.push(record_view(&record));
        }
        true
    })?;
    let to = match result {
        OperationResult::ZoneDifference { to, .. } => Some(to),
        _ => None,
    };
    Ok(ApiResponse::json(
        200,
        &json!({ "added": added, "from": from, "removed": removed, "to": to }),
    ))
}

/// Restores the records of the version with the serial `serial`, under a new serial. `check=true` shows the difference only.
pub fn rollback(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let zone = call.zone(&zone_name(arguments[0])?)?.name;
    let serial = call.request.number("serial", "serial")?;
    let serial = serial.ok_or_else(|| ApiError::invalid("'serial' query parameter is missing"))?;
    let request = OperationRequest::ZoneRollback {
        zone,
        serial,
        dry_run: call.request.flag("check", false)?,
    };
    show_one(call, &request)
}
