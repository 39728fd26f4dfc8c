//! `/statistics`: counters and rings.

use nameward_control::web::statistics;

use crate::operator::Call;
use crate::response::{ApiError, ApiResponse, ApiResult};

/// All counters and rings, or one counter.
pub fn list(call: &Call<'_>, _: &[&str]) -> ApiResult {
    let rings = call.request.flag("includerings", true)?;
    let name = call.request.parameter("statistic");
    let items = statistics(&call.snapshot()?, name, rings);
    let items = items.ok_or_else(|| ApiError::invalid("Unknown statistic name"))?;
    Ok(ApiResponse::list(items))
}
