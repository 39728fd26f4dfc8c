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
use super::request::{
    HttpRequest, MalformedRequest, Method, cannot_be_request, find_head_end, parse,
};
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
pub(super) async fn handle_connection(
    slot: ConnectionSlotGuard,
    mut stream: TcpStream,
    peer: SocketAddr,
) {
    let shared = Arc::clone(&slot.shared);
    let limits = shared.settings.limits;
    let _ = stream.set_nodelay(true);
    let _ = socket2::SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER);
    if let Some(api) = &shared.api {
        let looking = handover::is_for_api(&stream, api.paths);
        match timeout(limits.head_timeout, looking).await {
            Ok(true) => {
                if slot.stop_waiting().is_some() {
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
    let Some(task) = slot.stop_waiting() else {
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
    let reply = prepare(&slot, request, &client).await;
    if send(&shared, &mut connection.stream, reply).await.is_none() {
        return;
    }
    connection.is_done = true;
    if may_send_more {
        slot.wait_again(client.task);
        // Closing with unread octets resets the connection, and the reset can overtake the reply.
        let _ = timeout(LINGER, drain_input(&mut connection.stream)).await;
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
        if cannot_be_request(&bytes) {
            return Head::Hopeless;
        }
        if bytes.len() > limit {
            return Head::TooLarge;
        }
    }
}

async fn drain_input(stream: &mut TcpStream) {
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
    slot: &ConnectionSlotGuard,
    request: Result<HttpRequest, MalformedRequest>,
    client: &answer::ConnectionEnds,
) -> OutgoingResponse {
    let shared = &slot.shared;
    let (method, line) = match &request {
        Ok(request) => (
            request.method,
            format!("{} {}", request.method_text, logged_path(&request.path)),
        ),
        Err(_) => (Method::Get, "- -".to_owned()),
    };
    let (response, drawing) = match request {
        Ok(request) => answer::respond(slot, request, client).await,
        Err(MalformedRequest::Syntax) => (Response::error(400), None),
        Err(MalformedRequest::TooLarge) => (Response::error(431), None),
    };
    let mut status = response.status;
    let parts = response.into_parts(method, SystemTime::now());
    let outgoing = match make_room(slot, parts, drawing, &client.task).await {
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
    slot: &ConnectionSlotGuard,
    parts: Parts,
    _drawing: Option<SemaphorePermit<'_>>,
    task: &AbortHandle,
) -> Result<OutgoingResponse, NoRoom> {
    let room = match &parts.body {
        Body::Ring(text) => Some(Arc::clone(&text.room)),
        Body::Whole(body) => match parts.head.len() + body.capacity() {
            0..=SMALL_REPLY => None,
            bytes => Some(slot.shared.replies.hold(bytes).await?),
        },
    };
    let client = room.map(|room| room.enter(slot.client, task));
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
            let mut position = RingTextPosition::default();
            while !position.is_at_end {
                position = write_text(shared, stream, (&text, position), client?).await?;
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
        client.start_waiting();
    }
    timeout(limit, stream.write_all(piece)).await.ok()?.ok()?;
    if let Some(client) = client {
        client.record_read(piece.len());
    }
    Some(())
}

/// Sends a chunk of a text from a position on and returns the position after it. A chunk is rendered when the client
/// reads some of it, and the unread rest is rendered again: a client that does not read holds neither octets nor the
/// permit.
async fn write_text(
    shared: &WebState,
    stream: &TcpStream,
    (text, position): (&Arc<RingText>, RingTextPosition),
    client: &RoomClient,
) -> Option<RingTextPosition> {
    let mut time_left = shared.settings.limits.reply_timeout;
    let mut sent = 0;
    loop {
        let since = Instant::now();
        client.start_waiting();
        timeout(time_left, stream.writable()).await.ok()?.ok()?;
        client.record_read(0);
        time_left = time_left.saturating_sub(since.elapsed());
        let _permit = shared.pieces.acquire().await.ok()?;
        let drawn = Arc::clone(text);
        let drawing = tokio::task::spawn_blocking(move || drawn.piece(position));
        let (piece, behind) = drawing.await.ok()?;
        let written = write_at_once(stream, piece.get(sent..)?).ok()?;
        client.record_read(written);
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
