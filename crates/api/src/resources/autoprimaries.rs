//! `/autoprimaries`: servers whose zones become secondary zones here.

use nameward_control::operations::{AutoprimaryTemplate, ListedAutoprimary, OperationRequest};
use serde_json::json;

use crate::fields::{optional_string, string};
use crate::operator::Call;
use crate::response::{ApiError, ApiResponse, ApiResult};

/// All autoprimaries.
pub fn list(call: &Call<'_>, _: &[&str]) -> ApiResult {
    let listed = call.listed(&OperationRequest::AutoprimaryList)?;
    let listed = listed.into_iter().map(|one: ListedAutoprimary| {
        json!({ "account": one.account, "ip": one.address, "nameserver": one.name_server })
    });
    Ok(ApiResponse::list(listed))
}

/// Adds an autoprimary.
pub fn add(call: &Call<'_>, _: &[&str]) -> ApiResult {
    let body = call.request.json()?;
    let template = AutoprimaryTemplate {
        address: string(&body, "ip")?.into(),
        name_server: string(&body, "nameserver")?.into(),
        account: optional_string(&body, "account")?.unwrap_or("").into(),
        backend: None,
    };
    call.run(&OperationRequest::AutoprimaryAdd(template))?;
    Ok(ApiResponse::empty(201))
}

/// Removes an autoprimary; one that is not there is removed already.
pub fn remove(call: &Call<'_>, arguments: &[&str]) -> ApiResult {
    let template = AutoprimaryTemplate {
        address: arguments[0].into(),
        name_server: arguments[1].into(),
        account: String::new(),
        backend: None,
    };
    match call.run(&OperationRequest::AutoprimaryRemove(template)) {
        Ok(_) | Err(ApiError::NotFound) => Ok(ApiResponse::empty(204)),
        Err(error) => Err(error),
    }
}
