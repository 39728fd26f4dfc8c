//! Maps requests to replies.

use std::net::IpAddr;
use std::sync::Arc;

use nameward_base::secret::Secret;
use nameward_stats::Ring;
use nameward_wire::NameBuf;
use nameward_zone::PageStart;

use super::health::{PageFrame, PageView};
use super::request::{HttpRequest, Method};
use super::response::{Response, media};
use super::ring_text::RankedText;
use super::zone_list::{self, ZoneListQuery};
use crate::operations::KeyScope;

use super::{Password, WebState, access, api, host, metrics, page, zone_page};

const ALLOW: &str = "GET, HEAD";
/// Maximum length of a filter in octets: only messages are longer.
const FILTER_MAX: usize = 256;

/// A served path.
#[derive(Clone, Copy)]
pub(super) enum Route {
    Page,
    Asset(&'static str, &'static str),
    Metrics,
    Statistics,
    Live,
    Ready,
}

impl Route {
    pub(super) fn from_path(path: &str) -> Option<Route> {
        Some(match path {
            "/" => Route::Page,
            "/style.css" => Route::Asset(media::CSS, super::STYLE),
            "/script.js" => Route::Asset(media::SCRIPT, include_str!("../../assets/script.js")),
            "/icon.svg" => Route::Asset(media::SVG, super::ICON),
            "/metrics" => Route::Metrics,
            "/api/v1/servers/localhost/statistics" => Route::Statistics,
            "/livez" => Route::Live,
            "/readyz" => Route::Ready,
            _ => return None,
        })
    }
}

/// The secret that a request must present, and the one that it presents.
pub(super) struct PresentedSecret {
    /// The kind of secret.
    pub kind: SecretKind,
    /// The secret.
    pub password: Arc<Password>,
    /// The secret as given by the client.
    pub given: Option<Secret<String>>,
}

/// The kind of a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretKind {
    /// The API key.
    ApiKey,
    /// The password of the page.
    Page,
}

/// Returns the required secret: for the API its key, for probes none, for everything else the password if one is
/// configured.
pub(super) fn secret(
    shared: &WebState,
    request: &HttpRequest,
    route: Option<&Route>,
) -> Option<PresentedSecret> {
    let (kind, password, given) = match route {
        Some(Route::Live | Route::Ready) => return None,
        Some(Route::Statistics) => {
            let given = request.header("x-api-key");
            let given = given.map(|key| key.to_owned().into());
            (SecretKind::ApiKey, &shared.api_key, given)
        }
        _ => {
            let header = request.header("authorization");
            let given = header.and_then(access::basic_password);
            (SecretKind::Page, &shared.password, given)
        }
    };
    Some(PresentedSecret {
        kind,
        password: Arc::clone(password.as_ref()?),
        given,
    })
}

/// Checks whether the request has no secret and was sent to a name that is not ours. Probes reveal nothing secret.
pub(super) fn is_misdirected(
    shared: &WebState,
    request: &HttpRequest,
    route: Option<&Route>,
    local: Option<IpAddr>,
) -> bool {
    match route {
        Some(Route::Live | Route::Ready | Route::Statistics) => false,
        _ => {
            let names = &shared.settings.host_names;
            let is_ours = |name: &String| host::is_ours(name, local, names);
            shared.password.is_none() && !request.hosts.iter().all(is_ours)
        }
    }
}

/// Returns a reply that needs no rendering: for probes, for built-in files, and refusals.
pub(super) fn respond_at_once(
    shared: &WebState,
    request: &HttpRequest,
    route: Option<&Route>,
) -> Option<Response> {
    let Some(route) = route else {
        return Some(not_found(request));
    };
    if matches!(route, Route::Statistics) && shared.api_key.is_none() {
        return Some(not_found(request)); // no key, no API
    }
    if request.method == Method::Other {
        return Some(Response::error(405).with("Allow", ALLOW));
    }
    Some(match route {
        Route::Asset(media, text) => Response::new(200, media, *text).cached(),
        Route::Live => Response::new(200, media::TEXT, "ok\n"),
        Route::Ready => readiness(shared),
        Route::Page | Route::Metrics | Route::Statistics => return None,
    })
}

/// Returns the reply to a load balancer's probe: why the server is not ready, one reason per line.
fn readiness(shared: &WebState) -> Response {
    let reasons = (shared.status)().reasons(&shared.settings.ready);
    if reasons.is_empty() {
        Response::new(200, media::TEXT, "ready\n")
    } else {
        Response::new(503, media::TEXT, reasons.join("\n") + "\n")
    }
}

/// Returns the ring whose text form alone is requested.
pub(super) fn ring_of_text(request: &HttpRequest, route: &Route) -> Option<Ring> {
    let is_other = has_any(request, &["resetring", "resizering", "zone", "zones"]);
    if is_other || !matches!(route, Route::Page) || !wants_text(request) {
        return None;
    }
    Ring::from_name(&request.parameter("ring")?)
}

/// Ranks a ring for its text form. Runs on a blocking thread.
pub(super) fn rank(shared: &WebState, ring: Ring) -> RankedText {
    RankedText::new(shared.stats.snapshot().ring(ring))
}

/// Renders the reply to a request that neither [`respond_at_once`] nor [`ring_of_text`] handles. Runs on a blocking
/// thread.
pub(super) fn draw(shared: &WebState, request: &HttpRequest, route: &Route) -> Response {
    match route {
        Route::Metrics => {
            let (snapshot, status) = (shared.stats.snapshot(), (shared.status)());
            let text = metrics::draw(&snapshot, &status, &shared.settings);
            Response::new(200, media::METRICS, text)
        }
        Route::Statistics => api::respond(request, &shared.stats.snapshot()),
        _ => status_page(shared, request),
    }
}

