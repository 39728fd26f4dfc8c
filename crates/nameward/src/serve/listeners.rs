//! The threads and tasks that receive queries: UDP workers, and listeners for TCP, TLS, HTTPS and QUIC.

use std::sync::{Arc, Weak};

use nameward_serve::{
    listen::Bound,
    pipeline::{TcpPipeline, UdpPipeline},
    tcp::{Drain, TcpSettings},
    udp::{UdpWorker, WorkerSwitch},
    xdp::{XdpPorts, XdpState},
};
use tokio::{sync::watch, task::JoinSet};

use super::{
    core::{RUNTIME_THREADS, ServerCore},
    encrypted::{self, EncryptedListeners},
    encrypted_ports::EncryptedPorts,
    health::ListenerWatch,
    opening::{Gates, spawn_behind},
};
use crate::config::{Config, settings};

/// The threads that answer over UDP, and the tasks that accept connections.
pub struct Listeners {
    pub workers: Vec<UdpWorker>,
    /// The threads that read queues of interfaces.
    pub xdp: Vec<UdpWorker>,
    xdp_states: Vec<Arc<XdpState>>,
    /// Ends them.
    pub switch: Arc<WorkerSwitch>,
    /// Closes connections.
    pub stop: watch::Sender<bool>,
    drain: Drain,
    accepting: Weak<()>,
    encrypted: EncryptedListeners,
}

impl Listeners {
    /// Starts them; they wait at their gates.
    pub fn start(
        core: &ServerCore,
        (dns, xdp, encrypted): (Bound, XdpPorts, EncryptedPorts),
        config: &Config,
        tasks: &mut JoinSet<()>,
        gates: &Gates,
    ) -> std::io::Result<Self> {
        let (gate, switch) = (gates.dns(), Arc::clone(&gates.workers));
        let (xdp_states, threads) = (xdp.states(), dns.udp.len());
        let workers = UdpPipeline::spawn_workers(&core.shared, dns.udp, &switch)?;
        let switches = (&switch, &gates.xdp);
        let xdp = UdpPipeline::spawn_xdp_workers(&core.shared, (xdp, threads), switches)?;
        let pipeline = Arc::new(TcpPipeline::new(&core.shared, RUNTIME_THREADS));
        let (stop, stopping) = watch::channel(false);
        // A client's connections count together, whatever their protocol.
        let settings = tcp_settings(&config.server).with_table();
        let drain = settings.drain.clone();
        let signals = (&gate, &stopping);
        let encrypted = encrypted::start(core, (encrypted, config), &settings, tasks, signals);
        let serving = pipeline.serve(dns.tcp, settings, stopping);
        let alive = Arc::new(());
        let accepting = Arc::downgrade(&alive);
        spawn_behind(&gate, tasks, async move {
            let _alive = alive;
            if let Err(error) = serving.await {
                tracing::error!("TCP disabled: {error}");
            }
        });
        Ok(Self {
            workers,
            xdp,
            xdp_states,
            switch,
            stop,
            drain,
            accepting,
            encrypted,
        })
    }

    /// Accepts no further connections, because another process does; open ones are served until they end.
    pub fn drain(&self) {
        self.drain.start(&self.stop);
    }

    /// Checks whether connections are accepted or served.
    pub fn are_serving(&self) -> bool {
        let encrypted = self.encrypted.iter().map(|(_, alive)| alive);
        let mut all = encrypted.chain([&self.accepting]);
        all.any(|alive| alive.strong_count() > 0)
    }

    /// Returns references that are dead when threads and tasks have ended.
    pub fn watch(&self) -> ListenerWatch {
        ListenerWatch {
            udp: self.workers.iter().map(UdpWorker::running).collect(),
            tcp: Weak::clone(&self.accepting),
            encrypted: self.encrypted.clone(),
            xdp: self.xdp_states.clone(),
        }
    }
}

fn tcp_settings(server: &settings::Server) -> TcpSettings {
    TcpSettings::new(
        server.tcp_idle_timeout_ms.millis(),
        server.tcp_total_timeout_ms.millis(),
        server.tcp_connections_max.get(),
        server.tcp_connections_per_client.0.map(|most| most.get()),
    )
}
