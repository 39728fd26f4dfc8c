//! Messages to the service manager (sd_notify). Without one they have no effect.

use sd_notify::NotifyState;

/// Reports that the zones are loaded, or loaded again.
pub fn ready() {
    send(&[NotifyState::Ready]);
}

/// Reports that this process is the service from now on.
pub fn main_process() {
    send(&[NotifyState::MainPid(std::process::id())]);
}

/// Reports that a reload has started.
pub fn reloading() {
    let mut states = vec![NotifyState::Reloading];
    states.extend(NotifyState::monotonic_usec_now());
    send(&states);
}

/// Reports that the server is about to stop.
pub fn stopping() {
    send(&[NotifyState::Stopping]);
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!("cannot notify the service manager: {error}");
    }
}
