//! The HTTP listener of the API: HTTP/1.1 with keep-alive, and HTTP/2, over TCP or TLS.
//!
//! The order is: access list, connection limit, TLS handshake, head, key, body, operation. Nothing of a body is read for a client without the key.
//! - Connections are bounded, and shared fairly: when all are taken, the client with the most connections loses the one that has been
//!   idle longest. A connection whose operation is running is never closed for another.
//! - Head, body and reply have time limits; bodies of all clients together are bounded, so are the replies not yet read. Long lists are
//!   made while the client reads.
//! - Operations run on threads that may block, a bounded number at a time.

mod admin;
mod connections;
mod events;
mod reply;

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, header};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use ipnet::IpNet;
use nameward_base::memory;
use nameward_control::web::{ApiHandover, KeyGate, RETRY_SECONDS, SecretVerdict, is_allowed};
use nameward_serve::http::{BodyMemory, Held, HeldBody, StallGuard};
use nameward_serve::tls::{ServerTls, TlsPurpose};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::admin::Admin;
use crate::operator::Api;
use crate::request::{ApiMethod, ApiRequest, BadTarget};
use crate::response::{ApiResponse, ErrorForm, HEADERS};
use crate::routes;

use connections::{ApiConnection, Connections};
use events::EventStreams;
use reply::{PiecedBody, ReplyBody};

/// Bounds on what clients may take.
#[derive(Debug, Clone, Copy)]
pub struct ApiLimits {
    /// Connections at the same time.
    pub connections: usize,
    /// Octets of a body.
    pub body: usize,
    /// Octets of bodies of all clients, and of replies that they have not read.
    pub memory: usize,
    /// Operations at the same time.
    pub operations: usize,
    /// Time for a head, and for a whole body.
    pub read_timeout: Duration,
    /// Time in which a client must take something of its reply.
    pub write_timeout: Duration,
    /// Streams of events at the same time.
    pub event_streams: usize,
    /// Streams of events of one client at the same time.
    pub event_streams_per_client: usize,
    /// Time after which a stream without events sends something.
    pub keep_alive: Duration,
}

/// Bodies below this size are processed with what is at hand.
const LARGE_BODY: usize = 256 << 10;
/// Memory to process a body, in units of its size: parsed JSON, edits, the difference, the journal.
const WORK_SHARE: usize = 20;

impl Default for ApiLimits {
    fn default() -> Self {
        ApiLimits {
            connections: 512,
            body: 16 << 20,
            memory: 512 << 20,
            operations: 32,
            read_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            event_streams: 64,
            event_streams_per_client: 8,
            keep_alive: Duration::from_secs(5),
        }
    }
}

/// The API with its listener.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<ApiShared>,
}

struct ApiShared {
    api: Api,
    gate: KeyGate,
    allow_from: Vec<IpNet>,
    limits: ApiLimits,
    tls: Option<Arc<ServerTls>>,
    connections: Connections,
    operations: Semaphore,
    bodies: Arc<BodyMemory>,
    replies: Arc<BodyMemory>,
    event_streams: EventStreams,
    /// The web administration; `None` if it is off.
    admin: Option<Admin>,
}

impl ApiServer {
    /// Makes the server of an API, and of the web administration if it is on.
    pub fn new(
        (api, admin): (Api, Option<Admin>),
        gate: KeyGate,
        allow_from: Vec<IpNet>,
        limits: ApiLimits,
        tls: Option<Arc<ServerTls>>,
    ) -> Self {
        let shared = ApiShared {
            api,
            gate,
            allow_from,
            limits,
            tls,
            connections: Connections::new(limits.connections),
            operations: Semaphore::new(limits.operations),
            bodies: BodyMemory::new(limits.memory),
            replies: BodyMemory::new(limits.memory),
            event_streams: EventStreams::default(),
            admin,
        };
        ApiServer {
            shared: Arc::new(shared),
        }
    }

