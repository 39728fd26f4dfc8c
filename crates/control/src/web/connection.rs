//! One connection: read one request, log it, send the reply, close.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::SemaphorePermit;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::outgoing_replies::{NoRoom, PIECE_BYTES, RoomClient};
use super::request::{HttpRequest, MalformedRequest, Method, find_head_end, is_hopeless, parse};
use super::response::{Body, Parts, Response};
use super::ring_text::{RingText, RingTextPosition};
use super::{ConnectionSlotGuard, WebState, access, answer, handover};

/// Time and octets for which input is still read after the reply.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 256 * 1024;
/// Maximum number of octets of a path in a log message.
const LOGGED_PATH: usize = 1024;
/// Send buffer size per client; the kernel doubles it.
const SEND_BUFFER: usize = 64 * 1024;
/// A reply up to this size is not counted: it fits into the send buffer at once.
const SMALL_REPLY: usize = 16 * 1024;

/// A request head as far as received.
enum Head {
    Complete {
        head: Vec<u8>,
        more: bool,
    },
    Hopeless,
    TooLarge,
    /// Closed or failed: there is no client to answer.
    Gone,
}

/// A connection that is reset if it ends before its reply does, so that the client does not mistake a partial reply
/// for a complete one and the kernel drops unread data.
struct HttpConnection {
    stream: TcpStream,
    is_done: bool,
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        }
    }
}

/// A reply that has its room.
struct OutgoingResponse {
    parts: Parts,
    /// The client in the room of the reply; `None` for a small one.
    client: Option<RoomClient>,
}

/// Serves one request.
pub(super) async fn converse(place: ConnectionSlotGuard, mut stream: TcpStream, peer: SocketAddr) {
    let shared = Arc::clone(&place.shared);
    let limits = shared.settings.limits;
    let _ = stream.set_nodelay(true);
    let _ = socket2::SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER);
    if let Some(api) = &shared.api {
        let looking = handover::is_for_api(&stream, api.paths);
        match timeout(limits.head_timeout, looking).await {
            Ok(true) => {
                if place.stop_waiting().is_some() {
                    (api.serve)(stream, peer);
                }
                return;
            }
            Ok(false) if access::is_allowed(&shared.settings.allow_from, peer.ip()) => {}
            _ => return,
        }
    }
    // A client that is too slow is disconnected without an answer: it has not made a request.
    let reading = read_head(&mut stream, limits.max_head_bytes);
    let Ok(head) = timeout(limits.head_timeout, reading).await else {
        return;
    };
    let Some(task) = place.stop_waiting() else {
        return;
    };
    let (request, more) = match head {
        Head::Complete { head, more } => (parse(&head), more),
        Head::Hopeless => (Err(MalformedRequest::Syntax), true),
        Head::TooLarge => (Err(MalformedRequest::TooLarge), true),
        Head::Gone => return,
    };
    let may_send_more = more
        || request.as_ref().is_ok_and(|request| {
            request.content_length > 0 || request.header("transfer-encoding").is_some()
        });
    let mut connection = HttpConnection {
        stream,
        is_done: false,
    };
    let local = connection.stream.local_addr().ok().map(|local| local.ip());
    let client = answer::ConnectionEnds { peer, local, task };
    let reply = prepare(&place, request, &client).await;
    if send(&shared, &mut connection.stream, reply).await.is_none() {
        return;
    }
    connection.is_done = true;
    if may_send_more {
        place.wait_again(client.task);
        // Closing with unread octets resets the connection, and the reset can overtake the reply.
        let _ = timeout(LINGER, read_away(&mut connection.stream)).await;
    }
}

async fn read_head(stream: &mut TcpStream, limit: usize) -> Head {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        match stream.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return Head::Gone,
            Ok(_) => {}
        }
        if let Some(end) = find_head_end(&bytes).filter(|end| *end <= limit) {
            let more = bytes.len() > end;
            bytes.truncate(end);
            return Head::Complete { head: bytes, more };
        }
        if is_hopeless(&bytes) {
            return Head::Hopeless;
        }
        if bytes.len() > limit {
            return Head::TooLarge;
        }
    }
}

async fn read_away(stream: &mut TcpStream) {
    let mut scratch = vec![0; 8192];
    let mut left = LINGER_BYTES;
    while left > 0 {
        match stream.read(&mut scratch).await {
            Ok(0) | Err(_) => return,
            Ok(read) => left = left.saturating_sub(read),
        }
    }
}

