//! Owns the frame of every page, the headers of every reply, redirects, error pages, and the files that pages refer to.

use std::sync::LazyLock;

use askama::Template;
use nameward_control::api_keys::{ApiKey, CONFIGURED_KEY};
use nameward_control::operations::{OperationError, ZoneAttributes};
use nameward_control::web::{self, ICON, STYLE};

use super::Visit;
use super::request::AdminRequest;
use super::session::Notice;
use crate::request::ApiMethod;
use crate::resources::zone_id;
use crate::response::{ApiResponse, ErrorForm, status_of};

/// The headers of every reply. The referrer policy keeps `Origin` on our own forms.
pub const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    (
        "permissions-policy",
        "camera=(), geolocation=(), microphone=()",
    ),
];

const HTML: &str = "text/html; charset=utf-8";

/// The group of pages that the navigation marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminView {
    Zones,
    NewZone,
    Search,
    Deleted,
    Audit,
    ApiKeys,
    Other,
}

/// The tab of a zone's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneTab {
    Records,
    Import,
    Dnssec,
    Transfers,
    History,
    Delete,
}

/// The values that every page shows.
pub struct AdminFrame<'a> {
    /// The name of the server.
    pub server: &'a str,
    /// The token of the forms.
    pub token: &'a str,
    /// The key that the user logged in with, and its rights.
    pub key: String,
    /// The key permits changes.
    pub can_write: bool,
    /// The key is valid for all zones.
    pub is_unlimited: bool,
    view: AdminView,
    /// The message of the last change.
    pub notice: Option<Notice>,
}

impl<'a> AdminFrame<'a> {
    /// Makes the frame of a page.
    pub fn new(visit: &Visit<'a>, view: AdminView) -> Self {
        AdminFrame {
            server: &visit.admin.server,
            token: &visit.session.token,
            key: key_text(&visit.session.key),
            can_write: visit.can_write(),
            is_unlimited: !visit.session.key.scope.is_limited(),
            view,
            notice: visit.session.take_notice(),
        }
    }

    /// Whether the navigation marks this page.
    pub fn is(&self, name: &str) -> bool {
        matches!(
            (self.view, name),
            (AdminView::Zones, "zones")
                | (AdminView::NewZone, "new")
                | (AdminView::Search, "search")
                | (AdminView::Deleted, "deleted")
                | (AdminView::Audit, "audit")
                | (AdminView::ApiKeys, "api-keys")
        )
    }
}

/// The head of a zone's pages.
pub struct ZoneHead {
    /// The name, with its final dot.
    pub name: String,
    /// The path of its pages.
    pub path: String,
    pub kind: &'static str,
    /// The serial that clients get.
    pub serial: u32,
    /// It is signed.
    pub is_signed: bool,
    /// Its contents come from a primary.
    pub is_transferred: bool,
    /// The key of the user permits changes.
    pub can_write: bool,
    /// Its records can be changed here by this user.
    pub is_editable: bool,
    /// A database stores it.
    pub is_in_database: bool,
    tab: ZoneTab,
}

impl ZoneHead {
    /// Makes the head.
    pub fn new(visit: &Visit<'_>, zone: &ZoneAttributes, tab: ZoneTab) -> Self {
        ZoneHead {
            can_write: visit.can_write(),
            is_editable: visit.can_write() && !zone.is_transferred(),
            path: zone_path(&zone.name),
            kind: zone.listed_kind().name(),
            serial: zone.edited_serial,
            is_signed: zone.is_signed,
            is_transferred: zone.is_transferred(),
            is_in_database: zone.is_in_database,
            name: zone.name.clone(),
            tab,
        }
    }

    /// The tabs: path, title, and whether it is the current one.
    pub fn tabs(&self) -> Vec<(String, &'static str, bool)> {
        let tabs = [
            ("", "Records", ZoneTab::Records),
            ("/import", "Import and export", ZoneTab::Import),
            ("/dnssec", "DNSSEC", ZoneTab::Dnssec),
            ("/transfers", "Transfers", ZoneTab::Transfers),
            ("/history", "History", ZoneTab::History),
            ("/delete", "Delete", ZoneTab::Delete),
        ];
        let tabs = tabs.into_iter();
        let tabs = tabs.filter(|(_, _, tab)| self.can_write || *tab != ZoneTab::Delete);
        tabs.map(|(path, title, tab)| (format!("{}{path}", self.path), title, tab == self.tab))
            .collect()
    }
}

/// A key as the page names it: its purpose or ID, and its limits.
fn key_text(key: &ApiKey) -> String {
    let name = match (key.id.as_str(), key.description.as_str()) {
        (CONFIGURED_KEY, _) => "configured key",
        (id, "") => id,
        (_, description) => description,
    };
    if key.scope.is_read_only() {
        format!("{name} (read-only)")
    } else {
        name.to_owned()
    }
}

/// The path of the pages of a zone.
pub fn zone_path(zone: &str) -> String {
    format!("/admin/zones/{}", escaped(zone))
}

/// A page.
pub fn page(status: u16, template: &impl Template) -> ApiResponse {
    match template.render() {
        Ok(text) => ApiResponse::text(status, HTML, text).with("cache-control", "no-store"),
        Err(error) => {
            tracing::error!("internal error while rendering a page: {error}");
            ApiResponse::error(500, ErrorForm::Text)
        }
    }
}

/// Leads to another page with GET.
pub fn redirect(target: &str) -> ApiResponse {
    ApiResponse::text(303, "text/plain", "")
        .with("location", target)
        .with("cache-control", "no-store")
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    frame: AdminFrame<'a>,
    status: u16,
    lines: Vec<&'a str>,
}

/// The page about an operation that failed.
pub fn failure(visit: &Visit<'_>, error: &OperationError) -> ApiResponse {
    let status = status_of(error.kind);
    if status >= 500 {
        tracing::error!("web administration: {error}");
    }
    let frame = AdminFrame::new(visit, AdminView::Other);
    let lines = error.message.lines().collect();
    page(
        status,
        &ProblemPage {
            frame,
            status,
            lines,
        },
    )
}

/// A refusal before or without a session.
pub fn refusal(status: u16, text: &str) -> ApiResponse {
    ApiResponse::text(status, crate::response::media::TEXT, text.to_owned())
        .with("cache-control", "no-store")
}

/// The files that pages refer to. They change with the version only.
pub fn asset(request: &AdminRequest) -> Option<ApiResponse> {
    static SHEET: LazyLock<String> =
        LazyLock::new(|| format!("{STYLE}\n{}", include_str!("../../assets/admin.css")));
    let [name] = request.path.as_slice() else {
        return None;
    };
    let (media, body) = match name.as_str() {
        "style.css" => ("text/css; charset=utf-8", SHEET.as_str()),
        "script.js" => (
            "text/javascript; charset=utf-8",
            include_str!("../../assets/admin.js"),
        ),
        "icon.svg" => ("image/svg+xml", ICON),
        _ => return None,
    };
    if request.method != ApiMethod::Get {
        return None;
    }
    Some(ApiResponse::text(200, media, body).with("cache-control", "max-age=300"))
}

/// Escapes a text for a path segment or the value of a parameter (RFC 3986 section 2). The id of the API also works in paths.
pub fn escaped(text: &str) -> String {
    match text {
        // Browsers remove segments of dots.
        "." => zone_id(".").into_owned(),
        _ => web::escaped(text),
    }
}
