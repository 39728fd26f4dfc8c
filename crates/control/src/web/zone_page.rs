//! The page of one zone: its state, and what the rings have of it.
//!
//! No counter is kept by zone: a server has millions of them, and every answer would pay. The rings have the last questions
//! of all zones in bounded memory, and the page shows their entries at and below the zone.

use askama::Template;
use nameward_base::calendar::UtcTime;
use nameward_stats::{Ring, Snapshot};

use super::Mnemonic;
use super::health::PageFrame;
use super::page::percentage;
use crate::operations::{ListedSigning, ListedZoneStatus};

/// Names that are listed of each ring.
const ROWS: usize = 10;
/// The rings that have names.
const RINGS: [(Ring, &str); 4] = [
    (Ring::Queries, "Received over UDP"),
    (
        Ring::NoerrorQueries,
        "NODATA: the name exists, the type does not",
    ),
    (Ring::NxdomainQueries, "NXDOMAIN"),
    (Ring::ServfailQueries, "SERVFAIL because of a backend"),
];

/// The state of a zone for its page.
pub struct ZoneFacts {
    /// Its serial, and where it comes from primaries, how it fares with them.
    pub status: ListedZoneStatus,
    /// The backend that serves it, in words.
    pub backend: String,
    /// How it is signed; none if its database does not respond.
    pub signing: Option<ListedSigning>,
    /// Names in memory; none for a zone that is looked up.
    pub names: Option<usize>,
}

