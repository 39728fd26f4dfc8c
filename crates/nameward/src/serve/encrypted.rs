//! Owns the start of encrypted DNS: the certificates, the ports, and the listeners for TLS, HTTPS and QUIC.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    os::fd::{AsFd, OwnedFd},
    pin::Pin,
    sync::{Arc, Weak},
    thread,
};

use nameward_serve::{
    https::HttpsSettings,
    inherited::InheritedSockets,
    listen::{self, ListenError, PortProtocol},
    listener::StreamListener,
    pipeline::TcpPipeline,
    quic::{QuicIdentity, QuicListener, QuicSettings},
    tcp::TcpSettings,
    tls::{HandshakeBudget, ServerTls, TlsError, TlsLayer, TlsPurpose},
};
use nameward_stats::Protocol;
use tokio::{sync::watch, task::JoinSet};

use super::{
    core::{RUNTIME_THREADS, ServerCore},
    opening::opened,
};
use crate::config::{Config, clients::Clients, listen_entry::EncryptedEntry};

/// Loads the configured certificates; `None` without any, or without a listener for them. Call before the change of user: keys
/// are often readable by root only.
pub fn load_tls(config: &Config) -> Result<Option<Arc<ServerTls>>, TlsError> {
    let is_used = config.api.listen.is_some() || config.listens_encrypted();
    let options = config.tls.options().filter(|_| is_used);
    options.map(ServerTls::load).transpose()
}

/// The ports of encrypted DNS.
#[derive(Default)]
pub struct EncryptedPorts {
    tls: Vec<TcpListener>,
    https: Vec<TcpListener>,
    quic: Vec<QuicListener>,
    /// The keys of QUIC connections, which a server that takes over gets.
    pub identity: QuicIdentity,
}

impl EncryptedPorts {
    /// Binds the configured ports, except those that another process has bound.
    pub fn bind(config: &Config, inherited: &mut InheritedSockets) -> Result<Self, ListenError> {
        let server = &config.server;
        let addresses = |list: &[EncryptedEntry]| {
            let list = list.iter().map(|entry| entry.0.address);
            list.collect::<Vec<SocketAddr>>()
        };
        let quic = server.listen_quic.iter().map(|entry| entry.0.address);
        Ok(Self {
            tls: listen::bind_streams(
                &addresses(&server.listen_tls),
                PortProtocol::Tls,
                inherited,
            )?,
            https: listen::bind_streams(
                &addresses(&server.listen_https),
                PortProtocol::Https,
                inherited,
            )?,
            quic: listen::bind_quic(&quic.collect::<Vec<_>>(), inherited)?,
            identity: QuicIdentity::default(),
        })
    }

    /// Returns copies of all descriptors, for a server that takes over.
    pub fn descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        let streams = self.tls.iter().chain(&self.https);
        let streams = streams.map(|one| one.as_fd().try_clone_to_owned());
        let mut all = streams.collect::<io::Result<Vec<_>>>()?;
        for listener in &self.quic {
            all.extend(listener.descriptors()?);
        }
        Ok(all)
    }

    /// Returns the addresses with the names of their transports.
    pub fn addresses(&self) -> Vec<(&'static str, SocketAddr)> {
        let streams = |listeners: &[TcpListener]| {
            let addresses = listeners.iter().map(TcpListener::local_addr);
            addresses.filter_map(Result::ok).collect::<Vec<_>>()
        };
        let quic = self.quic.iter().map(QuicListener::local_addr);
        let lists = [
            ("TLS", streams(&self.tls)),
            ("HTTPS", streams(&self.https)),
            ("QUIC", quic.filter_map(Result::ok).collect()),
        ];
        let named = |(name, list): (&'static str, Vec<SocketAddr>)| {
            let list = list.into_iter();
            list.map(move |address| (name, address))
        };
        lists.into_iter().flat_map(named).collect()
    }
}

/// The listeners that were started, by the names of their transports; a reference is dead when its listeners have ended.
pub type EncryptedListeners = Vec<(&'static str, Weak<()>)>;

/// A listener, until it ends.
type Serving = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// Starts the listeners.
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
        let opened = opened(gate.clone());
        tasks.spawn(async move {
            let _alive = alive;
            opened.await;
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
            retry: config.quic.retry.retry(),
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
