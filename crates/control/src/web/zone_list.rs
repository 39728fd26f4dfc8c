//! The zone list: a hundred zones per page, searchable by a part of their names.

use askama::Template;
use nameward_base::text::counted;
use nameward_zone::PageStart;

use super::health::PageFrame;
use super::zone_page::{ZoneFacts, state_class};
use crate::operations::{KeyScope, ListedZone};

/// Zones per page.
pub const ROWS: usize = 100;

/// The zones of a server for the page. `zone` and `list` may query a database: they are called on blocking threads.
pub trait ListedZonesView: Send + Sync {
    /// Returns the state of a zone, by its name as a client writes it; none if it is not served.
    fn zone(&self, name: &str) -> Option<ZoneFacts>;

    /// Returns one page of the matching zones.
    fn list(&self, query: &ZoneListQuery) -> ZoneListPage;

    /// Whether queries for a name are answered from a zone, and not from a child zone that is served here too.
    fn is_answered_from(&self, name: &str, zone: &str) -> bool;
}

/// A server without zones.
pub(super) struct NoZones;

impl ListedZonesView for NoZones {
    fn zone(&self, _: &str) -> Option<ZoneFacts> {
        None
    }

    fn list(&self, _: &ZoneListQuery) -> ZoneListPage {
        ZoneListPage::default()
    }

    fn is_answered_from(&self, _: &str, _: &str) -> bool {
        false
    }
}

/// The zones that a client requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneListQuery {
    /// A part of the name, in lower case; empty for all.
    pub search: String,
    /// Only zones that have no data to serve.
    pub without_data: bool,
    /// The zones that the client may see.
    pub scope: KeyScope,
    /// The position of the page.
    pub start: PageStart,
}

/// One page of zones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ZoneListPage {
    /// At most [`ROWS`] zones, in alphabetical order.
    pub zones: Vec<ListedZone>,
    /// Number of matching zones, on all pages.
    pub matching: usize,
    /// Number of all zones.
    pub total: usize,
    /// Whether there are zones before these.
    pub has_earlier: bool,
    /// Whether there are zones after these.
    pub has_later: bool,
    /// Databases that did not respond.
    pub warnings: Vec<String>,
}

#[derive(Template)]
#[template(path = "zones.html")]
struct ZonesPage<'a> {
    frame: PageFrame<'a>,
    search: &'a str,
    without_data: bool,
    count: String,
    warnings: &'a [String],
    rows: &'a [ListedZone],
    earlier: Option<String>,
    later: Option<String>,
}

/// Renders a page of the list.
pub fn draw(
    frame: PageFrame<'_>,
    query: &ZoneListQuery,
    list: &ZoneListPage,
) -> Result<String, askama::Error> {
    let link = |direction: &str, zone: Option<&ListedZone>| {
        let state = if query.without_data {
            "&state=down"
        } else {
            ""
        };
        let (search, name) = (escaped(&query.search), escaped(&zone?.name));
        Some(format!("/?zones={search}{state}&{direction}={name}"))
    };
    let earlier = list.zones.first().filter(|_| list.has_earlier);
    let later = list.zones.last().filter(|_| list.has_later);
    let page = ZonesPage {
        frame,
        search: &query.search,
        without_data: query.without_data,
        count: count_text(query, list),
        warnings: &list.warnings,
        rows: &list.zones,
        earlier: link("before", earlier),
        later: link("after", later),
    };
    page.render()
}

fn count_text(query: &ZoneListQuery, list: &ZoneListPage) -> String {
    let (matching, total) = (list.matching, list.total);
    let zones = counted(total, "zone");
    if query.search.is_empty() && !query.without_data {
        zones
    } else {
        format!("{matching} of {zones}")
    }
}

/// Escapes a text as the value of a URI parameter (RFC 3986 section 2).
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for octet in text.bytes() {
        match octet {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(octet.into());
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_values_of_parameters_and_nothing_else() {
        assert_eq!(escaped("a-b.example."), "a-b.example.");
        assert_eq!(
            escaped("a&b=\"<x>\\032.é"),
            "a%26b%3D%22%3Cx%3E%5C032.%C3%A9"
        );
    }
}
