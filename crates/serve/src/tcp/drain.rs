//! Draining of the connections of a server that was replaced: another process accepts new ones.
//!
//! Open connections continue to be served, from the data of the replaced server. They are closed when they have been
//! idle for a moment, or after a message once they have been busy for some seconds, so that clients connect to the
//! new server. Transfers are finished first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

/// Idle time after which a connection is closed.
pub(crate) const DRAIN_IDLE: Duration = Duration::from_secs(1);
/// Time after which a busy connection is closed.
pub(crate) const DRAIN_BUSY: Duration = Duration::from_secs(5);

/// The signal that another process accepts new connections.
///
/// Waiters use the channel that also signals shutdown, so they need to register only once.
#[derive(Clone, Debug, Default)]
pub struct Drain(Arc<AtomicBool>);

impl Drain {
    /// Lets listeners and connections that wait for `shutdown` start draining.
    pub fn start(&self, shutdown: &watch::Sender<bool>) {
        self.0.store(true, Ordering::Release);
        shutdown.send_modify(|_| {});
    }

    /// Checks whether another process accepts new connections.
    pub fn has_started(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Waits until draining starts, or the server stops.
    pub async fn wait(&self, shutdown: &mut watch::Receiver<bool>) {
        let _ = shutdown.wait_for(|stop| *stop || self.has_started()).await;
    }
}