    /// Accepts connections until `shutdown` completes.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => self.admit(stream, peer),
                // Out of descriptors, mostly: not a reason to spin or to end.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Takes the connections for the API on the port of the status page.
    pub fn handover(&self) -> ApiHandover {
        let server = self.clone();
        ApiHandover {
            allow_from: self.shared.allow_from.clone(),
            paths: match self.shared.admin {
                Some(_) => &["/api", "/admin"],
                None => &["/api"],
            },
            serve: Arc::new(move |stream, peer| server.admit(stream, peer)),
        }
    }

    /// Serves a connection, unless its client is not allowed or all connections are busy.
    fn admit(&self, stream: TcpStream, peer: SocketAddr) {
        let client = peer.ip().to_canonical();
        if !is_allowed(&self.shared.allow_from, client) {
            return; // closed without an answer
        }
        let shared = Arc::clone(&self.shared);
        self.shared.connections.admit(client, |slot| {
            let task = tokio::spawn(converse(shared, slot, stream, client));
            task.abort_handle()
        });
    }
}

/// Serves the requests of one connection.
async fn converse(
    shared: Arc<ApiShared>,
    slot: Arc<ApiConnection>,
    stream: TcpStream,
    client: IpAddr,
) {
    let _ = stream.set_nodelay(true);
    let limits = shared.limits;
    let stream = StallGuard::new(stream, limits.write_timeout);
    let Some(tls) = &shared.tls else {
        return serve_requests(shared, slot, stream, client).await;
    };
    let handshake = tls.acceptor(TlsPurpose::Api).accept(stream);
    // A client that does not speak TLS, or takes too long, ends its own connection.
    let handshake = tokio::time::timeout(tls.handshake_timeout(), handshake);
    if let Ok(Ok(stream)) = handshake.await {
        serve_requests(shared, slot, stream, client).await;
    }
}

