//! Owns the page of the audit log: requested changes, the newest first.

use askama::Template;
use nameward_base::text::utc_text;
use nameward_control::operations::{AuditRequest, ErrorKind, ListedAudit, OperationRequest};

use super::page::{AdminFrame, AdminView, escaped, page};
use super::{PageResult, Visit};

/// Entries per page.
const ROWS: u64 = 100;

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage<'a> {
    frame: AdminFrame<'a>,
    zone: &'a str,
    key: &'a str,
    rows: Vec<ListedAudit>,
    next: Option<String>,
    problem: Option<String>,
}

/// The entries, filtered by zone and key.
pub fn list(visit: &Visit<'_>, _: &[&str]) -> PageResult {
    let (zone, key) = (visit.parameter("zone"), visit.parameter("key"));
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let request = AuditRequest {
        zone: given(zone),
        key: given(key),
        since: None,
        before: visit.parameter("before").parse().ok(),
        limit: ROWS,
    };
    let request = OperationRequest::AuditList(request);
    let (entries, problem) =
        visit.listed_or_problem(&request, |kind| kind != ErrorKind::Backend)?;
    let rows = entries.into_iter().map(|entry: Box<ListedAudit>| *entry);
    let rows: Vec<_> = rows.collect();
    let last = rows.last().filter(|_| rows.len() as u64 >= ROWS);
    let next = last.map(|last| {
        let (zone, key) = (escaped(zone), escaped(key));
        format!("/admin/audit?zone={zone}&key={key}&before={}", last.number)
    });
    let page_of = AuditPage {
        frame: AdminFrame::new(visit, AdminView::Audit),
        zone,
        key,
        rows,
        next,
        problem,
    };
    Ok(page(200, &page_of))
}
