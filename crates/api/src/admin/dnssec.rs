//! Owns the DNSSEC page of a zone: how it is signed, its keys, the DS for the parent, the next step; and their changes.

use askama::Template;
use nameward_base::text::utc_text;
use nameward_control::operations::{
    DsAdvice, DsReport, DsTime, KeyChange, KeySteps, ListedSigning, ListedZoneKey, OperationError,
    OperationRequest, OperationResult,
};

use super::page::{AdminFrame, AdminView, ZoneHead, ZoneTab, page, zone_path};
use super::{PageResult, Visit};

#[derive(Template)]
#[template(path = "dnssec.html")]
struct DnssecPage<'a> {
    frame: AdminFrame<'a>,
    zone: ZoneHead,
    target: String,
    signing: ListedSigning,
    next: Option<String>,
    expires: Option<String>,
    keys: Vec<ListedZoneKey>,
    /// Keys are managed by a policy.
    is_managed: bool,
    advice: Option<ShownAdvice>,
    problem: Option<String>,
}

/// Whether the parent may publish the DS.
struct ShownAdvice {
    is_ready: bool,
    reasons: Vec<String>,
}

/// The page. Whether the parent may have the DS is found out on request: the secondaries are queried for it.
pub fn show(visit: &Visit<'_>, arguments: &[&str]) -> PageResult {
    draw(visit, arguments[0], None)
}

fn draw(visit: &Visit<'_>, zone: &str, problem: Option<String>) -> PageResult {
    let zone = visit.zone(zone)?;
    let name = zone.name.clone();
    let request = OperationRequest::ZoneShow { zone: name.clone() };
    let OperationResult::Zone(details) = visit.run(&request)? else {
        return Err(OperationError::not_found("zone not found"));
    };
    let request = OperationRequest::KeyList {
        zone: Some(name.clone()),
    };
    // A zone that cannot have keys here has none.
    let keys = visit.listed(&request).unwrap_or_default();
    let advice = if visit.parameter("check") == "1" {
        match visit.run(&OperationRequest::ZoneDs { zone: name })? {
            OperationResult::ZoneDs { advice, .. } => Some(shown_advice(&advice)),
            _ => None,
        }
    } else {
        None
    };
    let signing = details.signing.unwrap_or_default();
    let status = if problem.is_some() { 422 } else { 200 };
    let zone = ZoneHead::new(visit, &zone, ZoneTab::Dnssec);
    let page_of = DnssecPage {
        frame: AdminFrame::new(visit, AdminView::Zones),
        target: format!("{}/dnssec", zone.path),
        zone,
        next: signing.next.as_ref().map(|next| match next.at {
            Some(at) => format!("{}, {}", next.step, utc_text(at)),
            None => next.step.clone(),
        }),
        expires: signing.signature_expires.map(utc_text),
        is_managed: signing.policy.is_some(),
        signing,
        keys,
        advice,
        problem,
    };
    Ok(page(status, &page_of))
}

/// Describes how a zone is signed.
fn signed_text(word: &str) -> &str {
    match word {
        "database" => "yes, with the keys in its database",
        "by hand" => "yes, with keys that are managed by hand",
        "policy" => "yes, by its policy",
        "stored" => "yes, its signatures are stored with it",
        other => other,
    }
}

fn shown_advice(advice: &DsAdvice) -> ShownAdvice {
    let mut reasons = Vec::new();
    match advice.caches {
        Some(DsTime::Now) => {}
        Some(DsTime::At(at)) => reasons.push(format!(
            "Caches may have unsigned answers until {}.",
            utc_text(at)
        )),
        Some(DsTime::AfterSigning(seconds)) => reasons.push(format!(
            "Caches may have unsigned answers for {seconds} seconds after the zone was signed."
        )),
        None => reasons.push("It is unknown how long caches have unsigned answers.".into()),
    }
    for one in advice.secondaries.iter().flatten().filter(|one| one.behind) {
        let state = match (&one.serial, &one.problem) {
            (Some(serial), _) => format!("has serial {serial}"),
            (None, Some(problem)) => problem.clone(),
            (None, None) => "did not respond".into(),
        };
        reasons.push(format!("Secondary {}: {state}.", one.server));
    }
    ShownAdvice {
        is_ready: advice.is_ready(),
        reasons,
    }
}

/// Signs, unsigns, rolls and changes keys.
pub fn change(visit: &Visit<'_>, arguments: &[&str]) -> PageResult {
    let zone = visit.zone(arguments[0])?.name;
    let done = read_action(visit, &zone).and_then(|request| visit.run(&request));
    match done {
        Ok(result) => {
            let path = format!("{}/dnssec", zone_path(&zone));
            let text = format!("Zone {zone}: {}.", outcome(&result));
            Ok(visit.redirect_with(&path, text, Vec::new()))
        }
        Err(error) => draw(visit, arguments[0], Some(error.message)),
    }
}

fn read_action(visit: &Visit<'_>, zone: &str) -> PageResult<OperationRequest> {
    let zone = zone.to_owned();
    let chosen = |name| Some(visit.field(name).to_owned()).filter(|text| !text.is_empty());
    let number = visit.field("key").parse::<u32>();
    let key = || {
        number
            .clone()
            .map_err(|_| OperationError::invalid("Choose a key."))
    };
    let change = |change| {
        Ok(OperationRequest::KeyChange {
            zone: zone.clone(),
            key: key()?,
            change,
        })
    };
    let report = |report| {
        Ok(OperationRequest::KeyDs {
            zone: zone.clone(),
            key: number.clone().ok(),
            report,
        })
    };
    match visit.field("action") {
        "sign" => Ok(OperationRequest::ZoneSecure {
            zone,
            algorithm: chosen("algorithm"),
            denial: chosen("denial"),
            soa_edit: None,
        }),
        "unsign" => {
            let typed = visit.field("typed").trim_end_matches('.');
            if !typed.eq_ignore_ascii_case(zone.trim_end_matches('.')) {
                let text = format!("The name that you typed is not {zone}.");
                return Err(OperationError::invalid(text));
            }
            let force = visit.field("force") == "1";
            Ok(OperationRequest::ZoneUnsecure { zone, force })
        }
        "rollover" => Ok(OperationRequest::KeyRollover {
            zone,
            role: chosen("role"),
        }),
        "ds-seen" => report(DsReport::Seen),
        "ds-gone" => report(DsReport::Gone),
        "activate" => change(KeyChange::Activate),
        "deactivate" => change(KeyChange::Deactivate),
        "publish" => change(KeyChange::Publish),
        "unpublish" => change(KeyChange::Unpublish),
        // A private key that is gone cannot be restored.
        "remove" if visit.field("sure") != "1" => Err(OperationError::invalid(
            "Confirm that the private key is deleted for good.",
        )),
        "remove" => Ok(OperationRequest::KeyRemove {
            zone: zone.clone(),
            key: key()?,
        }),
        _ => Err(OperationError::invalid("There is no such action.")),
    }
}

fn outcome(result: &OperationResult) -> String {
    match result {
        OperationResult::ZoneSecured { .. } => {
            "signed; send the DS to the parent when this page says that it may be published".into()
        }
        OperationResult::SigningChanged { .. } => "signing changed".into(),
        OperationResult::ZoneUnsecured { .. } => "no longer signed".into(),
        OperationResult::KeySteps(KeySteps { steps, .. }) => {
            if steps.is_empty() {
                "recorded; no step is due yet".into()
            } else {
                steps.join("; ")
            }
        }
        OperationResult::ZoneKeyRemoved { key, .. } => format!("key {key} removed"),
        _ => "changed".into(),
    }
}
