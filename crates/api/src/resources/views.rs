//! `/views` and `/networks`, as in PowerDNS 5: views are those of the configuration and those in the state store, which
//! can be changed here.

use nameward_control::operations::{ListedNetwork, ListedView, OperationRequest};
use serde_json::json;

use crate::fields::{optional_string, string};
use crate::operator::Call;
use crate::response::{ApiError, ApiResponse, ApiResult};

/// The names of all views.
pub fn list(call: &Call<'_>, _: &[&str]) -> ApiResult {
    let views: Vec<ListedView> = call.listed(&OperationRequest::ViewList)?;
    let names: Vec<_> = views.iter().map(|view| &view.name).collect();
    Ok(ApiResponse::json(200, &json!({ "views": names })))
}

/// The zone versions of a view.
pub fn show(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let views: Vec<ListedView> = call.listed(&OperationRequest::ViewList)?;
    let view = views.iter().find(|view| view.name == arguments[0]);
    let view = view.ok_or(ApiError::NotFound)?;
    Ok(ApiResponse::json(200, &json!({ "zones": view.zones })))
}

/// Gives a view its own version of a zone.
pub fn add_zone(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let body = call.request.json()?;
    call.run(&OperationRequest::ViewAddZone {
        view: arguments[0].to_owned(),
        zone: string(&body, "name")?.to_owned(),
    })?;
    Ok(ApiResponse::empty(204))
}

/// Removes a zone version from a view.
pub fn remove_zone(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    call.run(&OperationRequest::ViewRemoveZone {
        view: arguments[0].to_owned(),
        zone: arguments[1].to_owned(),
    })?;
    Ok(ApiResponse::empty(204))
}

/// All networks, each with its view.
pub fn list_networks(call: &Call<'_>, _: &[&str]) -> ApiResult {
    let networks: Vec<ListedNetwork> = call.listed(&OperationRequest::NetworkList)?;
    Ok(ApiResponse::json(200, &json!({ "networks": networks })))
}

/// One network with its view.
pub fn show_network(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let network = network(arguments)?;
    let mut networks: Vec<ListedNetwork> = call.listed(&OperationRequest::NetworkList)?;
    networks.retain(|known| known.network == network);
    if networks.is_empty() {
        return Err(ApiError::NotFound);
    }
    Ok(ApiResponse::json(200, &json!({ "networks": networks })))
}

/// Sets the view of a network; an empty name removes the network.
pub fn set_network(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let body = call.request.json()?;
    let view = optional_string(&body, "view")?;
    let view = view.ok_or_else(|| ApiError::invalid("Key 'view' not present or not a string"))?;
    call.run(&OperationRequest::NetworkSet {
        network: network(arguments)?,
        view: Some(view.to_owned()),
    })?;
    Ok(ApiResponse::empty(204))
}

/// Removes a network.
pub fn remove_network(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    call.run(&OperationRequest::NetworkSet {
        network: network(arguments)?,
        view: None,
    })?;
    Ok(ApiResponse::empty(204))
}

/// Returns the network in a path, without bits beyond its prefix.
fn network(arguments: &[&str]) -> ApiResult<String> {
    let network = format!("{}/{}", arguments[0], arguments[1]);
    let network: Option<ipnet::IpNet> = network.parse().ok();
    let wrong = || ApiError::invalid("expected an address and a prefix length");
    Ok(network.ok_or_else(wrong)?.trunc().to_string())
}