/// Returns the reply with its room, after logging the request with the reply size.
async fn prepare(
    place: &ConnectionSlotGuard,
    request: Result<HttpRequest, MalformedRequest>,
    client: &answer::ConnectionEnds,
) -> OutgoingResponse {
    let shared = &place.shared;
    let (method, line) = match &request {
        Ok(request) => (
            request.method,
            format!("{} {}", request.method_text, logged_path(&request.path)),
        ),
        Err(_) => (Method::Get, "- -".to_owned()),
    };
    let (response, drawing) = match request {
        Ok(request) => answer::respond(place, request, client).await,
        Err(MalformedRequest::Syntax) => (Response::error(400), None),
        Err(MalformedRequest::TooLarge) => (Response::error(431), None),
    };
    let mut status = response.status;
    let parts = response.into_parts(method, SystemTime::now());
    let outgoing = match make_room(place, parts, drawing, &client.task).await {
        Ok(outgoing) => outgoing,
        Err(no_room) => {
            let refusal = answer::without_room(no_room);
            status = refusal.status;
            OutgoingResponse {
                parts: refusal.into_parts(method, SystemTime::now()),
                client: None,
            }
        }
    };
    let id = uuid::Uuid::new_v4();
    let (peer, length) = (client.peer, outgoing.parts.length);
    shared.stats.log_request(&format!(
        "[webserver] {id} {peer} \"{line} HTTP/1.0\" {status} {length}"
    ));
    outgoing
}

/// Waits for room. The rendering permit is held until then, so only as many replies as are being rendered lack room.
/// A text already has its room.
async fn make_room(
    place: &ConnectionSlotGuard,
    parts: Parts,
    _drawing: Option<SemaphorePermit<'_>>,
    task: &AbortHandle,
) -> Result<OutgoingResponse, NoRoom> {
    let room = match &parts.body {
        Body::Ring(text) => Some(Arc::clone(&text.room)),
        Body::Whole(body) => match parts.head.len() + body.capacity() {
            0..=SMALL_REPLY => None,
            bytes => Some(place.shared.replies.hold(bytes).await?),
        },
    };
    let client = room.map(|room| room.enter(place.client, task));
    Ok(OutgoingResponse { parts, client })
}

/// Sends the reply; `None` if the client is disconnected or too slow.
async fn send(
    shared: &Arc<WebState>,
    stream: &mut TcpStream,
    reply: OutgoingResponse,
) -> Option<()> {
    let OutgoingResponse { parts, client } = reply;
    let client = client.as_ref();
    write(shared, stream, &parts.head, client).await?;
    match parts.body {
        Body::Whole(bytes) => {
            for piece in bytes.chunks(PIECE_BYTES) {
                write(shared, stream, piece, client).await?;
            }
        }
        Body::Ring(text) => {
            let mut place = RingTextPosition::default();
            while !place.is_at_end {
                place = write_text(shared, stream, (&text, place), client?).await?;
            }
        }
    }
    stream.shutdown().await.ok()
}

async fn write(
    shared: &WebState,
    stream: &mut TcpStream,
    piece: &[u8],
    client: Option<&RoomClient>,
) -> Option<()> {
    let limit = shared.settings.limits.reply_timeout;
    if let Some(client) = client {
        client.wait_begins();
    }
    timeout(limit, stream.write_all(piece)).await.ok()?.ok()?;
    if let Some(client) = client {
        client.took(piece.len());
    }
    Some(())
}

/// Sends a chunk of a text from a position on and returns the position after it. A chunk is rendered when the client
/// reads some of it, and the unread rest is rendered again: a client that does not read holds neither octets nor the
/// permit.
async fn write_text(
    shared: &WebState,
    stream: &TcpStream,
    (text, place): (&Arc<RingText>, RingTextPosition),
    client: &RoomClient,
) -> Option<RingTextPosition> {
    let mut patience = shared.settings.limits.reply_timeout;
    let mut sent = 0;
    loop {
        let since = Instant::now();
        client.wait_begins();
        timeout(patience, stream.writable()).await.ok()?.ok()?;
        client.took(0);
        patience = patience.saturating_sub(since.elapsed());
        let _permit = shared.pieces.acquire().await.ok()?;
        let drawn = Arc::clone(text);
        let drawing = tokio::task::spawn_blocking(move || drawn.piece(place));
        let (piece, behind) = drawing.await.ok()?;
        let written = write_at_once(stream, piece.get(sent..)?).ok()?;
        client.took(written);
        sent += written;
        if sent == piece.len() {
            return Some(behind);
        }
    }
}

/// Writes as many octets as the socket accepts without waiting, and returns their number.
fn write_at_once(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while written < bytes.len() {
        match stream.try_write(&bytes[written..]) {
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

/// Returns a path that cannot end the quotes of the message, nor make it long. It has no control characters: see
/// `request`.
fn logged_path(path: &str) -> String {
    let shown = &path[..path.len().min(LOGGED_PATH)];
    shown.replace('"', "%22")
}
