//! The reply to one request: authorization, and where it is rendered.
//!
//! Replies that need no rendering are sent at once. The others queue. A full queue is reported to clients that
//! request a page; one that requests the text of a ring waits outside, where it may be closed for a new connection.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use nameward_stats::Ring;
use tokio::sync::SemaphorePermit;
use tokio::task::AbortHandle;

use super::outgoing_replies::NoRoom;
use super::request::HttpRequest;
use super::response::{Response, media};
use super::ring_texts::NoText;
use super::routes::{self, PresentedSecret, Route, SecretKind};
use super::secret_check::{RETRY_SECONDS, SecretVerdict};
use super::{ConnectionSlotGuard, WebState};

/// Both ends of a connection.
pub(super) struct ConnectionEnds {
    /// The client.
    pub peer: SocketAddr,
    /// The address that it connected to.
    pub local: Option<IpAddr>,
    /// The task that serves it.
    pub task: AbortHandle,
}

/// Returns the reply to a request, and the rendering permit, to be kept until the reply has its room.
pub(super) async fn respond<'a>(
    slot: &'a ConnectionSlotGuard,
    request: HttpRequest,
    client: &ConnectionEnds,
) -> (Response, Option<SemaphorePermit<'a>>) {
    let shared = &slot.shared;
    if request.content_length > shared.settings.limits.max_body_bytes {
        return (Response::error(413), None);
    }
    let route = Route::from_path(&request.path);
    if routes::is_misdirected(shared, &request, route.as_ref(), client.local) {
        return (misdirected(), None);
    }
    if let Some(secret) = routes::secret(shared, &request, route.as_ref())
        && let Err(refused) = authorize(shared, secret, &request, client.peer.ip()).await
    {
        return (refused, None);
    }
    if let Some(response) = routes::respond_at_once(shared, &request, route.as_ref()) {
        return (response, None);
    }
    let Some(route) = route else {
        return (routes::not_found(&request), None);
    };
    if let Some(ring) = routes::ring_of_text(&request, &route) {
        return (respond_with_text(slot, ring, &client.task).await, None);
    }
    let Ok(_in_line) = shared.queue.try_acquire() else {
        return (busy(), None);
    };
    let permit = if routes::is_about_zones(&request, &route) {
        // A database may be slow, and others must not queue behind it.
        shared.zone_drawings.try_acquire().ok()
    } else {
        shared.drawings.acquire().await.ok()
    };
    let Some(permit) = permit else {
        return (busy(), None);
    };
    let drawing = Arc::clone(shared);
    let drawn = tokio::task::spawn_blocking(move || routes::draw(&drawing, &request, &route));
    let response = drawn.await.unwrap_or_else(|_| Response::error(500));
    (response, Some(permit))
}

/// Returns the text of a ring. However many clients wait for it, it takes one ranking more than the one in progress,
/// so a full queue refuses none of them.
async fn respond_with_text(slot: &ConnectionSlotGuard, ring: Ring, task: &AbortHandle) -> Response {
    let shared = &slot.shared;
    let queue = shared.queue.try_acquire();
    if queue.is_err() {
        slot.wait_for_text(task.clone());
    }
    let ranking = Arc::clone(shared);
    let text = shared
        .ring_texts
        .text(ring, move || routes::rank(&ranking, ring));
    let text = text.await;
    if queue.is_err() && slot.stop_waiting().is_none() {
        return busy(); // it had to make room, and ends where it waits next
    }
    match text {
        Ok(text) => Response::ring(text),
        Err(NoText::NoRoom(no_room)) => without_room(no_room),
        Err(NoText::Failed) => Response::error(500),
    }
}

/// Returns the reply that replaces one without room.
pub(super) fn without_room(no_room: NoRoom) -> Response {
    match no_room {
        NoRoom::TooLarge => Response::new(
            503,
            media::TEXT,
            "Service Unavailable: this reply needs more memory than web.reply_memory_mb allows\n",
        ),
        NoRoom::Busy => busy(),
    }
}

/// Authorizes a request that has the right secret.
async fn authorize(
    shared: &Arc<WebState>,
    secret: PresentedSecret,
    request: &HttpRequest,
    client: IpAddr,
) -> Result<(), Response> {
    let refused = || match secret.kind {
        SecretKind::ApiKey if request.accepts_only("application/json") => Response::json_error(401),
        SecretKind::ApiKey => Response::error(401),
        SecretKind::Page => {
            let challenge = "Basic realm=\"Nameward status\", charset=\"UTF-8\"";
            Response::error(401).with("WWW-Authenticate", challenge)
        }
    };
    // A request without a secret is not a guess.
    let given = secret.given.ok_or_else(refused)?;
    let password = secret.password;
    let compare = || {
        password
            .check_quickly(given.reveal())
            .map(|is_right| is_right.then_some(()))
    };
    let (hashed, owned) = (Arc::clone(&password), given.clone());
    let hash = move || hashed.check_slowly(owned.reveal()).then_some(());
    match shared.secrets.check(client, compare, hash).await {
        SecretVerdict::Right(()) => Ok(()),
        SecretVerdict::Wrong => Err(refused()),
        SecretVerdict::TooMany => {
            Err(Response::error(429).with("Retry-After", RETRY_SECONDS.to_string()))
        }
        SecretVerdict::Busy => Err(busy()),
    }
}

fn busy() -> Response {
    Response::error(503).with("Retry-After", "1")
}

/// Returns 421 (RFC 9110 section 15.5.20): this server does not answer for the name.
fn misdirected() -> Response {
    let text =
        "Misdirected Request: this name is not in web.host_names, and there is no web.password\n";
    Response::new(421, media::TEXT, text)
}
