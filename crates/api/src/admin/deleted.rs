//! Owns the list of deleted zones and their restoration.

use askama::Template;
use nameward_control::operations::{
    ErrorKind, ListedDeletedZone, ListedItem, OperationRequest, OperationResult,
};

use super::page::{AdminFrame, AdminView, page, redirect, time, zone_path};
use super::session::Notice;
use super::{PageResult, Visit};

struct DeletedRow {
    zone: ListedDeletedZone,
    deleted: String,
    kept_until: String,
}

#[derive(Template)]
#[template(path = "deleted.html")]
struct DeletedPage<'a> {
    frame: AdminFrame<'a>,
    rows: Vec<DeletedRow>,
    problem: Option<String>,
}

/// The deleted zones that can be restored.
pub fn list(visit: &Visit<'_>, _: &[&str]) -> PageResult {
    let mut rows = Vec::new();
    let listed = visit.list(&OperationRequest::DeletedZoneList, &mut |item| {
        if let ListedItem::DeletedZone(zone) = item {
            rows.push(DeletedRow {
                deleted: time(zone.deleted),
                kept_until: time(zone.kept_until),
                zone,
            });
        }
        true
    });
    // Without a state directory no copies are stored, which the page explains.
    let problem = match listed {
        Ok(_) => None,
        Err(error) if error.kind == ErrorKind::Refused => Some(error.message),
        Err(error) => return Err(error),
    };
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
    let path = zone_path(&changed.zone);
    visit.session.leave_notice(Notice {
        text: format!("Zone {} was restored.", changed.zone),
        warnings: changed.warnings,
    });
    Ok(redirect(&path))
}
