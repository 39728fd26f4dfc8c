//! The status page, rendered from one snapshot.
//!
//! Templates escape every value, so a name from a query cannot become markup.

use std::time::UNIX_EPOCH;

use askama::Template;
use nameward_base::calendar::UtcTime;
use nameward_stats::{Latency, Rate, Rates, Ring, RingView, VARIABLES, Variable, variable};

use super::chart::{self, Chart};
use super::checks::ChecksTable;
use super::health::{PageFrame, PageView};
use super::{RESIZE_CHOICES, WebState, mnemonic};
use crate::operations::ServerStatus;

/// Rows of a table on the status page.
const ROWS: usize = 10;
/// Rows of a table on its own page.
const RING_PAGE_ROWS: usize = 100;

#[derive(Template)]
#[template(path = "status.html")]
struct Page<'a> {
    frame: PageFrame<'a>,
    token: &'a str,
    uptime_days: String,
    /// The same in units that fit.
    uptime: String,
    queries: Averages,
    backend: Averages,
    packetcache_hitrates: [String; 3],
    query_cache_hitrates: [String; 3],
    total_queries: u64,
    tcp_queries: u64,
    /// Over TLS, HTTPS and QUIC.
    encrypted_queries: u64,
    latency_ms: String,
    /// Shown if this version has known problems.
    security: Option<&'static str>,
    /// None on the page of one ring, where they would push the table off the screen.
    charts: Vec<Chart>,
    /// A note on the caches if nothing uses them; empty otherwise.
    cache_note: &'static str,
    /// Only entries with this text are listed; all if it is empty.
    filter: &'a str,
    one_ring: bool,
    tables: Vec<PageTable>,
    variables: Vec<(&'static Variable, u64)>,
    checks: Option<ChecksTable>,
}

struct Averages {
    averages: [String; 3],
    max: String,
}

impl From<&Rate> for Averages {
    fn from(rate: &Rate) -> Self {
        Averages {
            averages: rate.averages.map(|average| format!("{average:.0}")),
            max: format!("{:.0}", rate.max),
        }
    }
}

struct PageTable {
    ring: &'static str,
    title: &'static str,
    /// A shorter title, for the jump list.
    short: &'static str,
    column: &'static str,
    rows: Vec<PageRow>,
    rest: Option<PageRow>,
    total: u64,
    capacity: usize,
    choices: Vec<usize>,
    /// Notes on messages have separate columns.
    has_notes: bool,
}

struct PageRow {
    entry: String,
    /// Level and time of the last occurrence, for log messages.
    note: Option<PageNote>,
    count: u64,
    percentage: String,
    /// The share again, as a length of at most 100.
    width: String,
}

struct PageNote {
    level: &'static str,
    last: String,
}

/// Renders the whole page, or the page of one ring.
/// Only entries with the text of the filter are listed; all if it is empty.
pub(super) fn draw(
    shared: &WebState,
    status: &ServerStatus,
    ring: Option<Ring>,
    filter: &str,
) -> Result<String, askama::Error> {
    let snapshot = &shared.stats.snapshot();
    let of = |name| variable(name).map_or(0, |v| v.value(snapshot));
    let rates = &snapshot.rates;
    // Zones in memory are answered without caches: the rates would look like a fault.
    let (backends, zones) = (&status.backends, status.zones);
    let has_nothing = backends.is_empty() && zones == 0;
    let uses_caches = has_nothing || backends.iter().any(|one| one.mode == "live");
    let hitrates = |rates: [f64; 3]| rates.map(|rate| format!("{rate:.1}%"));
    let tables = match ring {
        Some(ring) => {
            let mut table = table(snapshot.ring(ring), RING_PAGE_ROWS, (shared, filter));
            table.has_notes = ring == Ring::Logmessages;
            vec![table]
        }
        None => Ring::PAGE_ORDER
            .into_iter()
            .map(|ring| table(snapshot.ring(ring), ROWS, (shared, filter)))
            .collect(),
    };
    let (view, charts) = match ring {
        Some(_) => (PageView::Ring, Vec::new()),
        None => (PageView::Status, charts(rates, uses_caches)),
    };
    let page = Page {
        frame: PageFrame::new(view, &shared.settings.title, status),
        token: &shared.token,
        uptime_days: days(snapshot.uptime_seconds),
        uptime: duration(snapshot.uptime_seconds),
        queries: Averages::from(&rates.udp_queries),
        backend: Averages::from(&rates.backend_queries),
        packetcache_hitrates: hitrates(rates.packetcache_hitrates()),
        query_cache_hitrates: hitrates(rates.query_cache_hitrates()),
        total_queries: of("udp-queries"),
        tcp_queries: of("tcp-queries"),
        encrypted_queries: ["tls-queries", "https-queries", "quic-queries"]
            .into_iter()
            .map(&of)
            .sum(),
        latency_ms: format!(
            "{:.3}",
            snapshot.latency_us(Latency::Answer) as f64 / 1000.0
        ),
        security: match of("security-status") {
            2 => Some("Security: an upgrade of this server is recommended."),
            3 => Some("Security: an upgrade of this server is mandatory."),
            _ => None,
        },
        charts,
        cache_note: if uses_caches {
            ""
        } else {
            "Not used: all zones are in memory."
        },
        filter,
        one_ring: ring.is_some(),
        tables,
        variables: VARIABLES
            .iter()
            .map(|variable| (variable, variable.value(snapshot)))
            .collect(),
        checks: ChecksTable::new(&status.health),
    };
    page.render()
}

