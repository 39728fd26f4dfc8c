//! Owns the page of a zone: its state and its records; and its deletion.

use askama::Template;
use nameward_base::text::{counted, utc_text};
use nameward_control::operations::{
    OperationError, OperationRequest, OperationResult, ZoneDetails,
};
use nameward_control::web::state_class;

use super::page::{AdminFrame, AdminView, ZoneHead, ZoneTab, escaped, page, redirect};
use super::rrsets::{self, RrsetFilter, ShownRrset};
use super::{PageResult, Visit};
use crate::response::ApiResponse;

/// RRsets per page.
const ROWS: usize = 100;

#[derive(Template)]
#[template(path = "zone.html")]
struct AdminZonePage<'a> {
    frame: AdminFrame<'a>,
    zone: ZoneHead,
    facts: Vec<(&'static str, String, &'static str)>,
    warnings: Vec<String>,
    text: &'a str,
    rtype: &'a str,
    count: String,
    rows: Vec<RrsetRow>,
    previous: Option<String>,
    next: Option<String>,
    position: String,
    problem: Option<String>,
}

struct RrsetRow {
    rrset: ShownRrset,
    /// The owner is that of the row above.
    is_repeated: bool,
    link: String,
}

/// The page of a zone.
pub fn show(visit: &Visit<'_>, arguments: &[&str]) -> PageResult {
    let zone = visit.zone(arguments[0])?;
    let request = OperationRequest::ZoneShow {
        zone: zone.name.clone(),
    };
    let OperationResult::Zone(details) = visit.run(&request)? else {
        return Err(OperationError::not_found("zone not found"));
    };
    let filter = RrsetFilter {
        text: visit.parameter("q").to_ascii_lowercase(),
        rtype: visit.parameter("type").to_ascii_uppercase(),
    };
    // A zone without data has a page too.
    let (rrsets, problem) = match rrsets::list(visit, &zone, &filter) {
        Ok(rrsets) => (rrsets, None),
        Err(error) => (Vec::new(), Some(error.message)),
    };
    let head = ZoneHead::new(visit, &zone, ZoneTab::Records);
    let matching = rrsets.len();
    let pages = matching.div_ceil(ROWS).max(1);
    let wanted: usize = visit.parameter("page").parse().unwrap_or(1);
    let number = wanted.clamp(1, pages);
    let link = |number: usize| {
        let (text, rtype) = (escaped(&filter.text), escaped(&filter.rtype));
        format!("{}?q={text}&type={rtype}&page={number}", head.path)
    };
    let shown = rrsets.into_iter().skip((number - 1) * ROWS).take(ROWS);
    let mut shown: Vec<ShownRrset> = shown.collect();
    rrsets::add_comments(visit, &zone, &mut shown)?;
    let page_of = AdminZonePage {
        frame: AdminFrame::new(visit, AdminView::Zones),
        facts: facts(&details),
        warnings: details.warnings.clone(),
        text: visit.parameter("q"),
        rtype: visit.parameter("type"),
        count: counted(matching, "RRset"),
        rows: rows(shown, &head.path),
        previous: (number > 1).then(|| link(number - 1)),
        next: (number < pages).then(|| link(number + 1)),
        position: format!("Page {number} of {pages}"),
        zone: head,
        problem,
    };
    Ok(page(200, &page_of))
}

fn rows(rrsets: Vec<ShownRrset>, path: &str) -> Vec<RrsetRow> {
    let mut above = String::new();
    let rows = rrsets.into_iter().map(|rrset| {
        let is_repeated = rrset.name == above;
        above.clone_from(&rrset.name);
        let (name, rtype) = (escaped(&rrset.relative), escaped(&rrset.rtype));
        RrsetRow {
            link: format!("{path}/rrset?name={name}&type={rtype}"),
            rrset,
            is_repeated,
        }
    });
    rows.collect()
}

/// The state of a zone: name, value, class.
fn facts(zone: &ZoneDetails) -> Vec<(&'static str, String, &'static str)> {
    let mut facts = vec![("State", zone.state.clone(), state_class(&zone.state))];
    let mut add = |name, value: Option<String>| {
        facts.extend(value.map(|value| (name, value, "")));
    };
    add("Serial", zone.serial.map(|serial| serial.to_string()));
    add(
        "Stored serial",
        zone.stored_serial.map(|serial| serial.to_string()),
    );
    let records = zone.records.map(|count| match zone.disabled {
        None | Some(0) => count.to_string(),
        Some(disabled) => format!("{count}, and {disabled} disabled"),
    });
    add("Records", records);
    add(
        "Stored in",
        Some(match zone.backend {
            0 => zone.database.clone(),
            number => format!("{} (backend {number}, {})", zone.database, zone.mode),
        }),
    );
    add("Primaries", zone.primaries.clone());
    add(
        "Account",
        zone.account.clone().filter(|text| !text.is_empty()),
    );
    add(
        "Catalog",
        zone.catalog.clone().filter(|text| !text.is_empty()),
    );
    let signing = zone.signing.as_ref();
    add("Signing", signing.map(|signing| signing.signed.clone()));
    let expires = signing.and_then(|signing| signing.signature_expires);
    add("Signatures expire", expires.map(utc_text));
    facts
}

#[derive(Template)]
#[template(path = "delete.html")]
struct DeletePage<'a> {
    frame: AdminFrame<'a>,
    zone: ZoneHead,
    problem: Option<String>,
}

/// The form that asks for the name of the zone.
pub fn confirm_deletion(visit: &Visit<'_>, arguments: &[&str]) -> PageResult {
    draw_deletion(visit, arguments[0], None)
}

/// Deletes a zone whose name the user has typed.
pub fn delete(visit: &Visit<'_>, arguments: &[&str]) -> PageResult {
    let zone = visit.zone(arguments[0])?;
    let typed = visit.field("typed").trim_end_matches('.');
    if !typed.eq_ignore_ascii_case(zone.name.trim_end_matches('.')) {
        let problem = format!("The name that you typed is not {}.", zone.name);
        return draw_deletion(visit, arguments[0], Some(problem));
    }
    let request = OperationRequest::ZoneDelete {
        serial: None,
        zone: zone.name.clone(),
        no_copy: false,
    };
    match visit.run(&request) {
        Ok(OperationResult::ZoneDeleted { kept_until, .. }) => {
            let kept = match kept_until {
                Some(until) => format!(" It can be restored until {}.", utc_text(until)),
                None => " No copy is kept.".to_owned(),
            };
            let text = format!("Zone {} was deleted.{kept}", zone.name);
            Ok(visit.redirect_with("/admin/zones", text, Vec::new()))
        }
        Ok(_) => Ok(redirect("/admin/zones")),
        Err(error) => draw_deletion(visit, arguments[0], Some(error.message)),
    }
}

fn draw_deletion(
    visit: &Visit<'_>,
    zone: &str,
    problem: Option<String>,
) -> PageResult<ApiResponse> {
    let zone = visit.zone(zone)?;
    let status = if problem.is_some() { 422 } else { 200 };
    let page_of = DeletePage {
        frame: AdminFrame::new(visit, AdminView::Zones),
        zone: ZoneHead::new(visit, &zone, ZoneTab::Delete),
        problem,
    };
    Ok(page(status, &page_of))
}
