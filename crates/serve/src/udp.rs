//! UDP workers: threads that receive a batch, answer it in place, and send the replies.
//!
//! A worker owns one socket per listen address and one [`DatagramBatch`]; it shares nothing with other workers and
//! allocates nothing while it runs. With one socket it blocks in the receive call itself; with several it polls them
//! once a round, so that no address can starve another.

mod switch;

use nameward_base::text::counted;
use std::io;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::listen::UdpListener;
use crate::sys::PollSet;
pub(crate) use crate::sys::batch::ReturnPath;
use crate::sys::batch::Wait;
pub use crate::sys::batch::{BATCH, DatagramBatch, QUERY_MAX, Queries, REPLY_MAX, Replies};
pub use switch::WorkerSwitch;
pub(crate) use switch::{IDLE_INTERVAL, SwitchedWorker};

/// Pause after an error that another read would only repeat.
const ERROR_PAUSE: Duration = Duration::from_millis(10);

/// Maximum number of batches that a stopping worker still receives.
pub(crate) const DRAIN_BATCHES: usize = 512;

/// Time spent on one batch, by step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchTiming {
    /// The receive call, in nanoseconds. `None` if the worker blocked for the batch: the time would be that of
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

    /// Called when the batch just handled was sent, with the time it took; replies refused by the kernel are now
    /// empty. The clock is read a few times per batch, not per datagram.
    fn sent(&mut self, batch: &DatagramBatch, timing: BatchTiming);

    /// Called with the number of datagrams that were dropped because a ring was full.
    fn dropped(&mut self, _count: u64) {}

    /// Called when nothing was received for the idle interval, to flush buffered work.
    fn idle(&mut self) {}
}

/// A running worker thread.
#[derive(Debug)]
pub struct UdpWorker {
    thread: thread::JoinHandle<()>,
    running: Weak<()>,
}

impl UdpWorker {
    /// Starts worker `index` on its sockets. It reads them while `switch` allows it; when the switch is stopped, it
    /// drains its sockets (within limits) and ends.
    pub fn spawn<H: BatchHandler>(
        index: usize,
        sockets: Vec<UdpListener>,
        handler: H,
        switch: Arc<WorkerSwitch>,
    ) -> io::Result<UdpWorker> {
        let mut worker = Worker {
            poll: PollSet::new(sockets.iter().map(|s| s.socket.as_raw_fd())),
            sockets,
            handler,
            batch: DatagramBatch::new(),
            interval: IDLE_INTERVAL,
        };
        worker.limit_wait(IDLE_INTERVAL)?;
        UdpWorker::start(format!("udp-{index}"), move || switch.run(&mut worker))
    }

    /// Starts a thread that receives datagrams until its switch is stopped.
    pub(crate) fn start(
        name: String,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<UdpWorker> {
        let token = Arc::new(());
        let running = Arc::downgrade(&token);
        let thread = thread::Builder::new().name(name).spawn(move || {
            let _token = token;
            run();
        })?;
        Ok(UdpWorker { thread, running })
    }

    /// Returns a reference that is alive as long as the worker runs.
    pub fn running(&self) -> Weak<()> {
        Weak::clone(&self.running)
    }

    /// Waits until the worker has ended, which it does only after the switch was stopped.
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
    switch: &Arc<WorkerSwitch>,
    mut handler: impl FnMut(usize) -> H,
) -> io::Result<Vec<UdpWorker>> {
    let numbered = sockets.into_iter().enumerate();
    numbered
        .map(|(i, own)| UdpWorker::spawn(i, own, handler(i), Arc::clone(switch)))
        .collect()
}

struct Worker<H> {
    sockets: Vec<UdpListener>,
    poll: PollSet,
    handler: H,
    batch: DatagramBatch,
    /// How long it waits for datagrams.
    interval: Duration,
}

impl<H: BatchHandler> Worker<H> {
    /// Sets how long the worker waits for datagrams.
    fn limit_wait(&mut self, interval: Duration) -> io::Result<()> {
        self.interval = interval;
        match &self.sockets[..] {
            [only] => only.socket.set_read_timeout(Some(interval)),
            _ => Ok(()),
        }
    }

    /// Receives once on the only socket. `full` means that the last batch was full, so more datagrams are likely;
    /// returns the same for this batch.
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
        let timeout = if full { Duration::ZERO } else { self.interval };
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
                thread::sleep(ERROR_PAUSE);
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

impl<H: BatchHandler> SwitchedWorker for Worker<H> {
    fn set_interval(&mut self, interval: Duration) {
        // Setting a timeout on a socket that already had one does not fail.
        let _ = self.limit_wait(interval);
    }

    fn round(&mut self, is_busy: bool) -> bool {
        match self.sockets.len() {
            1 => self.round_of_one(is_busy),
            _ => self.round_of_many(is_busy),
        }
    }

    fn finish(&mut self) {
        for _ in 0..DRAIN_BATCHES {
            let mut received = 0;
            for index in 0..self.sockets.len() {
                received += self.serve(index, Wait::Never);
            }
            if received == 0 {
                break;
            }
        }
        self.handler.idle();
    }
}

/// Answers a batch. A panic caused by one datagram costs its batch, not the worker.
pub(crate) fn answer(handler: &mut impl BatchHandler, batch: &mut DatagramBatch) {
    if catch_unwind(AssertUnwindSafe(|| handler.handle(batch))).is_err() {
        let dropped = counted(batch.len(), "datagram");
        tracing::error!("internal error while answering; dropped {dropped}");
        batch.silence();
    }
}

pub(crate) fn nanoseconds(from: Instant, to: Instant) -> u64 {
    to.saturating_duration_since(from).as_nanos() as u64
}
