//! Owns the list of deleted zones and their restoration.

use askama::Template;
use nameward_base::text::utc_text;
use nameward_control::operations::{
    ErrorKind, ListedDeletedZone, OperationRequest, OperationResult,
};

use super::page::{AdminFrame, AdminView, page, redirect, zone_path};
use super::{PageResult, Visit};

#[derive(Template)]
#[template(path = "deleted.html")]
struct DeletedPage<'a> {
    frame: AdminFrame<'a>,
    rows: Vec<ListedDeletedZone>,
    problem: Option<String>,
}

/// The deleted zones that can be restored.
pub fn list(visit: &Visit<'_>, _: &[&str]) -> PageResult {
    // Without a state directory no copies are stored, which the page explains.
    let (rows, problem) = visit.listed_or_problem(&OperationRequest::DeletedZoneList, |kind| {
        kind == ErrorKind::Refused
    })?;
    let page_of = DeletedPage {
        frame: AdminFrame::new(visit, AdminView::Deleted),
        rows,
        problem,
    };
    Ok(page(200, &page_of))
}

/// Restores a zone.
pub fn restore(visit: &Visit<'_>, _: &[&str]) -> PageResult {
    let request = OperationRequest::ZoneUndelete {
        zone: visit.field("zone").to_owned(),
        backend: None,
    };
    let OperationResult::ZoneUndeleted(changed) = visit.run(&request)? else {
        return Ok(redirect("/admin/deleted"));
    };
    let text = format!("Zone {} was restored.", changed.zone);
    Ok(visit.redirect_with(&zone_path(&changed.zone), text, changed.warnings))
}
