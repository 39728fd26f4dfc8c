//! `/api`, `/api/v1` and the one server.

use serde_json::{Value, json};

use crate::operator::Call;
use crate::response::{ApiResponse, ApiResult};

use super::SERVER;

/// Clients read it as the version of PowerDNS whose API they may use.
const VERSION: &str = concat!("5.1.0-nameward.", env!("CARGO_PKG_VERSION"));

/// The versions of the API.
pub fn versions(_: &Call<'_>, _: &[&str]) -> ApiResult {
    let versions = json!([{ "url": "/api/v1", "version": 1 }]);
    Ok(ApiResponse::json(200, &versions))
}

/// The features of version 1.
pub fn features(_: &Call<'_>, _: &[&str]) -> ApiResult {
    let features = json!([{ "api_features": [], "server_url": "/api/v1/servers{/server}" }]);
    Ok(ApiResponse::json(200, &features))
}

/// The list of servers.
pub fn list(_: &Call<'_>, _: &[&str]) -> ApiResult {
    Ok(ApiResponse::json(200, &json!([server()])))
}

/// The server.
pub fn show(_: &Call<'_>, _: &[&str]) -> ApiResult {
    Ok(ApiResponse::json(200, &server()))
}

fn server() -> Value {
    json!({
        "autoprimaries_url": format!("{SERVER}/autoprimaries{{/autoprimary}}"),
        "config_url": format!("{SERVER}/config{{/config_setting}}"),
        "daemon_type": "authoritative",
        "id": "localhost",
        "type": "Server",
        "url": SERVER,
        "version": VERSION,
        "zones_url": format!("{SERVER}/zones{{/zone}}"),
    })
}
