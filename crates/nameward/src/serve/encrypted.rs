//! Starts the listeners of encrypted DNS: TLS, HTTPS and QUIC.

use std::{
    io,
    net::TcpListener,
    pin::Pin,
    sync::{Arc, Weak},
    thread,
};

use nameward_serve::{
    https::HttpsSettings,
    listener::StreamListener,
    pipeline::TcpPipeline,
    quic::QuicSettings,
    tcp::TcpSettings,
    tls::{HandshakeBudget, TlsLayer, TlsPurpose},
};
use nameward_stats::Protocol;
use tokio::{sync::watch, task::JoinSet};

use super::{
    core::{RUNTIME_THREADS, ServerCore},
    encrypted_ports::EncryptedPorts,
    opening::spawn_behind,
};
use crate::config::{Config, clients::Clients, listen_entry::EncryptedEntry};

/// The listeners that were started, by the names of their transports; a reference is dead when its listeners have ended.
pub type EncryptedListeners = Vec<(&'static str, Weak<()>)>;

/// A listener, until it ends.
type Serving = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

pub fn start(
    core: &ServerCore,
    (ports, config): (EncryptedPorts, &Config),
    settings: &TcpSettings,
    tasks: &mut JoinSet<()>,
    (gate, stopping): (&watch::Receiver<bool>, &watch::Receiver<bool>),
) -> EncryptedListeners {
    let Some(tls) = &core.notes.tls else {
        return Vec::new();
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let budget = Arc::new(HandshakeBudget::new(cores));
    let layer = |purpose| TlsLayer::new(Arc::clone(tls), purpose, Arc::clone(&budget));
    let pipeline = |protocol| Arc::new(TcpPipeline::over(protocol, &core.shared, RUNTIME_THREADS));
    let server = &config.server;
    let proxies = &server.proxy_protocol_from;
    let mut started = Vec::new();
    let mut start = |name: &'static str, serving: Serving| {
        let alive = Arc::new(());
        started.push((name, Arc::downgrade(&alive)));
        spawn_behind(gate, tasks, async move {
            let _alive = alive;
            if let Err(error) = serving.await {
                tracing::error!("DNS over {name} disabled: {error}");
            }
        });
    };
    if !ports.tls.is_empty() {
        let (pipeline, layer) = (pipeline(Protocol::Tls), layer(TlsPurpose::Dns));
        let settings = settings.clone();
        start(
            "TLS",
            pipeline.serve_tls(
                with_rules(ports.tls, &server.listen_tls, proxies),
                settings,
                layer,
                stopping.clone(),
            ),
        );
    }
    if !ports.https.is_empty() {
        let settings = HttpsSettings {
            path: config.https.path.0.clone(),
            tcp: settings.clone(),
            layer: layer(TlsPurpose::Https),
        };
        let pipeline = pipeline(Protocol::Https);
        start(
            "HTTPS",
            pipeline.serve_https(
                with_rules(ports.https, &server.listen_https, proxies),
                settings,
                stopping.clone(),
            ),
        );
    }
    if !ports.quic.is_empty() {
        let settings = QuicSettings {
            tcp: settings.clone(),
            tls: Arc::clone(tls),
            budget: Arc::clone(&budget),
            retry: config.quic.retry,
            identity: ports.identity,
            rules: {
                let entries = server.listen_quic.iter();
                entries.map(|entry| Arc::new(entry.rules())).collect()
            },
        };
        let pipeline = pipeline(Protocol::Quic);
        start(
            "QUIC",
            pipeline.serve_quic(ports.quic, settings, stopping.clone()),
        );
    }
    started
}

/// Gives each port the rules of its entry: ports are in the order of the configuration.
fn with_rules(
    listeners: Vec<TcpListener>,
    entries: &[EncryptedEntry],
    proxies: &Clients,
) -> Vec<StreamListener> {
    let listeners = listeners.into_iter().zip(entries);
    let listeners = listeners.map(|(listener, entry)| StreamListener {
        listener,
        rules: Arc::new(entry.0.rules(proxies)),
    });
    listeners.collect()
}
