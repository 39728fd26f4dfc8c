//! `/views` and `/networks`: lists that are empty. Zones have no variants here, as in PowerDNS with a database backend.

use serde_json::json;

use crate::operator::Call;
use crate::response::{ApiError, ApiResponse, ApiResult};

const UNSUPPORTED: &str =
    "views and networks are not supported: a zone has the same contents for every client";

/// No view.
pub fn list(_: &Call<'_>, _: &[&str]) -> ApiResult {
    Ok(ApiResponse::json(200, &json!({ "views": [] })))
}

/// No network.
pub fn networks(_: &Call<'_>, _: &[&str]) -> ApiResult {
    Ok(ApiResponse::json(200, &json!({ "networks": [] })))
}

/// A view or network that does not exist.
pub fn show(_: &Call<'_>, _: &[&str]) -> ApiResult {
    Err(ApiError::NotFound)
}

/// Refuses a change.
pub fn change(_: &Call<'_>, _: &[&str]) -> ApiResult {
    Err(ApiError::invalid(UNSUPPORTED))
}
