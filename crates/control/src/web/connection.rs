//! One connection: read one request, log it, send the reply, close.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::request::{Malformed, Method, Request, find_head_end, is_hopeless, parse};
use super::response::Response;
use super::{Place, Shared, routes};

/// How long, and for how many octets, what a client still sends is read away after the reply.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 256 * 1024;
/// Octets of a path that a log message shows.
const LOGGED_PATH: usize = 1024;

/// What came before the head was complete, or instead of it.
enum Head {
    Complete {
        head: Vec<u8>,
        more: bool,
    },
    Hopeless,
    TooLarge,
    /// Closed or failed: there is nobody to answer.
    Gone,
}

/// Serves one request.
pub(super) async fn converse(place: Place, mut stream: TcpStream, peer: SocketAddr) {
    let shared = Arc::clone(&place.shared);
    let limits = shared.settings.limits;
    let _ = stream.set_nodelay(true);
    // A client that is too slow is cut off without an answer: it has asked nothing.
    let reading = read_head(&mut stream, limits.max_head_bytes);
    let Ok(head) = timeout(limits.head_timeout, reading).await else {
        return;
    };
    place.stop_waiting();
    let (request, more) = match head {
        Head::Complete { head, more } => (parse(&head), more),
        Head::Hopeless => (Err(Malformed::Syntax), true),
        Head::TooLarge => (Err(Malformed::TooLarge), true),
        Head::Gone => return,
    };
    let may_send_more = more
        || request.as_ref().is_ok_and(|request| {
            request.content_length > 0 || request.header("transfer-encoding").is_some()
        });
    let exchange = async {
        let bytes = answer(&shared, request, peer).await;
        if stream.write_all(&bytes).await.is_ok() {
            let _ = stream.shutdown().await;
        }
    };
    if timeout(limits.reply_timeout, exchange).await.is_ok() && may_send_more {
        // Closing with unread octets resets the connection, and the reset can overtake the reply.
        let _ = timeout(LINGER, read_away(&mut stream)).await;
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

/// The bytes of the reply, after the request was logged with their number.
async fn answer(
    shared: &Arc<Shared>,
    request: Result<Request, Malformed>,
    peer: SocketAddr,
) -> Vec<u8> {
    let (method, line) = match &request {
        Ok(request) => (
            request.method,
            format!("{} {}", request.method_text, logged_path(&request.path)),
        ),
        Err(_) => (Method::Get, "- -".to_owned()),
    };
    let response = match request {
        Ok(request) => respond(shared, request).await,
        Err(Malformed::Syntax) => Response::error(400),
        Err(Malformed::TooLarge) => Response::error(431),
    };
    let status = response.status;
    let bytes = response.into_bytes(method, SystemTime::now());
    let id = uuid::Uuid::new_v4();
    shared.stats.log(&format!(
        "[webserver] {id} {peer} \"{line} HTTP/1.0\" {status} {}",
        bytes.len()
    ));
    bytes
}

async fn respond(shared: &Arc<Shared>, request: Request) -> Response {
    let Ok(_permit) = shared.drawings.acquire().await else {
        return Response::error(503);
    };
    let drawing = Arc::clone(shared);
    tokio::task::spawn_blocking(move || routes::respond(&drawing, &request))
        .await
        .unwrap_or_else(|_| Response::error(500))
}

/// A path that cannot end the quotes of the message, nor make it long.
fn logged_path(path: &str) -> String {
    let shown = &path[..path.len().min(LOGGED_PATH)];
    shown.replace('"', "%22")
}
