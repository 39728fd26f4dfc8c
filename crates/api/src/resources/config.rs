//! `/config`: settings under their PowerDNS names.

use serde_json::{Value, json};

use crate::operator::Call;
use crate::response::{ApiError, ApiResponse, ApiResult};

/// All settings.
pub fn list(call: &Call<'_>, _: &[&str]) -> ApiResult {
    Ok(ApiResponse::list(call.settings()?.into_iter().map(setting)))
}

/// One setting.
pub fn show(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let mut settings = call.settings()?.into_iter();
    let found = settings.find(|(name, _)| name == arguments[0]);
    let found = found.ok_or(ApiError::NotFound)?;
    Ok(ApiResponse::json(200, &setting(found)))
}

fn setting((name, value): (String, String)) -> Value {
    json!({ "name": name, "type": "ConfigSetting", "value": value })
}
