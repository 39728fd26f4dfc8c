//! Fails a connection whose client reads nothing of a reply for too long, or does not send even the
//! HTTP preface.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Octets that show the version of HTTP: the connection preface of HTTP/2 (RFC 9113 section 3.4).
const PREFACE: usize = 24;

/// The stream, and the times at which a waiting read of the first octets and a waiting write fail.
pub struct StallGuard<S> {
    stream: S,
    time_limit: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
    /// Until the HTTP version is known, nothing else limits the time.
    start: Option<Pin<Box<Sleep>>>,
    /// Octets read, up to the length of the preface.
    first: usize,
}

impl<S> StallGuard<S> {
    /// Guards a stream whose client may delay us for at most this long.
    pub fn new(stream: S, time_limit: Duration) -> Self {
        StallGuard {
            stream,
            time_limit,
            deadline: None,
            start: Some(Box::pin(tokio::time::sleep(time_limit))),
            first: 0,
        }
    }

    /// Passes a result on; a pending one starts the deadline.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.deadline = None;
            return result;
        }
        let end = Instant::now() + self.time_limit;
        let deadline = self
            .deadline
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.start.is_some() {
            self.first += buffer.filled().len() - before;
            if self.first >= PREFACE {
                self.start = None;
            }
        }
        let mut expired = |start: &mut Pin<Box<Sleep>>| start.as_mut().poll(context).is_ready();
        if read.is_pending() && self.start.as_mut().is_some_and(&mut expired) {
            Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
        } else {
            read
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, octets);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, ended)
    }
}
