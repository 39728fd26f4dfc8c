//! The web administration on the listener of the API: assets, login, session, origin, form token, and then the page.
//!
//! Nothing of a body is read without a session, except the few octets of a login.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use hyper::body::Incoming;
use hyper::{Request, Response};
use nameward_control::web::{RETRY_SECONDS, SecretVerdict};

use nameward_serve::http::Held;

use super::connections::ApiConnection;
use super::reply::ReplyBody;
use super::{ApiShared, finish_with, read_body};
use crate::admin::{
    Admin, AdminRequest, HEADERS, LOGIN_MAX, logged_in, login_page, redirect_to_login, refusal,
};
use crate::request::ApiMethod;
use crate::response::{ApiResponse, ErrorForm};

/// Reads the head of a request; `None` if it is not for the web administration.
pub fn read_head(request: &Request<Incoming>, client: IpAddr) -> Option<AdminRequest> {
    AdminRequest::read(
        request.method().as_str(),
        request.uri(),
        request.headers(),
        client,
    )
}

/// Answers a request.
pub async fn answer(
    (shared, admin): (&Arc<ApiShared>, &Admin),
    slot: &Arc<ApiConnection>,
    request: Request<Incoming>,
    head: AdminRequest,
) -> Response<ReplyBody> {
    let response = match admin.asset(&head) {
        Some(asset) => asset,
        None => respond((shared, admin), slot, request, head).await,
    };
    finish_with(shared, response, &HEADERS)
}

async fn respond(
    (shared, admin): (&Arc<ApiShared>, &Admin),
    slot: &Arc<ApiConnection>,
    request: Request<Incoming>,
    mut head: AdminRequest,
) -> ApiResponse {
    let is_post = match head.method {
        ApiMethod::Get => false,
        ApiMethod::Post => true,
        _ => return refusal(405, "Method Not Allowed").with("allow", "GET, HEAD, POST"),
    };
    if is_post && !head.is_same_origin {
        return refusal(403, "Forbidden: the form was sent from another site.");
    }
    if head.is_at(&["login"]) {
        return if is_post {
            log_in((shared, admin), request, head).await
        } else {
            login_page(&admin.server, head.parameter("next"), 200, None)
        };
    }
    let now = Instant::now();
    let session = head.session.as_deref();
    let session = session.and_then(|id| admin.sessions.find(id, now));
    // A session does not outlive its key.
    let session = session.filter(|session| shared.gate.is_valid(&session.key));
    let Some(session) = session else {
        return redirect_to_login(&head);
    };
    let mut room = None;
    if is_post {
        room = match read_form(shared, request, &mut head, shared.limits.body).await {
            Ok(room) => room,
            Err(refused) => return refused,
        };
        if !session.has_token(head.form.field("token")) {
            return refusal(
                403,
                "Forbidden: the form is outdated. Go back, reload the page and send it again.",
            );
        }
    }
    let Ok(_permit) = shared.operations.acquire().await else {
        return ApiResponse::error(503, ErrorForm::Text);
    };
    let _busy = slot.begin();
    let running = Arc::clone(shared);
    let responding = tokio::task::spawn_blocking(move || {
        let _room = room;
        let admin = running.admin.as_ref()?;
        Some(admin.respond(&running.api, &head, &session))
    });
    let response = responding.await.ok().flatten();
    response.unwrap_or_else(|| ApiResponse::error(500, ErrorForm::Text))
}

/// Reads the form of a request, and returns the memory of its body.
async fn read_form(
    shared: &Arc<ApiShared>,
    request: Request<Incoming>,
    head: &mut AdminRequest,
    limit: usize,
) -> Result<Option<Held>, ApiResponse> {
    match read_body(shared, request, limit).await {
        Ok((body, held)) if head.take_body(&body) => Ok(held),
        Ok(_) => Err(refusal(400, "Bad Request: the body is not a form.")),
        Err(status) => Err(ApiResponse::error(status, ErrorForm::Text).with("connection", "close")),
    }
}

/// Checks a key and starts a session. An old session of the browser ends: its identifier is not used again.
async fn log_in(
    (shared, admin): (&Arc<ApiShared>, &Admin),
    request: Request<Incoming>,
    mut head: AdminRequest,
) -> ApiResponse {
    if let Err(refused) = read_form(shared, request, &mut head, LOGIN_MAX).await {
        return refused;
    }
    let failed = |status, problem: &str| {
        login_page(
            &admin.server,
            head.form.field("next"),
            status,
            Some(problem),
        )
    };
    let key = head.form.field("key").trim();
    let key = match shared.gate.check(Some(key), head.client).await {
        SecretVerdict::Right(key) => key,
        SecretVerdict::Wrong => {
            tracing::warn!("web administration: login from {} failed", head.client);
            return failed(401, "This is not a valid API key.");
        }
        SecretVerdict::TooMany => {
            let problem = format!("Too many attempts. Try again in {RETRY_SECONDS} seconds.");
            return failed(429, &problem).with("retry-after", RETRY_SECONDS.to_string());
        }
        SecretVerdict::Busy => return failed(503, "The server is busy. Try again."),
    };
    if let Some(old) = &head.session {
        admin.sessions.end(old);
    }
    match admin.sessions.start(&key, Instant::now()) {
        Some(id) => logged_in(&head, &id),
        None => ApiResponse::error(500, ErrorForm::Text),
    }
}
