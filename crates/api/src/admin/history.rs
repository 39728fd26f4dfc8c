//! The history of a zone: its versions, the difference between two, and the rollback to an older one.

use askama::Template;
use nameward_base::text::utc_text;
use nameward_control::operations::{
    ErrorKind, ListedDifference, ListedVersion, OperationError, OperationRequest, RrsetsRequest,
    ZoneAttributes,
};

use super::page::{AdminFrame, AdminView, ZoneHead, ZoneTab, page};
use super::proposal::{Differences, Proposal, check_editable, propose};
use super::{PageResult, Visit};

/// Versions that a page lists, the newest first.
const VERSIONS_MAX: usize = 500;

#[derive(Template)]
#[template(path = "history.html")]
struct HistoryPage<'a> {
    frame: AdminFrame<'a>,
    zone: ZoneHead,
    /// The newest first.
    rows: Vec<ListedVersion>,
    hidden: usize,
    problem: Option<String>,
}

#[derive(Template)]
#[template(path = "difference.html")]
struct DifferencePage<'a> {
    frame: AdminFrame<'a>,
    zone: ZoneHead,
    from: u32,
    to: u32,
    shown: Differences,
}

/// The versions of a zone, or the difference of two.
pub fn list(visit: &Visit<'_>, arguments: &[&str]) -> PageResult {
    let zone = visit.zone(arguments[0])?;
    let serial = |name| visit.parameter(name).parse::<u32>().ok();
    if let (Some(from), Some(to)) = (serial("from"), serial("to")) {
        let differences = difference(visit, &zone, from, Some(to))?;
        let zone = ZoneHead::new(visit, &zone, ZoneTab::History);
        let page_of = DifferencePage {
            frame: AdminFrame::new(visit, AdminView::Zones),
            shown: Differences::new(&zone.name, differences),
            zone,
            from,
            to,
        };
        return Ok(page(200, &page_of));
    }
    let request = OperationRequest::ZoneHistory {
        zone: zone.name.clone(),
    };
    // Live zones and servers without a state directory have no journal, which the page explains.
    let (versions, problem) =
        visit.listed_or_problem(&request, |kind| kind == ErrorKind::Refused)?;
    let hidden = versions.len().saturating_sub(VERSIONS_MAX);
    let rows = versions.into_iter().rev().take(VERSIONS_MAX);
    let page_of = HistoryPage {
        frame: AdminFrame::new(visit, AdminView::Zones),
        zone: ZoneHead::new(visit, &zone, ZoneTab::History),
        rows: rows.collect(),
        hidden,
        problem,
    };
    Ok(page(200, &page_of))
}

/// Proposes the records of an older version, or commits them.
pub fn roll_back(visit: &Visit<'_>, arguments: &[&str]) -> PageResult {
    let zone = visit.zone(arguments[0])?;
    check_editable(visit, &zone)?;
    let invalid = |_| OperationError::invalid("Choose the version to restore.");
    let to: u32 = visit.field("to").parse().map_err(invalid)?;
    let rollback_form = rollback_form(visit, &zone, to)?;
    let proposal = Proposal {
        title: format!("Restore the records of serial {to}"),
        tab: ZoneTab::History,
        request: RrsetsRequest::from_difference(&zone.name, &rollback_form),
        zone,
        notes: Vec::new(),
        fields: vec![
            ("to".to_owned(), to.to_string()),
            ("reason".to_owned(), format!("restore serial {to}")),
        ],
        action: "/history",
        is_editable: false,
    };
    propose(visit, &proposal)
}

/// The difference from the newest version to an older one.
fn rollback_form(
    visit: &Visit<'_>,
    zone: &ZoneAttributes,
    to: u32,
) -> PageResult<Vec<ListedDifference>> {
    let forward = difference(visit, zone, to, None)?;
    let reversed = forward.into_iter().map(|mut record| {
        use nameward_control::operations::RecordChange::{Added, Removed};
        record.change = match record.change {
            Added => Removed,
            Removed => Added,
        };
        record
    });
    Ok(reversed.collect())
}

fn difference(
    visit: &Visit<'_>,
    zone: &ZoneAttributes,
    from: u32,
    to: Option<u32>,
) -> PageResult<Vec<ListedDifference>> {
    let request = OperationRequest::ZoneDifference {
        zone: zone.name.clone(),
        from,
        to,
    };
    visit.listed(&request)
}
