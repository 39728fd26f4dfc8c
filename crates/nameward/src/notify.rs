//! Owns the messages to the service manager (sd_notify). Without one they go nowhere.

use sd_notify::NotifyState;

/// The zones are loaded, or loaded again.
pub fn ready() {
    send(&[NotifyState::Ready]);
}

/// A reload has begun.
pub fn reloading() {
    let mut states = vec![NotifyState::Reloading];
    states.extend(NotifyState::monotonic_usec_now());
    send(&states);
}

/// The server is about to end.
pub fn stopping() {
    send(&[NotifyState::Stopping]);
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!("the service manager was not notified: {error}");
    }
}
