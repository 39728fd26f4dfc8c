//! Owns the page about transfers of a zone: its primaries, its secondaries and their serials; NOTIFY and refresh by hand.

use askama::Template;
use nameward_base::text::utc_text;
use nameward_control::operations::{
    ErrorKind, ListedSecondary, ListedZoneStatus, OperationError, OperationRequest,
};
use nameward_control::web::state_class;

use super::page::{AdminFrame, AdminView, ZoneHead, ZoneTab, page, zone_path};
use super::{PageResult, Visit};

#[derive(Template)]
#[template(path = "transfers.html")]
struct TransfersPage<'a> {
    frame: AdminFrame<'a>,
    zone: ZoneHead,
    target: String,
    facts: Vec<(&'static str, String, &'static str)>,
    secondaries: Option<Vec<ListedSecondary>>,
    problem: Option<String>,
}

/// The state of transfers. Secondaries are queried on request: it takes some seconds if one does not respond.
pub fn show(visit: &Visit<'_>, arguments: &[&str]) -> PageResult {
    let zone = visit.zone(arguments[0])?;
    let query = visit.parameter("secondaries") == "1";
    let request = OperationRequest::ZoneStatus {
        zone: Some(zone.name.clone()),
        secondaries: query,
    };
    let (mut found, problem) =
        visit.listed_or_problem(&request, |kind| kind != ErrorKind::Backend)?;
    let status: Option<ListedZoneStatus> = found.pop();
    let zone = ZoneHead::new(visit, &zone, ZoneTab::Transfers);
    let page_of = TransfersPage {
        frame: AdminFrame::new(visit, AdminView::Zones),
        target: format!("{}/transfers", zone.path),
        zone,
        facts: status.as_ref().map(facts).unwrap_or_default(),
        secondaries: status.and_then(|status| status.secondaries),
        problem,
    };
    Ok(page(200, &page_of))
}

fn facts(status: &ListedZoneStatus) -> Vec<(&'static str, String, &'static str)> {
    let mut facts = vec![("State", status.state.clone(), state_class(&status.state))];
    let mut add = |name, value: Option<String>| {
        facts.extend(value.map(|value| (name, value, "")));
    };
    let number = |serial: u32| serial.to_string();
    add("Serial", status.serial.map(number));
    add("Primary", status.primary.clone());
    add("Serial at primary", status.serial_at_primary.map(number));
    add("Last check", status.last_check.map(utc_text));
    add("Last confirmed", status.last_refresh.map(utc_text));
    add("Next check", status.next_check.map(utc_text));
    add("Expires", status.expires.map(utc_text));
    let failures = Some(status.failures).filter(|count| *count > 0);
    add("Failed checks", failures.map(|count| count.to_string()));
    add("Last error", status.last_error.clone());
    let transfer = status.transfer.as_ref();
    add(
        "Running transfer",
        transfer.map(|running| {
            let (records, octets) = (running.records, running.octets);
            format!(
                "{} s, {records} records, {octets} octets from {}",
                running.seconds, running.primary
            )
        }),
    );
    facts
}

/// Sends NOTIFY, or checks the primary.
pub fn start(visit: &Visit<'_>, arguments: &[&str]) -> PageResult {
    let zone = visit.zone(arguments[0])?.name;
    let retrieve = |force| OperationRequest::ZoneRetrieve {
        zone: zone.clone(),
        force,
    };
    let (request, text) = match visit.field("action") {
        "notify" => {
            let request = OperationRequest::ZoneNotify { zone: zone.clone() };
            (request, "NOTIFY messages are being sent")
        }
        "retrieve" => (retrieve(false), "refresh started"),
        "force" => (retrieve(true), "full transfer started"),
        _ => return Err(OperationError::invalid("There is no such action.")),
    };
    visit.run(&request)?;
    let path = format!("{}/transfers", zone_path(&zone));
    let text = format!("Zone {zone}: {text}.");
    Ok(visit.redirect_with(&path, text, Vec::new()))
}
