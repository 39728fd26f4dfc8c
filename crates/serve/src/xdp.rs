//! UDP without the kernel's sockets (AF_XDP): a filter at the network interface passes datagrams for our addresses
//! and ports to rings that this process reads and writes. Everything else, and every reply that is late or larger
//! than the MTU, uses the ordinary sockets, which stay open.
//!
//! ```text
//! interface, queue n -> filter -+-> ring of queue n -> XdpWorker -> the same BatchHandler as for sockets -> ring -> interface
//!                               +-> kernel -> ordinary socket -> UDP worker
//! ```
//!
//! The filter is attached, and the sockets are opened, while the process has the privileges for it; nothing after
//! that needs any. The filter is removed when the process ends, for whatever reason.

mod filter;
pub mod frame;
mod open;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nameward_base::sync::Mutex;
use nameward_base::text::counted;

pub(crate) use frame::Inbound;
pub use open::{HostAddress, XdpPorts, XdpReplies};
pub(crate) use worker::spawn_workers;

/// How packets of an interface reach this process, from the fastest to the slowest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XdpMode {
    /// The driver writes into our buffers.
    ZeroCopy,
    /// The driver runs the filter, and packets are copied.
    Native,
    /// The network stack runs the filter, and packets are copied.
    Generic,
}

impl XdpMode {
    /// Returns the description for the log and the status.
    pub fn text(self) -> &'static str {
        match self {
            XdpMode::ZeroCopy => "native mode, zero copy",
            XdpMode::Native => "native mode, copying",
            XdpMode::Generic => "generic mode, copying (the driver has no XDP)",
        }
    }
}

/// The state of a configured interface.
#[derive(Debug)]
pub struct XdpState {
    /// Its name.
    pub interface: String,
    mode: Option<XdpMode>,
    /// Number of served queues.
    queues: AtomicUsize,
    /// Datagrams dropped because a ring was full.
    dropped: AtomicUsize,
    failure: Mutex<Option<String>>,
}

impl XdpState {
    fn open(interface: &str, mode: XdpMode, queues: usize) -> Self {
        Self {
            interface: interface.into(),
            mode: Some(mode),
            queues: AtomicUsize::new(queues),
            dropped: AtomicUsize::new(0),
            failure: Mutex::new(None),
        }
    }

    fn failed(interface: &str, error: String) -> Self {
        Self {
            interface: interface.into(),
            mode: None,
            queues: AtomicUsize::new(0),
            dropped: AtomicUsize::new(0),
            failure: Mutex::new(Some(error)),
        }
    }

    /// Returns a description for people.
    pub fn text(&self) -> String {
        let queues = self.queues.load(Ordering::Relaxed);
        match (self.failure(), self.mode) {
            (Some(failure), _) => format!("not used: {failure}"),
            (None, Some(mode)) => {
                let text = format!("{}, {}", mode.text(), counted(queues, "queue"));
                match self.dropped.load(Ordering::Relaxed) {
                    0 => text,
                    dropped => format!("{text}, {} dropped", counted(dropped, "datagram")),
                }
            }
            (None, None) => "not used".into(),
        }
    }

    /// Returns why ordinary sockets answer what arrives at the interface.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    fn count_dropped(&self, count: u64) {
        self.dropped.fetch_add(count as usize, Ordering::Relaxed);
    }

    fn end_queue(&self, reason: &str) {
        self.queues.fetch_sub(1, Ordering::Relaxed);
        *self.failure.lock() = Some(reason.into());
    }
}

/// Closes the rings of a server; their datagrams then reach the ordinary sockets.
#[derive(Debug, Clone, Default)]
pub struct XdpClosing(Arc<AtomicBool>);

impl XdpClosing {
    /// Lets the workers answer what has arrived and end.
    pub fn close(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_closing(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
