//! The query log: a line for each response, filtered by zone, client, or sampling rate.
//!
//! A worker copies what a line needs into a bounded queue; a thread writes the lines. When the queue is full, lines
//! are dropped, counted and logged. The lines bypass the server log: they would evict everything else from its ring.

mod line;
mod output;

use nameward_base::sync::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use ipnet::IpNet;
use nameward_base::text::counted;
use nameward_stats::{Counter, LogThrottle, Protocol, Recorder, Stamp, Stats};
use nameward_wire::message::ClientSubnet;
use nameward_wire::{Name, NameBuf};

use crate::tap::{Exchange, ExchangeSink, ExchangeTap};
pub use line::QueryLogFormat;
pub use output::QueryLogOutput;

/// Pause of the writer when the queue is empty. It polls instead of being woken: waking it would cost the answering
/// threads a system call per line.
const IDLE_PAUSE: Duration = Duration::from_millis(20);
/// Octets of lines that are written in one call.
const BLOCK: usize = 64 << 10;

/// Selects the responses to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryFilter {
    /// At or below these names; all if empty.
    pub zones: Vec<NameBuf>,
    /// To clients in these networks; all if empty.
    pub clients: Vec<IpNet>,
    /// Sampling: one in this many matching responses.
    pub one_in: u32,
}

impl QueryFilter {
    /// Checks whether the filter matches a client and a name, regardless of sampling.
    fn is_for(&self, name: Name<'_>, client: SocketAddr) -> bool {
        let is_in = |net: &IpNet| net.contains(&client.ip());
        let is_below = |zone: &NameBuf| name.is_at_or_below(zone.as_name());
        (self.clients.is_empty() || self.clients.iter().any(is_in))
            && (self.zones.is_empty() || self.zones.iter().any(is_below))
    }
}

/// A response to be logged.
pub(crate) struct LoggedAnswer {
    pub at: SystemTime,
    pub client: SocketAddr,
    pub protocol: Protocol,
    pub name: Box<[u8]>,
    pub rtype: u16,
    /// Flags and response code, the second word of the header.
    pub flags: u16,
    pub octets: usize,
    /// The view that it was answered from.
    pub view: Option<Arc<str>>,
    /// The client subnet that the reply was made for (RFC 7871).
    pub subnet: Option<ClientSubnet>,
}

/// The query log of a server.
pub struct QueryLog {
    shared: Arc<LogShared>,
    tap: Arc<ExchangeTap>,
    sink: Arc<dyn ExchangeSink>,
}

struct LogShared {
    queue: SyncSender<LoggedAnswer>,
    filter: ArcSwap<QueryFilter>,
    is_on: AtomicBool,
    /// Number of matching responses, for sampling.
    matched: AtomicU64,
    /// Drops that are not yet counted.
    new_drops: AtomicU64,
    dropped: AtomicU64,
    written: AtomicU64,
    last_error: Mutex<Option<String>>,
}

/// The state of the query log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryLogState {
    /// Whether it is on.
    pub is_on: bool,
    /// Selects the responses to log.
    pub filter: QueryFilter,
    /// Lines written since the start.
    pub written: u64,
    /// Lines dropped since the start.
    pub dropped: u64,
    /// The last write error.
    pub last_error: Option<String>,
}

impl QueryLog {
    /// Starts the writer; the log is off. Up to `capacity` lines are queued.
    pub fn start(
        tap: &Arc<ExchangeTap>,
        stats: &Arc<Stats>,
        output: QueryLogOutput,
        capacity: usize,
    ) -> std::io::Result<Self> {
        let (queue, lines) = mpsc::sync_channel(capacity);
        let shared = Arc::new(LogShared {
            queue,
            filter: ArcSwap::from_pointee(QueryFilter {
                zones: Vec::new(),
                clients: Vec::new(),
                one_in: 1,
            }),
            is_on: AtomicBool::new(false),
            matched: AtomicU64::new(0),
            new_drops: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            written: AtomicU64::new(0),
            last_error: Mutex::new(None),
        });
        let mut writer = LineWriter {
            shared: Arc::clone(&shared),
            lines,
            output,
            recorder: stats.recorder(),
            throttle: LogThrottle::new(Duration::from_secs(10)),
            block: String::with_capacity(BLOCK + 512),
            in_block: 0,
        };
        thread::Builder::new()
            .name("query-log".into())
            .spawn(move || writer.run())?;
        Ok(QueryLog {
            sink: Arc::new(LogSink(Arc::clone(&shared))),
            shared,
            tap: Arc::clone(tap),
        })
    }

