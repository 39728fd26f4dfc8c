//! Cancels the preparation of a transfer when its client disconnects.

use tokio::sync::watch;

/// Signals that the client has disconnected, so that a thread stops waiting.
#[derive(Clone)]
pub(super) struct ClientDisconnect(watch::Receiver<()>);

impl ClientDisconnect {
    /// Returns the signal and the sender that triggers it when dropped.
    pub(super) fn new() -> (watch::Sender<()>, Self) {
        let (sender, receiver) = watch::channel(());
        (sender, ClientDisconnect(receiver))
    }

    /// Waits for a future; `None` if the client disconnects first.
    pub(super) async fn or<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut disconnect = self.0.clone();
        tokio::select! {
            biased;
            // Nothing is ever sent: this completes when the sender is dropped.
            _ = disconnect.changed() => None,
            done = work => Some(done),
        }
    }
}
