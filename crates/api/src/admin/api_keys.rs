//! Owns the page of API keys: list, create, delete. The text of a new key is shown once.

use askama::Template;
use nameward_base::calendar::UtcTime;
use nameward_base::text::utc_text;
use nameward_control::operations::{
    ApiKeyTemplate, ListedApiKey, OperationError, OperationRequest, OperationResult,
};

use super::page::{AdminFrame, AdminView, page, redirect};
use super::{PageResult, Visit};

#[derive(Template)]
#[template(path = "api_keys.html")]
struct ApiKeysPage<'a> {
    frame: AdminFrame<'a>,
    rows: Vec<ListedApiKey>,
    /// The text of a key that was just created.
    secret: Option<String>,
    description: &'a str,
    zones: &'a str,
    expires: &'a str,
    read_only: bool,
    problem: Option<String>,
}

/// The keys, and the form of a new one.
pub fn list(visit: &Visit<'_>, _: &[&str]) -> PageResult {
    draw(visit, None, None)
}

/// Creates or deletes a key.
pub fn change(visit: &Visit<'_>, _: &[&str]) -> PageResult {
    let done = read_action(visit).and_then(|request| visit.run(&request));
    match done {
        Ok(OperationResult::ApiKeyCreated { secret, .. }) => {
            draw(visit, Some(secret.reveal().to_owned()), None)
        }
        Ok(OperationResult::ApiKeyDeleted { id }) => {
            let text =
                format!("API key {id} was deleted. Requests with it are refused from now on.");
            Ok(visit.redirect_with("/admin/api-keys", text, Vec::new()))
        }
        Ok(_) => Ok(redirect("/admin/api-keys")),
        Err(error) => draw(visit, None, Some(error.message)),
    }
}

fn read_action(visit: &Visit<'_>) -> PageResult<OperationRequest> {
    if visit.field("action") == "delete" {
        let key = visit.field("key").to_owned();
        return Ok(OperationRequest::ApiKeyDelete { key });
    }
    let expires = match visit.field("expires") {
        "" => None,
        text => Some(
            UtcTime::from_rfc3339(text)
                .and_then(UtcTime::to_unix)
                .ok_or_else(|| {
                    OperationError::invalid(format!("Invalid date {text:?}: expected 2027-01-31."))
                })?,
        ),
    };
    let zones = visit.field("zones").split([',', ' ', '\n', '\r', '\t']);
    let zones = zones.filter(|zone| !zone.is_empty()).map(str::to_owned);
    Ok(OperationRequest::ApiKeyCreate(ApiKeyTemplate {
        zones: zones.collect(),
        read_only: visit.field("read_only") == "1",
        expires,
        description: visit.field("description").to_owned(),
    }))
}

fn draw(visit: &Visit<'_>, secret: Option<String>, problem: Option<String>) -> PageResult {
    // A form that was successful is empty again.
    let kept = |name| match problem {
        Some(_) => visit.field(name),
        None => "",
    };
    let status = if problem.is_some() { 422 } else { 200 };
    let page_of = ApiKeysPage {
        frame: AdminFrame::new(visit, AdminView::ApiKeys),
        rows: visit.listed(&OperationRequest::ApiKeyList)?,
        secret,
        description: kept("description"),
        zones: kept("zones"),
        expires: kept("expires"),
        read_only: kept("read_only") == "1",
        problem: problem.clone(),
    };
    Ok(page(status, &page_of))
}
