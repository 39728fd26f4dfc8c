//! Owns the zone list, the form of a new zone, and the search in records of all zones.

use askama::Template;
use nameward_base::text::counted;
use nameward_control::operations::{
    FoundRecord, ListedItem, ListedKind, ListedZone, OperationRequest, OperationResult,
    ZoneProvision, zone_name,
};
use nameward_control::web::{ZoneListPage, ZoneListQuery, state_class};
use nameward_zone::PageStart;

use super::page::{AdminFrame, AdminView, escaped, page, redirect, zone_path};
use super::{PageResult, Visit};
use crate::resources::search::pattern_of;
use crate::resources::zones::{add_default_catalog, default_metadata};
use crate::response::ApiResponse;

/// Zones per page.
const ROWS: usize = 100;
/// Results of a search.
const FOUND_MAX: u64 = 500;
/// The columns of the list: parameter, title.
const COLUMNS: [(&str, &str); 6] = [
    ("name", "Zone"),
    ("state", "State"),
    ("serial", "Serial"),
    ("signing", "Signing"),
    ("kind", "Kind"),
    ("backend", "Backend"),
];
const KINDS: [&str; 6] = [
    "native",
    "primary",
    "secondary",
    "producer",
    "consumer",
    "file",
];

/// The first page.
pub fn home(_: &Visit<'_>, _: &[&str]) -> PageResult {
    Ok(redirect("/admin/zones"))
}

/// The zones that a user looks for.
struct ZoneQuery<'q> {
    search: String,
    kind: &'q str,
    state: &'q str,
    sort: &'q str,
    is_descending: bool,
    page: usize,
}

struct Column {
    title: &'static str,
    link: String,
    sorted: &'static str,
}

#[derive(Template)]
#[template(path = "zones.html")]
struct AdminZonesPage<'a> {
    frame: AdminFrame<'a>,
    query: &'a ZoneQuery<'a>,
    kinds: &'a [&'a str],
    count: String,
    warnings: Vec<String>,
    columns: Vec<Column>,
    rows: Vec<ListedZone>,
    previous: Option<String>,
    next: Option<String>,
    position: String,
}

/// The list of zones.
pub fn list(visit: &Visit<'_>, _: &[&str]) -> PageResult {
    let query = ZoneQuery::read(visit);
    if let Some(page) = query
        .plain(visit)
        .and_then(|plain| visit.api.operator.zone_page(&plain))
    {
        return Ok(draw_plain(visit, &query, page));
    }
    let (mut zones, mut total) = (Vec::new(), 0);
    let listed = visit.list(&OperationRequest::ZoneList, &mut |item| {
        if let ListedItem::Zone(zone) = item {
            total += 1;
            if query.matches(&zone) {
                zones.push(zone);
            }
        }
        true
    });
    // Zones of databases that do not respond are listed as far as they are known here.
    let warnings = match listed {
        Ok(_) => Vec::new(),
        Err(error) if total > 0 => error.message.lines().map(str::to_owned).collect(),
        Err(error) => return Err(error),
    };
    query.sort(&mut zones);
    let matching = zones.len();
    let pages = matching.div_ceil(ROWS).max(1);
    let number = query.page.min(pages);
    let rows = zones.into_iter().skip((number - 1) * ROWS).take(ROWS);
    let is_filtered = matching != total;
    let page_of = AdminZonesPage {
        frame: AdminFrame::new(visit, AdminView::Zones),
        count: if is_filtered {
            format!("{matching} of {}", counted(total, "zone"))
        } else {
            counted(total, "zone")
        },
        kinds: &KINDS,
        warnings,
        columns: COLUMNS.iter().map(|column| query.column(column)).collect(),
        rows: rows.collect(),
        previous: (number > 1).then(|| query.link(query.sort, query.is_descending, number - 1)),
        next: (number < pages).then(|| query.link(query.sort, query.is_descending, number + 1)),
        position: format!("Page {number} of {pages}"),
        query: &query,
    };
    Ok(page(200, &page_of))
}

