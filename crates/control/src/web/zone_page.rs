//! The page of one zone: its state, and its entries in the rings.
//!
//! There are no counters per zone: a server has millions of zones, and every answer would pay for them. The rings
//! have the last queries of all zones in bounded memory, and the page shows those answered from this zone.

use askama::Template;
use nameward_base::text::utc_text;
use nameward_stats::Ring;

use super::health::{PageFrame, PageView};
use super::page::percentage;
use super::{WebState, mnemonic};
use crate::operations::{ListedSigning, ListedZoneStatus, ServerStatus};

/// Names listed per ring.
const ROWS: usize = 10;
/// The rings that contain names.
const RINGS: [(Ring, &str); 4] = [
    (Ring::Queries, "Received over UDP"),
    (Ring::NoerrorQueries, "NODATA (no such type)"),
    (Ring::NxdomainQueries, "NXDOMAIN (no such name)"),
    (Ring::ServfailQueries, "SERVFAIL (no usable data)"),
];

/// The state of a zone for its page.
pub struct ZoneFacts {
    /// Its serial and, for a secondary, its refresh status.
    pub status: ListedZoneStatus,
    /// Where it is configured.
    pub source: ZoneConfigSource,
    /// How it is signed; none if its database does not respond.
    pub signing: Option<ListedSigning>,
    /// Number of names in memory; none for a live zone.
    pub names: Option<usize>,
}

/// Where a zone is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneConfigSource {
    /// The number of its backend.
    Backend(u32),
    /// A `[[zone]]` of the configuration.
    Configuration,
    /// Declared by command.
    StateStore,
}

/// A row of name and value.
struct Fact {
    name: &'static str,
    value: String,
    /// Further classes of the value, each after a space.
    class: String,
}

impl Fact {
    fn new(name: &'static str, value: impl Into<String>) -> Self {
        Fact {
            name,
            value: value.into(),
            class: String::new(),
        }
    }
}

#[derive(Template)]
#[template(path = "zone.html")]
struct ZonePage<'a> {
    frame: PageFrame<'a>,
    zone: &'a str,
    facts: Vec<Fact>,
    signing: Vec<Fact>,
    /// Number, tag, role and state of each key.
    keys: Vec<Vec<&'a str>>,
    ds: &'a [String],
    rings: Vec<RingShare>,
}

/// The entries of a ring that are in the zone.
struct RingShare {
    ring: &'static str,
    title: &'static str,
    rows: Vec<(String, u64)>,
    count: u64,
    total: u64,
    percentage: String,
}

