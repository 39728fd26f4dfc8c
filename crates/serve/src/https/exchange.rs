//! One HTTP request and its response: the DNS message in it, status codes, and how long the response may be cached.

use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::{Method, Request, Response, header};

use super::{HttpsState, freshness};
use crate::http::{Held, HeldBody};
use crate::pipeline::TcpPipeline;
use crate::tcp::{FramedMessage, MessageAnswer, MessageConnection};

/// The media type of DNS messages (RFC 8484 section 6).
const MEDIA: &str = "application/dns-message";
/// Size of the largest DNS message.
const MESSAGE_MAX: usize = u16::MAX as usize;

/// Octets of the body of a refused request that are read: a client that is still sending would see
/// a reset stream instead of the refusal.
const DISCARD_MAX: usize = 256 * 1024;

/// The connection must be closed without a response.
#[derive(Debug, thiserror::Error)]
#[error("the client is not answered")]
pub(super) struct ConnectionClosed;

/// The status code of a request that has no DNS message to answer.
struct HttpRefusal(u16);

/// Answers one request.
pub(super) async fn answer(
    state: &Arc<HttpsState>,
    connection: &MessageConnection<TcpPipeline>,
    request: Request<Incoming>,
) -> Result<Response<HeldBody>, ConnectionClosed> {
    let (message, _room) = match read(state, request).await {
        Ok(read) => read,
        Err(refusal) => return Ok(refuse(&refusal)),
    };
    match connection.answer(&message).await {
        MessageAnswer::Reply(reply) => Ok(respond(state, reply)),
        // The pipeline refuses transfers over HTTPS: a response is one message (RFC 8484 section 4.1).
        MessageAnswer::Nothing | MessageAnswer::Messages(..) => Ok(refuse(&HttpRefusal(503))),
        // Not a DNS message, or a client that must not be answered.
        MessageAnswer::Close if message.len() < 12 => Ok(refuse(&HttpRefusal(400))),
        MessageAnswer::Close => Err(ConnectionClosed),
    }
}

/// Returns the DNS message of a request.
async fn read(
    state: &Arc<HttpsState>,
    request: Request<Incoming>,
) -> Result<(Vec<u8>, Option<Held>), HttpRefusal> {
    if let Err(refusal) = check_head(state, &request) {
        discard(state, request.into_body()).await;
        return Err(refusal);
    }
    match *request.method() {
        Method::GET => {
            let query = request.uri().query().unwrap_or_default();
            let mut parameters = query.split('&');
            let text = parameters.find_map(|parameter| parameter.strip_prefix("dns="));
            // RFC 8484 section 4.1.1: base64url without padding.
            let decoded = text.and_then(|text| BASE64URL_NOPAD.decode(text.as_bytes()).ok());
            let message = decoded.ok_or(HttpRefusal(400))?;
            if is_change(&message) {
                return Err(HttpRefusal(405));
            }
            Ok((message, None))
        }
        _ => read_body(state, request.into_body()).await,
    }
}

/// Checks whether a message is not a query. GET is a safe method (RFC 9110 section 9.2.1): any web
/// page can make a browser send such a request, with the permissions that access lists grant to the
/// browser's address or certificate.
fn is_change(message: &[u8]) -> bool {
    message.get(2).is_some_and(|flags| flags & 0x78 != 0)
}

/// Checks path, method and media type.
fn check_head(state: &HttpsState, request: &Request<Incoming>) -> Result<(), HttpRefusal> {
    if request.uri().path() != state.path {
        return Err(HttpRefusal(404));
    }
    match *request.method() {
        Method::GET => Ok(()),
        Method::POST => {
            let media = request.headers().get(header::CONTENT_TYPE);
            let media = media.and_then(|value| value.to_str().ok());
            let media = media.and_then(|value| value.split(';').next());
            if media.is_some_and(|media| media.trim().eq_ignore_ascii_case(MEDIA)) {
                Ok(())
            } else {
                Err(HttpRefusal(415))
            }
        }
        _ => Err(HttpRefusal(405)),
    }
}

/// Reads and drops the body of a refused request, within limits.
async fn discard(state: &HttpsState, mut body: Incoming) {
    let reading = async {
        let mut total = 0;
        while let Some(Ok(frame)) = body.frame().await {
            total += frame.data_ref().map_or(0, |data| data.len());
            if total > DISCARD_MAX {
                break;
            }
        }
    };
    // Too slow or too large: the refusal is sent anyway.
    let _ = tokio::time::timeout(state.tcp.message_timeout, reading).await;
}

async fn read_body(
    state: &Arc<HttpsState>,
    mut body: Incoming,
) -> Result<(Vec<u8>, Option<Held>), HttpRefusal> {
    // Without a Content-Length, up to the maximum size of a message.
    let size = body.size_hint().upper().unwrap_or(u64::MAX);
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let room = state.memory.hold(size.min(MESSAGE_MAX));
    let room = room.ok_or(HttpRefusal(503))?;
    let reading = async {
        let (mut message, mut total) = (Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| HttpRefusal(400))?;
            let data = frame.data_ref().map_or(&[][..], |data| data);
            total += data.len();
            if total <= MESSAGE_MAX {
                message.extend_from_slice(data);
            } else if total > DISCARD_MAX {
                break;
            }
        }
        if total <= MESSAGE_MAX {
            Ok(message)
        } else {
            Err(HttpRefusal(413))
        }
    };
    match tokio::time::timeout(state.tcp.message_timeout, reading).await {
        Err(_) => Err(HttpRefusal(408)),
        Ok(read) => Ok((read?, Some(room))),
    }
}

fn respond(state: &Arc<HttpsState>, reply: FramedMessage) -> Response<HeldBody> {
    let Some(held) = state.memory.hold(reply.message().len()) else {
        return refuse(&HttpRefusal(503));
    };
    let fresh = format!("max-age={}", freshness::seconds(reply.message()));
    let response = Response::builder()
        .status(200)
        .header(header::CONTENT_TYPE, MEDIA)
        .header(header::CACHE_CONTROL, fresh);
    let response = response.body(HeldBody::new(reply.into_message(), Some(held)));
    response.unwrap_or_else(|_| refuse(&HttpRefusal(500)))
}

fn refuse(refusal: &HttpRefusal) -> Response<HeldBody> {
    let mut builder = Response::builder()
        .status(refusal.0)
        .header(header::CACHE_CONTROL, "no-store");
    if refusal.0 == 405 {
        builder = builder.header(header::ALLOW, "GET, POST");
    }
    let empty = || HeldBody::new(Vec::new(), None);
    builder
        .body(empty())
        .unwrap_or_else(|_| Response::new(empty()))
}