/// Draws a page of zones in the order of their names.
fn draw_plain(visit: &Visit<'_>, query: &ZoneQuery<'_>, page_of: ZoneListPage) -> ApiResponse {
    let name = |zone: Option<&ListedZone>| zone.map(|zone| zone.name.clone()).unwrap_or_default();
    let (first, last) = (name(page_of.zones.first()), name(page_of.zones.last()));
    let link = |direction: &str, name: &str| {
        let (search, name) = (escaped(&query.search), escaped(name));
        format!("/admin/zones?q={search}&{direction}={name}")
    };
    let is_limited = visit.session.key.scope.is_limited();
    let matching = counted(page_of.matching, "zone");
    let drawn = AdminZonesPage {
        frame: AdminFrame::new(visit, AdminView::Zones),
        // The number of all zones is not for keys that are limited to some.
        count: if query.search.is_empty() {
            matching
        } else if is_limited {
            format!("{matching} found")
        } else {
            format!("{} of {}", page_of.matching, counted(page_of.total, "zone"))
        },
        kinds: &KINDS,
        previous: page_of.has_earlier.then(|| link("before", &first)),
        next: page_of.has_later.then(|| link("after", &last)),
        position: format!("{first} to {last}"),
        warnings: page_of.warnings,
        columns: COLUMNS.iter().map(|column| query.column(column)).collect(),
        rows: page_of.zones,
        query,
    };
    page(200, &drawn)
}

impl<'q> ZoneQuery<'q> {
    /// The query without filters and in the order of names, which is answered without a pass over all zones; `None` for others.
    fn plain(&self, visit: &Visit<'_>) -> Option<ZoneListQuery> {
        let is_plain = self.kind.is_empty()
            && self.state.is_empty()
            && self.sort == "name"
            && !self.is_descending;
        let start = match (visit.parameter("after"), visit.parameter("before")) {
            ("", "") => PageStart::First,
            ("", before) => PageStart::Before(zone_name(before).ok()?),
            (after, _) => PageStart::After(zone_name(after).ok()?),
        };
        is_plain.then(|| ZoneListQuery {
            search: self.search.clone(),
            without_data: false,
            scope: visit.session.key.scope.clone(),
            start,
        })
    }

    fn read(visit: &'q Visit<'_>) -> Self {
        let sort = visit.parameter("sort");
        let is_column = |(name, _): &(&str, &str)| *name == sort;
        ZoneQuery {
            search: visit.parameter("q").to_ascii_lowercase(),
            kind: visit.parameter("kind"),
            state: visit.parameter("state"),
            sort: if COLUMNS.iter().any(is_column) {
                sort
            } else {
                "name"
            },
            is_descending: visit.parameter("order") == "desc",
            page: visit.parameter("page").parse().unwrap_or(1).max(1),
        }
    }

    fn matches(&self, zone: &ListedZone) -> bool {
        let is_kind = self.kind.is_empty() || self.kind == zone.kind.name();
        let is_state = match self.state {
            "trouble" => state_class(&zone.state) != "fine",
            "signed" => !matches!(zone.signing.as_str(), "no" | "unknown"),
            "unsigned" => zone.signing == "no",
            _ => true,
        };
        is_kind && is_state && zone.name.to_ascii_lowercase().contains(&self.search)
    }

    fn sort(&self, zones: &mut [ListedZone]) {
        match self.sort {
            "state" => zones.sort_by(|a, b| a.state.cmp(&b.state)),
            "serial" => zones.sort_by_key(|zone| zone.serial),
            "signing" => zones.sort_by(|a, b| a.signing.cmp(&b.signing)),
            "kind" => zones.sort_by_key(|zone| zone.kind.name()),
            "backend" => zones.sort_by_key(|zone| zone.backend),
            // The operation lists them by name.
            _ => {}
        }
        if self.is_descending {
            zones.reverse();
        }
    }

    fn column(&self, (name, title): &(&'static str, &'static str)) -> Column {
        let is_sorted = self.sort == *name;
        Column {
            title,
            link: self.link(name, is_sorted && !self.is_descending, 1),
            sorted: match (is_sorted, self.is_descending) {
                (false, _) => "none",
                (true, false) => "ascending",
                (true, true) => "descending",
            },
        }
    }

    fn link(&self, sort: &str, is_descending: bool, page: usize) -> String {
        let order = if is_descending { "desc" } else { "asc" };
        let (search, kind, state) = (
            escaped(&self.search),
            escaped(self.kind),
            escaped(self.state),
        );
        format!(
            "/admin/zones?q={search}&kind={kind}&state={state}&sort={sort}&order={order}&page={page}"
        )
    }
}