/// Returns a small reply of the same size for every path. HEAD gets the allowed methods in the header and no body.
pub(super) fn not_found(request: &HttpRequest) -> Response {
    match request.method {
        Method::Head => Response::error(404).with("Allow", ALLOW),
        _ if request.accepts_only("application/json") => Response::json_error(404),
        _ => Response::error(404),
    }
}

fn status_page(shared: &WebState, request: &HttpRequest) -> Response {
    if let Some(name) = request.parameter("resetring") {
        return change_ring(shared, request, &name, |ring| {
            shared.stats.reset_ring(ring);
        });
    }
    if let Some(name) = request.parameter("resizering") {
        let size = request.parameter("size").and_then(|size| size.parse().ok());
        return match size {
            Some(size) if (1..=Ring::MAX_CAPACITY).contains(&size) => {
                change_ring(shared, request, &name, |ring| {
                    shared.stats.resize_ring(ring, size);
                })
            }
            // A wrong token or an unknown ring takes precedence, as for a valid size.
            _ => match permitted_ring(shared, request, &name) {
                Ok(_) => Response::error(400),
                Err(refused) => refused,
            },
        };
    }
    if let Some(zone) = request.parameter("zone") {
        return zone_page(shared, request, zone.trim());
    }
    if let Some(search) = request.parameter("zones") {
        return zone_list(shared, request, &search);
    }
    let ring = match request.parameter("ring") {
        None => None,
        Some(name) => match Ring::from_name(&name) {
            Some(ring) => Some(ring),
            None => return not_found(request),
        },
    };
    let filter = request.parameter("filter").unwrap_or_default();
    let status = (shared.status)();
    page_reply(page::draw(shared, &status, ring, bounded(&filter)))
}

fn zone_page(shared: &WebState, request: &HttpRequest, zone: &str) -> Response {
    let Some(facts) = shared.zones.zone(zone) else {
        return unknown_zone(shared, request, zone);
    };
    page_reply(zone_page::draw(shared, &(shared.status)(), &facts))
}

/// For a mistyped name, lists the zones that contain it.
fn unknown_zone(shared: &WebState, request: &HttpRequest, zone: &str) -> Response {
    if request.accepts_only("application/json") || request.accepts_only("text/plain") {
        return not_found(request);
    }
    let zone = bounded(zone);
    let query = ZoneListQuery {
        scope: KeyScope::default(),
        search: zone.to_ascii_lowercase(),
        without_data: false,
        start: PageStart::First,
    };
    let mut list = shared.zones.list(&query);
    let notice = format!("This server does not serve a zone {zone}.");
    list.warnings.insert(0, notice);
    let status = (shared.status)();
    let frame = PageFrame::new(PageView::Zone, &shared.settings.title, &status);
    page_reply(zone_list::draw(frame, &query, &list)).with_status(404)
}

fn zone_list(shared: &WebState, request: &HttpRequest, search: &str) -> Response {
    let name = |parameter| {
        let text = request.parameter(parameter)?;
        NameBuf::zone_from_text(&text).ok()
    };
    let start = match (name("after"), name("before")) {
        (Some(after), _) => PageStart::After(after),
        (None, Some(before)) => PageStart::Before(before),
        (None, None) => PageStart::First,
    };
    let query = ZoneListQuery {
        scope: KeyScope::default(),
        search: bounded(search).to_ascii_lowercase(),
        without_data: request
            .parameter("state")
            .is_some_and(|state| state == "down"),
        start,
    };
    let status = (shared.status)();
    let list = shared.zones.list(&query);
    let frame = PageFrame::new(PageView::ZoneList, &shared.settings.title, &status);
    page_reply(zone_list::draw(frame, &query, &list))
}

fn page_reply(drawn: Result<String, askama::Error>) -> Response {
    match drawn {
        Ok(html) => Response::new(200, media::HTML, html),
        Err(_) => Response::error(500),
    }
}

/// Returns the text of a search, cut at [`FILTER_MAX`].
fn bounded(text: &str) -> &str {
    let text = text.trim();
    &text[..text.floor_char_boundary(FILTER_MAX)]
}

/// Checks whether a request is for a zone page or the zone list.
pub(super) fn is_about_zones(request: &HttpRequest, route: &Route) -> bool {
    let is_change = has_any(request, &["resetring", "resizering"]);
    matches!(route, Route::Page) && has_any(request, &["zone", "zones"]) && !is_change
}

fn has_any(request: &HttpRequest, names: &[&str]) -> bool {
    names.iter().any(|name| request.parameter(name).is_some())
}

fn wants_text(request: &HttpRequest) -> bool {
    match request.parameter("format") {
        Some(format) => format == "text",
        None => request.accepts_only("text/plain"),
    }
}

fn permitted_ring(shared: &WebState, request: &HttpRequest, name: &str) -> Result<Ring, Response> {
    let token = request.parameter("token").unwrap_or_default();
    if !access::same_secret(&token, &shared.token) {
        let text = "Forbidden: this form is from before the server was restarted. Reload the status page and try again.\n";
        return Err(Response::new(403, media::TEXT, text));
    }
    Ring::from_name(name).ok_or_else(|| not_found(request))
}

fn change_ring(
    shared: &WebState,
    request: &HttpRequest,
    name: &str,
    change: impl FnOnce(Ring),
) -> Response {
    match permitted_ring(shared, request, name) {
        Ok(ring) => {
            // HEAD is safe (RFC 9110 section 9.2.1): it has the headers of GET and changes nothing.
            if request.method == Method::Get {
                change(ring);
            }
            Response::new(302, media::TEXT, "See /\n").with("Location", "/")
        }
        Err(refused) => refused,
    }
}
