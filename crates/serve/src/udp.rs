//! UDP workers: threads that receive a batch, answer it in place, and send the replies.
//!
//! A worker owns one socket per listen address and one [`DatagramBatch`]; it shares nothing with other workers and
//! allocates nothing while it runs. With one socket it blocks in the receive call itself; with several it polls them
//! once a round, so that no address can starve another.

use nameward_base::text::counted;
use std::io;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::listen::UdpListener;
use crate::sys::PollSet;
pub(crate) use crate::sys::batch::ReturnPath;
use crate::sys::batch::Wait;
pub use crate::sys::batch::{BATCH, DatagramBatch, QUERY_MAX, Queries, REPLY_MAX, Replies};

/// Pause after an error that reading again would only repeat.
const ERROR_REST: Duration = Duration::from_millis(10);

/// How long a worker waits for datagrams before it calls [`BatchHandler::idle`]. Also how late an idle worker notices
/// that it must stop.
const IDLE_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of batches a stopping worker still takes from its sockets.
const DRAIN_BATCHES: usize = 512;

/// Time spent on one batch, by step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchTiming {
    /// The receive call, in nanoseconds. None where the worker blocked for the batch: the time would be that of
    /// waiting for clients.
    pub receive_ns: Option<u64>,
    /// [`BatchHandler::handle`], in nanoseconds.
    pub answer_ns: u64,
    /// The send call, in nanoseconds.
    pub send_ns: u64,
}

/// Answers datagrams. One handler per worker, so it needs no locks.
pub trait BatchHandler: Send + 'static {
    /// Answers every datagram of the batch in place.
    fn handle(&mut self, batch: &mut DatagramBatch);

    /// Called when the batch just handled was sent, with the time it took; replies that the kernel refused are now
    /// empty. The clock is read a few times per batch, not per datagram.
    fn sent(&mut self, batch: &DatagramBatch, timing: BatchTiming);

    /// Called when nothing was received for the idle interval: buffered work can be flushed.
    fn idle(&mut self) {}
}

/// A running worker thread.
#[derive(Debug)]
pub struct UdpWorker {
    thread: thread::JoinHandle<()>,
    running: Weak<()>,
}

impl UdpWorker {
    /// Starts worker `index` on its sockets. It runs until `stop` is set, then drains its sockets (within limits) and
    /// ends.
    pub fn spawn<H: BatchHandler>(
        index: usize,
        sockets: Vec<UdpListener>,
        handler: H,
        stop: Arc<AtomicBool>,
    ) -> io::Result<UdpWorker> {
        UdpWorker::spawn_after(index, sockets, handler, stop, || {})
    }

    /// Like [`UdpWorker::spawn`]; the worker first calls `wait`.
    pub fn spawn_after<H: BatchHandler>(
        index: usize,
        sockets: Vec<UdpListener>,
        handler: H,
        stop: Arc<AtomicBool>,
        wait: impl FnOnce() + Send + 'static,
    ) -> io::Result<UdpWorker> {
        if let [only] = &sockets[..] {
            only.socket.set_read_timeout(Some(IDLE_INTERVAL))?;
        }
        let mut worker = Worker {
            poll: PollSet::new(sockets.iter().map(|s| s.socket.as_raw_fd())),
            sockets,
            handler,
            batch: DatagramBatch::new(),
        };
        let token = Arc::new(());
        let running = Arc::downgrade(&token);
        let thread = thread::Builder::new()
            .name(format!("udp-{index}"))
            .spawn(move || {
                let _token = token;
                wait();
                worker.run(&stop);
            })?;
        Ok(UdpWorker { thread, running })
    }

    /// Returns a reference that is alive as long as the worker runs.
    pub fn running(&self) -> Weak<()> {
        Weak::clone(&self.running)
    }

    /// Waits until the worker has ended, which it does only after `stop` was set.
    pub fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("internal error: a UDP worker stopped");
        }
    }
}

/// Starts a worker for each element of [`crate::listen::Bound::udp`], with the handler that `handler` creates for its
/// index.
pub fn spawn_workers<H: BatchHandler>(
    sockets: Vec<Vec<UdpListener>>,
    stop: &Arc<AtomicBool>,
    handler: impl FnMut(usize) -> H,
) -> io::Result<Vec<UdpWorker>> {
    spawn_workers_after(sockets, stop, handler, || {})
}

