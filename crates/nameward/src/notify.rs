//! Messages to the service manager (sd_notify). Without one they have no effect.

use sd_notify::NotifyState;

/// Reports that the zones are loaded, or loaded again.
pub fn ready() {
    send(&[NotifyState::Ready]);
}

/// Reports that another process is the service from now on. The service manager believes that of the main process only, unless
/// the unit has `NotifyAccess=all`.
pub fn successor(process: u32) {
    send(&[NotifyState::MainPid(process)]);
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