#[derive(Template)]
#[template(path = "new_zone.html")]
struct NewZonePage<'a> {
    frame: AdminFrame<'a>,
    name: &'a str,
    kind: &'a str,
    name_servers: &'a str,
    primaries: &'a str,
    account: &'a str,
    zone_file: &'a str,
    secure: bool,
    problem: Option<String>,
}

/// The form of a new zone.
pub fn new(visit: &Visit<'_>, _: &[&str]) -> PageResult {
    Ok(draw_new(visit, None))
}

/// Creates a zone.
pub fn create(visit: &Visit<'_>, _: &[&str]) -> PageResult {
    match provision(visit) {
        Ok(response) => Ok(response),
        Err(error) => Ok(draw_new(visit, Some(error.message))),
    }
}

fn provision(visit: &Visit<'_>) -> PageResult {
    let words = |name| {
        let text = visit.field(name);
        let words = text.split([',', ' ', '\n', '\r', '\t']);
        let words = words.filter(|word| !word.is_empty());
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let name = visit.field("name").trim_end_matches('.');
    let file = visit.request.form.field("zone_file");
    let mut request = ZoneProvision {
        zone: format!("{name}."),
        kind: ListedKind::from_name(visit.field("kind"))?,
        primaries: words("primaries"),
        account: visit.field("account").to_owned(),
        name_servers: words("name_servers"),
        zone_file: Some(file.to_owned()).filter(|text| !text.trim().is_empty()),
        default_metadata: default_metadata(&visit.api.defaults),
        secure: visit.field("secure") == "1",
        ..ZoneProvision::default()
    };
    add_default_catalog(&visit.api.defaults, &mut request);
    let result = visit.run(&OperationRequest::ZoneProvision(request))?;
    let OperationResult::ZoneCreated(changed) = result else {
        return Ok(redirect("/admin/zones"));
    };
    let text = format!("Zone {} was created.", changed.zone);
    Ok(visit.redirect_with(&zone_path(&changed.zone), text, changed.warnings))
}

fn draw_new(visit: &Visit<'_>, problem: Option<String>) -> crate::response::ApiResponse {
    let kind = match visit.field("kind") {
        "" => "native",
        kind => kind,
    };
    let status = if problem.is_some() { 422 } else { 200 };
    let page_of = NewZonePage {
        frame: AdminFrame::new(visit, AdminView::NewZone),
        name: visit.field("name"),
        kind,
        name_servers: visit.field("name_servers"),
        primaries: visit.field("primaries"),
        account: visit.field("account"),
        zone_file: visit.request.form.field("zone_file"),
        secure: visit.field("secure") == "1",
        problem,
    };
    page(status, &page_of)
}

struct FoundRow {
    record: FoundRecord,
    path: String,
}

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage<'a> {
    frame: AdminFrame<'a>,
    pattern: &'a str,
    rows: Vec<FoundRow>,
    count: String,
    is_full: bool,
    problem: Option<String>,
}

/// Searches records of all zones.
pub fn search(visit: &Visit<'_>, _: &[&str]) -> PageResult {
    let pattern = visit.parameter("q");
    let mut rows = Vec::new();
    let mut problem = None;
    if !pattern.is_empty() {
        let request = OperationRequest::RecordSearch {
            pattern: pattern_of(pattern),
            limit: FOUND_MAX,
        };
        let found = visit.list(&request, &mut |item| {
            if let ListedItem::Found(record) = item {
                rows.push(FoundRow {
                    path: format!(
                        "{}/rrset?name={}&type={}",
                        zone_path(&record.zone),
                        escaped(&record.record.name),
                        escaped(&record.record.rtype)
                    ),
                    record,
                });
            }
            true
        });
        problem = found.err().map(|error| error.message);
    }
    let page_of = SearchPage {
        frame: AdminFrame::new(visit, AdminView::Search),
        pattern,
        count: counted(rows.len(), "record"),
        is_full: rows.len() as u64 >= FOUND_MAX,
        rows,
        problem,
    };
    Ok(page(200, &page_of))
}
