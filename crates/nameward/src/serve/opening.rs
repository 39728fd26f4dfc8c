//! Owns the moment from which on a server reads its sockets.
//!
//! | started | DNS | page, API, control socket |
//! |---|---|---|
//! | with ports of its own | at once | at once |
//! | with sockets of the service manager | when its zones are loaded, after five seconds at the latest | at once |
//! | by `nameward upgrade` | when its zones are loaded: the running server answers until then | the same |
//!
//! A server that has just opened its ports answers SERVFAIL for zones that are not loaded: resolvers then ask another server
//! at once. With sockets of the service manager a query has already waited for this process, and the service has no gap if
//! it waits until there is an answer. That is bounded: a resolver has given up after five seconds, so that an answer would
//! reach no client, and a database that does not respond or zones that take minutes to load must not keep zones that are
//! loaded from being served.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nameward_serve::udp::WorkerSwitch;
use nameward_serve::xdp::XdpClosing;
use tokio::{sync::watch, task::JoinSet};

/// How long queries wait for the zones of a server that was started with the sockets of the service manager.
const LOAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Who has opened the ports of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortsFrom {
    ThisProcess,
    ServiceManager,
    /// The server that this one takes over from.
    RunningServer,
}

/// The gates that listeners wait at.
pub struct Gates {
    dns: watch::Sender<bool>,
    administration: watch::Sender<bool>,
    /// The gate of UDP threads.
    pub workers: Arc<WorkerSwitch>,
    /// Closes the queues of interfaces.
    pub xdp: XdpClosing,
    /// When queries are answered with or without zones.
    deadline: Option<Instant>,
}

impl Gates {
    pub fn new(ports: PortsFrom, now: Instant) -> Self {
        let is_open = ports == PortsFrom::ThisProcess;
        let workers = if is_open {
            WorkerSwitch::default()
        } else {
            WorkerSwitch::paused()
        };
        Self {
            dns: watch::Sender::new(is_open),
            administration: watch::Sender::new(ports != PortsFrom::RunningServer),
            workers: Arc::new(workers),
            xdp: XdpClosing::default(),
            deadline: (ports == PortsFrom::ServiceManager).then(|| now + LOAD_TIMEOUT),
        }
    }

    /// Returns the gate of DNS over streams and QUIC.
    pub fn dns(&self) -> watch::Receiver<bool> {
        self.dns.subscribe()
    }

    /// Returns the gate of the page, the API and the control socket.
    pub fn administration(&self) -> watch::Receiver<bool> {
        self.administration.subscribe()
    }

    pub fn open(&self) {
        self.administration.send_replace(true);
        self.dns.send_replace(true);
        self.workers.read();
    }

    /// Waits until zones should have been loaded. Does not return if they are, or if nothing waits for them.
    pub async fn overdue(&self) {
        match self.deadline {
            Some(deadline) if !*self.dns.borrow() => {
                tokio::time::sleep_until(deadline.into()).await
            }
            _ => std::future::pending().await,
        }
    }
}

/// Starts a task that waits until its gate is open.
pub fn spawn_behind(
    gate: &watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
    task: impl Future<Output = ()> + Send + 'static,
) {
    let mut gate = gate.clone();
    tasks.spawn(async move {
        // Without a sender the server has ended.
        let _ = gate.wait_for(|is_open| *is_open).await;
        task.await;
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_queries_wait_for_the_zones_of_a_server_with_sockets_of_the_service_manager() {
        let states = |ports| {
            let gates = Gates::new(ports, Instant::now());
            let waits = gates.deadline.is_some();
            (
                *gates.dns().borrow(),
                *gates.administration().borrow(),
                waits,
            )
        };
        assert_eq!(states(PortsFrom::ThisProcess), (true, true, false));
        assert_eq!(states(PortsFrom::ServiceManager), (false, true, true));
        assert_eq!(states(PortsFrom::RunningServer), (false, false, false));
    }
}
