//! dnstap (dnstap.info): queries and responses as Protocol Buffers messages, sent over Frame Streams to a collector's
//! Unix socket.
//!
//! The answering thread encodes the message and puts it into a bounded queue; a sender thread sends it. While no
//! collector is connected, messages are dropped at once. Drops are counted and logged.

mod frames;
mod message;

use nameward_base::sync::{Condvar, Mutex};
use nameward_base::text::counted;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use nameward_stats::{Counter, LogThrottle, Recorder, Stamp, Stats};

use crate::tap::{Exchange, ExchangeSink, ExchangeTap};
use frames::FrameWriter;
use message::DnstapKind;

/// Maximum number of queued messages; their octets are limited as well.
const QUEUE_MAX: usize = 65_536;
/// Pause of the sender when the queue is empty. It polls instead of being woken: waking it would
/// cost the answering threads a system call per message.
const IDLE_PAUSE: Duration = Duration::from_millis(20);
/// Interval between attempts to connect to the collector.
const RETRY: Duration = Duration::from_secs(1);
/// Timeout for each step of the handshake with the collector, and for sending.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Settings for dnstap.
#[derive(Debug, Clone)]
pub struct DnstapOptions {
    /// The collector's socket.
    pub socket: PathBuf,
    /// This server's identity.
    pub identity: String,
    /// This server's version.
    pub version: String,
    /// Whether queries are sent.
    pub has_queries: bool,
    /// Whether responses are sent.
    pub has_responses: bool,
    /// Maximum number of queued octets.
    pub waiting_octets_max: usize,
}

/// The state of dnstap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DnstapState {
    /// A collector is connected.
    pub is_connected: bool,
    /// Messages sent since the start.
    pub sent: u64,
    /// Messages dropped since the start.
    pub dropped: u64,
}

/// dnstap in a running server.
pub struct Dnstap {
    shared: Arc<DnstapShared>,
    tap: Arc<ExchangeTap>,
    sink: Arc<dyn ExchangeSink>,
    sender: Mutex<Option<thread::JoinHandle<()>>>,
}

struct DnstapShared {
    options: DnstapOptions,
    queue: SyncSender<Vec<u8>>,
    /// Queued octets.
    queued_octets: AtomicUsize,
    is_connected: AtomicBool,
    new_drops: AtomicU64,
    dropped: AtomicU64,
    sent: AtomicU64,
    is_stopping: Mutex<bool>,
    stopping: Condvar,
}

impl Dnstap {
    /// Starts sending the exchanges that pass the tap.
    pub fn start(
        tap: &Arc<ExchangeTap>,
        stats: &Arc<Stats>,
        options: DnstapOptions,
    ) -> io::Result<Self> {
        let (queue, messages) = mpsc::sync_channel(QUEUE_MAX);
        let shared = Arc::new(DnstapShared {
            options,
            queue,
            queued_octets: AtomicUsize::new(0),
            is_connected: AtomicBool::new(false),
            new_drops: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            is_stopping: Mutex::new(false),
            stopping: Condvar::new(),
        });
        let mut sender = MessageSender {
            shared: Arc::clone(&shared),
            messages,
            recorder: stats.recorder(),
            failures: LogThrottle::by_text(Duration::from_secs(60), 3),
            drops: LogThrottle::new(Duration::from_secs(10)),
        };
        let thread = thread::Builder::new()
            .name("dnstap".into())
            .spawn(move || sender.run())?;
        let sink: Arc<dyn ExchangeSink> = Arc::new(DnstapSink(Arc::clone(&shared)));
        tap.attach(&sink);
        Ok(Dnstap {
            shared,
            tap: Arc::clone(tap),
            sink,
            sender: Mutex::new(Some(thread)),
        })
    }

    /// Returns the current state.
    pub fn state(&self) -> DnstapState {
        DnstapState {
            is_connected: self.shared.is_connected.load(Ordering::Relaxed),
            sent: self.shared.sent.load(Ordering::Relaxed),
            dropped: self.shared.dropped.load(Ordering::Relaxed),
        }
    }

    /// Sends the queued messages, closes the stream and waits for the collector's FINISH, for a
    /// bounded time.
    pub fn end(&self) {
        self.tap.detach(&self.sink);
        *self.shared.is_stopping.lock() = true;
        self.shared.stopping.notify_all();
        if let Some(sender) = self.sender.lock().take() {
            let _ = sender.join();
        }
    }
}

impl DnstapShared {
    fn is_stopping(&self) -> bool {
        *self.is_stopping.lock()
    }

