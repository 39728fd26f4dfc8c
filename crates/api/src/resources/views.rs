//! `/views` and `/networks`: the views of the configuration, as PowerDNS shows its own. They are changed in the configuration.

use std::net::IpAddr;

use nameward_control::operations::{ListedItem, ListedView, OperationRequest};
use serde_json::json;

use crate::operator::Call;
use crate::response::{ApiError, ApiResponse, ApiResult};

const CONFIGURED: &str = "views and networks are set in the configuration of the server ([[view]])";

/// The names of all views.
pub fn list(call: &Call<'_>, _: &[&str]) -> ApiResult {
    let views = views(call)?;
    let names: Vec<_> = views.iter().map(|view| &view.name).collect();
    Ok(ApiResponse::json(200, &json!({ "views": names })))
}

/// The zone versions of a view.
pub fn show(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let views = views(call)?;
    let view = views.iter().find(|view| view.name == arguments[0]);
    let view = view.ok_or(ApiError::NotFound)?;
    Ok(ApiResponse::json(200, &json!({ "zones": view.zones })))
}

/// All networks, each with its view.
pub fn networks(call: &Call<'_>, _: &[&str]) -> ApiResult {
    let views = views(call)?;
    let networks: Vec<_> = { views.iter() }
        .flat_map(|view| {
            let networks = view.networks.iter();
            networks.map(|network| json!({ "network": network, "view": view.name }))
        })
        .collect();
    Ok(ApiResponse::json(200, &json!({ "networks": networks })))
}

/// One network with its view.
pub fn network(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let wrong = || ApiError::invalid("expected an address and a prefix length");
    let address: IpAddr = arguments[0].parse().map_err(|_| wrong())?;
    let network = format!("{address}/{}", arguments[1]);
    let views = views(call)?;
    let view = views.iter().find(|view| view.networks.contains(&network));
    let view = view.ok_or(ApiError::NotFound)?;
    let found = json!({ "network": network, "view": view.name });
    Ok(ApiResponse::json(200, &json!({ "networks": [found] })))
}

/// Refuses a change.
pub fn change(_: &Call<'_>, _: &[&str]) -> ApiResult {
    Err(ApiError::invalid(CONFIGURED))
}

fn views(call: &Call<'_>) -> Result<Vec<ListedView>, ApiError> {
    let mut views = Vec::new();
    call.list(&OperationRequest::ViewList, &mut |item| {
        if let ListedItem::View(view) = item {
            views.push(view);
        }
        true
    })?;
    Ok(views)
}