/// Serves the requests of a connection, encrypted or not.
async fn serve_requests(
    shared: Arc<ApiShared>,
    slot: Arc<ApiConnection>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    client: IpAddr,
) {
    let limits = shared.limits;
    let io = TokioIo::new(stream);
    let service = service_fn(move |request| {
        let (shared, slot) = (Arc::clone(&shared), Arc::clone(&slot));
        async move {
            let response = answer(&shared, &slot, request, client).await;
            Ok::<_, Infallible>(response)
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.read_timeout)
        .title_case_headers(true)
        .max_buf_size(64 * 1024);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(16)
        .max_header_list_size(16 * 1024)
        .keep_alive_interval(limits.read_timeout)
        .keep_alive_timeout(limits.read_timeout)
        .max_pending_accept_reset_streams(16);
    // A client that breaks off or sends nonsense ends its own connection.
    let _ = builder.serve_connection(io, service).await;
}

/// Answers one request.
async fn answer(
    shared: &Arc<ApiShared>,
    slot: &Arc<ApiConnection>,
    request: Request<Incoming>,
    client: IpAddr,
) -> Response<ReplyBody> {
    if let Some(admin) = &shared.admin
        && let Some(mut visit) = admin::read_head(&request, client)
    {
        visit.is_secure |= shared.tls.is_some();
        return admin::answer((shared, admin), slot, request, visit).await;
    }
    let text = |name: header::HeaderName| {
        let value = request.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    let accept = text(header::ACCEPT);
    let target = request.uri().path_and_query().map_or("/", |it| it.as_str());
    let parsed = ApiRequest::new(request.method().as_str(), target, accept.as_deref(), client);
    let form = ErrorForm::from_accept(accept.as_deref());
    let error = |status| ApiResponse::error(status, form);
    let mut parsed = match parsed {
        Ok(parsed) => parsed,
        Err(BadTarget::NotApi) => return finish(shared, error(404)),
        Err(BadTarget::TooLong) => return finish(shared, error(414)),
    };
    parsed.if_match = text(header::IF_MATCH);
    parsed.if_none_match = text(header::IF_NONE_MATCH);
    parsed.last_event_id = text(header::HeaderName::from_static("last-event-id"));
    if parsed.method == ApiMethod::Options {
        return finish(shared, routes::preflight());
    }
    let key = text(header::HeaderName::from_static("x-api-key"));
    let key = match shared.gate.check(key.as_deref(), client).await {
        SecretVerdict::Right(key) => key,
        SecretVerdict::Wrong => {
            let challenge = "X-API-Key realm=\"Nameward\"";
            return finish(shared, error(401).with("www-authenticate", challenge));
        }
        SecretVerdict::TooMany => {
            let seconds = RETRY_SECONDS.to_string();
            return finish(shared, error(429).with("retry-after", seconds));
        }
        SecretVerdict::Busy => return finish(shared, error(503).with("retry-after", "1")),
    };
    let _room = match read_body(shared, request, shared.limits.body).await {
        Ok((body, room)) => {
            parsed.body = body;
            room
        }
        Err(status) => return finish(shared, error(status).with("connection", "close")),
    };
    let Ok(_permit) = shared.operations.acquire().await else {
        return finish(shared, error(503));
    };
    let busy = slot.begin();
    let (running, caller) = (Arc::clone(shared), Arc::clone(&key));
    let parsed = Arc::new(parsed);
    let request = Arc::clone(&parsed);
    let responding = tokio::task::spawn_blocking(move || running.api.respond(&request, &caller));
    let response = responding.await.unwrap_or_else(|_| error(500));
    if response.rest.is_some() {
        return reply::start(shared, slot, (key, parsed), response);
    }
    events::start(shared, (key, client, busy), response, form)
}

/// Reads a body within its limits; the error is a status code.
async fn read_body(
    shared: &Arc<ApiShared>,
    request: Request<Incoming>,
    limit: usize,
) -> Result<(Vec<u8>, Option<Held>), u16> {
    use hyper::body::Body as _;
    let hint = request.body().size_hint();
    if request.body().is_end_stream() {
        return Ok((Vec::new(), None));
    }
    if hint.lower() > limit as u64 {
        return Err(413);
    }
    // Without a length, as much as a body may have.
    let size = hint.upper().map_or(limit, |upper| upper as usize);
    let Some(room) = shared.bodies.hold(size) else {
        return Err(503);
    };
    if size >= LARGE_BODY && !memory::is_available(size.saturating_mul(WORK_SHARE)) {
        memory::note_refusal(format!("an API request of {size} octets"));
        tracing::warn!("API: a request of {size} octets is refused: out of memory");
        return Err(503);
    }
    let reading = Limited::new(request.into_body(), limit).collect();
    match tokio::time::timeout(shared.limits.read_timeout, reading).await {
        Err(_) => Err(408),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(413),
        Ok(Err(_)) => Err(400),
        Ok(Ok(body)) => Ok((body.to_bytes().to_vec(), Some(room))),
    }
}

/// Makes the HTTP response. Its body counts until the client has taken it.
fn finish(shared: &Arc<ApiShared>, response: ApiResponse) -> Response<ReplyBody> {
    finish_with(shared, response, &HEADERS)
}

/// Makes the HTTP response with these headers.
fn finish_with(
    shared: &Arc<ApiShared>,
    response: ApiResponse,
    headers: &[(&'static str, &'static str)],
) -> Response<ReplyBody> {
    let pieces = response.pieces.iter().map(Vec::len);
    let octets = response.body.len() + pieces.sum::<usize>();
    let (response, held) = match shared.replies.hold(octets) {
        Some(held) => (response, Some(held)),
        None => (ApiResponse::empty(503).with("retry-after", "1"), None),
    };
    let mut builder = Response::builder().status(response.status);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    if let Some(media) = response.media {
        builder = builder.header(header::CONTENT_TYPE, media);
    }
    for (name, value) in &response.headers {
        builder = builder.header(*name, value);
    }
    let body = match response.pieces {
        pieces if pieces.is_empty() => ReplyBody::Whole(HeldBody::new(response.body, held)),
        pieces => ReplyBody::Pieces(PiecedBody::new(response.body, pieces, held)),
    };
    builder
        .body(body)
        .unwrap_or_else(|_| Response::new(ReplyBody::empty()))
}