    /// Turns the log on with this filter.
    pub fn turn_on(&self, filter: QueryFilter) {
        self.shared.filter.store(Arc::new(filter));
        self.shared.is_on.store(true, Ordering::Relaxed);
        self.tap.attach(&self.sink);
    }

    /// Turns the log off. Queued lines are still written.
    pub fn turn_off(&self) {
        self.tap.detach(&self.sink);
        self.shared.is_on.store(false, Ordering::Relaxed);
    }

    /// Returns the current state.
    pub fn state(&self) -> QueryLogState {
        let shared = &self.shared;
        QueryLogState {
            is_on: shared.is_on.load(Ordering::Relaxed),
            filter: QueryFilter::clone(&shared.filter.load()),
            written: shared.written.load(Ordering::Relaxed),
            dropped: shared.dropped.load(Ordering::Relaxed),
            last_error: shared.last_error.lock().clone(),
        }
    }
}

/// The tap's side of the log.
struct LogSink(Arc<LogShared>);

impl ExchangeSink for LogSink {
    fn receive(&self, exchange: &Exchange<'_>) {
        let shared = &*self.0;
        let Some(reply) = exchange.reply.filter(|reply| reply.len() >= 4) else {
            return;
        };
        let Some((name, rtype)) = exchange.question() else {
            return;
        };
        let filter = shared.filter.load();
        if !filter.is_for(name, exchange.client) {
            return;
        }
        let matched = shared.matched.fetch_add(1, Ordering::Relaxed);
        if !matched.is_multiple_of(filter.one_in.max(1).into()) {
            return;
        }
        let sent = shared.queue.try_send(LoggedAnswer {
            at: exchange.replied,
            client: exchange.client,
            protocol: exchange.protocol,
            name: name.as_wire().into(),
            rtype,
            flags: u16::from_be_bytes([reply[2], reply[3]]),
            octets: reply.len(),
            view: exchange.view.cloned(),
            // A reply names only subnets sent by trusted resolvers.
            subnet: ClientSubnet::find_in(reply),
        });
        if sent.is_err() {
            shared.dropped.fetch_add(1, Ordering::Relaxed);
            shared.new_drops.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The writer thread.
struct LineWriter {
    shared: Arc<LogShared>,
    lines: Receiver<LoggedAnswer>,
    output: QueryLogOutput,
    recorder: Recorder,
    throttle: LogThrottle,
    block: String,
    in_block: u64,
}

impl LineWriter {
    fn run(&mut self) {
        loop {
            let next = match self.lines.try_recv() {
                Ok(next) => next,
                Err(TryRecvError::Disconnected) => return self.write(),
                Err(TryRecvError::Empty) => {
                    self.write();
                    self.log_drops();
                    if self.shared.is_on.load(Ordering::Relaxed) {
                        thread::sleep(IDLE_PAUSE);
                        continue;
                    }
                    match self.lines.recv() {
                        Ok(next) => next,
                        Err(_) => return,
                    }
                }
            };
            self.output.format().write(&next, &mut self.block);
            self.in_block += 1;
            if self.block.len() >= BLOCK {
                self.write();
            }
        }
    }

    fn write(&mut self) {
        if self.block.is_empty() {
            return;
        }
        let number = std::mem::take(&mut self.in_block);
        match self.output.write(self.block.as_bytes()) {
            Ok(()) => {
                self.shared.written.fetch_add(number, Ordering::Relaxed);
                *self.shared.last_error.lock() = None;
            }
            Err(error) => {
                self.shared.dropped.fetch_add(number, Ordering::Relaxed);
                self.shared.new_drops.fetch_add(number, Ordering::Relaxed);
                *self.shared.last_error.lock() = Some(error.to_string());
            }
        }
        self.block.clear();
    }

    fn log_drops(&mut self) {
        let new = self.shared.new_drops.swap(0, Ordering::Relaxed);
        if new == 0 {
            return;
        }
        self.recorder.add(Counter::QueryLogDrops, new);
        self.recorder.flush(Stamp::now(), None);
        let reason = self.shared.last_error.lock().clone();
        let reason = reason.unwrap_or_else(|| "output too slow".into());
        if self.throttle.admit("", Instant::now()).is_some() {
            let all = self.shared.dropped.load(Ordering::Relaxed);
            let lines = counted(new as usize, "line");
            tracing::warn!("query log: dropped {lines} ({all} since start): {reason}");
        }
    }
}

#[cfg(test)]
mod tests;
