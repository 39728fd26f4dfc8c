//! Which reply belongs to which request. Runs on a thread that may block.

use nameward_stats::Ring;

use super::page::{self, Drawing};
use super::request::{Method, Request};
use super::response::{Caching, Response, media};
use super::{Shared, access, api, metrics};

const ALLOW: &str = "GET, HEAD";

/// What is served.
enum Route {
    Page,
    Asset(&'static str, &'static str),
    Metrics,
    Statistics,
    Live,
    Ready,
}

impl Route {
    fn of(path: &str) -> Option<Route> {
        Some(match path {
            "/" => Route::Page,
            "/style.css" => Route::Asset(media::CSS, include_str!("../../assets/style.css")),
            "/script.js" => Route::Asset(media::SCRIPT, include_str!("../../assets/script.js")),
            "/icon.svg" => Route::Asset(media::SVG, include_str!("../../assets/icon.svg")),
            "/metrics" => Route::Metrics,
            "/api/v1/servers/localhost/statistics" => Route::Statistics,
            "/livez" => Route::Live,
            "/readyz" => Route::Ready,
            _ => return None,
        })
    }
}

/// The reply to a request.
pub(super) fn respond(shared: &Shared, request: &Request) -> Response {
    if request.content_length > shared.settings.limits.max_body_bytes {
        return Response::error(413);
    }
    let route = Route::of(&request.path);
    if let Some(refused) = refuse_stranger(shared, request, route.as_ref()) {
        return refused;
    }
    let Some(route) = route else {
        return not_found(request);
    };
    if request.method == Method::Other {
        return Response::error(405).with("Allow", ALLOW);
    }
    match route {
        Route::Page => status_page(shared, request),
        Route::Asset(media, text) => Response::new(200, media, text).cached(Caching::Briefly),
        Route::Metrics => {
            let snapshot = shared.stats.snapshot();
            let version = shared.settings.title.rsplit(' ').next().unwrap_or_default();
            let text = metrics::draw(&snapshot, version, shared.settings.mnemonic);
            Response::new(200, media::METRICS, text)
        }
        Route::Statistics => {
            api::statistics(request, &shared.stats.snapshot(), shared.settings.mnemonic)
        }
        Route::Live => Response::new(200, media::TEXT, "ok\n"),
        Route::Ready if (shared.is_ready)() => Response::new(200, media::TEXT, "ready\n"),
        Route::Ready => Response::new(503, media::TEXT, "not ready\n"),
    }
}

/// The API asks for its key, the probes for nothing, everything else for the password if there is one.
fn refuse_stranger(shared: &Shared, request: &Request, route: Option<&Route>) -> Option<Response> {
    match route {
        Some(Route::Live | Route::Ready) => None,
        Some(Route::Statistics) => match &shared.api_key {
            None => Some(not_found(request)),
            Some(key) if key.is(request.header("x-api-key").unwrap_or_default()) => None,
            Some(_) if request.accepts_only("application/json") => Some(Response::json_error(401)),
            Some(_) => Some(Response::error(401)),
        },
        _ => {
            let password = shared.password.as_ref()?;
            let right = password.accepts(request.header("authorization"));
            (!right).then(|| {
                let challenge = "Basic realm=\"Nameward status\", charset=\"UTF-8\"";
                Response::error(401).with("WWW-Authenticate", challenge)
            })
        }
    }
}

/// Small and of one size for every path. HEAD gets no body but is told what is allowed.
fn not_found(request: &Request) -> Response {
    match request.method {
        Method::Head => Response::error(404).with("Allow", ALLOW),
        _ if request.accepts_only("application/json") => Response::json_error(404),
        _ => Response::error(404),
    }
}

fn status_page(shared: &Shared, request: &Request) -> Response {
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
            // Wrong token and unknown ring come first, as they do for a good size.
            _ => match permitted_ring(shared, request, &name) {
                Ok(_) => Response::error(400),
                Err(refused) => refused,
            },
        };
    }
    let ring = match request.parameter("ring") {
        None => None,
        Some(name) => match Ring::from_name(&name) {
            Some(ring) => Some(ring),
            None => return not_found(request),
        },
    };
    let snapshot = shared.stats.snapshot();
    if let Some(ring) = ring.filter(|_| wants_text(request)) {
        let text = page::draw_text(snapshot.ring(ring), shared.settings.mnemonic);
        return Response::new(200, media::TEXT, text);
    }
    let drawing = Drawing {
        title: &shared.settings.title,
        token: &shared.token,
        mnemonic: shared.settings.mnemonic,
    };
    match page::draw(&snapshot, ring, &drawing) {
        Ok(html) => Response::new(200, media::HTML, html),
        Err(_) => Response::error(500),
    }
}

fn wants_text(request: &Request) -> bool {
    match request.parameter("format") {
        Some(format) => format == "text",
        None => request.accepts_only("text/plain"),
    }
}

fn permitted_ring(shared: &Shared, request: &Request, name: &str) -> Result<Ring, Response> {
    let token = request.parameter("token").unwrap_or_default();
    if !access::same_secret(&token, &shared.token) {
        return Err(Response::error(403));
    }
    Ring::from_name(name).ok_or_else(|| not_found(request))
}

fn change_ring(
    shared: &Shared,
    request: &Request,
    name: &str,
    change: impl FnOnce(Ring),
) -> Response {
    match permitted_ring(shared, request, name) {
        Ok(ring) => {
            // HEAD is safe (RFC 9110 section 9.2.1): it tells what GET would say and changes nothing.
            if request.method == Method::Get {
                change(ring);
            }
            Response::new(302, media::TEXT, "See /\n").with("Location", "/")
        }
        Err(refused) => refused,
    }
}