/// Returns the charts that apply to this server; those with a legend last, so that the charts of a row have the same
/// height.
fn charts(rates: &Rates, uses_caches: bool) -> Vec<Chart> {
    let mut charts = vec![chart::query_rate(rates)];
    if uses_caches {
        charts.push(chart::cache_hitrate(rates));
    }
    charts.extend([
        chart::latency(rates),
        chart::response_codes(rates),
        chart::transports(rates),
    ]);
    charts
}

fn table(view: &RingView, limit: usize, (shared, filter): (&WebState, &str)) -> PageTable {
    let ranking = if filter.is_empty() {
        view.rank(limit, &mnemonic)
    } else {
        view.rank_matching(limit, filter, &mnemonic)
    };
    let total = ranking.total;
    let is_message = view.ring() == Ring::Logmessages;
    let note_of = |entry: &str| {
        let note = shared.stats.message_note(entry).filter(|_| is_message)?;
        let since = note.last.duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(PageNote {
            level: note.level.name(),
            last: UtcTime::from_unix(since.as_secs()).to_string(),
        })
    };
    let row = |entry: String, count: u64| PageRow {
        note: note_of(&entry),
        entry,
        count,
        percentage: percentage(count, total),
        width: format!("{:.1}", 100.0 * count as f64 / total.max(1) as f64),
    };
    let mut choices = RESIZE_CHOICES.to_vec();
    if let Err(at) = choices.binary_search(&view.capacity()) {
        choices.insert(at, view.capacity());
    }
    PageTable {
        ring: view.ring().name(),
        title: view.ring().title(),
        short: short_title(view.ring()),
        column: match view.ring().kind() {
            nameward_stats::EntryKind::Message => "Message",
            nameward_stats::EntryKind::Address => "Address",
            nameward_stats::EntryKind::Prefix => "Prefix",
            nameward_stats::EntryKind::Question => "Name and type",
        },
        rest: ranking.rest.map(|count| row(String::new(), count)),
        rows: ranking
            .rows
            .into_iter()
            .map(|ranked| row(ranked.entry, ranked.count))
            .collect(),
        total,
        capacity: view.capacity(),
        choices,
        has_notes: false,
    }
}

/// Returns the title of a table in the jump list.
fn short_title(ring: Ring) -> &'static str {
    match ring {
        Ring::Logmessages => "Messages",
        Ring::Remotes => "Clients",
        Ring::RemotesCorrupt => "Corrupt packets",
        Ring::RemotesLimited => "Rate-limited",
        Ring::RemotesUnauth => "Not auth: clients",
        Ring::NoerrorQueries => "No such type",
        Ring::NxdomainQueries => "No such name",
        Ring::Queries => "UDP queries",
        Ring::ServfailQueries => "Backend errors",
        Ring::UnauthQueries => "Not auth: queries",
    }
}

/// Formats the share of a count in a total, with one decimal.
pub fn percentage(count: u64, total: u64) -> String {
    format!("{:.1}%", 100.0 * count as f64 / total.max(1) as f64)
}

/// Formats seconds as days with one decimal.
fn days(seconds: u64) -> String {
    format!("{:.1}", seconds as f64 / 86_400.0)
}

/// Formats seconds in their two largest units.
fn duration(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match hours {
        0 => format!("{minutes} min {} s", seconds % 60),
        1..24 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uptime_is_shown_in_its_two_largest_units() {
        for (seconds, shown) in [
            (59, "0 min 59 s"),
            (3_599, "59 min 59 s"),
            (3_600, "1 h 0 min"),
            (86_399, "23 h 59 min"),
            (1_000_000, "11 d 13 h"),
        ] {
            assert_eq!(duration(seconds), shown, "{seconds}");
        }
    }

    #[test]
    fn the_uptime_is_the_counter_in_days_with_one_digit() {
        for (seconds, shown) in [
            (0, "0.0"),
            (4_000, "0.0"),
            (8_640, "0.1"),
            (86_400, "1.0"),
            (1_000_000, "11.6"),
            (86_400 * 12_345, "12345.0"),
        ] {
            assert_eq!(days(seconds), shown, "{seconds}");
        }
    }
}
