//! The lines about zone keys.

use nameward_base::text::{utc_text, zone_text};

use crate::operations::{DsAdvice, DsTime, KeySteps, ListedStep, ListedZoneKey, table_row};

table_row! { ListedZoneKey as item:
    "ZONE" = item.zone,
    "KEY" = item.key,
    "TAG" = item.tag,
    "ROLE" = item.role,
    "ALGORITHM" = item.algorithm,
    "USE" = usage(item),
}

/// Describes how a key is used, and its progress under a policy.
fn usage(key: &ListedZoneKey) -> String {
    let usage = key.usage();
    match key.problem.as_ref().or(key.state.as_ref()) {
        Some(state) => format!("{usage}, {state}"),
        None => usage.into(),
    }
}

/// Formats a key as one line: zone, number, tag, role, algorithm, use.
pub(crate) fn line(key: &ListedZoneKey) -> String {
    let usage = usage(key);
    let ListedZoneKey {
        zone,
        key: number,
        tag,
        role,
        algorithm,
        ..
    } = key;
    format!("{zone} {number} {tag} {role} {algorithm} {usage}")
}

/// The removal of a key.
pub(crate) fn removed(zone: &str, key: u32) -> String {
    format!("zone {}: key {key} removed\n", zone_text(zone))
}

/// Formats the steps of an operation on keys under a policy, and the next one.
pub(crate) fn steps(steps: &KeySteps) -> String {
    let zone = zone_text(&steps.zone);
    let mut text = String::new();
    for step in &steps.steps {
        text.push_str(&format!("zone {zone}: {step}\n"));
    }
    match &steps.next {
        Some(next) => text.push_str(&format!("zone {zone}: next: {}\n", next_text(next))),
        None => text.push_str(&format!("zone {zone}: no further steps scheduled\n")),
    }
    text
}

/// Formats a future step, with its time.
pub(crate) fn next_text(next: &ListedStep) -> String {
    match next.at {
        Some(at) => format!("{} at {}", next.step, utc_text(at)),
        None => next.step.clone(),
    }
}

/// Formats how a zone is signed from now on.
pub(crate) fn changed(zone: &str, denial: Option<&str>, soa_edit: Option<&str>) -> String {
    let denial = denial.map(|word| format!("denial {word}"));
    let soa_edit = soa_edit.map(|word| format!("SOA-EDIT {word}"));
    let words: Vec<String> = denial.into_iter().chain(soa_edit).collect();
    format!(
        "zone {}: signed with {}\n",
        zone_text(zone),
        words.join(", ")
    )
}

/// Formats the first key of a zone, and the DS that its parent needs.
pub(crate) fn secured(zone: &str, key: &ListedZoneKey, advice: Option<&DsAdvice>) -> String {
    let (short, algorithm, tag) = (zone_text(zone), &key.algorithm, key.tag);
    let ds = key.ds.as_deref().unwrap_or_default();
    let mut text = format!("zone {short}: signed with a new key, {algorithm}, key tag {tag}\n");
    text.push_str(&advice.map_or_else(String::new, |advice| ds_advice(zone, advice)));
    text.push_str(&format!("{zone} IN DS {ds}\n"));
    text
}

/// Formats whether the DS may be sent to the parent, as zone file comments.
pub(crate) fn ds_advice(zone: &str, advice: &DsAdvice) -> String {
    let zone = zone_text(zone);
    let mut reasons = Vec::new();
    let serial = match advice.serial {
        Some(serial) => format!("serial {serial}"),
        None => "the current serial".into(),
    };
    let secondaries = advice.secondaries.as_deref();
    for one in secondaries
        .unwrap_or_default()
        .iter()
        .filter(|one| one.behind)
    {
        let has = match (one.serial, &one.problem) {
            (Some(theirs), _) => format!("has serial {theirs} instead of {serial}"),
            (None, Some(problem)) => format!("may not have {serial}: {problem}"),
            (None, None) => format!("may not have {serial}"),
        };
        reasons.push(format!("secondary {} {has}", one.server));
    }
    match advice.caches {
        Some(DsTime::Now) => {}
        Some(DsTime::At(at)) => {
            reasons.push(format!(
                "caches may hold unsigned answers until {}",
                utc_text(at)
            ));
        }
        Some(DsTime::AfterSigning(seconds)) => reasons.push(format!(
            "caches may hold unsigned answers for {seconds} s after the zone was signed"
        )),
        None => reasons.push("the TTLs of the zone are unknown".into()),
    }
    if secondaries.is_none() {
        reasons.push("the server is not running, so the secondaries were not checked".into());
    }
    if reasons.is_empty() {
        let count = secondaries.map_or(0, <[_]>::len);
        let all = match count {
            0 => String::new(),
            1 => format!(": its secondary has {serial}"),
            count => format!(": all {count} secondaries have {serial}"),
        };
        return format!("; zone {zone}: submit the DS to the parent now{all}\n");
    }
    let mut text = format!("; zone {zone}: do not submit the DS to the parent yet:\n");
    for reason in reasons {
        text.push_str(&format!(";   {reason}\n"));
    }
    text.push_str(&format!("; check again with `nameward zone ds {zone}`\n"));
    text
}