    /// Waits for `time`, or until shutdown.
    fn pause(&self, time: Duration) {
        let stopping = self.is_stopping.lock();
        drop(
            self.stopping
                .wait_timeout_while(stopping, time, |is_stopping| !*is_stopping),
        );
    }

    fn drop_message(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        self.new_drops.fetch_add(1, Ordering::Relaxed);
    }

    fn offer(&self, kind: DnstapKind, exchange: &Exchange<'_>) {
        if !self.is_connected.load(Ordering::Relaxed) {
            return self.drop_message();
        }
        let (identity, version) = (
            self.options.identity.as_bytes(),
            self.options.version.as_bytes(),
        );
        let message = message::encode(kind, exchange, identity, version);
        let octets = message.len();
        let queued_octets = self.queued_octets.fetch_add(octets, Ordering::Relaxed) + octets;
        let is_taken = queued_octets <= self.options.waiting_octets_max
            && self.queue.try_send(message).is_ok();
        if !is_taken {
            self.queued_octets.fetch_sub(octets, Ordering::Relaxed);
            self.drop_message();
        }
    }
}

/// The tap's side of dnstap.
struct DnstapSink(Arc<DnstapShared>);

impl ExchangeSink for DnstapSink {
    fn receive(&self, exchange: &Exchange<'_>) {
        let options = &self.0.options;
        if options.has_queries && exchange.query.is_some() {
            self.0.offer(DnstapKind::Query, exchange);
        }
        if options.has_responses && exchange.reply.is_some() {
            self.0.offer(DnstapKind::Response, exchange);
        }
    }
}

/// The sender thread.
struct MessageSender {
    shared: Arc<DnstapShared>,
    messages: Receiver<Vec<u8>>,
    recorder: Recorder,
    failures: LogThrottle,
    drops: LogThrottle,
}

impl MessageSender {
    fn run(&mut self) {
        let shared = Arc::clone(&self.shared);
        let socket = &shared.options.socket;
        while !shared.is_stopping() {
            let result = connect(socket).and_then(|frames| {
                tracing::info!("dnstap: sending to {}", socket.display());
                shared.is_connected.store(true, Ordering::Relaxed);
                self.send(frames)
            });
            shared.is_connected.store(false, Ordering::Relaxed);
            // Queued messages are outdated; a collector that connects later gets new messages only.
            while let Ok(message) = self.messages.try_recv() {
                shared
                    .queued_octets
                    .fetch_sub(message.len(), Ordering::Relaxed);
                shared.drop_message();
            }
            if let Err(error) = result {
                let text = format!("dnstap: {}: {error}; retrying", socket.display());
                if self.failures.admit(&text, Instant::now()).is_some() {
                    tracing::warn!("{text}");
                }
                self.log_drops();
                shared.pause(RETRY);
            }
        }
        self.log_drops();
    }

    /// Sends until the server stops or the collector disconnects.
    fn send(&mut self, mut frames: FrameWriter<UnixStream>) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let mut unflushed = 0;
        loop {
            match self.messages.try_recv() {
                Ok(message) => {
                    shared
                        .queued_octets
                        .fetch_sub(message.len(), Ordering::Relaxed);
                    let written = frames.data(&message);
                    if written.is_err() {
                        shared.drop_message();
                    }
                    written?;
                    unflushed += 1;
                }
                Err(TryRecvError::Empty) => {
                    frames.flush()?;
                    let sent = std::mem::take(&mut unflushed);
                    shared.sent.fetch_add(sent, Ordering::Relaxed);
                    self.log_drops();
                    if shared.is_stopping() {
                        return frames.finish();
                    }
                    shared.pause(IDLE_PAUSE);
                }
                Err(TryRecvError::Disconnected) => return frames.finish(),
            }
        }
    }

    fn log_drops(&mut self) {
        let new = self.shared.new_drops.swap(0, Ordering::Relaxed);
        if new == 0 {
            return;
        }
        self.recorder.add(Counter::DnstapDrops, new);
        self.recorder.flush(Stamp::now(), None);
        // Drops without a collector are included in the log line that reports the missing
        // collector.
        let is_connected = self.shared.is_connected.load(Ordering::Relaxed);
        if is_connected && self.drops.admit("", Instant::now()).is_some() {
            let messages = counted(new as usize, "message");
            tracing::warn!("dnstap: dropped {messages}: the collector is too slow");
        }
    }
}

fn connect(socket: &Path) -> io::Result<FrameWriter<UnixStream>> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    FrameWriter::begin(stream)
}

#[cfg(test)]
mod tests;
