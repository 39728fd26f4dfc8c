//! `/cache/flush`.

use nameward_control::operations::{OperationRequest, OperationResult};
use serde_json::json;

use crate::fields::check_canonical;
use crate::operator::Call;
use crate::response::{ApiResponse, ApiResult};

/// Drops the cache entries of a name.
pub fn flush(call: &Call<'_>, _: &[&str]) -> ApiResult {
    let domain = call.request.parameter("domain").unwrap_or_default();
    let name = Some(check_canonical(domain)?.to_owned());
    let count = match call.run(&OperationRequest::CacheFlush { name })? {
        OperationResult::Flushed { entries } => entries,
        _ => 0,
    };
    let reply = json!({ "count": count, "result": "Flushed cache." });
    Ok(ApiResponse::json(200, &reply))
}
