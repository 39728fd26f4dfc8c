//! `/audit`: the audit log, newest first.

use nameward_base::calendar::UtcTime;
use nameward_control::operations::{AuditRequest, ListedAudit, OperationRequest};
use serde_json::json;

use crate::fields::check_canonical;
use crate::operator::Call;
use crate::response::{ApiError, ApiResponse, ApiResult};

/// Entries by default, and the most in one reply.
const DEFAULT_LIMIT: u64 = 100;
const LIMIT_MAX: u64 = 10_000;

/// Lists entries, filtered by `zone`, `key` and `since`. `before` is the number of the last entry of the previous page.
pub fn list(call: &Call<'_>, _: &[&str]) -> ApiResult {
    let text = |name: &str| call.request.text(name);
    let since = text("since").map(|text| {
        let time = text.parse().ok().or_else(|| UtcTime::from_rfc3339(text)?.to_unix());
        time.ok_or_else(|| {
            ApiError::invalid(format!(
                "'since' query parameter is not a time: expected 2027-01-31T12:00:00Z or seconds since 1970, found '{text}'"
            ))
        })
    });
    let limit = call.request.number("limit", "number")?;
    let before = call.request.number("before", "number")?;
    let request = AuditRequest {
        zone: text("zone")
            .map(|zone| check_canonical(zone).map(str::to_owned))
            .transpose()?,
        key: text("key").map(str::to_owned),
        since: since.transpose()?,
        before: before.map(i64::from),
        limit: limit.map_or(DEFAULT_LIMIT, |limit| u64::from(limit).clamp(1, LIMIT_MAX)),
    };
    let entries = call.listed(&OperationRequest::AuditList(request))?;
    let entries = entries.into_iter().map(|entry: Box<ListedAudit>| {
        json!({
            "address": entry.address,
            "detail": entry.detail,
            "error": entry.error,
            "key": entry.key,
            "message": entry.message,
            "number": entry.number,
            "operation": entry.operation,
            "outcome": if entry.error.is_some() { "failed" } else { "done" },
            "serial": entry.serial,
            "time": UtcTime::from_unix(entry.time).to_string(),
            "who": entry.who,
            "zone": entry.zone,
        })
    });
    Ok(ApiResponse::list(entries))
}
