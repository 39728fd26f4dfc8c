//! Owns the words for keys of zones.

use nameward_control::operations::{KeySteps, ListedStep, ListedZoneKey};
use nameward_wire::calendar::UtcTime;

use super::zone_text;

/// How a key is used, and how far it has come under a policy.
pub fn usage(key: &ListedZoneKey) -> String {
    let usage = match (key.published, key.active) {
        (true, true) => "active",
        (true, false) => "published",
        (false, true) => "active, not published",
        (false, false) => "unused",
    };
    match key.problem.as_ref().or(key.state.as_ref()) {
        Some(state) => format!("{usage}, {state}"),
        None => usage.into(),
    }
}

/// A key as one line: zone, number, tag, part, algorithm, use.
pub fn line(key: &ListedZoneKey) -> String {
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

/// The steps of an operation on keys under a policy, and the next one.
pub fn steps(steps: &KeySteps) -> String {
    let zone = zone_text(&steps.zone);
    let mut text = String::new();
    for step in &steps.steps {
        text.push_str(&format!("zone {zone}: {step}\n"));
    }
    match &steps.next {
        Some(next) => text.push_str(&format!("zone {zone}: next: {}\n", next_words(next))),
        None => text.push_str(&format!("zone {zone}: nothing is to come\n")),
    }
    text
}

/// A step that is to come, with its time.
pub fn next_words(next: &ListedStep) -> String {
    match next.at {
        Some(at) => format!("{} at {}", next.step, time_text(at)),
        None => next.step.clone(),
    }
}

/// A time as `2026-11-15 23:00:00 UTC`.
pub fn time_text(seconds: u64) -> String {
    let time = UtcTime::from_unix(seconds);
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC",
        time.year, time.month, time.day, time.hour, time.minute, time.second
    )
}

/// How a zone is signed from now on.
pub fn changed(zone: &str, denial: Option<&str>, soa_edit: Option<&str>) -> String {
    let denial = denial.map(|word| format!("denial {word}"));
    let soa_edit = soa_edit.map(|word| format!("SOA-EDIT {word}"));
    let words: Vec<String> = denial.into_iter().chain(soa_edit).collect();
    format!(
        "zone {}: signed with {}\n",
        zone_text(zone),
        words.join(", ")
    )
}

/// The first key of a zone, and the DS that its parent needs.
pub fn secured(zone: &str, key: &ListedZoneKey) -> String {
    let (short, algorithm, tag) = (zone_text(zone), &key.algorithm, key.tag);
    let ds = key.ds.as_deref().unwrap_or_default();
    format!(
        "zone {short}: signed with a new key, {algorithm}, key tag {tag}\n\
         for the parent, when all servers of the zone have the signed version:\n{zone} IN DS {ds}\n"
    )
}