/// Like [`spawn_workers`]; each worker first calls `wait`.
pub fn spawn_workers_after<H: BatchHandler>(
    sockets: Vec<Vec<UdpListener>>,
    stop: &Arc<AtomicBool>,
    mut handler: impl FnMut(usize) -> H,
    wait: impl FnOnce() + Clone + Send + 'static,
) -> io::Result<Vec<UdpWorker>> {
    let numbered = sockets.into_iter().enumerate();
    numbered
        .map(|(i, own)| UdpWorker::spawn_after(i, own, handler(i), Arc::clone(stop), wait.clone()))
        .collect()
}

struct Worker<H> {
    sockets: Vec<UdpListener>,
    poll: PollSet,
    handler: H,
    batch: DatagramBatch,
}

impl<H: BatchHandler> Worker<H> {
    fn run(&mut self, stop: &AtomicBool) {
        let mut full = false;
        while !stop.load(Ordering::Relaxed) {
            full = match self.sockets.len() {
                1 => self.round_of_one(full),
                _ => self.round_of_many(full),
            };
        }
        self.drain();
        self.handler.idle();
    }

    /// Receives once on the only socket. `full` means that the last batch was full, so that more datagrams are
    /// likely; returns the same for this one.
    fn round_of_one(&mut self, full: bool) -> bool {
        let wait = if full { Wait::Never } else { Wait::ForOne };
        let received = self.serve(0, wait);
        if received == 0 && wait == Wait::ForOne {
            self.handler.idle();
        }
        received == BATCH
    }

    /// Polls all sockets and serves one batch of each that is ready.
    fn round_of_many(&mut self, full: bool) -> bool {
        let timeout = if full { Duration::ZERO } else { IDLE_INTERVAL };
        if self.poll.wait(timeout) == 0 {
            if !full {
                self.handler.idle();
            }
            return false;
        }
        let mut any_full = false;
        for index in 0..self.sockets.len() {
            if self.poll.ready(index) {
                any_full |= self.serve(index, Wait::Never) == BATCH;
            }
        }
        any_full
    }

    /// Answers the queries received before the worker stops.
    fn drain(&mut self) {
        for _ in 0..DRAIN_BATCHES {
            let mut received = 0;
            for index in 0..self.sockets.len() {
                received += self.serve(index, Wait::Never);
            }
            if received == 0 {
                break;
            }
        }
    }

    /// Receives, answers and sends one batch on one socket; returns how many datagrams were received.
    fn serve(&mut self, index: usize, wait: Wait) -> usize {
        let socket = &self.sockets[index];
        self.batch.set_listener(socket);
        let started = (wait == Wait::Never).then(Instant::now);
        match self.batch.receive(&socket.socket, wait, socket.origin) {
            Ok(0) => return 0,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!("cannot receive on {}/udp: {error}", socket.local);
                thread::sleep(ERROR_REST);
                return 0;
            }
        }
        let received = Instant::now();
        answer(&mut self.handler, &mut self.batch);
        let answered = Instant::now();
        self.batch.send(&socket.socket);
        let done = Instant::now();
        let timing = BatchTiming {
            receive_ns: started.map(|at| nanoseconds(at, received)),
            answer_ns: nanoseconds(received, answered),
            send_ns: nanoseconds(answered, done),
        };
        self.handler.sent(&self.batch, timing);
        self.batch.len()
    }
}

/// Answers a batch. A bug triggered by one datagram costs its batch, not the worker.
fn answer(handler: &mut impl BatchHandler, batch: &mut DatagramBatch) {
    if catch_unwind(AssertUnwindSafe(|| handler.handle(batch))).is_err() {
        let dropped = counted(batch.len(), "datagram");
        tracing::error!("internal error while answering; dropped {dropped}");
        batch.silence();
    }
}

fn nanoseconds(from: Instant, to: Instant) -> u64 {
    to.saturating_duration_since(from).as_nanos() as u64
}
