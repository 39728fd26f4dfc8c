//! Actions on a zone: notify, retrieve, rectify, export, check.

use nameward_control::operations::OperationRequest;
use nameward_files::zone_from_text_with_warnings;
use nameward_wire::NameBuf;
use nameward_wire::zonefile::Severity;
use serde_json::json;

use crate::content;
use crate::operator::Call;
use crate::response::{ApiError, ApiResponse, ApiResult, media, too_large};

use super::zone_name;

/// Sends NOTIFY to the secondaries.
pub fn notify(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let zone = call.zone(&zone_name(arguments[0])?)?.name;
    call.run(&OperationRequest::ZoneNotify { zone })?;
    done("Notification queued")
}

/// Checks the primary of a secondary zone, and transfers what is newer.
pub fn retrieve(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let zone = call.zone(&zone_name(arguments[0])?)?;
    let name = zone.name.clone();
    let Some(primary) = zone.primaries.first() else {
        return Err(ApiError::invalid(format!(
            "Domain '{name}' is not a secondary domain (or has no primary defined)"
        )));
    };
    let retrieved = call.run(&OperationRequest::ZoneRetrieve {
        zone: zone.name,
        force: false,
    });
    match retrieved {
        // A new secondary that this server is about to read from its database is checked then.
        Ok(_) | Err(ApiError::NotFound) => {}
        Err(error) => return Err(error),
    }
    done(&format!(
        "Added retrieval request for '{name}' from primary {primary}"
    ))
}

/// Makes the derived columns of a database zone again.
pub fn rectify(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let zone = call.zone(&zone_name(arguments[0])?)?.name;
    call.run(&OperationRequest::ZoneRectify { zone })?;
    done("Rectified")
}

/// The zone as a zone file.
pub fn export(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let zone = call.zone(&zone_name(arguments[0])?)?.name;
    let text = zone_file(call, &zone)?;
    Ok(if call.request.accepts_json {
        ApiResponse::json(200, &json!({ "zone": text }))
    } else {
        ApiResponse::text(200, media::ZONE, text)
    })
}

/// Errors and warnings about the zone, as `nameward zone check` reports them.
pub fn check(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let zone = call.zone(&zone_name(arguments[0])?)?.name;
    let apex = NameBuf::zone_from_text(&zone).map_err(|_| ApiError::NotFound)?;
    let text = zone_file(call, &zone)?;
    let scripts = call.api.operator.script_check();
    let found = zone_from_text_with_warnings(apex.as_name(), "zone", text.as_bytes(), &scripts);
    let found = found.map_or_else(|errors| errors, |(_, warnings)| warnings);
    let messages = |severity: Severity| -> Vec<&str> {
        let found = found.iter().filter(|one| one.severity == severity);
        found.map(|one| one.message.as_str()).collect()
    };
    let (errors, warnings) = (messages(Severity::Error), messages(Severity::Warning));
    let report = json!({ "zone": zone, "errors": errors, "warnings": warnings });
    Ok(ApiResponse::json(200, &report))
}

fn zone_file(call: &Call<'_>, zone: &str) -> ApiResult<String> {
    let text = content::zone_file(zone, |request, items| call.list(request, items))?;
    text.ok_or_else(too_large)
}

fn done(result: &str) -> ApiResult {
    Ok(ApiResponse::json(200, &json!({ "result": result })))
}
