//! One HTTPS connection: its handshake, its requests, and the times after which it is closed.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use nameward_base::sync::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{HttpsState, exchange};
use crate::http::StallGuard;
use crate::pipeline::TcpPipeline;
use crate::run_now::run_now;
use crate::tcp::{ByteStream, DRAIN_BUSY, DRAIN_IDLE, Drain, MessageConnection};
use crate::tls::TlsByteStream;

/// Maximum number of concurrent requests per connection.
const STREAMS_MAX: u32 = 100;
/// Maximum size of a request head. A GET request has its query there, encoded in 4/3 of its octets.
const HEAD_MAX: usize = 16 * 1024;
/// Time that a client has to read pending replies when the connection ends.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// When the last request of a connection ended, and how many are being answered.
pub(super) struct Activity(Mutex<(Instant, usize)>);

/// A request that is being answered.
pub(super) struct Busy(Arc<Activity>);

impl Activity {
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        self.0.lock().1 += 1;
        Busy(Arc::clone(self))
    }

    /// Waits until no request has been answered for some time.
    async fn idle_for(&self, time: Duration) {
        loop {
            let now = Instant::now();
            let (last, running) = *self.0.lock();
            let end = if running > 0 { now + time } else { last + time };
            if end <= now {
                return;
            }
            sleep_until(end).await;
        }
    }
}

impl Activity {
    /// Waits until another process accepts connections and this one has been idle, or busy, for as
    /// long as a drain allows.
    async fn drained(&self, drain: &Drain, stopping: &mut watch::Receiver<bool>) {
        drain.wait(stopping).await;
        let _ = timeout(DRAIN_BUSY, self.idle_for(DRAIN_IDLE)).await;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        *state = (Instant::now(), state.1.saturating_sub(1));
    }
}

/// Serves a connection until it ends.
pub(super) async fn run(
    state: Arc<HttpsState>,
    connection: MessageConnection<TcpPipeline>,
    mut stream: TlsByteStream,
    mut stopping: watch::Receiver<bool>,
) {
    let established = stream.establish().await;
    connection.established(established.is_ok());
    if established.is_err() {
        return;
    }
    if let Some(peer) = stream.tls_peer() {
        connection.identify(Arc::clone(peer));
    }
    let connection = Arc::new(connection);
    let activity = Arc::new(Activity(Mutex::new((Instant::now(), 0))));
    let io = TokioIo::new(StallGuard::new(stream, state.tcp.write_timeout));
    let (idle_timeout, lifetime) = (state.tcp.idle_timeout, state.tcp.lifetime);
    let (drain, mut replaced) = (state.tcp.drain.clone(), stopping.clone());
    let noted = Arc::clone(&activity);
    let service = service_fn(move |request| {
        let busy = noted.begin();
        let (state, connection) = (Arc::clone(&state), Arc::clone(&connection));
        async move {
            let _busy = busy;
            exchange::answer(&state, &connection, request).await
        }
    });
    let arrived = ArrivedRequests::default();
    let builder = builder(idle_timeout, arrived.clone());
    let mut serving = std::pin::pin!(builder.serve_connection(io, service));
    // A client that disconnects or sends garbage only ends its own connection.
    tokio::select! {
        biased;
        () = drive(serving.as_mut(), &arrived) => return,
        _ = stopping.wait_for(|stop| *stop) => {}
        () = activity.drained(&drain, &mut replaced) => {}
        () = activity.idle_for(idle_timeout) => {}
        () = sleep(lifetime) => {}
    }
    serving.as_mut().graceful_shutdown();
    let _ = timeout(END_TIMEOUT, drive(serving, &arrived)).await;
}

/// Requests of a connection that have arrived together and are not answered yet.
#[derive(Clone, Default)]
struct ArrivedRequests(Arc<Mutex<Vec<RequestFuture>>>);

type RequestFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for ArrivedRequests {
    fn execute(&self, request: F) {
        self.0.lock().push(Box::pin(request));
    }
}

/// Accepts the requests that have arrived, answers them, and lets hyper write the responses, all in
/// one poll: h2 flushes its output whenever it is polled for the next request.
async fn drive(mut serving: Pin<&mut impl Future>, arrived: &ArrivedRequests) {
    let mut requests = Vec::new();
    poll_fn(|context| {
        if serving.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        std::mem::swap(&mut *arrived.0.lock(), &mut requests);
        if requests.is_empty() {
            return Poll::Pending;
        }
        for request in requests.drain(..) {
            if let Some(waiting) = run_now(request) {
                tokio::spawn(waiting);
            }
        }
        let is_ended = serving.as_mut().poll(context).is_ready();
        if is_ended {
            return Poll::Ready(());
        }
        // Requests that arrived while answering are polled next, after those of other connections.
        if !arrived.0.lock().is_empty() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
}

fn builder(idle_timeout: Duration, arrived: ArrivedRequests) -> auto::Builder<ArrivedRequests> {
    let mut builder = auto::Builder::new(arrived);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(idle_timeout)
        .max_buf_size(HEAD_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_MAX as u32)
        // A body is at most 64 KiB; what a client sends ahead is bounded for the whole connection,
        // too.
        .initial_stream_window_size(64 * 1024)
        .initial_connection_window_size(256 * 1024)
        .max_send_buf_size(64 * 1024)
        .keep_alive_interval(idle_timeout)
        .keep_alive_timeout(idle_timeout)
        .max_pending_accept_reset_streams(16);
    builder
}
