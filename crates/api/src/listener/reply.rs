//! The bodies of replies: complete, produced while the client reads, or events as they happen.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::Response;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use nameward_control::api_keys::ApiKey;
use nameward_serve::http::{Held, HeldBody};

use super::connections::ApiConnection;
use super::{ApiShared, finish};
use crate::request::ApiRequest;
use crate::response::{ApiResponse, ReplyRest};

/// A reply that breaks off: the connection is closed, so that the client does not take it for complete.
#[derive(Debug, thiserror::Error)]
#[error("the rest of the reply is not available")]
pub struct BrokenReply;

/// A long reply, made part by part as the client reads. One part is in memory, and neither a thread nor a database connection waits
/// for the client.
pub struct PartedReply {
    shared: Arc<ApiShared>,
    slot: Arc<ApiConnection>,
    key: Arc<ApiKey>,
    request: Arc<ApiRequest>,
    /// The fragment that was produced with the head of the reply.
    first: Option<Vec<u8>>,
    rest: Option<ReplyRest>,
    /// The memory of the part that the client reads.
    held: Option<Held>,
}

/// The next part of a long reply, and the reply; `None` at its end.
type NextPart =
    Pin<Box<dyn Future<Output = Result<Option<(PartedReply, Bytes)>, BrokenReply>> + Send>>;

/// Answers with a reply of which the first fragment exists.
pub fn start(
    shared: &Arc<ApiShared>,
    slot: &Arc<ApiConnection>,
    (key, request): (Arc<ApiKey>, Arc<ApiRequest>),
    mut response: ApiResponse,
) -> Response<ReplyBody> {
    let Some(rest) = response.rest.take() else {
        return finish(shared, response);
    };
    let first = std::mem::take(&mut response.body);
    let parted = PartedReply {
        shared: Arc::clone(shared),
        slot: Arc::clone(slot),
        key,
        request,
        first: Some(first),
        rest: Some(*rest),
        held: None,
    };
    let mut reply = finish(shared, response);
    *reply.body_mut() = ReplyBody::Parts(Box::pin(parted.next()));
    reply
}

impl PartedReply {
    async fn next(mut self) -> Result<Option<(Self, Bytes)>, BrokenReply> {
        let part = match (self.first.take(), self.rest.take()) {
            (Some(first), rest) => {
                self.rest = rest;
                first
            }
            (None, Some(rest)) => {
                let (part, rest) = self.make(rest).await?;
                self.rest = rest;
                part
            }
            (None, None) => return Ok(None),
        };
        self.held = None;
        self.held = Some(self.shared.replies.hold(part.len()).ok_or(BrokenReply)?);
        Ok(Some((self, part.into())))
    }

    /// Produces a fragment, like a separate operation.
    async fn make(&self, rest: ReplyRest) -> Result<(Vec<u8>, Option<ReplyRest>), BrokenReply> {
        if !self.shared.gate.is_valid(&self.key) {
            return Err(BrokenReply);
        }
        let operations = &self.shared.operations;
        let _permit = operations.acquire().await.map_err(|_| BrokenReply)?;
        let _busy = self.slot.begin();
        let (shared, key) = (Arc::clone(&self.shared), Arc::clone(&self.key));
        let request = Arc::clone(&self.request);
        let making =
            tokio::task::spawn_blocking(move || shared.api.continue_reply(rest, &request, &key));
        match making.await {
            Ok(Ok(made)) => Ok(made),
            Ok(Err(error)) => {
                tracing::error!("API reply broken off: {error:?}");
                Err(BrokenReply)
            }
            Err(_) => Err(BrokenReply),
        }
    }
}

/// A large body in memory: each chunk is freed when the client has read it.
pub struct PiecedBody {
    pieces: VecDeque<Bytes>,
    _held: Option<Held>,
}

impl PiecedBody {
    /// Creates the body from its first chunk and the others.
    pub fn new(first: Vec<u8>, pieces: Vec<Vec<u8>>, held: Option<Held>) -> Self {
        let pieces = std::iter::once(first).chain(pieces);
        let pieces = pieces.filter(|piece| !piece.is_empty());
        PiecedBody {
            pieces: pieces.map(Bytes::from).collect(),
            _held: held,
        }
    }
}

/// The next part of a stream of events.
pub struct NextEvents(pub Pin<Box<dyn Future<Output = SomeEvents> + Send>>);

/// A part of a stream of events, and what follows; `None` at its end.
pub type SomeEvents = Option<(NextEvents, Bytes)>;

/// The body of a reply.
pub enum ReplyBody {
    /// All of it is in memory.
    Whole(HeldBody),
    /// All of it is in memory, in chunks.
    Pieces(PiecedBody),
    /// Made while the client reads.
    Parts(NextPart),
    /// Events as they happen.
    Events(NextEvents),
}

impl ReplyBody {
    pub fn empty() -> Self {
        ReplyBody::Whole(HeldBody::new(Vec::new(), None))
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = BrokenReply;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenReply>>> {
        let (next, octets) = match &mut *self {
            ReplyBody::Whole(body) => {
                let frame = ready!(Pin::new(body).poll_frame(context));
                return Poll::Ready(frame.map(|frame| frame.map_err(|never| match never {})));
            }
            ReplyBody::Pieces(body) => {
                let piece = body.pieces.pop_front();
                return Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))));
            }
            ReplyBody::Parts(next) => match ready!(next.as_mut().poll(context)) {
                Ok(Some((reply, octets))) => (ReplyBody::Parts(Box::pin(reply.next())), octets),
                ended => {
                    *self = ReplyBody::empty();
                    return Poll::Ready(ended.err().map(Err));
                }
            },
            ReplyBody::Events(next) => match ready!(next.0.as_mut().poll(context)) {
                Some((events, octets)) => (ReplyBody::Events(events), octets),
                None => {
                    *self = ReplyBody::empty();
                    return Poll::Ready(None);
                }
            },
        };
        *self = next;
        Poll::Ready(Some(Ok(Frame::data(octets))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ReplyBody::Whole(body) => body.is_end_stream(),
            ReplyBody::Pieces(body) => body.pieces.is_empty(),
            ReplyBody::Parts(_) | ReplyBody::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReplyBody::Whole(body) => body.size_hint(),
            ReplyBody::Pieces(body) => {
                let octets: usize = body.pieces.iter().map(Bytes::len).sum();
                SizeHint::with_exact(octets as u64)
            }
            ReplyBody::Parts(_) | ReplyBody::Events(_) => SizeHint::default(),
        }
    }
}