/// Renders the page of a zone.
pub(super) fn draw(
    shared: &WebState,
    status: &ServerStatus,
    facts: &ZoneFacts,
) -> Result<String, askama::Error> {
    let frame = PageFrame::new(PageView::Zone, &shared.settings.title, status);
    let snapshot = shared.stats.snapshot();
    let zone = &facts.status.name;
    let rings = RINGS.map(|(ring, title)| {
        let view = snapshot.ring(ring);
        let is_below = |entry: &str| {
            // Comparing the texts first avoids the zone look-up for most entries.
            is_at_or_below(entry, zone) && shared.zones.is_answered_from(name_of(entry), zone)
        };
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
        facts: rows_of(facts, status),
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

/// Returns the name of an entry `name/type`.
fn name_of(entry: &str) -> &str {
    entry.rsplit_once('/').map_or(entry, |(name, _)| name)
}

/// Checks whether the name of an entry `name/type`, which has no final dot, is at or below a zone, which has one.
fn is_at_or_below(entry: &str, zone: &str) -> bool {
    let name = name_of(entry);
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
    // A dot after an odd number of backslashes is part of a label.
    let is_edge = before.strip_suffix('.').is_some_and(|rest| {
        let escapes = rest.bytes().rev().take_while(|octet| *octet == b'\\');
        escapes.count().is_multiple_of(2)
    });
    end.eq_ignore_ascii_case(zone) && (before.is_empty() || is_edge)
}

/// Splits a key, written as number, tag, role and state, into cells.
fn key_cells(key: &str) -> Vec<&str> {
    key.splitn(4, ' ').collect()
}

/// Returns the signing status as rows of name and value.
fn signing_rows(signing: Option<&ListedSigning>) -> Vec<Fact> {
    let Some(signing) = signing else {
        let unknown = "unknown: its database does not respond";
        return vec![Fact::new("Signed", unknown)];
    };
    let mut rows = vec![Fact::new(
        "Signed",
        match signing.signed.as_str() {
            "policy" => "by policy",
            "insecure soon" => "yes, becoming insecure: its policy was removed",
            "by hand" => "with manually managed keys",
            "database" => "with keys from its database",
            "stored" => "elsewhere: served with its stored signatures",
            other => other,
        },
    )];
    let mut add =
        |name, value: Option<String>| rows.extend(value.map(|value| Fact::new(name, value)));
    add("Policy", signing.policy.clone());
    add("Denial of existence", signing.denial.clone());
    add(
        "First signature expires",
        signing.signature_expires.map(utc_text),
    );
    let is_managed = signing.policy.is_some();
    let next = signing.next.as_ref().map(|next| match next.at {
        Some(at) => format!("{}, {}", utc_text(at), next.step),
        None => next.step.clone(),
    });
    add(
        "Next step",
        next.or_else(|| is_managed.then(|| "none scheduled".into())),
    );
    rows
}

/// Returns the state of a zone as rows of name and value.
fn rows_of(facts: &ZoneFacts, server: &ServerStatus) -> Vec<Fact> {
    let status = &facts.status;
    let state = Fact {
        class: format!(" zone-state {}", state_class(&status.state)),
        ..Fact::new("State", status.state.clone())
    };
    let kind = Fact::new("Kind", status.kind.clone());
    let mut rows = vec![state, kind, source_fact(facts.source, server)];
    let mut add =
        |name, value: Option<String>| rows.extend(value.map(|value| Fact::new(name, value)));
    add("Serial", status.serial.map(|serial| serial.to_string()));
    add("Names", facts.names.map(|names| names.to_string()));
    add("Primary", status.primary.clone());
    let serial_at_primary = status.serial_at_primary;
    add(
        "Serial at the primary",
        serial_at_primary.map(|serial| serial.to_string()),
    );
    add("Last check", status.last_check.map(utc_text));
    add("Last success", status.last_refresh.map(utc_text));
    add("Next check", status.next_check.map(utc_text));
    add("Expires", status.expires.map(utc_text));
    let failures = Some(status.failures).filter(|failures| *failures > 0);
    add(
        "Failures in a row",
        failures.map(|failures| failures.to_string()),
    );
    add("Last error", status.last_error.clone());
    let transfer = status.transfer.as_ref();
    add(
        "Running transfer",
        transfer.map(|transfer| {
            format!(
                "from {}: {} records, {} octets in {} s",
                transfer.primary, transfer.records, transfer.octets, transfer.seconds
            )
        }),
    );
    rows
}

fn source_fact(source: ZoneConfigSource, server: &ServerStatus) -> Fact {
    let number = match source {
        ZoneConfigSource::Configuration => return Fact::new("Declared in", "[[zone]]"),
        ZoneConfigSource::StateStore => return Fact::new("Declared in", "state store"),
        ZoneConfigSource::Backend(number) => number,
    };
    let mut backends = server.backends.iter();
    let backend = backends.find(|backend| backend.backend == number);
    let value = match backend {
        Some(backend) => format!("{number} ({}, {})", backend.engine, backend.address),
        None => number.to_string(),
    };
    Fact::new("Backend", value)
}

/// The class of a state: served, served with a reservation, or not.
pub fn state_class(state: &str) -> &'static str {
    match state {
        "current" | "live" => "fine",
        "stale" | "not loaded" => "doubtful",
        _ => "down",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_belong_to_a_zone_by_whole_labels() {
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