#[derive(Template)]
#[template(path = "zone.html")]
struct ZonePage<'a> {
    frame: PageFrame<'a>,
    zone: &'a str,
    facts: Vec<(&'static str, String)>,
    signing: Vec<(&'static str, String)>,
    /// Number, tag, role and state of each key.
    keys: Vec<Vec<&'a str>>,
    ds: &'a [String],
    rings: Vec<RingShare>,
}

/// The part of a ring that is of the zone.
struct RingShare {
    ring: &'static str,
    title: &'static str,
    rows: Vec<(String, u64)>,
    count: u64,
    total: u64,
    percentage: String,
}

/// Draws the page of a zone.
pub fn draw(
    frame: PageFrame<'_>,
    facts: &ZoneFacts,
    snapshot: &Snapshot,
    mnemonic: Mnemonic,
) -> Result<String, askama::Error> {
    let zone = &facts.status.name;
    let rings = RINGS.map(|(ring, title)| {
        let view = snapshot.ring(ring);
        let is_below = |entry: &str| is_at_or_below(entry, zone);
        let ranking = view.rank_where(usize::MAX, &mnemonic, is_below);
        let count = ranking.rows.iter().map(|row| row.count).sum();
        let rows = ranking.rows.into_iter().take(ROWS);
        RingShare {
            ring: ring.name(),
            title,
            rows: rows.map(|row| (row.entry, row.count)).collect(),
            count,
            total: ranking.total,
            percentage: percentage(count, ranking.total),
        }
    });
    let signing = facts.signing.as_ref();
    let page = ZonePage {
        frame,
        zone,
        facts: rows_of(facts),
        signing: signing_rows(facts.signing.as_ref()),
        keys: signing
            .iter()
            .flat_map(|one| one.keys.iter().map(|key| key_cells(key)))
            .collect(),
        ds: signing.map_or(&[], |signing| &signing.ds),
        rings: rings.into(),
    };
    page.render()
}

/// Whether the name of an entry `name/type`, which has no final dot, is at or below a zone, which has one.
fn is_at_or_below(entry: &str, zone: &str) -> bool {
    let name = entry.rsplit_once('/').map_or(entry, |(name, _)| name);
    let zone = zone.strip_suffix('.').unwrap_or(zone);
    if zone.is_empty() {
        return true; // the root
    }
    let Some(at) = name.len().checked_sub(zone.len()) else {
        return false;
    };
    let (Some(before), Some(end)) = (name.get(..at), name.get(at..)) else {
        return false;
    };
    // A dot behind an odd number of backslashes is part of a label.
    let is_edge = before.strip_suffix('.').is_some_and(|rest| {
        let escapes = rest.bytes().rev().take_while(|octet| *octet == b'\\');
        escapes.count().is_multiple_of(2)
    });
    end.eq_ignore_ascii_case(zone) && (before.is_empty() || is_edge)
}

/// The cells of a key that is written as number, tag, role and state.
fn key_cells(key: &str) -> Vec<&str> {
    key.splitn(4, ' ').collect()
}

/// How a zone is signed as rows of name and value.
fn signing_rows(signing: Option<&ListedSigning>) -> Vec<(&'static str, String)> {
    let Some(signing) = signing else {
        return vec![("Signed", "unknown: its database does not respond".into())];
    };
    let time = |seconds: u64| UtcTime::from_unix(seconds).to_string();
    let mut rows = vec![(
        "Signed",
        match signing.signed.as_str() {
            "policy" => "by policy".into(),
            "insecure soon" => "yes, becoming insecure: its policy was removed".into(),
            "by hand" => "with keys that are managed by hand".into(),
            "database" => "with the keys of its database".into(),
            "stored" => "elsewhere: the zone has its signatures".into(),
            other => other.to_string(),
        },
    )];
    let mut add = |name, value: Option<String>| rows.extend(value.map(|value| (name, value)));
    add("Policy", signing.policy.clone());
    add("Denial of existence", signing.denial.clone());
    add(
        "First signature expires",
        signing.signature_expires.map(time),
    );
    let is_managed = signing.policy.is_some();
    let next = signing.next.as_ref().map(|next| match next.at {
        Some(at) => format!("{} at {}", next.step, time(at)),
        None => next.step.clone(),
    });
    add(
        "Next step",
        next.or_else(|| is_managed.then(|| "none scheduled".into())),
    );
    rows
}

/// The state of a zone as rows of name and value.
fn rows_of(facts: &ZoneFacts) -> Vec<(&'static str, String)> {
    let status = &facts.status;
    let time = |seconds: u64| UtcTime::from_unix(seconds).to_string();
    let mut rows = vec![
        ("Kind", status.kind.clone()),
        ("State", status.state.clone()),
        ("Backend", facts.backend.clone()),
    ];
    let mut add = |name, value: Option<String>| rows.extend(value.map(|value| (name, value)));
    add("Serial", status.serial.map(|serial| serial.to_string()));
    add("Names", facts.names.map(|names| names.to_string()));
    add("Primary", status.primary.clone());
    let serial_there = status.serial_at_primary;
    add(
        "Serial at the primary",
        serial_there.map(|serial| serial.to_string()),
    );
    add("Last check", status.last_check.map(time));
    add("Confirmed", status.last_refresh.map(time));
    add("Next check", status.next_check.map(time));
    add("Expires", status.expires.map(time));
    let failures = Some(status.failures).filter(|failures| *failures > 0);
    add(
        "Failed checks",
        failures.map(|failures| failures.to_string()),
    );
    add("Last error", status.last_error.clone());
    let transfer = status.transfer.as_ref();
    add(
        "Transfer under way",
        transfer.map(|transfer| {
            format!(
                "from {}: {} records, {} octets in {} s",
                transfer.primary, transfer.records, transfer.octets, transfer.seconds
            )
        }),
    );
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_of_a_zone_by_whole_labels() {
        for (entry, zone, expected) in [
            ("www.a.test/A", "a.test.", true),
            ("A.TEST/TYPE65280", "a.test.", true),
            ("xa.test/A", "a.test.", false),
            ("test/A", "a.test.", false),
            ("x\\.a.test/A", "a.test.", false),
            ("x\\\\.a.test/A", "a.test.", true),
            ("x/y.a.test/A", "a.test.", true),
            ("./A", ".", true),
        ] {
            assert_eq!(is_at_or_below(entry, zone), expected, "{entry} in {zone}");
        }
    }
}
