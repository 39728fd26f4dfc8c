//! The memory budget for the bodies and unread replies of all clients together.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};

/// Octets of one frame: memory is returned to the budget frame by frame as the client reads.
const FRAME: usize = 256 * 1024;

/// A budget of octets.
pub struct BodyMemory {
    left: AtomicUsize,
}

/// A share of the budget, returned when it is dropped.
pub struct Held {
    memory: Arc<BodyMemory>,
    octets: usize,
}

impl BodyMemory {
    /// Creates a budget of this many octets.
    pub fn new(octets: usize) -> Arc<Self> {
        Arc::new(BodyMemory {
            left: AtomicUsize::new(octets),
        })
    }

    /// Reserves octets; `None` if fewer are left.
    pub fn hold(self: &Arc<Self>, octets: usize) -> Option<Held> {
        let take = |left: usize| left.checked_sub(octets);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.ok().map(|_| Held {
            memory: Arc::clone(self),
            octets,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory.left.fetch_add(self.octets, Ordering::Relaxed);
    }
}

/// The body of a reply, with its share of the budget.
pub struct HeldBody {
    rest: Bytes,
    _held: Option<Held>,
}

impl HeldBody {
    /// Creates the body of a reply that holds its share of the budget until the client has read it.
    pub fn new(body: impl Into<Bytes>, held: Option<Held>) -> Self {
        HeldBody {
            rest: body.into(),
            _held: held,
        }
    }
}

impl Body for HeldBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.rest.len().min(FRAME);
        let frame = self.rest.split_to(length);
        Poll::Ready(Some(Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_given_back() {
        let memory = BodyMemory::new(10);
        let first = memory.hold(6).unwrap();
        assert!(memory.hold(5).is_none());
        drop(first);
        assert!(memory.hold(10).is_some());
    }
}
